/* key_source.h: where attention reads keys and values: the caller's views or the pages of a cache. */
#ifndef GYRE_CALL_KEY_SOURCE_H
#define GYRE_CALL_KEY_SOURCE_H
#include "gyre/gyre.h"

/* Tokens of one key head at even steps in memory. */
typedef struct gyre_key_run {
    const void *k, *v;                  /* of the first token */
    const float *k_scale, *v_scale;     /* Q8: [count], the scale of each token; other types: NULL */
    int64_t count;                      /* tokens, at least 1 */
    int64_t k_row_stride, v_row_stride; /* elements from token to token */
    int64_t k_step, v_step;             /* elements from channel to channel */
    const int64_t *shift; /* rotated keys: [GYRE_MAX_AXES], position now minus position at rotation; NULL = zeros */
} gyre_key_run;

typedef struct gyre_key_source gyre_key_source;
struct gyre_key_source {
    const void *run_ctx;                        /* what `run` of a cache reads */
    const gyre_cview *k_view, *v_view, *g_view; /* what that of views reads; g: gate sums */
    gyre_dtype k_dtype, v_dtype;
    int rotated; /* keys are stored as E(n) k */
    /* *run = tokens from `first` on of a batch row and a key head, as many as are adjacent. */
    void (*run)(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *run);
    /* out[i] = gate sum of key first + i for a query head of the call, counted as in `run`; NULL = the source has none. */
    void (*gate_sums)(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t count, double *out);
    int64_t heads_together; /* key heads whose rows are adjacent for each token, so that reading them together is
                                     * faster; 0 or 1: the rows of one head are adjacent */
    int64_t batch_first, head_first, key_first; /* added to `batch`, `head` and `first`: where a segment begins */
};

/* out = views of keys and values, which must outlive it; gate_sums, or its data, NULL = none. */
gyre_key_source gyre_key_source_of_views(const gyre_cview *k, const gyre_cview *v, const gyre_cview *gate_sums);

/* *run = tokens from `first` on, at most `most`. */
static inline void gyre_key_run_at(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t most,
                                   gyre_key_run *run) {
    source->run(source, source->batch_first + batch, source->head_first + head, source->key_first + first, run);
    if (run->count > most) run->count = most;
}

#endif
