/* naive_cache.h: a cache as plain arrays of tokens, and the comparison of a real cache with it.
 *
 * The model stores what was appended, in double, and its current position. Rotations are computed here. */
#ifndef GYRE_TESTS_NAIVE_CACHE_H
#define GYRE_TESTS_NAIVE_CACHE_H
#include "attention_setup.h"
#include "cache/cache.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, DIM = 16, VALUES = 8, MOST_TOKENS = 512, MOST_SEQUENCES = 4 };

typedef struct model_token {
    int64_t at[GYRE_MAX_AXES];
    double k[HEADS][DIM], v[HEADS][VALUES];
} model_token;

typedef struct model_sequence {
    int64_t count;
    model_token token[MOST_TOKENS];
} model_sequence;

/* The configuration of the real cache. */
typedef struct cache_case {
    gyre_cache_keys keys;
    gyre_dtype key_dtype, value_dtype;
    int64_t sequences, max_tokens, page_tokens;
    int64_t axes; /* 1 or 2 */
    gyre_layout layout;
    double factor; /* of attention; 0 = 1 */
} cache_case;

static inline gyre_encoding *case_encoding(const cache_case *c) {
    gyre_config config = test_rope_config(DIM, c->layout);
    config.rope.base = 100;
    config.rope.attention_factor = c->factor;
    if (c->axes == 2) {
        config.rope.axes = 2;
        config.rope.axis_pairs[0] = 5;
        config.rope.axis_pairs[1] = 3;
    }
    return test_encoding(&config);
}

static inline gyre_cache_config case_config(const cache_case *c, const gyre_encoding *encoding) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = encoding;
    config.keys = c->keys;
    config.key_dtype = c->key_dtype;
    config.value_dtype = c->value_dtype;
    config.heads = HEADS;
    config.head_dim = DIM;
    config.value_dim = VALUES;
    config.sequences = c->sequences;
    config.max_tokens = c->max_tokens;
    config.page_tokens = c->page_tokens;
    return config;
}

static inline gyre_cache *case_cache(const cache_case *c, const gyre_encoding *encoding) {
    const gyre_cache_config config = case_config(c, encoding);
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    if (gyre_cache_create(&cache, &config, NULL, &err)) fail_msg("%s", err.text);
    assert_non_null(cache);
    return cache;
}

static inline double case_factor(const cache_case *c) {
    return c->factor != 0 ? c->factor : 1;
}

/* Rotates x from position 0 to `at` (sign 1) or back (sign -1). Base 100; pairs 0 .. 4 use axis 0, pairs 5 .. 7 the last
 * axis. */
static inline void case_rotate(const cache_case *c, const int64_t *at, int sign, double *x) {
    for (int i = 0; i < DIM / 2; i++) {
        const int a = c->layout == GYRE_LAYOUT_HALF ? i : 2 * i, b = c->layout == GYRE_LAYOUT_HALF ? i + DIM / 2 : 2 * i + 1;
        const double angle = sign * (double)at[c->axes == 2 && i >= 5] * pow(100, -2.0 * i / DIM);
        const double p = x[a], q = x[b];
        x[a] = p * cos(angle) - q * sin(angle);
        x[b] = p * sin(angle) + q * cos(angle);
    }
}

/* About the error of one rounding of a row whose largest number is `most`. */
static inline double case_error(gyre_dtype dtype, double most) {
    switch (dtype) {
    case GYRE_DTYPE_F16:
        return most * 0x1p-11;
    case GYRE_DTYPE_BF16:
        return most * 0x1p-8;
    case GYRE_DTYPE_Q8:
        return most / 254;
    default:
        return most * 0x1p-24;
    }
}

static inline double stored(const void *row, gyre_dtype dtype, const float *scale, int64_t c) {
    return dtype == GYRE_DTYPE_Q8 ? (double)((const int8_t *)row)[c] * (double)*scale : test_get(row, dtype, (size_t)c);
}

/* Appends `count` tokens of random numbers: the first at `first` on each axis, the others `step` apart. If the cache has no
 * room, the model does not change. */
static inline gyre_status model_append(gyre_cache *cache, const cache_case *c, model_sequence *s, int64_t sequence,
                                       int64_t count, int64_t first, int64_t step, test_random *random) {
    float k[64 * HEADS * DIM], v[64 * HEADS * VALUES];
    int64_t at[64 * 2];
    assert_true(count <= 64 && s->count + count <= MOST_TOKENS);
    test_fill(random, k, (size_t)(count * HEADS * DIM));
    test_fill(random, v, (size_t)(count * HEADS * VALUES));
    for (int64_t t = 0; t < count; t++) {
        model_token *token = &s->token[s->count + t];
        for (int a = 0; a < 2; a++)
            at[2 * t + a] = token->at[a] = first + t * step + (a > 0 ? (t + first) % 7 : 0);
        for (int h = 0; h < HEADS; h++) {
            for (int i = 0; i < DIM; i++)
                token->k[h][i] = (double)k[(t * HEADS + h) * DIM + i];
            for (int i = 0; i < VALUES; i++)
                token->v[h][i] = (double)v[(t * HEADS + h) * VALUES + i];
        }
    }
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, count, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, count, HEADS, VALUES);
    const gyre_positions positions = {at, GYRE_DTYPE_I64, 0, 0, 0, 2, c->axes == 2, 0};
    const gyre_status status = gyre_cache_append(
        cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = keys, .v = values, .positions = &positions),
        NULL, NULL);
    if (!status) s->count += count;
    return status;
}

static inline void model_drop(model_sequence *s, int64_t first, int64_t count) {
    memmove(s->token + first, s->token + first + count, (size_t)(s->count - first - count) * sizeof *s->token);
    s->count -= count;
}

static inline void compare_row(const double *want, const double *got, int n, double bound, const char *what) {
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= bound)) fail_msg("%s: channel %d is %.9g, not %.9g", what, i, got[i], want[i]);
}

static inline double largest(const double *x, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static inline void compare_token(const cache_case *c, const model_token *token, const gyre_key_run *run, int64_t j, int h) {
    double k[DIM], v[VALUES];
    const size_t k_size = gyre_dtype_size(c->key_dtype), v_size = gyre_dtype_size(c->value_dtype);
    for (int i = 0; i < DIM; i++)
        k[i] = stored((const char *)run->k + (size_t)(j * run->k_row_stride) * k_size, c->key_dtype, run->k_scale + j, i);
    for (int i = 0; i < VALUES; i++)
        v[i] = stored((const char *)run->v + (size_t)(j * run->v_row_stride) * v_size, c->value_dtype, run->v_scale + j, i);
    double most = largest(token->k[h], DIM);
    if (c->keys == GYRE_CACHE_KEYS_ROTATED) {
        int64_t stored_at[GYRE_MAX_AXES] = {token->at[0], token->at[1]};
        for (int a = 0; run->shift && a < 2; a++)
            stored_at[a] -= run->shift[a];
        case_rotate(c, stored_at, -1, k);
        for (int i = 0; i < DIM; i++)
            k[i] /= case_factor(c);
        most *= 2; /* a pair may rotate onto one axis, and back with both of its errors */
    }
    /* rotated floats have errors of cos, sin and three roundings */
    const double rotation_error = c->keys == GYRE_CACHE_KEYS_ROTATED ? 3e-7 * most : 0;
    compare_row(token->k[h], k, DIM, 1.01 * case_error(c->key_dtype, most) + rotation_error, "key");
    compare_row(token->v[h], v, VALUES, 1.01 * case_error(c->value_dtype, largest(token->v[h], VALUES)), "value");
}

static inline void compare_sequence(const gyre_cache *cache, const cache_case *c, int64_t sequence,
                                    const model_sequence *s) {
    const gyre_key_source source = gyre_cache_source(cache, sequence);
    assert_int_equal(gyre_cache_tokens(cache, sequence), s->count);
    for (int64_t axis = 0; axis < c->axes; axis++) {
        int64_t at[MOST_TOKENS];
        assert_ok(gyre_cache_positions(cache, (gyre_cache_range){sequence, 0, s->count}, axis, at, NULL));
        for (int64_t i = 0; i < s->count; i++)
            if (at[i] != s->token[i].at[axis])
                fail_msg("token %d is at %d, not %d", (int)i, (int)at[i], (int)s->token[i].at[axis]);
    }
    for (int h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < s->count;) {
            gyre_key_run run;
            source.run(&source, 0, h, i, &run);
            assert_true(run.count >= 1 && i + run.count <= s->count);
            for (int64_t j = 0; j < run.count; j++, i++)
                compare_token(c, &s->token[i], &run, j, h);
        }
}

static inline void compare_cache(const gyre_cache *cache, const cache_case *c, const model_sequence *s) {
    int64_t tokens = 0;
    for (int64_t i = 0; i < c->sequences; i++) {
        compare_sequence(cache, c, i, &s[i]);
        tokens += s[i].count;
    }
    assert_int_equal(cache_usage(cache).tokens, tokens);
}

#endif
