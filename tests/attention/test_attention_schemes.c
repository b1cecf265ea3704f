/* test_attention_schemes.c: attention and every gradient against the definition, and laws, for every scheme of
 * tests/test_schemes.def. */
#include "kernels/kernels.h"
#include "naive_attention_tables.h"

#include "run_each_tier.h"

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 7, 4, 2, 6, 6, 0, 0, 0, 0},       {1, 9, 9, 2, 1, 8, 8, 1, 0, 3, 0},      {2, 6, 8, 2, 2, 4, 4, 1, 5, 0, 1},
    {1, 70, 150, 2, 1, 20, 20, 1, 0, 11, 0}, {1, 40, 140, 2, 2, 16, 16, 0, 0, 0, 1},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, SMALL = 3 };

static void agrees_with_definition(void **state) {
    const char *tier = *state;
    const int used = tier_or_skip(tier) == gyre_kernels_select(); /* the tier used on this machine gets the most tests */
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int i = 0; i < LAYOUTS; i++) {
            if (!test_scheme_attends(scheme, (gyre_causal)layouts[i].causal)) continue;
            problem p = scheme_problem(scheme, &layouts[i], 3 + (uint64_t)i);
            check_problem(&p, i < SMALL ? used ? 400 : 60 : used ? 5 : 1);
            free_problem(&p);
        }
    unsetenv("GYRE_CPU");
}

static void same_for_any_threads(void **state) {
    (void)state;
    const layout s = {3, 100, 150, 6, 2, 16, 16, 1, 0, 0, 0};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        problem one = scheme_problem(scheme, &s, 9), many = scheme_problem(scheme, &s, 9);
        run_problem(&one, NULL);
        for (int threads = 2; threads <= 7; threads += 5) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            for (part i = Q; i <= LAST; i++)
                memset(many.table[i], 0, many.size[i] * sizeof(double));
            run_problem(&many, &exec);
            assert_same_results(&one, &many);
            gyre_pool_free(pool);
        }
        free_problem(&one);
        free_problem(&many);
    }
}

/* Adding the same number to every position changes no bit, unless queries and keys turn. */
static void only_distances_matter(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const unsigned traits = test_schemes[scheme].oracle->traits;
        layout s = {1, 50, 90, 2, 1, 16, 16, 1, 0, 0, 0};
        const gyre_config config = test_scheme_config(scheme, s.heads, s.dim, 1024);
        problem here = make_problem(&config, &s, 21);
        s.start = traits & SCHEME_FROM_ZERO ? 500 : -123456789;
        problem there = make_problem(&config, &s, 21);
        if (test_scheme_attends(scheme, GYRE_CAUSAL_BY_POSITION) && !(traits & SCHEME_ABSOLUTE) &&
            !(gyre_encoding_places(here.encoding) & GYRE_PLACE_QUERY_KEY)) {
            run_problem(&here, NULL);
            run_problem(&there, NULL);
            assert_memory_equal(here.out, there.out, here.out_size * sizeof(float));
            for (part i = TABLE_A; i <= LAST; i++)
                assert_memory_equal(here.table[i], there.table[i], here.size[i] * sizeof(double));
        }
        free_problem(&here);
        free_problem(&there);
    }
}

/* 1: a row that a table has for a key after the query, and for no other key. */
static int only_later(const gyre_encoding *encoding, int64_t *row) {
    int64_t other;
    if (gyre_encoding_row(encoding, 0, 2, row)) return 0;
    for (int64_t n = 0; n < 40; n++)
        if (gyre_encoding_row(encoding, 39, n, &other) || other == *row) return 0;
    return 1;
}

/* A masked key is NaN, and so is a table row that no visible pair uses. */
static void masked_nan_has_no_effect(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const layout s = {1, 40, 40, 1, 1, 16, 16, 1, 0, 0, 0};
        problem p = scheme_problem(scheme, &s, 2);
        for (part i = TABLE_A; i <= BIAS; i++) {
            int64_t shape[4], row;
            table_shape(&p, i, shape);
            if (shape[0] == 0 || !only_later(p.encoding, &row)) continue;
            for (int64_t h = 0; h < shape[1]; h++)
                for (int64_t c = 0; c < shape[3]; c++)
                    p.x[i][(h * shape[2] + row) * shape[3] + c] = NAN;
        }
        for (int64_t c = 0; c < 16; c++)
            p.x[K][30 * 16 + c] = p.x[V][30 * 16 + c] = NAN;
        run_problem(&p, NULL);
        for (int64_t i = 0; i < 30 * 16; i++)
            assert_true(isfinite(p.out[i]) && isfinite(p.grad[Q][i]));
        for (int64_t i = 30 * 16; i < 40 * 16; i++)
            assert_true(isnan(p.out[i]));
        free_problem(&p);
    }
}

/* -- numbers on scores in memory -- */

/* b of a pair, which queries and keys do not change. */
static double naive_bias(const problem *p, int64_t h, int64_t m, int64_t n) {
    const scheme_pair at = {h, m, n, p->x64[Q], p->x64[K]};
    return scheme_terms_of(&p->scheme, &at, NULL).bias;
}

static void bias_without_attention(void **state) {
    (void)state;
    enum { QUERIES = 6, KEYS = 9, HEADS = 3, N = 2 * QUERIES * HEADS * KEYS };
    const layout s = {2, QUERIES, KEYS, HEADS, HEADS, 4, 4, 0, 0, 5, 1};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        problem p = scheme_problem(scheme, &s, 77);
        const gyre_tables tables = problem_tables(&p);
        const gyre_table_gradients gradients = problem_gradients(&p);
        const gyre_positions q = {p.q_at, GYRE_DTYPE_I64, 0, 0, QUERIES, 1, 0, 0},
                             k = {p.k_at, GYRE_DTYPE_I64, 0, 0, KEYS, 1, 0, 0};
        test_random random = {4};
        double scores[N], weight[N], was[N];
        test_fill_f64(&random, scores, N);
        test_fill_f64(&random, weight, N);
        memcpy(was, scores, sizeof was);
        const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 2, QUERIES, HEADS, KEYS);
        const gyre_cview d = gyre_cdense(weight, GYRE_DTYPE_F64, 2, QUERIES, HEADS, KEYS);
        if (!(p.scheme.oracle->traits & SCHEME_NUMBERS)) {
            assert_int_equal(
                gyre_add_bias(p.encoding,
                              GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &q, .keys = &k, .scores = view),
                              NULL, NULL),
                GYRE_EUNSUPPORTED);
            assert_int_equal(gyre_add_bias_gradient(
                                 p.encoding, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &q, .keys = &k), &d,
                                 &gradients, NULL, NULL),
                             GYRE_EUNSUPPORTED);
            free_problem(&p);
            continue;
        }
        if (p.size[BIAS] > 0)
            assert_int_equal(gyre_add_bias(p.encoding,
                                           GYRE_ARGS(gyre_add_bias_args, .queries = &q, .keys = &k, .scores = view), NULL,
                                           NULL),
                             GYRE_EINVAL);
        assert_memory_equal(scores, was, sizeof was);
        assert_ok(gyre_add_bias(p.encoding,
                                GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &q, .keys = &k, .scores = view),
                                NULL, NULL));
        assert_ok(gyre_add_bias_gradient(p.encoding,
                                         GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &q, .keys = &k), &d,
                                         &gradients, NULL, NULL));
        for (int i = 0; i < N; i++) {
            const int64_t row = i / (HEADS * KEYS), h = i / KEYS % HEADS, n = p.k_at[row / QUERIES * KEYS + i % KEYS];
            test_close(scores[i], was[i] + naive_bias(&p, h, p.q_at[row], n), 1e-14L, "score");
        }
        for (size_t e = 0; e < p.size[BIAS]; e++) {
            const double original = p.x64[BIAS][e];
            double want = 0;
            for (int i = 0; i < N; i++) {
                const int64_t row = i / (HEADS * KEYS), h = i / KEYS % HEADS, n = p.k_at[row / QUERIES * KEYS + i % KEYS];
                for (int side = -1; side <= 1; side += 2) {
                    p.x64[BIAS][e] = original + side * 1e-6;
                    want += side * weight[i] * naive_bias(&p, h, p.q_at[row], n) / 2e-6;
                }
                p.x64[BIAS][e] = original;
            }
            test_close(p.table[BIAS][e], want, 1e-7L * (1 + fabsl((long double)want)), "bias table");
        }
        free_problem(&p);
    }
}

/* -- bad input -- */

/* A missing, mistyped or misshapen table is refused before anything is written. */
static void refuses_bad_tables(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (part i = TABLE_A; i <= LAST; i++) {
            const layout s = {1, 5, 7, 2, 1, 8, 8, 1, 0, 0, 0};
            problem p = scheme_problem(scheme, &s, 1);
            if (p.size[i] == 0) {
                free_problem(&p);
                continue;
            }
            gyre_tables tables = problem_tables(&p);
            attention_setup args = problem_args(&p, &tables);
            gyre_cview *const views[PARTS] = {
                [TABLE_A] = &tables.query, [TABLE_B] = &tables.key,          [TABLE_V] = &tables.value,
                [BIAS] = &tables.bias,     [CONTENT] = &tables.content_bias, [POSITION] = &tables.position_bias};
            gyre_cview *view = views[i];
            const gyre_cview original = *view;
            const size_t bytes = attention_scratch(&args, 0, NULL);
            void *scratch = scratch_for(bytes);
            memset(p.out, 0x5A, p.out_size * sizeof *p.out);
            view->data = NULL;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
            *view = original;
            view->shape[2]++;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_ESHAPE);
            *view = original;
            view->dtype = GYRE_DTYPE_BF16;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EDTYPE);
            *view = original;
            args.tables = NULL;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
            for (size_t b = 0; b < p.out_size * sizeof *p.out; b++)
                assert_int_equal(((unsigned char *)p.out)[b], 0x5A);
            args.tables = &tables;
            assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
            free(scratch);
            free_problem(&p);
        }
}

/* With u and v of zeros and one table for q and k, Transformer-XL is BERT's relative_key with its rows in reverse. */
static void transformer_xl_without_biases(void **state) {
    (void)state;
    const gyre_config xl = WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 29, .bidirectional = 1);
    const gyre_config bert = WITH(GYRE_KIND_BERT, .max_positions = 30);
    const layout s = {1, 30, 30, 1, 1, 8, 8, 0, 0, 0, 0};
    problem a = make_problem(&xl, &s, 6), b = make_problem(&bert, &s, 6);
    for (part i = Q; i <= TABLE_A; i++)
        memcpy(a.x[i], b.x[i], b.size[i] * sizeof(float));
    memcpy(a.x[DOUT], b.x[DOUT], b.size[DOUT] * sizeof(float));
    memset(a.x[CONTENT], 0, a.size[CONTENT] * sizeof(float));
    memset(a.x[POSITION], 0, a.size[POSITION] * sizeof(float));
    run_problem(&a, NULL);
    run_problem(&b, NULL);
    for (size_t i = 0; i < a.out_size; i++)
        test_close((long double)a.out[i], (long double)b.out[i], 1e-6L, "out");
    for (size_t i = 0; i < a.size[TABLE_A]; i++)
        test_close(a.table[TABLE_A][i], b.table[TABLE_A][i], 1e-5L, "table");
    free_problem(&a);
    free_problem(&b);
}

/* Inkling's keys lack the channels of r; where a view has them, they are not read, and their gradient is 0. */
static void keys_without_the_vectors_of_queries(void **state) {
    (void)state;
    enum { OWN = 3, DIM = 16, HEADS = 2, KEYS = 150 };
    const gyre_config config = WITH(GYRE_KIND_INKLING, .max_distance = 40, .relative_channels = OWN);
    const int64_t some[] = {1, 7, KEYS};
    for (int i = 0; i < 6; i++) {
        const layout s = {2, some[i % 3], KEYS, 2 * HEADS, HEADS, DIM, 8, 1, 0, -20, 0};
        problem wide = make_problem(&config, &s, 3), narrow = make_problem(&config, &s, 3);
        for (size_t e = 0; e < wide.size[K]; e++)
            if (e % DIM >= DIM - OWN) wide.x[K][e] = NAN;
        const gyre_tables tables = problem_tables(&wide);
        const gyre_table_gradients of_wide = problem_gradients(&wide), of_narrow = problem_gradients(&narrow);
        attention_setup a = problem_args(&wide, &tables), b = problem_args(&narrow, &tables);
        a.order = b.order = i < 3 ? GYRE_ORDER_FAST : GYRE_ORDER_FIXED;
        b.k.shape[3] = DIM - OWN;
        const gyre_cview dout = gyre_cdense(wide.x[DOUT], GYRE_DTYPE_F32, s.batch, s.queries, s.heads, s.value_dim);
        gyre_view dqkv[2][3];
        for (int j = 0; j < 2; j++) {
            problem *p = j ? &narrow : &wide;
            dqkv[j][0] = gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s.batch, s.queries, s.heads, DIM);
            dqkv[j][1] = gyre_dense(p->grad[K], GYRE_DTYPE_F32, s.batch, s.keys, s.key_heads, DIM);
            dqkv[j][2] = gyre_dense(p->grad[V], GYRE_DTYPE_F32, s.batch, s.keys, s.key_heads, s.value_dim);
        }
        dqkv[1][1].shape[3] = DIM - OWN;
        attend(&a, NULL);
        attend(&b, NULL);
        differentiate(&a, &dout, dqkv[0], &of_wide, NULL);
        differentiate(&b, &dout, dqkv[1], &of_narrow, NULL);
        for (size_t e = 0; e < narrow.size[K]; e++)
            if (e % DIM >= DIM - OWN) assert_true(wide.grad[K][e] == 0 && narrow.grad[K][e] == 0);
        assert_same_results(&wide, &narrow);
        b.k.shape[3] = DIM - OWN - 1;
        assert_int_equal(run_attention(&b, (gyre_scratch){NULL, 0}, NULL, NULL), GYRE_ESHAPE);
        free_problem(&wide);
        free_problem(&narrow);
    }
}

/* Scratch grows linearly with the tokens and with the rows of the tables, not with their product or the square of the
 * tokens. */
static void scratch_is_linear(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int gradient = 0; gradient < 2; gradient++) {
            size_t bytes[2];
            for (int i = 0; i < 2; i++) {
                const int64_t n = 4096 << i;
                const gyre_config config = test_scheme_config(scheme, 12, 64, n);
                gyre_encoding *e = test_encoding(&config);
                attention_setup args = GYRE_INIT(attention_setup);
                args.encoding = e;
                args.causal = 1;
                args.q = args.k = args.v = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, n, 12, 64);
                args.out = gyre_dense(NULL, GYRE_DTYPE_F32, 1, n, 12, 64);
                bytes[i] = attention_scratch(&args, gradient, NULL);
                assert_true(bytes[i] > 0);
                assert_true(bytes[i] < (size_t)n * 64 * sizeof(float) * 20);
                gyre_encoding_free(e);
            }
            assert_true(bytes[1] < 2 * bytes[0] + 4096);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_definition),
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(only_distances_matter),
        cmocka_unit_test(masked_nan_has_no_effect),
        cmocka_unit_test(bias_without_attention),
        cmocka_unit_test(refuses_bad_tables),
        cmocka_unit_test(transformer_xl_without_biases),
        cmocka_unit_test(keys_without_the_vectors_of_queries),
        cmocka_unit_test(scratch_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
