/* naive_attention_tables.h: attention with an encoding by its definition, in double, for schemes of scores and values. Rows
 * come from gyre_encoding_row, ALiBi's slopes from gyre_encoding_slopes and frequencies from gyre_encoding_frequencies.
 * Those are compared with reference values on their own, and test_tables.c compares the whole with them. */
#ifndef GYRE_TESTS_NAIVE_ATTENTION_TABLES_H
#define GYRE_TESTS_NAIVE_ATTENTION_TABLES_H
#include "attention_memory.h"
#include "attention_setup.h"
#include "naive_head.h"

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
    double inv_freq[128], factor; /* of a rotation */
    double slopes[2][64];         /* ALiBi: for keys up to the query, and for later keys */
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

static inline void table_shape(const problem *p, part which, int64_t shape[4]) {
    assert_ok(gyre_encoding_table_shape(p->encoding, (gyre_table)(GYRE_TABLE_QUERY + (which - TABLE_A)), shape));
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

static inline int64_t fire_width(const problem *p) {
    return p->config.score.hidden_units ? p->config.score.hidden_units : 32;
}

/* Maps a random number to the range of the entry: positive where the papers require it, and FIRE's threshold between the
 * positions. */
static inline float fit(const problem *p, part which, size_t e, float x) {
    const size_t row = e / (size_t)p->s.heads;
    if (which != BIAS) return x;
    if (p->config.kind == GYRE_KIND_KERPLE) return 0.8f + 0.5f * x;
    if (p->config.kind == GYRE_KIND_FIRE && row == 0) return 0.6f + 0.5f * x;
    if (p->config.kind == GYRE_KIND_FIRE && row == 1) return (0.3f + 0.1f * x) * (float)p->s.keys;
    return x;
}

static inline void place_constants(problem *p) {
    const struct gyre_score_config *score = &p->config.score;
    if (p->config.kind == GYRE_KIND_ROPE) assert_ok(gyre_encoding_frequencies(p->encoding, 0, p->inv_freq, &p->factor));
    if (p->config.kind != GYRE_KIND_ALIBI) return;
    assert_ok(gyre_encoding_slopes(p->encoding, 0, p->slopes[0]));
    memcpy(p->slopes[1], p->slopes[0], sizeof p->slopes[0]);
    for (int64_t h = 0; score->slopes_after && h < p->s.heads; h++)
        p->slopes[1][h] = score->slopes_after[h] / (score->before_scale ? sqrt((double)p->s.dim) : 1);
}

static inline problem make_problem(const gyre_config *config, const layout *s, uint64_t seed) {
    test_random random = {seed};
    problem p = {.s = *s, .config = *config};
    p.config.head_dim = s->dim;
    p.config.heads = s->heads;
    p.encoding = test_encoding(&p.config);
    p.scale = 0.7;
    place_constants(&p);
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
        for (size_t e = 0; e < p.size[i]; e++) {
            p.x[i][e] = fit(&p, i, e, p.x[i][e]);
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

static inline double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Row r of a vector table for head h, or NULL if the scheme has no such table. */
static inline const double *table_row(const problem *p, part which, int64_t h, int64_t r, double *room) {
    int64_t shape[4];
    table_shape(p, which, shape);
    if (shape[0]) return p->x64[which] + ((shape[1] == 1 ? 0 : h) * shape[2] + r) * shape[3];
    if (p->config.kind != GYRE_KIND_NEZHA || which == TABLE_B) return NULL;
    for (int64_t c = 0; c < p->s.dim; c++) {
        const double angle = (double)r / pow(10000, (double)(c - c % 2) / (double)p->s.dim);
        room[c] = c % 2 ? cos(angle) : sin(angle);
    }
    return room;
}

static inline double naive_fire(const problem *p, int64_t h, int64_t m, int64_t n) {
    const int64_t heads = p->s.heads, width = fire_width(p);
    const double *x = p->x64[BIAS] + h, c = fabs(x[0]), reach = fmax((double)m, fabs(x[heads]));
    const double share = log(1 + c * fabs((double)(m - n))) / log(1 + c * reach);
    double sum = x[(2 + 3 * width) * heads];
    for (int64_t u = 0; u < width; u++)
        sum += x[(2 + 2 * width + u) * heads] * fmax(0, x[(2 + u) * heads] * share + x[(2 + width + u) * heads]);
    return sum;
}

static inline double naive_bias(const problem *p, int64_t h, int64_t m, int64_t n) {
    const int64_t heads = p->s.heads;
    const double *x = p->x64[BIAS], d = fabs((double)(m - n));
    int64_t row;
    if (p->config.kind == GYRE_KIND_ALIBI) return -p->slopes[n > m][h] * d;
    if (p->config.kind == GYRE_KIND_FIRE) return naive_fire(p, h, m, n);
    if (p->config.kind == GYRE_KIND_KERPLE)
        return p->config.score.decay == GYRE_DECAY_LOG ? -x[h] * log(1 + x[heads + h] * d) : -x[h] * pow(d, x[heads + h]);
    if (p->config.kind != GYRE_KIND_T5) return 0;
    assert_ok(gyre_encoding_row(p->encoding, m, n, &row));
    return x[row * heads + h];
}

/* out = x, rotated under RoPE, plus `more` (NULL: nothing). */
static inline const double *prepare(const problem *p, int64_t position, const double *x, const double *more, double *out) {
    for (int64_t c = 0; c < p->s.dim; c++)
        out[c] = x[c] + (more ? more[c] : 0);
    if (p->config.kind == GYRE_KIND_ROPE)
        naive_rotate_head(out, p->s.dim / 2, p->config.rope.layout, p->inv_freq, (double)position, p->factor);
    return out;
}

/* A vector of the head, or NULL if the scheme has none. */
static inline const double *head_vector(const problem *p, part which, int64_t h) {
    return p->size[which] > 0 ? p->x64[which] + h * p->s.dim : NULL;
}

/* Wang 2025, eq. 12, without the scale. */
static inline double naive_tapa(const problem *p, int64_t m, int64_t n, const double *q, const double *k) {
    const int64_t first = p->config.score.amplitudes ? p->config.score.amplitudes : p->s.dim / 2, phases = p->s.dim - first;
    const double alpha = p->config.score.exponent > 0 ? p->config.score.exponent : 0.1;
    const double turns = pow(fabs((double)(m - n)), alpha) * dot(q + first, k + first, phases) / sqrt((double)phases);
    return dot(q, k, first) * cos(2 * 3.14159265358979323846 * turns);
}

static inline double naive_score(const problem *p, int64_t h, int64_t m, int64_t n, const double *q, const double *k) {
    double left[64], right[64], room[64];
    int64_t row;
    if (p->config.kind == GYRE_KIND_TAPA) return p->scale * naive_tapa(p, m, n, q, k);
    double s = dot(prepare(p, m, q, head_vector(p, CONTENT, h), left), prepare(p, n, k, NULL, right), p->s.dim);
    if (gyre_encoding_row(p->encoding, m, n, &row) == GYRE_OK) {
        const double *a = table_row(p, TABLE_A, h, row, room), *b = table_row(p, TABLE_B, h, row, room);
        if (a) s += dot(prepare(p, m, q, head_vector(p, POSITION, h), left), a, p->s.dim);
        if (b) s += dot(k, b, p->s.dim);
    }
    return p->scale * s + naive_bias(p, h, m, n);
}

static inline void naive_row(const problem *p, int64_t b, int64_t i, int64_t h) {
    const layout *s = &p->s;
    double score[1024], row_max = -INFINITY, sum = 0, room[64];
    double *out = p->out64 + ((b * s->queries + i) * s->heads + h) * s->value_dim;
    const int64_t m = p->q_at[b * s->queries + i], kh = h / (s->heads / s->key_heads);
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    for (int64_t j = 0; j < s->keys; j++) {
        const int64_t n = p->k_at[b * s->keys + j];
        score[j] = -INFINITY;
        if ((s->causal && n > m) || (s->window && llabs((long long)(m - n)) >= s->window)) continue;
        score[j] = naive_score(p, h, m, n, p->x64[Q] + ((b * s->queries + i) * s->heads + h) * s->dim,
                               p->x64[K] + ((b * s->keys + j) * s->key_heads + kh) * s->dim);
        row_max = fmax(row_max, score[j]);
    }
    for (int64_t j = 0; j < s->keys && row_max > -INFINITY; j++)
        sum += exp(score[j] - row_max);
    for (int64_t j = 0; j < s->keys; j++) {
        int64_t row;
        if (score[j] == -INFINITY) continue;
        const double weight = exp(score[j] - row_max) / sum;
        const double *v = p->x64[V] + ((b * s->keys + j) * s->key_heads + kh) * s->value_dim, *value_term = NULL;
        if (gyre_encoding_row(p->encoding, m, p->k_at[b * s->keys + j], &row) == GYRE_OK)
            value_term = table_row(p, TABLE_V, h, row, room);
        for (int64_t c = 0; c < s->value_dim; c++)
            out[c] += weight * (v[c] + (value_term ? value_term[c] : 0));
    }
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

/* Checks gradients by central differences. FIRE gets short steps, because its units have kinks. */
static inline double slope(const problem *p, double *x) {
    const double kept = *x, step = p->config.kind == GYRE_KIND_FIRE ? 1e-6 : 1e-4;
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
