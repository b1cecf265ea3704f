/* eval_windows.h: reading many windows of a text in parallel, one gyre_context to a worker. */
#ifndef GYRE_MODEL_EVAL_WINDOWS_H
#define GYRE_MODEL_EVAL_WINDOWS_H
#include "gyre/gyre_model.h"

/* What is done with one window: fn(ctx, reader, logits buffer of GYRE_EVAL_WINDOW_CHUNK rows, index). */
typedef struct gyre_eval_windows {
    const gyre_model *model;
    const gyre_encoding *encoding; /* NULL = the model's */
    int64_t context, count;
    gyre_status (*fn)(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err);
    void *ctx;
    gyre_dtype cache; /* of each worker's context */
} gyre_eval_windows;
enum { GYRE_EVAL_WINDOW_CHUNK = 512 };
/* out = how many tokens of a window of `context` to read next, after `from` of them, where the predictions from `wanted` on
 * are asked for: GYRE_EVAL_WINDOW_CHUNK at most.  Where each read has a length in use of its own
 * (GYRE_LENGTH_POLICY_PREFIX), as an engine that generates: all before `wanted` at once, the prompt, then 64 at most. */
int64_t gyre_eval_window_chunk(const gyre_eval_windows *windows, int64_t from, int64_t wanted);

/* Calls fn once for each index below count.  The first failure by index is what is returned. */
gyre_status gyre_eval_windows_run(const gyre_eval_windows *windows, const gyre_exec *exec, gyre_error *err);

#endif
