/* naive_attention_options.h: the options of an attention call (softcap, sinks, additive mask, sink logits) by their
 * definition, in double, with every weight stored.  Scores come from naive_schemes.h. */
#ifndef GYRE_TESTS_NAIVE_ATTENTION_OPTIONS_H
#define GYRE_TESTS_NAIVE_ATTENTION_OPTIONS_H
#include "attention_setup.h"
#include "naive_attention_tables.h"

/* A config of a rotation. */
#define ROTATED(...)                                                                                                        \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_KIND_ROPE, .rope = { __VA_ARGS__ }                                        \
    }

enum { MOST_HEADS = 8 };

typedef struct options {
    double softcap;
    int64_t sinks;
    int mask;       /* 0 = none */
    int blocks;     /* the mask also hides long blocks of keys, different ones for each query */
    int bare;       /* positions are base + index instead of an array */
    int rows_alike; /* one mask row for all queries and heads: strides of 0 */
    gyre_dtype mask_dtype;
    int sink_logits;
    int64_t window_after; /* 0 = as window */
} options;

typedef struct trial {
    problem p;
    options o;
    int64_t pairs;     /* batch x queries x heads x keys */
    double *mask64;    /* [batch][query][head][key], as the library reads it */
    void *mask;        /* the mask in its type, keys last, every second element */
    gyre_cview masked; /* view of it */
    float sink[MOST_HEADS];
    double *weights64, *lse64;
    float *weights;       /* of all queries */
    double *gate_sums[2]; /* of queries and of keys: [batch][token][head]; NULL = none */
} trial;

static inline int64_t pair_at(const problem *p, int64_t b, int64_t i, int64_t h, int64_t j) {
    return ((b * p->s.queries + i) * p->s.heads + h) * p->s.keys + j;
}

/* Bits 0 to 3: softcap, sinks, mask, sink logits.  The types and strides of the mask change with `i`. */
static inline options options_from_bits(int bits, uint64_t i, const layout *s) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    return (options){.softcap = bits & 1 ? 1.5 : 0,
                     .sinks = bits & 2 ? 5 : 0,
                     .mask = bits & 4,
                     .mask_dtype = types[i % 3],
                     .rows_alike = i % 2 == 1,
                     .blocks = i % 4 >= 2,
                     .bare = !s->shuffled && i % 7 < 3,
                     .sink_logits = bits & 8,
                     .window_after = i % 3 == 1 ? 1 + (int64_t)(i % 9) : 0};
}

/* -- making a trial -- */

static inline int in_block(const trial *t, int64_t row, int64_t key) {
    const int64_t wide = t->o.mask_dtype == GYRE_DTYPE_F16 ? 80 : 128; /* a tile or less */
    return t->o.blocks && (row / 3 + key / wide) % 2 == 0;
}

/* Numbers of both signs, about every fifth pair masked, and all of row 1 where rows differ. */
static inline void make_mask(trial *t, test_random *random) {
    const layout *s = &t->p.s;
    const int alike = t->o.rows_alike;
    const int64_t n = alike ? s->batch * s->keys : t->pairs, rows = alike ? 1 : s->queries, heads = alike ? 1 : s->heads;
    t->mask = room((size_t)(2 * n), gyre_dtype_size(t->o.mask_dtype));
    for (int64_t e = 0; e < n; e++) {
        const int64_t row = e / s->keys / heads % rows;
        const int hidden = test_next(random) % 5 == 0 || (!alike && row == 1) || in_block(t, row, e % s->keys);
        test_put(t->mask, t->o.mask_dtype, (size_t)(2 * e), hidden ? -INFINITY : 2 * test_uniform(random));
    }
    t->masked = gyre_cdense(t->mask, t->o.mask_dtype, s->batch, s->queries, s->heads, s->keys);
    const int64_t steps[4] = {2 * rows * heads * s->keys, alike ? 0 : 2 * heads * s->keys, alike ? 0 : 2 * s->keys, 2};
    memcpy(t->masked.stride, steps, sizeof steps);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->queries; i++)
            for (int64_t h = 0; h < s->heads; h++)
                for (int64_t j = 0; j < s->keys; j++)
                    t->mask64[pair_at(&t->p, b, i, h, j)] = test_get(
                        t->mask, t->o.mask_dtype, (size_t)(b * steps[0] + i * steps[1] + h * steps[2] + j * steps[3]));
}

static inline trial make_trial(const gyre_config *config, const layout *s, const options *o, uint64_t seed) {
    test_random random = {seed + 77};
    trial t = {.p = make_problem(config, s, seed), .o = *o, .pairs = s->batch * s->queries * s->heads * s->keys};
    assert_true(s->heads <= MOST_HEADS);
    t.mask64 = room((size_t)t.pairs, sizeof *t.mask64);
    t.weights64 = room((size_t)t.pairs, sizeof *t.weights64);
    t.weights = room((size_t)t.pairs, sizeof *t.weights);
    t.lse64 = room((size_t)(s->batch * s->queries * s->heads), sizeof *t.lse64);
    if (o->mask) make_mask(&t, &random);
    test_fill(&random, t.sink, MOST_HEADS);
    for (int h = 0; h < MOST_HEADS; h++)
        t.sink[h] *= 4;
    return t;
}

/* A trial of a row of tests/test_schemes.def, at positions that it has. */
static inline trial scheme_trial(int scheme, const layout *s, const options *o, uint64_t seed) {
    layout fitting = *s;
    const gyre_config config = fitting_config(scheme, &fitting);
    return make_trial(&config, &fitting, o, seed);
}

static inline void free_trial(trial *t) {
    free_problem(&t->p);
    free(t->mask64);
    free(t->mask);
    free(t->weights64);
    free(t->lse64);
    free(t->weights);
    free(t->gate_sums[0]);
    free(t->gate_sums[1]);
}

static inline attention_setup trial_args(trial *t, const gyre_tables *tables) {
    const layout *s = &t->p.s;
    attention_setup args = problem_args(&t->p, tables);
    args.softcap = t->o.softcap;
    args.sinks = t->o.sinks;
    args.window_after = t->o.window_after;
    if (t->o.mask) args.mask = t->masked;
    if (t->o.bare) {
        args.k_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, s->start, 0, 0, 0, 0, 0};
        args.q_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, s->start + s->keys - s->queries, 0, 0, 0, 0, 0};
    }
    if (t->o.sink_logits) args.sink_logits = gyre_cdense(t->sink, GYRE_DTYPE_F32, 1, 1, s->heads, 1);
    return args;
}

static inline void run_trial(trial *t, const gyre_exec *exec) {
    const gyre_tables tables = problem_tables(&t->p);
    const attention_setup args = trial_args(t, &tables);
    attend(&args, exec);
}

/* -- the definition -- */

static inline int trial_visible(const trial *t, int64_t b, int64_t i, int64_t j) {
    const layout *s = &t->p.s;
    const int by_order = s->causal == GYRE_CAUSAL_BY_ORDER;
    const int64_t m = by_order ? i + s->keys - s->queries : t->p.q_at[b * s->queries + i];
    const int64_t n = by_order ? j : t->p.k_at[b * s->keys + j];
    if (s->causal && n > m) return 0;
    const int64_t after = t->o.window_after ? t->o.window_after : s->window;
    if ((s->window == 0 || m - n < s->window) && (after == 0 || n - m < after)) return 1;
    return t->o.sinks > 0 && n < t->o.sinks;
}

static inline double trial_score(const trial *t, int64_t b, int64_t i, int64_t h, int64_t j) {
    const problem *p = &t->p;
    const layout *s = &p->s;
    if (!trial_visible(t, b, i, j)) return -INFINITY;
    const scheme_pair at = pair_of(p, b, i, h, j);
    double score = naive_score(p, &at);
    if (t->gate_sums[0])
        score += t->gate_sums[0][(b * s->queries + i) * s->heads + h] - t->gate_sums[1][(b * s->keys + j) * s->heads + h];
    if (t->o.softcap > 0) score = t->o.softcap * tanh(score / t->o.softcap);
    return t->o.mask ? score + t->mask64[pair_at(p, b, i, h, j)] : score;
}

static inline void trial_row(const trial *t, int64_t b, int64_t i, int64_t h) {
    const problem *p = &t->p;
    const layout *s = &p->s;
    const int64_t row = (b * s->queries + i) * s->heads + h;
    double *weight = t->weights64 + row * s->keys, *out = p->out64 + row * s->value_dim;
    double row_max = t->o.sink_logits ? (double)t->sink[h] : -INFINITY;
    const double sink = row_max;
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    for (int64_t j = 0; j < s->keys; j++) {
        weight[j] = trial_score(t, b, i, h, j);
        row_max = fmax(row_max, weight[j]);
    }
    double sum = row_max > -INFINITY ? exp(sink - row_max) : 0;
    for (int64_t j = 0; j < s->keys; j++)
        sum += weight[j] = row_max > -INFINITY ? exp(weight[j] - row_max) : 0;
    t->lse64[row] = sum > 0 ? row_max + log(sum) : -INFINITY;
    for (int64_t j = 0; j < s->keys; j++) {
        if (weight[j] == 0) continue;
        weight[j] /= sum;
        naive_add_value(p, b, i, h, j, weight[j], out);
    }
}

static inline void define(const trial *t) {
    for (int64_t b = 0; b < t->p.s.batch; b++)
        for (int64_t i = 0; i < t->p.s.queries; i++)
            for (int64_t h = 0; h < t->p.s.heads; h++)
                trial_row(t, b, i, h);
}

/* Copies into `one` the tokens of a packed batch from `first` on, and the tables, for the definition. */
static inline void take_sequence(trial *one, const trial *packed, int64_t first) {
    const layout *s = &packed->p.s;
    const int64_t row[3] = {s->heads * s->dim, s->key_heads * s->dim, s->key_heads * s->value_dim};
    for (part i = Q; i <= V; i++)
        memcpy(one->p.x64[i], packed->p.x64[i] + first * row[i], one->p.size[i] * sizeof(double));
    for (part i = TABLE_A; i <= LAST; i++)
        memcpy(one->p.x64[i], packed->p.x64[i], packed->p.size[i] * sizeof(double));
    memcpy(one->sink, packed->sink, sizeof one->sink);
}

static inline void check_trial(const trial *t) {
    define(t);
    for (size_t i = 0; i < t->p.out_size; i++)
        test_close((long double)t->p.out[i], t->p.out64[i], 3e-6L, "out");
    for (int64_t row = 0; row < t->pairs / (t->p.s.keys > 0 ? t->p.s.keys : 1); row++) {
        const double want = t->lse64[row], got = (double)t->p.lse[row];
        if (want == -INFINITY)
            assert_true(got == -INFINITY);
        else
            test_close(got, want, 5e-6L * (1 + fabsl((long double)want)), "lse");
    }
}

#endif
