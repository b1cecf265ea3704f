/* cached_call.c: the batch rows of a call over a cache. */
#include "tiling/cached_call.h"
#include "util/error.h"

#include <inttypes.h>

gyre_status gyre_cached_call_begin(gyre_cached_call *call, const gyre_cache *cache, const int64_t *sequences, int64_t batch,
                                   const char *where, gyre_error *err) {
    *call = (gyre_cached_call){.cache = cache, .sequences = sequences, .batch = batch};
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", where);
    if (cache->config.gate_heads > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: keeps gate sums, which have no part in this attention (%s)", where);
    if (!sequences) call->longest = cache->contiguous ? cache->page_tokens : cache->config.max_tokens;
    for (int64_t b = 0; sequences && b < batch; b++) {
        const int64_t tokens = gyre_cache_tokens(cache, sequences[b]);
        if (tokens < 0)
            return gyre_fail(err, GYRE_EINVAL, "sequences[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", b,
                             sequences[b], cache->config.sequences - 1, where);
        call->longest = tokens > call->longest ? tokens : call->longest;
    }
    return GYRE_OK;
}

int64_t gyre_cached_call_tokens(const gyre_cached_call *call, int64_t row) {
    return call->sequences ? gyre_cache_tokens(call->cache, call->sequences[row]) : call->longest;
}

/* F32: as what the rows are read. */
gyre_cview gyre_cached_call_keys(const gyre_cached_call *call, int64_t batch, int64_t tokens) {
    return gyre_cdense(NULL, GYRE_DTYPE_F32, batch, tokens, call->cache->config.heads, call->cache->k.channels);
}

gyre_cview gyre_cached_call_values(const gyre_cached_call *call, int64_t batch, int64_t tokens) {
    return gyre_cdense(NULL, GYRE_DTYPE_F32, batch, tokens, call->cache->config.heads, call->cache->config.value_dim);
}

gyre_status gyre_cached_call_check_packing(const int64_t *q_starts, const int64_t *k_starts, int64_t sequences,
                                           const char *where, gyre_error *err) {
    if (!q_starts && !k_starts && sequences == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch (%s)", where);
}

gyre_status gyre_cached_call_check_padding(const gyre_cached_call *call, const int64_t *k_first, const int64_t *k_end,
                                           const char *where, gyre_error *err) {
    for (int64_t row = 0; row < call->batch && (k_first || k_end); row++) {
        const int64_t tokens = gyre_cached_call_tokens(call, row);
        const int64_t first = k_first ? k_first[row] : 0, end = k_end ? k_end[row] : tokens;
        if (first < 0 || first > end || end > tokens)
            return gyre_fail(err, GYRE_EINVAL,
                             "k_first, k_end: keys %" PRId64 " .. %" PRId64 " of row %" PRId64
                             ", whose sequence has %" PRId64 " tokens (%s)",
                             first, end, row, tokens, where);
    }
    return GYRE_OK;
}
