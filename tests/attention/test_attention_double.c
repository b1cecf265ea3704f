/* test_attention_double.c: attention in double, and every gradient of it, against the definition: results to a few units of
 * rounding, gradients by central differences to 1e-8.  Splits, threads and orders change no bit. */
#include "naive_attention_options.h"

/* What a call in double writes for a trial. */
typedef struct results {
    double *out, *lse, *grad[3], *gates[2], *sink;
} results;

static size_t row_count(const trial *t) {
    return (size_t)(t->p.s.batch * t->p.s.queries * t->p.s.heads);
}

static results make_results(const trial *t) {
    results r = {.out = room(t->p.out_size, sizeof(double)), .lse = room(row_count(t), sizeof(double))};
    for (int i = 0; i < 3; i++)
        r.grad[i] = room(t->p.size[i], sizeof(double));
    r.gates[0] = room(row_count(t), sizeof(double));
    r.gates[1] = room((size_t)(t->p.s.batch * t->p.s.keys * t->p.s.heads), sizeof(double));
    r.sink = room(MOST_HEADS, sizeof(double));
    return r;
}

static void free_results(results *r) {
    double *all[] = {r->out, r->lse, r->grad[0], r->grad[1], r->grad[2], r->gates[0], r->gates[1], r->sink};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* -- the call -- */

static gyre_cview table64(const problem *p, part which) {
    gyre_cview view = table_view(p, which);
    view.dtype = GYRE_DTYPE_F64;
    if (view.data) view.data = p->x64[which];
    return view;
}

static gyre_tables tables64(const problem *p) {
    return (gyre_tables){.query = table64(p, TABLE_A),
                         .key = table64(p, TABLE_B),
                         .value = table64(p, TABLE_V),
                         .bias = table64(p, BIAS),
                         .content_bias = table64(p, CONTENT),
                         .position_bias = table64(p, POSITION)};
}

/* The arguments of the trial, all in double. */
static attention_setup args64(trial *t, const gyre_tables *tables, const results *r) {
    const layout *s = &t->p.s;
    attention_setup args = trial_args(t, tables);
    args.q = gyre_cdense(t->p.x64[Q], GYRE_DTYPE_F64, s->batch, s->queries, s->heads, s->dim);
    args.k = gyre_cdense(t->p.x64[K], GYRE_DTYPE_F64, s->batch, s->keys, s->key_heads, s->dim);
    args.v = gyre_cdense(t->p.x64[V], GYRE_DTYPE_F64, s->batch, s->keys, s->key_heads, s->value_dim);
    args.out = gyre_dense(r->out, GYRE_DTYPE_F64, s->batch, s->queries, s->heads, s->value_dim);
    args.lse = gyre_dense(r->lse, GYRE_DTYPE_F64, s->batch, s->queries, s->heads, 1);
    if (!t->gate_sums[0]) return args;
    args.q_gate_sums = gyre_cdense(t->gate_sums[0], GYRE_DTYPE_F64, s->batch, s->queries, s->heads, 1);
    args.k_gate_sums = gyre_cdense(t->gate_sums[1], GYRE_DTYPE_F64, s->batch, s->keys, s->heads, 1);
    args.dq_gate_sums = gyre_dense(r->gates[0], GYRE_DTYPE_F64, s->batch, s->queries, s->heads, 1);
    args.dk_gate_sums = gyre_dense(r->gates[1], GYRE_DTYPE_F64, s->batch, s->keys, s->heads, 1);
    return args;
}

static void gradient64(const trial *t, const attention_setup *args, const gyre_table_gradients *tables, const results *r,
                       const gyre_exec *exec) {
    gyre_cview dout = gyre_const(args->out);
    gyre_view dqkv[3];
    const gyre_cview *like[3] = {&args->q, &args->k, &args->v};
    dout.data = t->p.x64[DOUT];
    for (int i = 0; i < 3; i++)
        dqkv[i] = gyre_dense(r->grad[i], GYRE_DTYPE_F64, like[i]->shape[0], like[i]->shape[1], like[i]->shape[2],
                             like[i]->shape[3]);
    differentiate(args, &dout, dqkv, tables, exec);
}

static void run64(trial *t, const results *r, gyre_order order, const gyre_exec *exec) {
    const gyre_tables tables = tables64(&t->p);
    gyre_table_gradients gradients = problem_gradients(&t->p);
    attention_setup args = args64(t, &tables, r);
    args.order = order;
    if (t->o.sink_logits) gradients.sink_logits = gyre_dense(r->sink, GYRE_DTYPE_F64, 1, 1, t->p.s.heads, 1);
    attend(&args, exec);
    gradient64(t, &args, &gradients, r, exec);
}

/* -- against the definition -- */

static double loss(const trial *t) {
    double sum = 0;
    define(t);
    for (size_t i = 0; i < t->p.out_size; i++)
        sum += t->p.x64[DOUT][i] * t->p.out64[i];
    return sum;
}

static double central(const trial *t, double *x, double step) {
    const double kept = *x;
    *x = kept + step;
    const double above = loss(t);
    *x = kept - step;
    const double below = loss(t);
    *x = kept;
    return (above - below) / (2 * step);
}

/* Richardson's extrapolation: the error falls with the fourth power of the step. */
static double slope64(const trial *t, double *x) {
    const double step = t->p.scheme.oracle->traits & SCHEME_KINKS ? 1e-6 : 1e-4;
    return (4 * central(t, x, step) - central(t, x, 2 * step)) / 3;
}

static void check_part(const trial *t, double *x, const double *got, size_t size, const char *name) {
    enum { SAMPLES = 9 };
    const size_t step = size <= SAMPLES ? 1 : size / SAMPLES | 1;
    for (size_t e = size / 2 % step; e < size; e += step) {
        const double want = slope64(t, &x[e]);
        test_close(got[e], want, 1e-8L * (1 + fabsl((long double)want)), name);
    }
}

/* The derivative of the softmax by a logit without a key, which no difference of floats has to 1e-8. */
static void check_sink(const trial *t, const results *r) {
    const layout *s = &t->p.s;
    define(t);
    for (int64_t h = 0; t->o.sink_logits && h < s->heads; h++) {
        double want = 0;
        for (int64_t row = h; row < s->batch * s->queries * s->heads; row += s->heads)
            want -= exp((double)t->sink[h] - t->lse64[row]) *
                    scheme_dot(t->p.x64[DOUT] + row * s->value_dim, t->p.out64 + row * s->value_dim, s->value_dim);
        test_close(r->sink[h], want, 1e-11L * (1 + fabsl((long double)want)), "sink logits");
    }
}

static void check64(trial *t) {
    results r = make_results(t);
    const double bound = t->p.scheme.oracle->traits & SCHEME_STEEP ? 1e-10 : 1e-12;
    run64(t, &r, GYRE_ORDER_FAST, NULL);
    define(t);
    for (size_t i = 0; i < t->p.out_size; i++)
        test_close(r.out[i], t->p.out64[i], bound, "out");
    for (size_t i = 0; i < row_count(t); i++)
        if (t->lse64[i] == -INFINITY)
            assert_true(r.lse[i] == -INFINITY);
        else
            test_close(r.lse[i], t->lse64[i], bound * (1 + fabs(t->lse64[i])), "lse");
    for (part i = Q; i <= LAST; i++)
        check_part(t, t->p.x64[i], i <= V ? r.grad[i] : t->p.table[i], t->p.size[i], part_names[i]);
    if (t->gate_sums[0]) {
        check_part(t, t->gate_sums[0], r.gates[0], row_count(t), "gates of queries");
        check_part(t, t->gate_sums[1], r.gates[1], (size_t)(t->p.s.batch * t->p.s.keys * t->p.s.heads), "gates of keys");
    }
    check_sink(t, &r);
    free_results(&r);
}

/* The definition sees the doubles of inputs that are not floats. */
static void add_digits(trial *t) {
    test_random random = {5};
    for (part i = Q; i < PARTS; i++)
        for (size_t e = 0; e < t->p.size[i]; e++)
            t->p.x64[i][e] += 1e-9 * test_uniform(&random);
}

static void add_gates(trial *t) {
    test_random random = {6};
    const size_t sizes[2] = {row_count(t), (size_t)(t->p.s.batch * t->p.s.keys * t->p.s.heads)};
    for (int i = 0; i < 2; i++) {
        t->gate_sums[i] = room(sizes[i], sizeof(double));
        test_fill_f64(&random, t->gate_sums[i], sizes[i]);
    }
}

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 7, 4, 2, 6, 6, 0, 0, 0, 0},
    {1, 9, 9, 2, 1, 8, 8, 1, 0, 3, 0},
    {2, 6, 8, 2, 2, 4, 4, 1, 5, 0, 1},
    {1, 4, 23, 2, 1, 6, 6, 1, 0, 11, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void each_scheme_agrees_with_the_definition(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int i = 0; i < LAYOUTS; i++) {
            const options none = {.softcap = 0};
            if (!test_scheme_attends(scheme, (gyre_causal)layouts[i].causal) || !test_scheme_tried(scheme, i, 2)) continue;
            trial t = scheme_trial(scheme, &layouts[i], &none, 3 + (uint64_t)i);
            add_digits(&t);
            check64(&t);
            free_trial(&t);
        }
}

static void each_option_agrees_with_the_definition(void **state) {
    (void)state;
    static const int schemes[] = {SCHEME_none, SCHEME_rope, SCHEME_alibi, SCHEME_shaw, SCHEME_t5, SCHEME_inkling};
    for (int bits = 1; bits < 32; bits++) {
        const layout s = {2, 6, 8, 4, 2, 6, 6, bits % 3, bits % 4 ? 0 : 5, 0, 0};
        const options o = options_from_bits(bits, (uint64_t)bits, &s);
        const int scheme = schemes[bits % 6];
        trial t = scheme_trial(scheme, &s, &o, 40 + (uint64_t)bits);
        if (bits & 16) add_gates(&t);
        add_digits(&t);
        check64(&t);
        free_trial(&t);
    }
}

/* -- laws -- */

static void check_same(const trial *t, const results *a, const results *b) {
    assert_memory_equal(a->out, b->out, t->p.out_size * sizeof(double));
    assert_memory_equal(a->lse, b->lse, row_count(t) * sizeof(double));
    for (int i = 0; i < 3; i++)
        assert_memory_equal(a->grad[i], b->grad[i], t->p.size[i] * sizeof(double));
}

/* Runs again, by threads or in the other order, and compares with r and with the gradients of tables in the trial. */
static void check_again(trial *t, const results *r, gyre_order order, const gyre_exec *exec) {
    results again = make_results(t);
    double *tables[PARTS];
    for (part i = TABLE_A; i <= LAST; i++) {
        tables[i] = t->p.table[i];
        t->p.table[i] = room(t->p.size[i], sizeof(double));
    }
    run64(t, &again, order, exec);
    check_same(t, r, &again);
    for (part i = TABLE_A; i <= LAST; i++) {
        assert_memory_equal(tables[i], t->p.table[i], t->p.size[i] * sizeof(double));
        free(t->p.table[i]);
        t->p.table[i] = tables[i];
    }
    free_results(&again);
}

static void same_for_any_threads_and_order(void **state) {
    (void)state;
    const layout s = {2, 9, 9, 4, 2, 6, 6, 1, 0, 0, 0};
    const options none = {.softcap = 0};
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 5, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        trial t = scheme_trial(scheme, &s, &none, 8);
        results one = make_results(&t);
        run64(&t, &one, GYRE_ORDER_FAST, NULL);
        check_again(&t, &one, GYRE_ORDER_FAST, &exec);
        check_again(&t, &one, GYRE_ORDER_FIXED, &exec);
        free_results(&one);
        free_trial(&t);
    }
    gyre_pool_free(pool);
}

/* The results of tokens first .. first + n - 1 alone, a sequence of their own. */
static void run_sequence(const trial *t, const attention_setup *packed, int64_t first, int64_t n, const results *r) {
    const layout *s = &t->p.s;
    const int64_t q = s->heads * s->dim, k = s->key_heads * s->dim;
    attention_setup own = *packed;
    own.q_starts = own.k_starts = NULL;
    own.q.data = t->p.x64[Q] + first * q, own.k.data = t->p.x64[K] + first * k, own.v.data = t->p.x64[V] + first * k;
    own.out.data = r->out + first * q, own.lse.data = r->lse + first * s->heads;
    own.q.shape[1] = own.k.shape[1] = own.v.shape[1] = own.out.shape[1] = own.lse.shape[1] = n;
    attend(&own, NULL);
    gyre_cview dout = gyre_const(own.out);
    dout.data = t->p.x64[DOUT] + first * q;
    const gyre_view dqkv[3] = {gyre_dense(r->grad[0] + first * q, GYRE_DTYPE_F64, 1, n, s->heads, s->dim),
                               gyre_dense(r->grad[1] + first * k, GYRE_DTYPE_F64, 1, n, s->key_heads, s->dim),
                               gyre_dense(r->grad[2] + first * k, GYRE_DTYPE_F64, 1, n, s->key_heads, s->dim)};
    differentiate(&own, &dout, dqkv, NULL, NULL);
    own.q.data = t->p.x64[Q] + (first + n - 1) * q; /* the last query alone, as in decoding */
    own.out.data = r->out + (first + n - 1) * q;
    own.q.shape[1] = own.out.shape[1] = own.lse.shape[1] = 1;
    own.q_pos.base = n - 1;
    own.lse.data = r->lse + (first + n - 1) * s->heads;
    attend(&own, NULL);
}

static void same_for_any_split(void **state) {
    (void)state;
    const layout s = {1, 12, 12, 2, 1, 6, 6, 1, 0, 0, 0};
    const options none = {.softcap = 0};
    const int64_t starts[4] = {0, 5, 6, 12};
    trial t = scheme_trial(SCHEME_alibi, &s, &none, 9);
    results all = make_results(&t), one = make_results(&t);
    attention_setup args = args64(&t, NULL, &all);
    args.q_pos = args.k_pos = (gyre_positions){.data = NULL, .dtype = GYRE_DTYPE_I64};
    args.q_starts = args.k_starts = starts;
    args.sequences = 3;
    attend(&args, NULL);
    gradient64(&t, &args, NULL, &all, NULL);
    for (int i = 0; i < 3; i++)
        run_sequence(&t, &args, starts[i], starts[i + 1] - starts[i], &one);
    check_same(&t, &one, &all);
    free_results(&all);
    free_results(&one);
    free_trial(&t);
}

/* The gradient for a query does not depend on the other queries of the call. */
static void same_gradient_of_queries_in_any_split(void **state) {
    (void)state;
    const layout s = {1, 12, 12, 2, 1, 6, 6, 1, 0, 0, 0};
    const options none = {.softcap = 0};
    const int64_t starts[4] = {0, 5, 6, 12};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        trial t = scheme_trial(scheme, &s, &none, 10);
        results all = make_results(&t), cut = make_results(&t);
        const gyre_tables tables = tables64(&t.p);
        const attention_setup args = args64(&t, &tables, &all);
        attend(&args, NULL);
        gradient64(&t, &args, NULL, &all, NULL);
        for (int i = 0; i < 3; i++) {
            const int64_t first = starts[i], n = starts[i + 1] - first, q = first * s.heads * args.q.shape[3];
            attention_setup own = args;
            own.q.data = t.p.x64[Q] + q;
            own.out.data = all.out + first * s.heads * s.value_dim;
            own.lse.data = all.lse + first * s.heads;
            own.q.shape[1] = own.out.shape[1] = own.lse.shape[1] = n;
            own.q_pos.data = t.p.q_at + first;
            gyre_cview dout = gyre_const(own.out);
            dout.data = t.p.x64[DOUT] + first * s.heads * s.value_dim;
            const gyre_view dqkv[3] = {gyre_dense(cut.grad[Q] + q, GYRE_DTYPE_F64, 1, n, s.heads, args.q.shape[3]),
                                       gyre_dense(cut.grad[K], GYRE_DTYPE_F64, 1, s.keys, s.key_heads, args.k.shape[3]),
                                       gyre_dense(cut.grad[V], GYRE_DTYPE_F64, 1, s.keys, s.key_heads, s.value_dim)};
            differentiate(&own, &dout, dqkv, NULL, NULL);
        }
        assert_memory_equal(cut.grad[Q], all.grad[Q], t.p.size[Q] * sizeof(double));
        free_results(&all);
        free_results(&cut);
        free_trial(&t);
    }
}

/* -- options of a batch: those of a call in float, which other tests judge -- */

typedef void (*option)(attention_setup *args);

static const int64_t two_first[2] = {1, 0}, two_end[2] = {7, 5}, two_lengths[2] = {40, 300};
static int64_t head_positions[4][16];

static void padded(attention_setup *args) {
    args->k_first = two_first, args->k_end = two_end, args->q_end = two_end;
    args->causal = GYRE_CAUSAL_BY_ORDER;
    args->window = 4, args->sinks = 1;
}
static void lengths(attention_setup *args) {
    args->context_lengths = two_lengths;
}
static void positions_by_head(attention_setup *args) {
    for (int i = 0; i < 64; i++)
        head_positions[i / 16][i % 16] = i % 16 % 8 * (1 + i / 16 / 2);
    args->q_pos = args->k_pos = (gyre_positions){head_positions, GYRE_DTYPE_I64, 0, 0, 8, 1, 0, 0};
    args->q_pos_head_stride = 16;
    args->k_pos_head_stride = 32;
}
static void dropped(attention_setup *args) {
    args->dropout = 0.3, args->seed = 11;
}
static void dropped_by_index(attention_setup *args) {
    static const gyre_positions index = {.dtype = GYRE_DTYPE_I64, .base = 3};
    args->q_index = args->k_index = &index;
    dropped(args);
}

/* The gradients of a call, as floats; grad: of floats or of doubles. */
static void check_close(const void *grad, gyre_dtype dtype, const double *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        test_close(test_get(grad, dtype, i), want[i], 2e-5L * (1 + fabsl((long double)want[i])), what);
}

static void check_option(const gyre_config *config, option set) {
    const layout s = {2, 8, 8, 4, 2, 6, 6, 1, 0, 0, 0};
    const options none = {.softcap = 0};
    trial t = make_trial(config, &s, &none, 12);
    results r = make_results(&t);
    const size_t pairs = row_count(&t) * (size_t)s.keys;
    float *weights[2] = {room(pairs, sizeof(float)), room(pairs, sizeof(float))};
    const gyre_tables tables[2] = {problem_tables(&t.p), tables64(&t.p)};
    attention_setup args[2] = {trial_args(&t, &tables[0]), args64(&t, &tables[1], &r)};
    const gyre_cview dout = gyre_cdense(t.p.x[DOUT], GYRE_DTYPE_F32, s.batch, s.queries, s.heads, s.value_dim);
    const gyre_view dqkv[3] = {gyre_dense(t.p.grad[Q], GYRE_DTYPE_F32, s.batch, s.queries, s.heads, s.dim),
                               gyre_dense(t.p.grad[K], GYRE_DTYPE_F32, s.batch, s.keys, s.key_heads, s.dim),
                               gyre_dense(t.p.grad[V], GYRE_DTYPE_F32, s.batch, s.keys, s.key_heads, s.value_dim)};
    for (int i = 0; i < 2; i++) {
        set(&args[i]);
        args[i].weights = gyre_dense(weights[i], GYRE_DTYPE_F32, s.batch, s.queries, s.heads, s.keys);
        attend(&args[i], NULL);
    }
    differentiate(&args[0], &dout, dqkv, NULL, NULL);
    gradient64(&t, &args[1], NULL, &r, NULL);
    check_close(t.p.out, GYRE_DTYPE_F32, r.out, t.p.out_size, "out");
    for (int i = 0; i < 3; i++)
        check_close(t.p.grad[i], GYRE_DTYPE_F32, r.grad[i], t.p.size[i], part_names[i]);
    for (size_t i = 0; i < pairs; i++)
        test_close((long double)weights[0][i], (long double)weights[1][i], 2e-6L, "weights");
    for (int i = 0; i < 2; i++)
        free(weights[i]);
    free_results(&r);
    free_trial(&t);
}

static void options_of_batches_are_those_of_floats(void **state) {
    (void)state;
    static const option all[] = {padded, lengths, positions_by_head, dropped, dropped_by_index};
    static const int schemes[] = {SCHEME_rope, SCHEME_shaw, SCHEME_alibi};
    gyre_config by_length = test_rope_config(6, GYRE_LAYOUT_HALF); /* queries of a sequence have several lengths */
    by_length.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    by_length.rope.factor = 2;
    by_length.trained_length = 3;
    by_length.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    by_length.length_block = 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int k = 0; k < 3; k++) {
            const gyre_config config = test_scheme_config(schemes[k], 4, 6, 8);
            check_option(&config, all[i]);
        }
        check_option(&by_length, all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scheme_agrees_with_the_definition), cmocka_unit_test(each_option_agrees_with_the_definition),
        cmocka_unit_test(same_for_any_threads_and_order),         cmocka_unit_test(same_for_any_split),
        cmocka_unit_test(same_gradient_of_queries_in_any_split),  cmocka_unit_test(options_of_batches_are_those_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
