/* naive_latents.h: multi-head latent attention by its definition (DeepSeek-V2, arXiv 2405.04434, eq. 9 - 19), in double:
 * keys and values of every head are expanded from the latents.  It shares no code with the library.
 *
 *     key of head h      [up_k[h] c, E(n) k_r]         c: latent, k_r: the slice that all heads share
 *     value of head h    up_v[h] c
 *
 * The absorbed form of the same numbers is what the library is given: queries [up_k[h]^T q, q_r], one key head [c, k_r], and
 * c as values. */
#ifndef GYRE_TESTS_NAIVE_LATENTS_H
#define GYRE_TESTS_NAIVE_LATENTS_H
#include "attention_memory.h"
#include "attention_setup.h"

#include <math.h>

typedef struct latent_shape {
    int64_t heads, rank, rope, nope, value; /* channels: of a latent, of the slice, of a plain key without it, of a value */
    int64_t tokens, first;                  /* first: position of token 0 */
    gyre_layout layout;
    int yarn; /* 1: DeepSeek's scaling; the softmax is scaled by the square of its factor */
} latent_shape;

/* The last query is the last token. */
typedef struct latent_problem {
    latent_shape s;
    gyre_encoding *encoding; /* of the absorbed form: rotates the last `rope` channels */
    double scale;
    float *up_k, *up_v; /* [head][nope or value][rank] */
    float *key;         /* [token][rank + rope]: latent and raw slice */
    float *plain_q;     /* [token][head][nope + rope], raw */
    float *q;           /* [token][head][rank + rope]: absorbed */
} latent_problem;

static inline int64_t latent_channels(const latent_shape *s) {
    return s->rank + s->rope;
}

enum { LATENT_TRAINED = 4096, LATENT_FACTOR = 40 };
#define LATENT_MSCALE 0.707

static inline gyre_config latent_config(const latent_shape *s) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = latent_channels(s);
    config.rope.first_channel = s->rank;
    config.rope.layout = s->layout;
    if (s->yarn) {
        config.trained_length = LATENT_TRAINED;
        config.rope.scaling = GYRE_SCALING_YARN;
        config.rope.factor = LATENT_FACTOR;
        config.rope.mscale = config.rope.mscale_all_dim = LATENT_MSCALE;
    }
    return config;
}

/* The formulas of DeepSeek's released code (yarn_find_correction_range, yarn_linear_ramp_mask, yarn_get_mscale). */
static inline double latent_frequency(const latent_shape *s, int64_t pair) {
    const double turn = 6.283185307179586476925, dim = (double)s->rope, base = 10000;
    const double plain = pow(base, -2 * (double)pair / dim);
    if (!s->yarn) return plain;
    const double low = floor(dim * log(LATENT_TRAINED / (32 * turn)) / (2 * log(base))),
                 high = ceil(dim * log(LATENT_TRAINED / (1 * turn)) / (2 * log(base)));
    const double from = low < 0 ? 0 : low, to = high > dim - 1 ? dim - 1 : high;
    const double ramp = ((double)pair - from) / (to == from ? 0.001 : to - from);
    const double slow = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return plain / LATENT_FACTOR * slow + plain * (1 - slow);
}

static inline double latent_scale(const latent_shape *s) {
    const double mscale = s->yarn ? 0.1 * LATENT_MSCALE * log(LATENT_FACTOR) + 1 : 1;
    return mscale * mscale / sqrt((double)(s->nope + s->rope));
}

/* out = x[rope] rotated to `position`; the pairs stay where they are, since a score does not depend on their order.
 * direction -1: back. */
static inline void latent_rotate(const latent_shape *s, const float *x, int64_t position, double *out) {
    const int64_t pairs = s->rope / 2;
    for (int64_t i = 0; i < pairs; i++) {
        const int half = s->layout == GYRE_LAYOUT_HALF;
        const int64_t a = half ? i : 2 * i, b = half ? i + pairs : 2 * i + 1;
        const double angle = (double)position * latent_frequency(s, i), c = cos(angle), d = sin(angle);
        out[a] = (double)x[a] * c - (double)x[b] * d;
        out[b] = (double)x[a] * d + (double)x[b] * c;
    }
}

static inline void latent_absorb(latent_problem *p) {
    const latent_shape *s = &p->s;
    const int64_t plain = s->nope + s->rope, n = latent_channels(s);
    for (int64_t row = 0; row < s->tokens * s->heads; row++) {
        const float *from = p->plain_q + row * plain, *up = p->up_k + row % s->heads * s->nope * s->rank;
        for (int64_t r = 0; r < s->rank; r++) {
            double sum = 0;
            for (int64_t i = 0; i < s->nope; i++)
                sum += (double)up[i * s->rank + r] * (double)from[i];
            p->q[row * n + r] = (float)sum;
        }
        for (int64_t r = 0; r < s->rope; r++)
            p->q[row * n + s->rank + r] = from[s->nope + r];
    }
}

static inline latent_problem make_latents(const latent_shape *s, uint64_t seed) {
    latent_problem p = {.s = *s, .scale = latent_scale(s)};
    test_random random = {seed};
    const gyre_config config = latent_config(s);
    const size_t rows = (size_t)(s->tokens * s->heads), n = (size_t)latent_channels(s);
    p.encoding = test_encoding(&config);
    p.up_k = room((size_t)(s->heads * s->nope * s->rank), sizeof(float));
    p.up_v = room((size_t)(s->heads * s->value * s->rank), sizeof(float));
    p.key = room((size_t)s->tokens * n, sizeof(float));
    p.plain_q = room(rows * (size_t)(s->nope + s->rope), sizeof(float));
    p.q = room(rows * n, sizeof(float));
    test_fill(&random, p.up_k, (size_t)(s->heads * s->nope * s->rank));
    test_fill(&random, p.up_v, (size_t)(s->heads * s->value * s->rank));
    test_fill(&random, p.key, (size_t)s->tokens * n);
    test_fill(&random, p.plain_q, rows * (size_t)(s->nope + s->rope));
    for (int64_t i = 0; i < s->heads * s->nope * s->rank; i++)
        p.up_k[i] *= (float)(2 / sqrt((double)s->rank)); /* scores of both parts are then of one size */
    for (int64_t i = 0; i < s->heads * s->value * s->rank; i++)
        p.up_v[i] *= (float)(1 / sqrt((double)s->rank));
    latent_absorb(&p);
    return p;
}

static inline void free_latents(latent_problem *p) {
    float *all[] = {p->up_k, p->up_v, p->key, p->plain_q, p->q};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    gyre_encoding_free(p->encoding);
}

/* to[value] = up_v[head] latent, which is in double or float. */
static inline void latent_value(const latent_problem *p, int64_t head, const double *latent, double *to) {
    const latent_shape *s = &p->s;
    for (int64_t v = 0; v < s->value; v++) {
        to[v] = 0;
        for (int64_t r = 0; r < s->rank; r++)
            to[v] += (double)p->up_v[(head * s->value + v) * s->rank + r] * latent[r];
    }
}

/* One query and head over the first `keys` tokens; slope: 0, or ALiBi's in place of the rotation. */
typedef struct latent_row {
    int64_t query, head, keys;
    double slope;
} latent_row;

/* weights[keys] = the softmax. */
static inline void latent_weights(const latent_problem *p, const latent_row *row, double *weights) {
    const latent_shape *s = &p->s;
    const float *q = p->plain_q + (row->query * s->heads + row->head) * (s->nope + s->rope);
    double turned[2][256], most = -INFINITY, sum = 0;
    latent_rotate(s, q + s->nope, row->slope != 0 ? 0 : s->first + row->query, turned[0]);
    for (int64_t n = 0; n < row->keys; n++) {
        const float *key = p->key + n * latent_channels(s), *up = p->up_k + row->head * s->nope * s->rank;
        double score = 0;
        latent_rotate(s, key + s->rank, row->slope != 0 ? 0 : s->first + n, turned[1]);
        for (int64_t i = 0; i < s->nope; i++) {
            double channel = 0; /* of the expanded key */
            for (int64_t r = 0; r < s->rank; r++)
                channel += (double)up[i * s->rank + r] * (double)key[r];
            score += (double)q[i] * channel;
        }
        for (int64_t i = 0; i < s->rope; i++)
            score += turned[0][i] * turned[1][i];
        weights[n] = p->scale * score - row->slope * (double)(row->query - n);
        most = weights[n] > most ? weights[n] : most;
    }
    for (int64_t n = 0; n < row->keys; n++)
        sum += weights[n] = exp(weights[n] - most);
    for (int64_t n = 0; n < row->keys; n++)
        weights[n] /= sum;
}

/* out[value] = plain attention. */
static inline void latent_plain(const latent_problem *p, const latent_row *row, double *out) {
    const latent_shape *s = &p->s;
    double *weights = room((size_t)row->keys, sizeof *weights), latent[1024], value[1024];
    latent_weights(p, row, weights);
    memset(out, 0, (size_t)s->value * sizeof *out);
    for (int64_t n = 0; n < row->keys; n++) {
        for (int64_t r = 0; r < s->rank; r++)
            latent[r] = (double)p->key[n * latent_channels(s) + r];
        latent_value(p, row->head, latent, value);
        for (int64_t v = 0; v < s->value; v++)
            out[v] += weights[n] * value[v];
    }
    free(weights);
}

/* -- the library's side -- */

static inline gyre_cache_config latent_cache_config(const latent_problem *p, gyre_dtype type, gyre_cache_keys keys) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = p->encoding;
    config.keys = keys;
    config.key_dtype = type;
    config.heads = 1;
    config.head_dim = latent_channels(&p->s);
    config.max_tokens = p->s.tokens;
    config.values_in_keys = 1;
    return config;
}

static inline gyre_cview latent_keys(const latent_problem *p, int64_t first, int64_t count) {
    const int64_t n = latent_channels(&p->s);
    return gyre_cdense(p->key + first * n, GYRE_DTYPE_F32, 1, count, 1, n);
}

/* The first `rank` channels of the same memory. */
static inline gyre_cview latent_values(const latent_problem *p, int64_t first, int64_t count) {
    gyre_cview view = latent_keys(p, first, count);
    view.shape[3] = p->s.rank;
    return view;
}

/* Attention of tokens first .. first + count - 1, without keys and values.  out: [count][head][rank]. */
static inline attention_setup latent_args(const latent_problem *p, int64_t first, int64_t count, float *out) {
    const latent_shape *s = &p->s;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q =
        gyre_cdense(p->q + first * s->heads * latent_channels(s), GYRE_DTYPE_F32, 1, count, s->heads, latent_channels(s));
    args.q_pos.base = s->first + first;
    args.scale = p->scale;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, count, s->heads, s->rank);
    return args;
}

static inline void latent_append(gyre_cache *cache, const latent_problem *p, int64_t sequence, int64_t first,
                                 int64_t count) {
    const gyre_cview keys = latent_keys(p, first, count);
    const gyre_positions at = {.base = p->s.first + first};
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = keys, .positions = &at),
                                NULL, NULL));
}

static inline void latent_attend(const gyre_cache *cache, int64_t sequence, const attention_setup *args) {
    const size_t bytes = cache_attention_scratch(cache, &sequence, args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, &sequence, args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
}

#endif
