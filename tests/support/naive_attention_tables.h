/* naive_attention_tables.h: attention with an encoding by its definition, in double.  What a scheme does to a pair is in
 * naive_schemes.h. */
#ifndef GYRE_TESTS_NAIVE_ATTENTION_TABLES_H
#define GYRE_TESTS_NAIVE_ATTENTION_TABLES_H
#include "attention_memory.h"
#include "naive_schemes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A config of a scheme of scores. */
#define WITH(scheme, ...)                                                                                                   \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = scheme, .score = { __VA_ARGS__ }                                               \
    }

/* A config of TAPA. */
#define PHASED(...)                                                                                                         \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_KIND_TAPA, .score = { __VA_ARGS__ }                                       \
    }

typedef enum part { Q, K, V, TABLE_A, TABLE_B, TABLE_V, BIAS, CONTENT, POSITION, DOUT, PARTS, LAST = POSITION } part;
static const char *const part_names[PARTS] = {
    "q", "k", "v", "query table", "key table", "value table", "bias table", "content bias", "position bias", "dout"};

typedef struct layout {
    int64_t batch, queries, keys, heads, key_heads, dim, value_dim;
    int causal;
    int64_t window, start; /* start: position of key 0 */
    int shuffled;          /* positions in random order, with gaps */
} layout;

typedef struct problem {
    layout s;
    gyre_config config;
    gyre_encoding *encoding;
    double scale;
    scheme_context scheme;
    int64_t *q_at, *k_at;
    size_t size[PARTS];
    float *x[PARTS];      /* inputs of the library ... */
    double *x64[PARTS];   /* ... and of the definition */
    float *grad[PARTS];   /* dq, dk, dv */
    double *table[PARTS]; /* gradients of the tables */
    float *out, *lse;
    double *out64;
    size_t out_size;
} problem;

static inline gyre_table table_of(part which) {
    return (gyre_table)(GYRE_TABLE_QUERY + (which - TABLE_A));
}

static inline void table_shape(const problem *p, part which, int64_t shape[4]) {
    assert_ok(gyre_encoding_table_shape(p->encoding, table_of(which), shape));
}

static inline void place_tokens(problem *p, test_random *random) {
    const layout *s = &p->s;
    for (int64_t i = 0; i < s->batch * s->keys; i++)
        p->k_at[i] = s->start + i % s->keys;
    for (int64_t i = 0; i < s->batch * s->queries; i++)
        p->q_at[i] = s->start + s->keys - s->queries + i % s->queries;
    for (int64_t i = 0; s->shuffled && i < s->batch * s->keys; i++)
        p->k_at[i] = s->start + (int64_t)(test_next(random) % (uint64_t)(3 * s->keys));
    for (int64_t i = 0; s->shuffled && i < s->batch * s->queries; i++)
        p->q_at[i] = s->start + (int64_t)(test_next(random) % (uint64_t)(3 * s->keys));
}

static inline problem make_problem(const gyre_config *config, const layout *s, uint64_t seed) {
    test_random random = {seed};
    problem p = {.s = *s, .config = *config};
    p.config.head_dim = s->dim;
    p.config.heads = s->heads;
    p.encoding = test_encoding(&p.config);
    p.scheme = scheme_context_of(p.encoding);
    p.scale = 0.7;
    p.size[Q] = (size_t)(s->batch * s->queries * s->heads * s->dim);
    p.size[K] = (size_t)(s->batch * s->keys * s->key_heads * s->dim);
    p.size[V] = (size_t)(s->batch * s->keys * s->key_heads * s->value_dim);
    p.size[DOUT] = p.out_size = (size_t)(s->batch * s->queries * s->heads * s->value_dim);
    for (part i = TABLE_A; i <= LAST; i++) {
        int64_t shape[4];
        table_shape(&p, i, shape);
        p.size[i] = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    }
    for (part i = Q; i < PARTS; i++) {
        p.x[i] = room(p.size[i], sizeof(float));
        p.x64[i] = room(p.size[i], sizeof(double));
        p.grad[i] = room(p.size[i], sizeof(float));
        p.table[i] = room(p.size[i], sizeof(double));
        test_fill(&random, p.x[i], p.size[i]);
        if (i >= TABLE_A && i <= LAST) scheme_context_table(&p.scheme, p.encoding, table_of(i), p.x64[i]);
        for (size_t e = 0; e < p.size[i]; e++) {
            if (i == BIAS)
                p.x[i][e] = (float)scheme_entry(p.scheme.oracle, GYRE_TABLE_BIAS, (int64_t)e / s->heads, (double)p.x[i][e],
                                                (double)s->keys);
            p.x64[i][e] = (double)p.x[i][e];
        }
    }
    p.q_at = room((size_t)(s->batch * s->queries), sizeof *p.q_at);
    p.k_at = room((size_t)(s->batch * s->keys), sizeof *p.k_at);
    place_tokens(&p, &random);
    p.out = room(p.out_size, sizeof *p.out);
    p.out64 = room(p.out_size, sizeof *p.out64);
    p.lse = room((size_t)(s->batch * s->queries * s->heads), sizeof *p.lse);
    return p;
}

/* out = the config of a row of tests/test_schemes.def for the positions of *s, which move to where the scheme has some. */
static inline gyre_config fitting_config(int scheme, layout *s) {
    if (test_schemes[scheme].oracle->traits & SCHEME_FROM_ZERO && s->start < 0) s->start = 0;
    return test_scheme_config(scheme, s->heads, s->dim, s->start + (s->shuffled ? 3 : 1) * s->keys);
}

static inline problem scheme_problem(int scheme, const layout *s, uint64_t seed) {
    layout fitting = *s;
    const gyre_config config = fitting_config(scheme, &fitting);
    return make_problem(&config, &fitting, seed);
}

static inline void free_problem(problem *p) {
    for (int i = 0; i < PARTS; i++) {
        free(p->x[i]);
        free(p->x64[i]);
        free(p->grad[i]);
        free(p->table[i]);
    }
    void *rest[] = {p->q_at, p->k_at, p->out, p->out64, p->lse};
    for (int i = 0; i < 5; i++)
        free(rest[i]);
    gyre_encoding_free(p->encoding);
}

static inline gyre_cview table_view(const problem *p, part which) {
    int64_t s[4];
    table_shape(p, which, s);
    return gyre_cdense(s[0] ? p->x[which] : NULL, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
}

static inline gyre_tables problem_tables(const problem *p) {
    return (gyre_tables){.query = table_view(p, TABLE_A),
                         .key = table_view(p, TABLE_B),
                         .value = table_view(p, TABLE_V),
                         .bias = table_view(p, BIAS),
                         .content_bias = table_view(p, CONTENT),
                         .position_bias = table_view(p, POSITION)};
}

static inline gyre_view gradient_view(const problem *p, part which) {
    int64_t s[4];
    table_shape(p, which, s);
    return gyre_dense(s[0] ? p->table[which] : NULL, GYRE_DTYPE_F64, s[0], s[1], s[2], s[3]);
}

static inline gyre_table_gradients problem_gradients(const problem *p) {
    return (gyre_table_gradients){.query = gradient_view(p, TABLE_A),
                                  .key = gradient_view(p, TABLE_B),
                                  .value = gradient_view(p, TABLE_V),
                                  .bias = gradient_view(p, BIAS),
                                  .content_bias = gradient_view(p, CONTENT),
                                  .position_bias = gradient_view(p, POSITION)};
}

static inline attention_setup problem_args(const problem *p, const gyre_tables *tables) {
    const layout *s = &p->s;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = p->encoding;
    args.tables = tables;
    args.q = gyre_cdense(p->x[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim);
    args.k = gyre_cdense(p->x[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim);
    args.v = gyre_cdense(p->x[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim);
    args.out = gyre_dense(p->out, GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->value_dim);
    args.lse = gyre_dense(p->lse, GYRE_DTYPE_F32, s->batch, s->queries, s->heads, 1);
    args.q_pos = (gyre_positions){p->q_at, GYRE_DTYPE_I64, 0, 0, s->queries, 1, 0, 0};
    args.k_pos = (gyre_positions){p->k_at, GYRE_DTYPE_I64, 0, 0, s->keys, 1, 0, 0};
    args.scale = p->scale;
    args.causal = s->causal;
    args.window = s->window;
    return args;
}

/* Runs forward, then the gradient into grad and, accumulated, into table. */
static inline void run_problem(const problem *p, const gyre_exec *exec) {
    const layout *s = &p->s;
    const gyre_tables tables = problem_tables(p);
    const gyre_table_gradients gradients = problem_gradients(p);
    const attention_setup args = problem_args(p, &tables);
    const gyre_cview dout = gyre_cdense(p->x[DOUT], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->value_dim);
    const gyre_view dqkv[3] = {gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim),
                               gyre_dense(p->grad[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim),
                               gyre_dense(p->grad[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim)};
    attend(&args, exec);
    differentiate(&args, &dout, dqkv, &gradients, exec);
}

/* Fails unless both have the same results to the last bit. */
static inline void assert_same_results(const problem *a, const problem *b) {
    assert_memory_equal(a->out, b->out, a->out_size * sizeof(float));
    for (part i = Q; i <= LAST; i++) {
        assert_memory_equal(a->grad[i], b->grad[i], a->size[i] * sizeof(float));
        assert_memory_equal(a->table[i], b->table[i], a->size[i] * sizeof(double));
    }
}

/* A config that creation must refuse, with a message that begins with `field`. */
typedef struct bad_config {
    gyre_config config;
    int heads;
    const char *field;
} bad_config;
static inline void assert_configs_refused(const bad_config *bad, size_t count) {
    for (size_t i = 0; i < count; i++) {
        gyre_config config = bad[i].config;
        config.heads = bad[i].heads;
        assert_config_refused(&config, bad[i].field);
    }
}

/* -- the definition -- */

static inline scheme_pair pair_of(const problem *p, int64_t b, int64_t i, int64_t h, int64_t j) {
    const layout *s = &p->s;
    return (scheme_pair){h, p->q_at[b * s->queries + i], p->k_at[b * s->keys + j],
                         p->x64[Q] + ((b * s->queries + i) * s->heads + h) * s->dim,
                         p->x64[K] + ((b * s->keys + j) * s->key_heads + h / (s->heads / s->key_heads)) * s->dim};
}

static inline double naive_score(const problem *p, const scheme_pair *at) {
    const scheme_terms terms = scheme_terms_of(&p->scheme, at, NULL);
    return p->scale * terms.product + terms.bias;
}

/* out += weight (value of the pair + what the scheme adds to it). */
static inline void naive_add_value(const problem *p, int64_t b, int64_t i, int64_t h, int64_t j, double weight,
                                   double *out) {
    const layout *s = &p->s;
    const double *v = p->x64[V] + ((b * s->keys + j) * s->key_heads + h / (s->heads / s->key_heads)) * s->value_dim;
    double more[64];
    const int adds = scheme_adds_values(&p->scheme);
    const scheme_pair at = pair_of(p, b, i, h, j);
    if (adds) scheme_terms_of(&p->scheme, &at, more);
    for (int64_t c = 0; c < s->value_dim; c++)
        out[c] += weight * (v[c] + (adds ? more[c] : 0));
}

static inline void naive_row(const problem *p, int64_t b, int64_t i, int64_t h) {
    const layout *s = &p->s;
    double score[1024], row_max = -INFINITY, sum = 0;
    double *out = p->out64 + ((b * s->queries + i) * s->heads + h) * s->value_dim;
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    for (int64_t j = 0; j < s->keys; j++) {
        const scheme_pair at = pair_of(p, b, i, h, j);
        score[j] = -INFINITY;
        if ((s->causal && at.n > at.m) || (s->window && llabs((long long)(at.m - at.n)) >= s->window)) continue;
        score[j] = naive_score(p, &at);
        row_max = fmax(row_max, score[j]);
    }
    for (int64_t j = 0; j < s->keys && row_max > -INFINITY; j++)
        sum += exp(score[j] - row_max);
    for (int64_t j = 0; j < s->keys; j++)
        if (score[j] > -INFINITY) naive_add_value(p, b, i, h, j, exp(score[j] - row_max) / sum, out);
}

/* Computes out64. out = the loss, the sum of dout * out. */
static inline double naive(const problem *p) {
    double loss = 0;
    for (int64_t b = 0; b < p->s.batch; b++)
        for (int64_t i = 0; i < p->s.queries; i++)
            for (int64_t h = 0; h < p->s.heads; h++)
                naive_row(p, b, i, h);
    for (size_t i = 0; i < p->out_size; i++)
        loss += p->x64[DOUT][i] * p->out64[i];
    return loss;
}

/* -- every gradient against it -- */

/* The step of central differences. */
static inline double difference_step(const problem *p) {
    return p->scheme.oracle->traits & SCHEME_KINKS ? 1e-6 : 1e-4;
}

static inline double slope(const problem *p, double *x) {
    const double kept = *x, step = difference_step(p);
    *x = kept + step;
    const double above = naive(p);
    *x = kept - step;
    const double below = naive(p);
    *x = kept;
    return (above - below) / (2 * step);
}

static inline void check_problem(const problem *p, size_t samples) {
    run_problem(p, NULL);
    naive(p);
    for (size_t i = 0; i < p->out_size; i++)
        test_close((long double)p->out[i], p->out64[i], 3e-6L, "out");
    for (part i = Q; i <= LAST; i++) {
        const size_t step = p->size[i] <= samples ? 1 : p->size[i] / samples | 1;
        for (size_t e = p->size[i] / 2 % step; e < p->size[i]; e += step) {
            const double got = i <= V ? (double)p->grad[i][e] : p->table[i][e], want = slope(p, &p->x64[i][e]);
            test_close(got, want, 2e-5L * (1 + fabsl((long double)want)), part_names[i]);
        }
    }
}

#endif
