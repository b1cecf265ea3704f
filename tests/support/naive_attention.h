/* naive_attention.h: attention by its definition, in double, with the whole row of scores. It shares no code with the
 * library: the rotation is computed here from the frequencies. */
#ifndef GYRE_TESTS_NAIVE_ATTENTION_H
#define GYRE_TESTS_NAIVE_ATTENTION_H
#include "attention_memory.h"
#include "attention_setup.h"
#include "naive_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum order { IN_ORDER, ROW_OFFSETS, SHUFFLED } order;

/* The shape of a problem. */
typedef struct shape {
    gyre_kind kind;
    gyre_layout layout;
    int64_t batch, queries, keys, query_heads, key_heads, dim, value_dim;
    int causal;
    int64_t window;
    order order;
} shape;

/* A problem of a shape: dense inputs, in float for the library and in double for the definition. */
typedef struct problem {
    shape s;
    gyre_encoding *encoding;
    double scale, factor, inv_freq[128], slopes[64];
    int64_t *q_at, *k_at; /* positions [batch][token] */
    size_t q_size, k_size, v_size, out_size, rows;
    float *q, *k, *v, *dout, *out, *lse, *dq, *dk, *dv;
    double *q64, *k64, *v64, *out64, *lse64;
} problem;

static inline void place_tokens(problem *p, test_random *random) {
    const shape *s = &p->s;
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t *q = p->q_at + b * s->queries, *k = p->k_at + b * s->keys;
        const int64_t start = s->order == ROW_OFFSETS ? 1000 * b - 37 : 0;
        for (int64_t i = 0; i < s->queries; i++)
            q[i] = start + s->keys - s->queries + i;
        for (int64_t i = 0; i < s->keys; i++)
            k[i] = start + i;
        if (s->order != SHUFFLED) continue;
        for (int64_t i = 0; i < s->queries; i++)
            q[i] = (int64_t)(test_next(random) % (uint64_t)(s->keys + 20)) - 10;
        for (int64_t i = s->keys - 1; i > 0; i--) {
            const int64_t j = (int64_t)(test_next(random) % (uint64_t)(i + 1)), other = k[i];
            k[i] = k[j], k[j] = other;
        }
    }
}

static inline gyre_encoding *problem_encoding(const shape *s) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = s->kind;
    config.head_dim = s->dim;
    config.heads = s->query_heads;
    config.trained_length = 64;
    config.rope.layout = s->layout;
    if (s->kind == GYRE_KIND_ROPE) { /* an attention factor other than 1, so that adjoint and inverse differ */
        config.rope.dim = s->dim / 2 * 2;
        config.rope.scaling = GYRE_SCALING_YARN;
        config.rope.factor = 4;
    }
    return test_encoding(&config);
}

static inline void widen(double *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = (double)from[i];
}

static inline problem make_problem(const shape *s, uint64_t seed) {
    test_random random = {seed};
    problem p = {.s = *s, .scale = 1 / sqrt((double)s->dim), .encoding = problem_encoding(s), .factor = 1};
    if (s->kind == GYRE_KIND_ROPE) assert_ok(gyre_encoding_frequencies(p.encoding, 0, p.inv_freq, &p.factor));
    if (s->kind == GYRE_KIND_ALIBI) assert_ok(gyre_encoding_slopes(p.encoding, 0, p.slopes));
    p.rows = (size_t)(s->batch * s->queries * s->query_heads);
    p.q_size = p.rows * (size_t)s->dim;
    p.k_size = (size_t)(s->batch * s->keys * s->key_heads * s->dim);
    p.v_size = (size_t)(s->batch * s->keys * s->key_heads * s->value_dim);
    p.out_size = p.rows * (size_t)s->value_dim;
    p.q_at = room((size_t)(s->batch * s->queries), sizeof(int64_t));
    p.k_at = room((size_t)(s->batch * s->keys), sizeof(int64_t));
    float **floats[] = {&p.q, &p.dq, &p.k, &p.dk, &p.v, &p.dv, &p.out, &p.dout};
    const size_t sizes[] = {p.q_size, p.q_size, p.k_size, p.k_size, p.v_size, p.v_size, p.out_size, p.out_size};
    for (int i = 0; i < 8; i++)
        *floats[i] = room(sizes[i], sizeof(float));
    p.lse = room(p.rows, sizeof(float));
    p.q64 = room(p.q_size, sizeof(double));
    p.k64 = room(p.k_size, sizeof(double));
    p.v64 = room(p.v_size, sizeof(double));
    p.out64 = room(p.out_size, sizeof(double));
    p.lse64 = room(p.rows, sizeof(double));
    test_fill(&random, p.q, p.q_size);
    test_fill(&random, p.k, p.k_size);
    test_fill(&random, p.v, p.v_size);
    test_fill(&random, p.dout, p.out_size);
    for (size_t i = 0; i < p.q_size; i++)
        p.q[i] *= 3; /* larger scores, so that weights are far from uniform */
    place_tokens(&p, &random);
    widen(p.q64, p.q, p.q_size);
    widen(p.k64, p.k, p.k_size);
    widen(p.v64, p.v, p.v_size);
    return p;
}

static inline void free_problem(problem *p) {
    void *all[] = {p->q_at, p->k_at, p->q,  p->k,   p->v,   p->dout, p->out,   p->lse,
                   p->dq,   p->dk,   p->dv, p->q64, p->k64, p->v64,  p->out64, p->lse64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    gyre_encoding_free(p->encoding);
}

static inline attention_setup problem_args(const problem *p) {
    const shape *s = &p->s;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = p->encoding;
    args.q = gyre_cdense(p->q, GYRE_DTYPE_F32, s->batch, s->queries, s->query_heads, s->dim);
    args.k = gyre_cdense(p->k, GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim);
    args.v = gyre_cdense(p->v, GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim);
    args.out = gyre_dense(p->out, GYRE_DTYPE_F32, s->batch, s->queries, s->query_heads, s->value_dim);
    args.lse = gyre_dense(p->lse, GYRE_DTYPE_F32, s->batch, s->queries, s->query_heads, 1);
    args.q_pos = (gyre_positions){p->q_at, GYRE_DTYPE_I64, 0, 0, s->queries, 1, 0, 0};
    args.k_pos = (gyre_positions){p->k_at, GYRE_DTYPE_I64, 0, 0, s->keys, 1, 0, 0};
    args.causal = s->causal;
    args.window = s->window;
    return args;
}

/* Replaces the problem's encoding by another of the same shape, at context `length`. */
static inline void change_encoding(problem *p, const gyre_config *config, int64_t length) {
    gyre_encoding_free(p->encoding);
    p->encoding = test_encoding(config);
    if (config->kind == GYRE_KIND_ROPE) assert_ok(gyre_encoding_frequencies(p->encoding, length, p->inv_freq, &p->factor));
    if (config->kind == GYRE_KIND_ALIBI) assert_ok(gyre_encoding_slopes(p->encoding, 0, p->slopes));
}

/* Arguments with frequencies that depend on the context length, which only q_pos.context_length states. */
static inline attention_setup at_length(problem *p, int64_t length) {
    gyre_config config = test_rope_config(p->s.dim, p->s.layout);
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 4;
    config.rope.attention_factor = 1.25;
    config.trained_length = 64;
    if (length == 0) config.context_length = 64; /* past it some length has to be known */
    change_encoding(p, &config, length);
    attention_setup args = problem_args(p);
    args.q_pos.context_length = length;
    args.k_pos.context_length = -5;
    return args;
}

static inline void run_gradient(const problem *p, const attention_setup *args, const gyre_exec *exec) {
    const shape *s = &p->s;
    const gyre_cview dout = gyre_cdense(p->dout, GYRE_DTYPE_F32, s->batch, s->queries, s->query_heads, s->value_dim);
    const gyre_view dqkv[3] = {gyre_dense(p->dq, GYRE_DTYPE_F32, s->batch, s->queries, s->query_heads, s->dim),
                               gyre_dense(p->dk, GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim),
                               gyre_dense(p->dv, GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim)};
    differentiate(args, &dout, dqkv, NULL, exec);
}

/* -- the definition -- */

static inline void naive_rotate(const problem *p, int64_t position, const double *x, double *y) {
    memcpy(y, x, (size_t)p->s.dim * sizeof *y);
    if (p->s.kind == GYRE_KIND_ROPE)
        naive_rotate_head(y, p->s.dim / 2, p->s.layout, p->inv_freq, (double)position, p->factor);
}

static inline int naive_visible(const shape *s, int64_t q, int64_t k) {
    return (!s->causal || k <= q) && (s->window == 0 || llabs((long long)(q - k)) < s->window);
}

/* Computes row i of head h of out64 and lse64. */
static inline void naive_row(const problem *p, int64_t b, int64_t i, int64_t h, double *score) {
    const shape *s = &p->s;
    const int64_t at = p->q_at[b * s->queries + i], group = s->query_heads / s->key_heads,
                  row = (b * s->queries + i) * s->query_heads + h;
    double q[512], k[512], row_max = -INFINITY, sum = 0;
    naive_rotate(p, at, p->q64 + row * s->dim, q);
    for (int64_t j = 0; j < s->keys; j++) {
        const int64_t from = p->k_at[b * s->keys + j];
        score[j] = -INFINITY;
        if (!naive_visible(s, at, from)) continue;
        naive_rotate(p, from, p->k64 + ((b * s->keys + j) * s->key_heads + h / group) * s->dim, k);
        score[j] = 0;
        for (int64_t c = 0; c < s->dim; c++)
            score[j] += q[c] * k[c];
        score[j] *= p->scale;
        if (s->kind == GYRE_KIND_ALIBI) score[j] -= p->slopes[h] * fabs((double)(at - from));
        row_max = fmax(row_max, score[j]);
    }
    double *out = p->out64 + row * s->value_dim;
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    p->lse64[row] = -INFINITY;
    if (row_max == -INFINITY) return;
    for (int64_t j = 0; j < s->keys; j++)
        sum += exp(score[j] - row_max);
    for (int64_t j = 0; j < s->keys; j++)
        for (int64_t c = 0; c < s->value_dim && score[j] > -INFINITY; c++)
            out[c] +=
                exp(score[j] - row_max) / sum * p->v64[((b * s->keys + j) * s->key_heads + h / group) * s->value_dim + c];
    p->lse64[row] = row_max + log(sum);
}

static inline void naive_batch(const problem *p, int64_t b) {
    double *score = room((size_t)p->s.keys, sizeof *score);
    for (int64_t i = 0; i < p->s.queries; i++)
        for (int64_t h = 0; h < p->s.query_heads; h++)
            naive_row(p, b, i, h, score);
    free(score);
}

static inline void naive(const problem *p) {
    for (int64_t b = 0; b < p->s.batch; b++)
        naive_batch(p, b);
}

#endif
