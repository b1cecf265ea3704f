/* eval_windows.h: reads many windows of text in parallel, with one gyre_context per worker. */
#ifndef GYRE_EVAL_WINDOWS_H
#define GYRE_EVAL_WINDOWS_H
#include "gyre/gyre_model.h"

enum { GYRE_EVAL_WINDOW_CHUNK = 512 }; /* tokens of a read, at most */

typedef struct gyre_eval_windows {
    const gyre_model *model;
    const gyre_encoding *encoding; /* NULL = the model's */
    int64_t context, count;        /* tokens of a window; windows */
    /* Reads window `index`.  reader is empty.  logits has GYRE_EVAL_WINDOW_CHUNK rows. */
    gyre_status (*fn)(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err);
    void *ctx;
    gyre_dtype cache;       /* type of the workers' caches */
    const gyre_team *team;  /* NULL = this process reads all windows */
    int64_t first_position; /* of the first token of a window */
    gyre_products products;
} gyre_eval_windows;

/* out = how many tokens of a window to read next, after the first `from`, if logits are needed from token `wanted` on.
 * At most GYRE_EVAL_WINDOW_CHUNK.  With GYRE_LENGTH_POLICY_PREFIX each read has its own length in use, so windows are
 * read as by an engine that generates: everything before `wanted` at once, as the prompt, then at most 64 tokens at a
 * time. */
int64_t gyre_eval_window_chunk(const gyre_eval_windows *windows, int64_t from, int64_t wanted);

/* Calls fn once for each index below count, in a team for those of this rank.  Returns the failure of the first window that
 * failed; one of EFORMAT names it. */
gyre_status gyre_eval_windows_run(const gyre_eval_windows *windows, const gyre_exec *exec, gyre_error *err);
/* Called after it, with its status: items[count] of `bytes` bytes, one for each window, are then known to all ranks of the
 * team.  out = status, or the failure of another rank. */
gyre_status gyre_eval_windows_share(const gyre_eval_windows *windows, gyre_status status, void *items, size_t bytes,
                                    gyre_error *err);

/* EINVAL: a team (NULL = none) whose functions are missing, or whose rank is not one of its ranks. */
gyre_status gyre_team_check(const gyre_team *team, gyre_error *err);

#endif
