/* cached_call.h: a call over the sequences of a cache, one batch row after the other: each row has a number of keys of its
 * own. */
#ifndef GYRE_TILING_CACHED_CALL_H
#define GYRE_TILING_CACHED_CALL_H
#include "cache/cache.h"
#include "tiling/tile_rows.h"

typedef struct gyre_cached_call {
    const gyre_cache *cache;
    const int64_t *sequences; /* [batch]; NULL: any sequences, as long as they may become, for scratch */
    int64_t batch, longest;   /* tokens of the longest sequence */
} gyre_cached_call;

/* *call = the sequences of `batch` rows.  Errors: EINVAL (cache NULL, no such sequence), EUNSUPPORTED (a cache that keeps
 * gate sums). */
gyre_status gyre_cached_call_begin(gyre_cached_call *call, const gyre_cache *cache, const int64_t *sequences, int64_t batch,
                                   const char *where, gyre_error *err);
/* out = tokens of the sequence of a batch row. */
int64_t gyre_cached_call_tokens(const gyre_cached_call *call, int64_t row);
/* out = shapes of the keys and values of `batch` rows of `tokens` each, without memory. */
gyre_cview gyre_cached_call_keys(const gyre_cached_call *call, int64_t batch, int64_t tokens);
gyre_cview gyre_cached_call_values(const gyre_cached_call *call, int64_t batch, int64_t tokens);
/* EINVAL: starts of packed sequences, which a cache does not take. */
gyre_status gyre_cached_call_check_packing(const int64_t *q_starts, const int64_t *k_starts, int64_t sequences,
                                           const char *where, gyre_error *err);

/* EINVAL: keys k_first[row] .. k_end[row] - 1 that the sequence of a row does not have.  Either may be NULL. */
gyre_status gyre_cached_call_check_padding(const gyre_cached_call *call, const int64_t *k_first, const int64_t *k_end,
                                           const char *where, gyre_error *err);

#endif
