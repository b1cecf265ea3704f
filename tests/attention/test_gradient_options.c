/* test_gradient_options.c: the gradient under softcap, sinks, masks, sink logits and dropout, alone and together and with
 * every kind of position, against central differences of the definition; in every type of input, over packed and padded
 * batches, and with a context length that follows the query. */
#include "attention_setup.h"
#include "naive_attention_options.h"

#include "naive_philox.h"
#include "run_each_tier.h"

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 9, 4, 2, 8, 8, 0, 0, 0, 0},      {1, 9, 9, 2, 1, 8, 8, 1, 4, 0, 0},     {2, 6, 20, 4, 4, 8, 8, 1, 5, -4, 1},
    {1, 8, 24, 2, 1, 8, 8, 2, 6, 0, 0},     {1, 12, 30, 2, 1, 8, 8, 0, 5, 0, 1},   {1, 70, 290, 2, 1, 8, 8, 1, 40, 0, 0},
    {1, 140, 150, 2, 2, 8, 8, 2, 33, 0, 0}, {1, 70, 150, 2, 1, 8, 8, 0, 30, 0, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, SMALL = 5, BITS = 32 };

/* A trial with the options of its gradient. */
typedef struct gradient_trial {
    trial t;
    double dropout;
    uint64_t seed;
    int by_length; /* frequencies follow the current length of each query */
    double *dsink; /* [heads] */
} gradient_trial;

/* Bits: softcap, sinks, mask, sink logits, dropout. */
static gradient_trial make_gradient_trial(const gyre_config *config, const layout *s, int bits, uint64_t index) {
    const options o = options_from_bits(bits, index, s);
    gradient_trial g = {.t = make_trial(config, s, &o, 3 + index)};
    if (bits & 16) g.dropout = 0.1 + 0.2 * (double)(index % 4), g.seed = 0x9e3779b97f4a7c15u * (index + 1);
    g.dsink = room((size_t)s->heads, sizeof *g.dsink);
    return g;
}

static gradient_trial scheme_gradient_trial(int scheme, const layout *s, int bits, uint64_t index) {
    layout fitting = *s;
    const gyre_config config = fitting_config(scheme, &fitting);
    return make_gradient_trial(&config, &fitting, bits, index);
}

static void free_gradient_trial(gradient_trial *g) {
    free_trial(&g->t);
    free(g->dsink);
}

static attention_setup args_of(gradient_trial *g, const gyre_tables *tables) {
    attention_setup args = trial_args(&g->t, tables);
    args.dropout = g->dropout;
    args.seed = g->seed;
    return args;
}

static gyre_table_gradients gradients_of(const gradient_trial *g) {
    gyre_table_gradients gradients = problem_gradients(&g->t.p);
    if (g->t.o.sink_logits) gradients.sink_logits = gyre_dense(g->dsink, GYRE_DTYPE_F64, 1, 1, g->t.p.s.heads, 1);
    return gradients;
}

static gyre_cview dout_of(const problem *p) {
    return gyre_cdense(p->x[DOUT], GYRE_DTYPE_F32, p->s.batch, p->s.queries, p->s.heads, p->s.value_dim);
}

static void views_of(const problem *p, gyre_view dqkv[3]) {
    const layout *s = &p->s;
    dqkv[0] = gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim);
    dqkv[1] = gyre_dense(p->grad[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim);
    dqkv[2] = gyre_dense(p->grad[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim);
}

static void run_gradient_trial(gradient_trial *g, const gyre_exec *exec) {
    const gyre_tables tables = problem_tables(&g->t.p);
    const gyre_table_gradients gradients = gradients_of(g);
    const attention_setup args = args_of(g, &tables);
    const gyre_cview dout = dout_of(&g->t.p);
    gyre_view dqkv[3];
    views_of(&g->t.p, dqkv);
    attend(&args, exec);
    differentiate(&args, &dout, dqkv, &gradients, exec);
}

/* -- the definition -- */

/* The weighted sum of values of a row, with dropped and rescaled weights. */
static void define_row(gradient_trial *g, int64_t b, int64_t i, int64_t h) {
    problem *p = &g->t.p;
    const layout *s = &p->s;
    const int64_t row = (b * s->queries + i) * s->heads + h, m = p->q_at[b * s->queries + i];
    double *out = p->out64 + row * s->value_dim;
    if (g->by_length)
        assert_ok(gyre_encoding_frequencies(p->encoding, m / 16 * 16 + 16, p->scheme.inv_freq, &p->scheme.factor));
    trial_row(&g->t, b, i, h);
    if (g->dropout == 0) return;
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    for (int64_t j = 0; j < s->keys; j++) {
        const double weight = g->t.weights64[row * s->keys + j] / (1 - g->dropout);
        if (weight != 0 && naive_is_kept(g->dropout, g->seed, b, h, i, j)) naive_add_value(p, b, i, h, j, weight, out);
    }
}

/* A sample of the rows: the heads and batch rows that depend on a number. */
typedef struct rows {
    int64_t batch, batches, head, heads, query, queries;
} rows;

static double loss(gradient_trial *g, const rows *r) {
    const problem *p = &g->t.p;
    const layout *s = &p->s;
    double sum = 0;
    for (int64_t b = r->batch; b < r->batch + r->batches; b++)
        for (int64_t i = r->query; i < r->query + r->queries; i++)
            for (int64_t h = r->head; h < r->head + r->heads; h++) {
                const int64_t at = ((b * s->queries + i) * s->heads + h) * s->value_dim;
                define_row(g, b, i, h);
                sum += scheme_dot(p->x64[DOUT] + at, p->out64 + at, s->value_dim);
            }
    return sum;
}

static rows rows_of(const layout *s, part which, size_t e) {
    rows r = {0, s->batch, 0, s->heads, 0, s->queries};
    if (which > V) return r;
    const int64_t dim = which == V ? s->value_dim : s->dim, heads = which == Q ? s->heads : s->key_heads;
    const int64_t tokens = which == Q ? s->queries : s->keys, row = (int64_t)e / dim;
    r.heads = s->heads / heads;
    r.head = row % heads * r.heads;
    r.batch = row / heads / tokens;
    r.batches = 1;
    if (which == Q) r.query = row / heads % tokens, r.queries = 1;
    return r;
}

static double slope_of(gradient_trial *g, part which, size_t e) {
    double *x = &g->t.p.x64[which][e];
    const rows r = rows_of(&g->t.p.s, which, e);
    const double original = *x, step = difference_step(&g->t.p);
    *x = original + step;
    const double above = loss(g, &r);
    *x = original - step;
    const double below = loss(g, &r);
    *x = original;
    return (above - below) / (2 * step);
}

static double sink_slope(gradient_trial *g, int64_t h) {
    const layout *s = &g->t.p.s;
    const rows r = {0, s->batch, h, 1, 0, s->queries};
    const float original = g->t.sink[h], high = original + 0x1p-12f, low = original - 0x1p-12f;
    g->t.sink[h] = high;
    const double above = loss(g, &r);
    g->t.sink[h] = low;
    const double below = loss(g, &r);
    g->t.sink[h] = original;
    return (above - below) / ((double)high - (double)low);
}

/* The bound: `tolerance` times the size of each number and of the whole, plus half an ulp of its type. */
static void check_gradients(gradient_trial *g, size_t samples, double tolerance) {
    const problem *p = &g->t.p;
    const layout *s = &p->s;
    const rows all = {0, s->batch, 0, s->heads, 0, s->queries};
    loss(g, &all);
    for (size_t i = 0; i < p->out_size; i++)
        test_close((long double)p->out[i], p->out64[i], 5e-6L, "out");
    for (part i = Q; i <= LAST; i++) {
        const size_t step = p->size[i] <= samples ? 1 : p->size[i] / samples | 1;
        for (size_t e = p->size[i] / 2 % step; e < p->size[i]; e += step) {
            const double got = i <= V ? (double)p->grad[i][e] : p->table[i][e], want = slope_of(g, i, e);
            test_close(got, want, tolerance * (1 + fabs(want)), part_names[i]);
        }
    }
    for (int64_t h = 0; g->t.o.sink_logits && h < s->heads; h++) {
        const double want = sink_slope(g, h);
        test_close(g->dsink[h], want, tolerance * (1 + fabs(want)), "sink logits");
    }
}

static void try_one(int scheme, size_t at, int bits, uint64_t index, size_t samples) {
    if (!test_scheme_attends(scheme, (gyre_causal)layouts[at].causal) || !test_scheme_tried(scheme, (int64_t)at, 4)) return;
    gradient_trial g = scheme_gradient_trial(scheme, &layouts[at], bits, index);
    run_gradient_trial(&g, NULL);
    const int rounds_more = test_schemes[scheme].is_variant || test_schemes[scheme].oracle->traits & SCHEME_KINKS;
    check_gradients(&g, samples, rounds_more ? 6e-5 : 3e-5);
    free_gradient_trial(&g);
}

/* All pairs of scheme and layout with alternating options, and all options together with each scheme. */
static void agrees_with_differences(void **state) {
    const char *tier = *state;
    uint64_t index = 0;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < LAYOUTS; i++, index++) {
            try_one(scheme, i, 1 << index % 5, index, i < SMALL ? 11 : 2);
            if (i < SMALL) try_one(scheme, i, (int)(index * 11 % BITS), index, 11);
            if (i == 1 || i == 5) try_one(scheme, i, BITS - 1, index, i < SMALL ? 11 : 2);
        }
    unsetenv("GYRE_CPU");
}

static void each_choice_of_options(void **state) {
    (void)state;
    for (int bits = 0; bits < BITS; bits++)
        for (int i = 0; i < 2; i++)
            try_one(i ? SCHEME_t5 : SCHEME_rope, (size_t)(bits / 3 % SMALL), bits, (uint64_t)bits, 40);
}

/* -- dropout -- */

/* Few queries take another path through the forward pass, and must drop the same weights. */
static void forward_dropout_mask(void **state) {
    (void)state;
    const layout shapes[] = {{2, 1, 300, 4, 2, 16, 16, 1, 0, 0, 0},
                             {1, 7, 1300, 2, 1, 16, 16, 1, 0, 0, 0},
                             {1, 150, 150, 2, 1, 16, 16, 1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int scheme = 0; scheme < SCHEMES; scheme++) {
            gradient_trial g = scheme_gradient_trial(scheme, &shapes[i], 16, 40 + i);
            const gyre_tables tables = problem_tables(&g.t.p);
            const attention_setup args = args_of(&g, &tables);
            const rows all = {0, shapes[i].batch, 0, shapes[i].heads, 0, shapes[i].queries};
            attend(&args, NULL);
            loss(&g, &all);
            for (size_t e = 0; e < g.t.p.out_size; e++)
                test_close((long double)g.t.p.out[e], g.t.p.out64[e], 5e-6L, "out");
            free_gradient_trial(&g);
        }
}

/* -- threads -- */

static void assert_same_gradients(const gradient_trial *a, const gradient_trial *b) {
    for (part i = Q; i <= LAST; i++) {
        assert_memory_equal(a->t.p.grad[i], b->t.p.grad[i], a->t.p.size[i] * sizeof(float));
        assert_memory_equal(a->t.p.table[i], b->t.p.table[i], a->t.p.size[i] * sizeof(double));
    }
    assert_memory_equal(a->dsink, b->dsink, (size_t)a->t.p.s.heads * sizeof *a->dsink);
}

static void same_for_any_threads(void **state) {
    (void)state;
    const layout s = {2, 130, 140, 6, 3, 16, 16, 1, 50, 0, 0};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        gradient_trial one = scheme_gradient_trial(scheme, &s, BITS - 1, 5);
        run_gradient_trial(&one, NULL);
        for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
            gradient_trial many = scheme_gradient_trial(scheme, &s, BITS - 1, 5);
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            run_gradient_trial(&many, &exec);
            assert_same_gradients(&one, &many);
            gyre_pool_free(pool);
            free_gradient_trial(&many);
        }
        free_gradient_trial(&one);
    }
}

/* -- types -- */

/* The same numbers in a type, which both the library and the definition then have. */
static void *in_type(problem *p, part which, gyre_dtype dtype) {
    void *data = room(p->size[which], gyre_dtype_size(dtype));
    for (size_t e = 0; e < p->size[which]; e++) {
        test_put(data, dtype, e, p->x64[which][e]);
        p->x64[which][e] = test_get(data, dtype, e);
    }
    return data;
}

/* Inputs in a type each; dq, dk and dv in F32 (narrow 0) or in those types. */
static void try_types(const gyre_dtype types[4], int narrow) {
    const layout s = {2, 40, 45, 4, 2, 16, 16, 1, 0, 0, 0};
    gradient_trial g = scheme_gradient_trial(SCHEME_rope, &s, 16 + 8, 2);
    problem *p = &g.t.p;
    const gyre_tables tables = problem_tables(p);
    const gyre_table_gradients gradients = gradients_of(&g);
    attention_setup args = args_of(&g, &tables);
    gyre_cview dout = dout_of(p), *inputs[4] = {&args.q, &args.k, &args.v, &dout};
    const part parts[4] = {Q, K, V, DOUT};
    gyre_view dqkv[3];
    void *data[4], *grad[3];
    views_of(p, dqkv);
    for (int i = 0; i < 4; i++) {
        data[i] = in_type(p, parts[i], types[i]);
        inputs[i]->data = data[i];
        inputs[i]->dtype = types[i];
    }
    for (int i = 0; i < 3; i++) {
        grad[i] = room(p->size[parts[i]], sizeof(float));
        dqkv[i].data = grad[i];
        if (narrow) dqkv[i].dtype = types[i];
    }
    attend(&args, NULL);
    differentiate(&args, &dout, dqkv, &gradients, NULL);
    for (int i = 0; i < 3; i++) {
        for (size_t e = i; e < p->size[parts[i]]; e += 97) {
            const double want = slope_of(&g, parts[i], e), got = test_get(grad[i], dqkv[i].dtype, e);
            test_close(got, want, 3e-5 * (1 + fabs(want)) + 1.01 * test_half_ulp(dqkv[i].dtype, want), part_names[parts[i]]);
        }
        free(grad[i]);
    }
    for (int i = 0; i < 4; i++)
        free(data[i]);
    free_gradient_trial(&g);
}

static void takes_every_type(void **state) {
    (void)state;
    const gyre_dtype all[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    for (int i = 0; i < 9; i++) {
        const gyre_dtype types[4] = {all[i % 3], all[i / 3], all[(i + i / 3) % 3], all[(i + 1) % 3]};
        try_types(types, 0);
        try_types(types, 1);
    }
}

/* -- packed, padded -- */

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, MOST = 420 };
typedef struct batch {
    float q[MOST * HEADS * DIM], k[MOST * KEY_HEADS * DIM], v[MOST * KEY_HEADS * DIM], dout[MOST * HEADS * DIM];
    float out[MOST * HEADS * DIM], lse[MOST * HEADS], dq[MOST * HEADS * DIM], dk[MOST * KEY_HEADS * DIM],
        dv[MOST * KEY_HEADS * DIM], sinks[HEADS];
    double dsinks[HEADS], dbias[32 * HEADS];
    float bias[32 * HEADS];
} batch;

static batch *make_batch(void) {
    test_random random = {11};
    batch *b = room(1, sizeof *b);
    test_fill(&random, b->q, sizeof b->q / sizeof *b->q);
    test_fill(&random, b->k, sizeof b->k / sizeof *b->k);
    test_fill(&random, b->v, sizeof b->v / sizeof *b->v);
    test_fill(&random, b->dout, sizeof b->dout / sizeof *b->dout);
    test_fill(&random, b->sinks, HEADS);
    test_fill(&random, b->bias, 32 * HEADS);
    memset(b->dq, 0xFF, sizeof b->dq);
    memset(b->dk, 0xFF, sizeof b->dk);
    memset(b->dv, 0xFF, sizeof b->dv);
    return b;
}

/* `batches` rows of `queries` and `keys` tokens, from places in the batch on; without positions of their own. */
typedef struct stretch {
    int64_t batches, query, queries, key, keys;
} stretch;

/* dq, dk, dv and what is added to, of a stretch of the batch. */
static gyre_status differentiate_batch(batch *b, const attention_setup *how, const stretch *s, const gyre_exec *exec) {
    const int64_t q = s->query * HEADS, k = s->key * KEY_HEADS * DIM;
    const gyre_tables tables = {.bias = gyre_cdense(b->bias, GYRE_DTYPE_F32, 1, 1, 32, HEADS)};
    const gyre_table_gradients gradients = {.bias = gyre_dense(b->dbias, GYRE_DTYPE_F64, 1, 1, 32, HEADS),
                                            .sink_logits = gyre_dense(b->dsinks, GYRE_DTYPE_F64, 1, 1, HEADS, 1)};
    attention_setup args = *how;
    args.tables = &tables;
    args.q = gyre_cdense(b->q + q * DIM, GYRE_DTYPE_F32, s->batches, s->queries, HEADS, DIM);
    args.k = gyre_cdense(b->k + k, GYRE_DTYPE_F32, s->batches, s->keys, KEY_HEADS, DIM);
    args.v = gyre_cdense(b->v + k, GYRE_DTYPE_F32, s->batches, s->keys, KEY_HEADS, DIM);
    args.out = gyre_dense(b->out + q * DIM, GYRE_DTYPE_F32, s->batches, s->queries, HEADS, DIM);
    args.lse = gyre_dense(b->lse + q, GYRE_DTYPE_F32, s->batches, s->queries, HEADS, 1);
    args.sink_logits = gyre_cdense(b->sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
    const gyre_cview dout = gyre_cdense(b->dout + q * DIM, GYRE_DTYPE_F32, s->batches, s->queries, HEADS, DIM);
    const gyre_view dqkv[3] = {gyre_dense(b->dq + q * DIM, GYRE_DTYPE_F32, s->batches, s->queries, HEADS, DIM),
                               gyre_dense(b->dk + k, GYRE_DTYPE_F32, s->batches, s->keys, KEY_HEADS, DIM),
                               gyre_dense(b->dv + k, GYRE_DTYPE_F32, s->batches, s->keys, KEY_HEADS, DIM)};
    if (s->queries > 0) attend(&args, exec);
    differentiate(&args, &dout, dqkv, &gradients, exec);
    return GYRE_OK;
}

static gyre_encoding *batch_encoding(int which) {
    const gyre_config config = test_scheme_config(which ? SCHEME_t5 : SCHEME_rope, HEADS, DIM, 64);
    return test_encoding(&config);
}

static void assert_same_batch(const batch *a, const batch *b, int64_t queries, int64_t keys) {
    assert_memory_equal(a->dq, b->dq, (size_t)(queries * HEADS * DIM) * sizeof(float));
    assert_memory_equal(a->dk, b->dk, (size_t)(keys * KEY_HEADS * DIM) * sizeof(float));
    assert_memory_equal(a->dv, b->dv, (size_t)(keys * KEY_HEADS * DIM) * sizeof(float));
    assert_memory_equal(a->dsinks, b->dsinks, sizeof a->dsinks);
    assert_memory_equal(a->dbias, b->dbias, sizeof a->dbias);
}

/* Each sequence of a packed batch as if it were alone, one of them without queries, one without keys. */
static void packed_equals_separate(void **state) {
    (void)state;
    const int64_t q_starts[] = {0, 150, 157, 157, 160, 300}, k_starts[] = {0, 150, 300, 310, 310, 420};
    for (int which = 0; which < 2; which++) {
        gyre_encoding *encoding = batch_encoding(which);
        batch *together = make_batch(), *apart = make_batch();
        attention_setup how = GYRE_INIT(attention_setup);
        how.encoding = encoding;
        how.causal = GYRE_CAUSAL_BY_POSITION;
        for (int s = 0; s < 5; s++) {
            const stretch one = {1, q_starts[s], q_starts[s + 1] - q_starts[s], k_starts[s], k_starts[s + 1] - k_starts[s]};
            differentiate_batch(apart, &how, &one, NULL);
        }
        how.q_starts = q_starts;
        how.k_starts = k_starts;
        how.sequences = 5;
        const stretch all = {1, 0, 300, 0, 420};
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, 2, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        differentiate_batch(together, &how, &all, &exec);
        assert_same_batch(together, apart, 300, 420);
        gyre_pool_free(pool);
        free(together);
        free(apart);
        gyre_encoding_free(encoding);
    }
}

static void assert_zeros(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        assert_true(x[i] == 0);
}

/* Missing keys get zeros and change nothing even if they are NaN. The others are as without them. */
static void padded_equals_separate(void **state) {
    (void)state;
    enum { ROW = 140 };
    const int64_t first[3] = {0, 13, 130}, end[3] = {ROW, ROW - 3, 130}; /* the last row has no keys */
    gyre_encoding *encoding = batch_encoding(0);
    batch *together = make_batch(), *apart = make_batch();
    attention_setup how = GYRE_INIT(attention_setup);
    how.encoding = encoding;
    how.causal = GYRE_CAUSAL_BY_POSITION;
    for (int b = 0; b < 3; b++) {
        const stretch one = {1, b * ROW, ROW, b * ROW + first[b], end[b] - first[b]};
        how.k_pos.base = first[b];
        differentiate_batch(apart, &how, &one, NULL);
        for (int64_t t = b * ROW; t < (b + 1) * ROW; t++)
            for (int64_t c = 0; c < KEY_HEADS * DIM && (t < b * ROW + first[b] || t >= b * ROW + end[b]); c++) {
                apart->dk[t * KEY_HEADS * DIM + c] = apart->dv[t * KEY_HEADS * DIM + c] = 0;
                together->k[t * KEY_HEADS * DIM + c] = together->v[t * KEY_HEADS * DIM + c] = NAN;
            }
    }
    how.k_pos.base = 0;
    how.k_first = first;
    how.k_end = end;
    const stretch all = {3, 0, ROW, 0, ROW};
    differentiate_batch(together, &how, &all, NULL);
    assert_same_batch(together, apart, 3 * ROW, 3 * ROW);
    assert_zeros(together->dk + ROW * KEY_HEADS * DIM, 13 * KEY_HEADS * DIM);
    assert_zeros(together->dq + 2 * ROW * HEADS * DIM, ROW * HEADS * DIM);
    free(together);
    free(apart);
    gyre_encoding_free(encoding);
}

/* -- the length in use follows the query -- */

static gyre_config following(void) {
    gyre_config config = ROTATED(.base = 10000, .scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 4);
    config.length_block = 16;
    config.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    config.trained_length = 16;
    return config;
}

static void each_query_has_its_context_length(void **state) {
    (void)state;
    const layout shapes[] = {{2, 70, 70, 4, 2, 8, 8, 1, 0, 0, 0}, {1, 30, 150, 2, 1, 8, 8, 1, 40, 0, 0}};
    const gyre_config config = following();
    for (int i = 0; i < 2; i++)
        for (int bits = 0; bits < BITS; bits += 31) {
            gradient_trial g = make_gradient_trial(&config, &shapes[i], bits, 4);
            g.by_length = 1;
            run_gradient_trial(&g, NULL);
            check_gradients(&g, 9, 3e-5);
            free_gradient_trial(&g);
        }
}

/* -- what is refused -- */

static void refuses_bad_arguments(void **state) {
    (void)state;
    const gyre_config config = following();
    gradient_trial g = make_gradient_trial(&config, &layouts[5], 8, 4);
    problem *p = &g.t.p;
    attention_setup args = args_of(&g, NULL);
    gyre_cview dout = dout_of(p);
    gyre_view dqkv[3];
    gyre_table_gradients gradients = gradients_of(&g);
    views_of(p, dqkv);
    attend(&args, NULL);
    const size_t bytes = attention_scratch(&args, 1, NULL);
    void *scratch = scratch_for(bytes);
    for (part i = Q; i <= V; i++)
        memset(p->grad[i], 0x5A, p->size[i] * sizeof(float));
#define REFUSED(status)                                                                                                     \
    assert_int_equal(run_attention_gradient(&args,                                                                          \
                                            GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], \
                                                      .dv = dqkv[2], .tables = &gradients),                                 \
                                            (gyre_scratch){scratch, bytes}, NULL, NULL),                                    \
                     status)
    gradients.sink_logits.dtype = GYRE_DTYPE_F16;
    REFUSED(GYRE_EDTYPE);
    gradients.sink_logits.dtype = GYRE_DTYPE_F64;
    gradients.sink_logits.shape[2]++;
    REFUSED(GYRE_ESHAPE);
    gradients.sink_logits.shape[2]--;
    gradients.sink_logits.stride[2] = 0;
    REFUSED(GYRE_EINVAL);
    gradients = gradients_of(&g);
    for (int i = 1; i < 3; i++) { /* sums over lengths need floats */
        gyre_cview *like = i == 1 ? &args.k : &args.v;
        dqkv[i].dtype = like->dtype = GYRE_DTYPE_BF16;
        REFUSED(GYRE_EDTYPE);
        dqkv[i].dtype = like->dtype = GYRE_DTYPE_F32;
    }
    dqkv[0].dtype = GYRE_DTYPE_F16; /* neither F32 nor that of q */
    REFUSED(GYRE_EDTYPE);
    dqkv[0].dtype = GYRE_DTYPE_F32;
    dout.dtype = GYRE_DTYPE_F64;
    REFUSED(GYRE_EDTYPE);
    dout.dtype = GYRE_DTYPE_F32;
    args.dropout = 1;
    REFUSED(GYRE_EINVAL);
    args.dropout = 0;
#undef REFUSED
    for (part i = Q; i <= V; i++)
        for (size_t e = 0; e < p->size[i] * sizeof(float); e++)
            assert_int_equal(((unsigned char *)p->grad[i])[e], 0x5A);
    gradients.sink_logits.data = NULL;                                  /* not wanted */
    args.weights = gyre_dense(&g, GYRE_DTYPE_F64, -1, INT64_MAX, 3, 0); /* not looked at */
    args.weights_first = INT64_MAX;
    assert_ok(run_attention_gradient(
        &args,
        GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2], .tables = &gradients),
        (gyre_scratch){scratch, bytes}, NULL, NULL));
    for (int64_t h = 0; h < p->s.heads; h++)
        assert_true(g.dsink[h] == 0);
    free(scratch);
    free_gradient_trial(&g);
}

/* Added to, in either type. */
static void sink_gradients_add_up(void **state) {
    (void)state;
    gradient_trial g = scheme_gradient_trial(SCHEME_none, &layouts[0], 8, 4);
    const attention_setup args = args_of(&g, NULL);
    const gyre_cview dout = dout_of(&g.t.p);
    gyre_view dqkv[3];
    float single[4] = {0, 1, 2, 3};
    gyre_table_gradients gradients = gradients_of(&g);
    views_of(&g.t.p, dqkv);
    attend(&args, NULL);
    differentiate(&args, &dout, dqkv, &gradients, NULL);
    gradients.sink_logits = gyre_dense(single, GYRE_DTYPE_F32, 1, 1, 4, 1);
    differentiate(&args, &dout, dqkv, &gradients, NULL);
    for (int h = 0; h < 4; h++) {
        assert_true(g.dsink[h] != 0);
        assert_true(single[h] == (float)(h + g.dsink[h]));
    }
    free_gradient_trial(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_differences),       cmocka_unit_test(each_choice_of_options),
        cmocka_unit_test(forward_dropout_mask),   cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(takes_every_type),       cmocka_unit_test(packed_equals_separate),
        cmocka_unit_test(padded_equals_separate), cmocka_unit_test(each_query_has_its_context_length),
        cmocka_unit_test(refuses_bad_arguments),  cmocka_unit_test(sink_gradients_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
