/* fuzz_cached.h: keys and values of arrays in a cache, whose attention must have the bits of attention over the arrays. */
#ifndef GYRE_FUZZ_CACHED_H
#define GYRE_FUZZ_CACHED_H
#include "fuzz_views.h"
#include "gyre/gyre_cache.h"

/* Some tokens of a batch row. */
typedef struct fuzz_tokens {
    int64_t batch, first, count;
} fuzz_tokens;

/* out = the part of a view that these tokens are. */
gyre_cview fuzz_tokens_of(const gyre_cview *view, const fuzz_tokens *tokens);
/* out = a cache in F32 whose sequence 0 is these tokens at `positions`, appended in random pieces to pages of a random size.
 * encoding may be NULL. */
gyre_cache *fuzz_cached_make(const gyre_encoding *encoding, const gyre_cview *k, const gyre_cview *v,
                             const fuzz_tokens *tokens, const int64_t *positions, test_random *random);
/* fuzz_require that a result [1, tokens, ...] has the bits of these tokens of another. */
void fuzz_cached_require_same(const fuzz_view *result, const fuzz_view *whole, const fuzz_tokens *tokens);

#endif
