/* cached_tokens.h: sequences of a cache, and the same tokens in arrays.  Every number is a whole one over 64, and each row
 * has one of size 127 / 64: so F32, F16, BF16 and Q8 all keep it as it is, and attention over the cache must have the bits
 * of attention over the arrays. */
#ifndef GYRE_TESTS_CACHED_TOKENS_H
#define GYRE_TESTS_CACHED_TOKENS_H
#include "exact_scratch.h"
#include "gyre/gyre_cache.h"

enum {
    CACHED_HEADS = 4,
    CACHED_KEY_HEADS = 2,
    CACHED_DIM = 16,
    CACHED_VALUES = 24,
    CACHED_MOST = 400,
    CACHED_SEQUENCES = 3
};

typedef struct cached_tokens {
    int64_t count, at[CACHED_MOST];
    float k[CACHED_MOST][CACHED_KEY_HEADS][CACHED_DIM], v[CACHED_MOST][CACHED_KEY_HEADS][CACHED_VALUES];
} cached_tokens;

static inline gyre_cache *cached_create(const gyre_encoding *encoding, gyre_dtype dtype, int64_t page_tokens) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.key_dtype = config.value_dtype = dtype;
    config.heads = CACHED_KEY_HEADS;
    config.head_dim = CACHED_DIM;
    config.value_dim = CACHED_VALUES;
    config.sequences = CACHED_SEQUENCES;
    config.max_tokens = CACHED_SEQUENCES * CACHED_MOST;
    config.page_tokens = page_tokens;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

static inline void cached_fill_row(test_random *random, float *x, int n) {
    for (int c = 0; c < n; c++)
        x[c] = (float)((int)(test_next(random) % 255) - 127) / 64;
    x[test_next(random) % (uint64_t)n] = 127.0F / 64;
}

static inline void cached_append(gyre_cache *cache, cached_tokens *s, int64_t sequence, int64_t count, test_random *random) {
    const int64_t first = s->count;
    assert_true(first + count <= CACHED_MOST);
    for (int64_t t = first; t < first + count; t++) {
        s->at[t] = t > 0 ? s->at[t - 1] + 1 : 0;
        for (int h = 0; h < CACHED_KEY_HEADS; h++) {
            cached_fill_row(random, s->k[t][h], CACHED_DIM);
            cached_fill_row(random, s->v[t][h], CACHED_VALUES);
        }
    }
    const gyre_cview k = gyre_cdense(s->k[first], GYRE_DTYPE_F32, 1, count, CACHED_KEY_HEADS, CACHED_DIM);
    const gyre_cview v = gyre_cdense(s->v[first], GYRE_DTYPE_F32, 1, count, CACHED_KEY_HEADS, CACHED_VALUES);
    const gyre_positions at = {s->at + first, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    assert_ok(gyre_cache_append(
        cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = k, .v = v, .positions = &at), NULL, NULL));
    s->count += count;
}

static inline void cached_remove(gyre_cache *cache, cached_tokens *s, int64_t sequence, int64_t first, int64_t count) {
    const size_t rest = (size_t)(s->count - first - count);
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){sequence, first, count}, NULL));
    memmove(s->at + first, s->at + first + count, rest * sizeof *s->at);
    memmove(s->k + first, s->k + first + count, rest * sizeof *s->k);
    memmove(s->v + first, s->v + first + count, rest * sizeof *s->v);
    s->count -= count;
}

/* Moves the tokens from `first` on by `delta`. */
static inline void cached_shift(gyre_cache *cache, cached_tokens *s, int64_t sequence, int64_t first, int64_t delta) {
    const int64_t deltas[GYRE_MAX_AXES] = {delta};
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){sequence, first, s->count - first}, deltas, NULL));
    for (int64_t t = first; t < s->count; t++)
        s->at[t] += delta;
}

/* Three sequences of different lengths, in pages that they share and that have holes. */
static inline void cached_make_all(gyre_cache *cache, cached_tokens s[CACHED_SEQUENCES], uint64_t seed) {
    test_random random = {seed};
    for (int i = 0; i < CACHED_SEQUENCES; i++)
        s[i].count = 0;
    cached_append(cache, &s[0], 0, 150, &random);
    assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
    s[1] = s[0];
    cached_append(cache, &s[2], 2, 7, &random);
    for (int i = 0; i < 8; i++) {
        cached_append(cache, &s[0], 0, 1 + (int64_t)(test_next(&random) % 40), &random);
        cached_append(cache, &s[1], 1, 1 + (int64_t)(test_next(&random) % 9), &random);
        if (i % 2) cached_remove(cache, &s[0], 0, (int64_t)(test_next(&random) % 100), 5);
    }
    cached_shift(cache, &s[1], 1, 40, -17);
}

#endif
