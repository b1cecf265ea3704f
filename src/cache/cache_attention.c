/* cache_attention.c: attention over the sequences of a cache, row by row of the batch. */
#include "attention/attention_run.h"
#include "cache/cache.h"
#include "core/view.h"

#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct call {
    const gyre_cache *cache;
    const int64_t *sequences;
    const gyre_attention_args *args;
    int any_sequences;      /* scratch alone: sequences are any, as long as they may become */
    int64_t batch, longest; /* tokens of the longest sequence */
    size_t position_bytes;  /* at the front of the scratch: those of one sequence */
} call;

/* -- the checks of the whole -- */

static gyre_status check_masks(const call *c) {
    const gyre_cview *mask = &c->args->mask;
    const gyre_view *weights = &c->args->weights;
    if (c->any_sequences) return GYRE_OK; /* its last extent is not known yet */
    if (mask->data && (mask->shape[0] != c->batch || mask->shape[3] != c->longest)) return GYRE_ESHAPE;
    if (!weights->data) return GYRE_OK;
    if (weights->dtype != GYRE_DTYPE_F32) return GYRE_EDTYPE;
    if (weights->shape[0] != c->batch || weights->shape[3] != c->longest) return GYRE_ESHAPE;
    return gyre_output_check(weights, "weights", "gyre_cache_attention", NULL);
}

static gyre_status check_sequences(call *c) {
    if (c->any_sequences) {
        c->longest = c->cache->contiguous ? c->cache->page_tokens : c->cache->config.max_tokens;
        return GYRE_OK;
    }
    if (c->batch > 0 && !c->sequences) return GYRE_EINVAL;
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t tokens = gyre_cache_tokens(c->cache, c->sequences[b]);
        if (tokens < 0) return GYRE_EINVAL;
        if (tokens > c->longest) c->longest = tokens;
    }
    return GYRE_OK;
}

/* What a row alone does not tell. */
static gyre_status check_batch(call *c) {
    const gyre_attention_args *args = c->args;
    if (!c->cache || !args || args->size != sizeof *args) return GYRE_EINVAL;
    if (args->q_starts || args->k_starts || args->sequences != 0 || args->dropout != 0) return GYRE_EINVAL;
    if (c->cache->rotated && args->q_pos.context_length != 0 &&
        !gyre_cache_same_length(c->cache, args->q_pos.context_length))
        return GYRE_EINVAL;
    c->batch = args->q.shape[0];
    if (c->batch < 0 || args->out.shape[0] != c->batch) return GYRE_ESHAPE;
    if (args->lse.data && args->lse.shape[0] != c->batch) return GYRE_ESHAPE;
    gyre_status status = gyre_output_check(&args->out, "out", "gyre_cache_attention", NULL);
    if (!status && args->lse.data) status = gyre_output_check(&args->lse, "lse", "gyre_cache_attention", NULL);
    if (!status) status = check_sequences(c);
    if (!status) status = check_masks(c);
    const size_t bytes = (size_t)(c->longest * c->cache->axes) * sizeof(int64_t);
    c->position_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return status;
}

/* -- one row -- */

static void narrow(gyre_cview *view, int64_t b) {
    if (view->data) view->data = (const char *)view->data + b * view->stride[0] * (int64_t)gyre_dtype_size(view->dtype);
    view->shape[0] = 1;
}

static void narrow_out(gyre_view *view, int64_t b) {
    if (view->data) view->data = (char *)view->data + b * view->stride[0] * (int64_t)gyre_dtype_size(view->dtype);
    view->shape[0] = 1;
}

static int64_t tokens_of(const call *c, int64_t b) {
    return c->any_sequences ? c->longest : gyre_cache_tokens(c->cache, c->sequences[b]);
}

/* Its positions, if they are wanted, lie at `positions`. */
static gyre_attention_args row_args(const call *c, int64_t b, const int64_t *positions) {
    const gyre_cache *cache = c->cache;
    gyre_attention_args row = *c->args;
    const int64_t tokens = tokens_of(c, b);
    row.encoding = cache->config.encoding;
    row.k = gyre_cdense(NULL, cache->k.dtype, 1, tokens, cache->config.heads, cache->k.channels);
    row.v = gyre_cdense(NULL, cache->v.dtype, 1, tokens, cache->config.heads, cache->v.channels);
    row.k_pos = (gyre_positions){positions, GYRE_DTYPE_I64, 0, 0, 0, cache->axes, cache->axes > 1};
    if (cache->rotated) row.q_pos.context_length = cache->config.context_length;
    if (row.q_pos.data) {
        const int64_t size = (int64_t)gyre_dtype_size(row.q_pos.dtype);
        row.q_pos.data = (const char *)row.q_pos.data + b * row.q_pos.stride_batch * size;
    }
    if (row.k_first) row.k_first += b;
    if (row.k_end) row.k_end += b;
    narrow(&row.q, b);
    narrow(&row.mask, b);
    narrow_out(&row.out, b);
    narrow_out(&row.lse, b);
    narrow_out(&row.weights, b);
    if (row.mask.data) row.mask.shape[3] = tokens;
    if (row.weights.data) row.weights.shape[3] = tokens;
    /* As it would be for such a sequence: the strides of one that is shorter do not keep its rows apart. */
    if (row.weights.data && c->any_sequences)
        row.weights = gyre_dense(row.weights.data, row.weights.dtype, 1, row.weights.shape[1], row.weights.shape[2], tokens);
    return row;
}

static void read_positions(const call *c, int64_t b, int64_t *out) {
    const gyre_sequence *s = &c->cache->sequence[c->sequences[b]];
    const int64_t axes = c->cache->axes;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        const int64_t *at = gyre_cache_position(c->cache, range->page, range->first);
        for (int64_t t = 0; t < range->count; t++)
            for (int64_t a = 0; a < axes; a++)
                *out++ = *at++ + range->delta[a];
    }
}

/* Keys that a shorter sequence has not. */
static void clear_missing_keys(const call *c, int64_t b) {
    const gyre_view *weights = &c->args->weights;
    const int64_t tokens = gyre_cache_tokens(c->cache, c->sequences[b]);
    for (int64_t i = 0; weights->data && i < weights->shape[1]; i++)
        for (int64_t h = 0; h < weights->shape[2]; h++)
            for (int64_t k = tokens; k < c->longest; k++)
                *(float *)gyre_view_at(weights, b, i, h, k) = 0;
}

/* -- the calls -- */

size_t gyre_cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                    const gyre_exec *exec) {
    call c = {.cache = cache, .sequences = sequences, .args = args, .any_sequences = !sequences};
    size_t most = ALIGNMENT;
    if (check_batch(&c)) return 0;
    for (int64_t b = 0; b < c.batch; b++) {
        const gyre_attention_args row = row_args(&c, b, NULL);
        const gyre_key_source source = gyre_cache_source(cache, sequences ? sequences[b] : 0);
        const size_t bytes = gyre_attention_run_scratch(&row, &source, exec);
        if (bytes == 0 || bytes > SIZE_MAX - c.position_bytes) return 0;
        most = bytes > most ? bytes : most;
    }
    return c.position_bytes + most;
}

gyre_status gyre_cache_attention(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                 void *scratch, size_t bytes, const gyre_exec *exec, gyre_error *err) {
    (void)err;
    call c = {.cache = cache, .sequences = sequences, .args = args};
    gyre_status status = check_batch(&c);
    if (status) return status;
    if (!scratch || (uintptr_t)scratch % ALIGNMENT != 0) return GYRE_EINVAL;
    if (bytes < c.position_bytes) return GYRE_ENOMEM;
    char *rest = (char *)scratch + c.position_bytes;
    /* One row is checked when it runs; where there are more, all are before any is written. */
    for (int writes = c.batch == 1; writes < 2; writes++)
        for (int64_t b = 0; b < c.batch; b++) {
            const gyre_attention_args row = row_args(&c, b, scratch);
            const gyre_key_source source = gyre_cache_source(cache, sequences[b]);
            read_positions(&c, b, scratch);
            if (!writes)
                status = gyre_attention_run_check(&row, &source, rest, bytes - c.position_bytes, exec);
            else
                status = gyre_attention_run(&row, &source, rest, bytes - c.position_bytes, exec);
            if (status) return status;
            if (writes) clear_missing_keys(&c, b);
        }
    return GYRE_OK;
}
