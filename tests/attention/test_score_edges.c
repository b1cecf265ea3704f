/* test_score_edges.c: schemes of scores at large distances, with empty views, with nonfinite tables and at the ends of
 * rows. */
#include "attention_setup.h"
#include "naive_attention_tables.h"
#include <fenv.h>

/* -- far -- */

enum { FAR_KEYS = 9 };
static const int64_t far_k[FAR_KEYS] = {2147483648, 2147483647, 2147483000, 2000000000, 1000000, 1000, 0, -1, -2147483648};

static long double kerple(const double r[2], gyre_decay decay, long double d) {
    return decay == GYRE_DECAY_LOG ? -r[0] * log1pl(r[1] * d) : -r[0] * powl(d, r[1]);
}

/* d b / d r of a key that far, in long double. */
static long double kerple_slope(const double r[2], gyre_decay decay, int which, long double d) {
    if (decay == GYRE_DECAY_LOG) return which == 0 ? -log1pl(r[1] * d) : -r[0] * d / (1 + r[1] * d);
    return which == 0 ? -powl(d, r[1]) : d > 0 ? -r[0] * powl(d, r[1]) * logl(d) : 0;
}

static void kerple_far_away(void **state) {
    (void)state;
    for (int decay = GYRE_DECAY_LOG; decay <= GYRE_DECAY_POWER; decay++) {
        gyre_config config = WITH(GYRE_KIND_KERPLE, .decay = (gyre_decay)decay);
        config.heads = 1;
        gyre_encoding *e = test_encoding(&config);
        const double r[2] = {0.7, decay == GYRE_DECAY_LOG ? 3.0 : 1.75};
        double scores[FAR_KEYS] = {0}, d[FAR_KEYS], got[2] = {0};
        const gyre_positions query = {NULL, GYRE_DTYPE_I64, 2147483648, 0, 0, 0, 0, 0},
                             keys = {far_k, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        const gyre_tables tables = {.bias = gyre_cdense(r, GYRE_DTYPE_F64, 1, 1, 2, 1)};
        const gyre_table_gradients gradients = {.bias = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, 2, 1)};
        const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, 1, FAR_KEYS);
        const gyre_cview dscores = gyre_cdense(d, GYRE_DTYPE_F64, 1, 1, 1, FAR_KEYS);
        test_random random = {3};
        test_fill_f64(&random, d, FAR_KEYS);
        assert_ok(gyre_add_bias(
            e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &query, .keys = &keys, .scores = view), NULL,
            NULL));
        assert_ok(gyre_add_bias_gradient(e,
                                         GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &query, .keys = &keys),
                                         &dscores, &gradients, NULL, NULL));
        for (int j = 0; j < FAR_KEYS; j++) {
            const long double want = kerple(r, (gyre_decay)decay, 2147483648.0L - far_k[j]);
            test_close(scores[j], want, 1e-14L * fabsl(want), "score");
        }
        for (int which = 0; which < 2; which++) {
            long double want = 0, size = 0;
            for (int j = 0; j < FAR_KEYS; j++) {
                const long double term = d[j] * kerple_slope(r, (gyre_decay)decay, which, 2147483648.0L - far_k[j]);
                want += term;
                size += fabsl(term);
            }
            test_close(got[which], want, 1e-14L * size, "gradient");
        }
        gyre_encoding_free(e);
    }
}

/* The same in attention, with queries and keys 10^9 apart. */
static void kerple_far_away_in_attention(void **state) {
    (void)state;
    static const int64_t q[4] = {1000000007, 12, 1000000, 3};
    static const int64_t k[8] = {1000000000, 0, 1, 2, 999999, 11, 999999999, 1000000006};
    for (int decay = GYRE_DECAY_LOG; decay <= GYRE_DECAY_POWER; decay++) {
        const gyre_config config = WITH(GYRE_KIND_KERPLE, .decay = (gyre_decay)decay);
        const layout s = {1, 4, 8, 2, 1, 8, 8, 0, 0, 0, 0};
        problem p = make_problem(&config, &s, 8);
        memcpy(p.q_at, q, sizeof q);
        memcpy(p.k_at, k, sizeof k);
        for (size_t i = 0; i < p.size[BIAS]; i++) {
            p.x[BIAS][i] *= 0.1f; /* so that distant keys still have some weight */
            p.x64[BIAS][i] = (double)p.x[BIAS][i];
        }
        check_problem(&p, 400);
        free_problem(&p);
    }
}

/* -- rows past the last distance -- */

/* v1 clamps m - n + span to 0 .. 2 span - 1. v2 and v3 clamp the bucket, whose last is that of distance max - 1. */
static void deberta_beyond_the_table(void **state) {
    (void)state;
    enum { MOST = 48, BUCKETS = 16 };
    for (int buckets = 0; buckets <= BUCKETS; buckets += BUCKETS) {
        gyre_config config = WITH(GYRE_KIND_DEBERTA, .max_distance = MOST, .position_buckets = buckets);
        config.heads = config.head_dim = 2;
        gyre_encoding *e = test_encoding(&config);
        const int64_t span = buckets ? buckets : MOST, middle = buckets / 2;
        for (int64_t d = -3 * MOST; d <= 3 * MOST; d++) { /* query minus key */
            const int64_t far = d < 0 ? -d : d;
            int64_t want = d, row;
            if (buckets && far > middle) {
                const long double share = logl((long double)far / middle) / logl((MOST - 1) / (long double)middle);
                const int64_t bucket = (int64_t)ceill(share * (middle - 1) - 1e-12L) + middle;
                want = d < 0 ? -bucket : bucket;
            }
            want += span;
            want = want < 0 ? 0 : want > 2 * span - 1 ? 2 * span - 1 : want;
            assert_ok(gyre_encoding_row(e, d, 0, &row));
            assert_int_equal(row, want);
        }
        int64_t row;
        assert_ok(gyre_encoding_row(e, MOST, 0, &row)); /* has the row of MOST - 1; -MOST has its own */
        assert_int_equal(row, 2 * span - 1);
        assert_ok(gyre_encoding_row(e, 0, MOST, &row));
        assert_int_equal(row, 0);
        assert_ok(gyre_encoding_row(e, 0, MOST - 1, &row));
        assert_int_equal(row, 1);
        gyre_encoding_free(e);
    }
}

/* -- nothing to do -- */

static void no_scores_no_gradient(void **state) {
    (void)state;
    static const gyre_config configs[] = {WITH(GYRE_KIND_T5, .buckets = 8), WITH(GYRE_KIND_KERPLE, .decay = GYRE_DECAY_LOG),
                                          WITH(GYRE_KIND_FIRE, .hidden_units = 2)};
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const int64_t shapes[][3] = {{0, 2, 3}, {2, 0, 3}, {2, 2, 0}, {(int64_t)1 << 62, 4, 0}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        gyre_config config = configs[i];
        int64_t shape[4];
        config.heads = 2;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_table_shape(e, GYRE_TABLE_BIAS, shape));
        double table[64] = {1}, got[64] = {5, 6}, before[64] = {5, 6};
        const gyre_tables tables = {.bias = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, shape[2], 2)};
        const gyre_table_gradients gradients = {.bias = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, shape[2], 2)};
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
            const gyre_cview none = gyre_cdense(NULL, GYRE_DTYPE_F32, shapes[j][0], shapes[j][1], 2, shapes[j][2]);
            assert_ok(
                gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero),
                                       &none, &gradients, NULL, NULL));
        }
        assert_memory_equal(got, before, sizeof got);
        const gyre_cview some = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 2, 1);
        assert_int_equal(
            gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero),
                                   &some, NULL, NULL, NULL),
            GYRE_EINVAL);
        gyre_encoding_free(e);
    }
    gyre_config alibi = WITH(GYRE_KIND_ALIBI, .buckets = 0); /* nothing is trained: there is nothing to write */
    alibi.heads = 2;
    gyre_encoding *e = test_encoding(&alibi);
    const double d[2] = {1, 1};
    const gyre_cview some = gyre_cdense(d, GYRE_DTYPE_F64, 1, 1, 2, 1);
    assert_ok(
        gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .queries = &zero, .keys = &zero), &some, NULL, NULL, NULL));
    gyre_encoding_free(e);
}

/* -- tables that hold no numbers -- */

/* An infinity in a row of the value table reaches only queries that see a key at that distance, in its channel. */
static void infinite_value_rows(void **state) {
    (void)state;
    const gyre_config config = WITH(GYRE_KIND_SHAW, .max_distance = 3);
    const layout s = {1, 150, 150, 1, 1, 16, 16, 1, 5, 0, 0};
    problem p = make_problem(&config, &s, 4);
    const gyre_tables tables = problem_tables(&p);
    attention_setup args = problem_args(&p, &tables);
    naive(&p);
    p.x[TABLE_V][0 * 16 + 7] = INFINITY; /* keys 3 and 4 before the query */
    p.x[TABLE_V][6 * 16 + 2] = NAN;      /* keys after it, which no query sees */
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    for (int64_t i = 0; i < 150; i++)
        for (int64_t c = 0; c < 16; c++)
            if (c == 7 && i >= 3)
                assert_true(p.out[i * 16 + c] == INFINITY);
            else
                test_close((long double)p.out[i * 16 + c], p.out64[i * 16 + c], 3e-6L, "out");
    free_problem(&p);
}

/* -- places and sides a scheme does not know -- */

static void reports_which_sides_exist(void **state) {
    (void)state;
    static const struct {
        gyre_config config;
        const char *text;
    } bad[] = {
        {WITH(GYRE_KIND_ALIBI, .terms = GYRE_TERM_VALUE), "score.terms: 0x4; alibi has tables on no side (gyre_config)"},
        {WITH(GYRE_KIND_T5, .buckets = 8, .terms = 1), "score.terms: 0x1; t5 has tables on no side (gyre_config)"},
        {WITH(GYRE_KIND_KERPLE, .terms = 2), "score.terms: 0x2; kerple has tables on no side (gyre_config)"},
        {WITH(GYRE_KIND_SHAW, .max_distance = 2, .terms = 2),
         "score.terms: 0x2; shaw has tables on the query and the value (gyre_config)"},
        {WITH(GYRE_KIND_BERT, .max_positions = 2, .terms = 8),
         "score.terms: 0x8; bert has tables on the query and the key (gyre_config)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gyre_config config = bad[i].config;
        gyre_encoding *e = NULL;
        gyre_error err = {0, ""};
        config.heads = config.head_dim = 2;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
        assert_null(e);
        assert_string_equal(err.text, bad[i].text);
    }
}

static void schemes_without_scores_are_refused(void **state) {
    (void)state;
    static const gyre_config configs[] = {
        WITH(GYRE_KIND_ALIBI, .buckets = 0),        WITH(GYRE_KIND_T5, .buckets = 8),
        WITH(GYRE_KIND_KERPLE, .buckets = 0),       WITH(GYRE_KIND_SHAW, .max_distance = 2),
        WITH(GYRE_KIND_NEZHA, .max_distance = 2),   WITH(GYRE_KIND_BERT, .max_positions = 9),
        WITH(GYRE_KIND_DEBERTA, .max_distance = 4), WITH(GYRE_KIND_FIRE, .hidden_units = 2),
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        gyre_config config = configs[i];
        float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};
        const float was[4] = {5, 6, 7, 8};
        double frequency[8] = {3};
        config.heads = config.head_dim = 2;
        gyre_encoding *e = test_encoding(&config);
        const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
        const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 2, 1, 2);
        const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 2, 1, 2);
        assert_int_equal(
            gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &zero, .in = in, .out = out), NULL, NULL),
            GYRE_EUNSUPPORTED);
        assert_int_equal(gyre_encoding_frequencies(e, 0, frequency, NULL), GYRE_EUNSUPPORTED);
        if (config.kind != GYRE_KIND_ALIBI) assert_int_equal(gyre_encoding_slopes(e, 0, frequency), GYRE_EUNSUPPORTED);
        assert_memory_equal(y, was, sizeof y);
        assert_true(frequency[0] == 3);
        gyre_encoding_free(e);
    }
}

/* The larger bias is that of the nearest key on the flatter side, however distant: differences of 0.001 next to 20000 must
 * show. */
static void two_slopes_far_away(void **state) {
    (void)state;
    const double before = 10, after = 0.001;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 1;
    config.score.slopes = &before;
    config.score.slopes_after = &after;
    gyre_encoding *e = test_encoding(&config);
    const int64_t at[5] = {-10000000, 20000000, 20000001, 20000002, 20003000};
    const float q[1] = {0}, k[5] = {0}, v[5] = {9, 1, 2, 3, 4};
    float out[1];
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, 1);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, 5, 1, 1);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, 5, 1, 1);
    args.k_pos = (gyre_positions){at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, 1);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    double sum = 0, weighted = 0;
    for (int j = 1; j < 5; j++) { /* the first key is 10^8 below the others */
        const double weight = exp(-after * (double)(at[j] - at[1]));
        sum += weight;
        weighted += weight * (double)v[j];
    }
    test_close(out[0], weighted / sum, 1e-6, "two slopes");
    free(scratch);
    gyre_encoding_free(e);
}

/* A float cannot count beyond 2^24 by ones. */
static void float_gradient_accumulates(void **state) {
    (void)state;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_T5;
    config.heads = 1;
    config.score.buckets = 4;
    gyre_encoding *e = test_encoding(&config);
    float bias[4] = {0}, gradient[4] = {0x1p24F, 0, 0, 0}, dscores[64];
    for (int i = 0; i < 64; i++)
        dscores[i] = 1;
    const gyre_tables tables = {.bias = gyre_cdense(bias, GYRE_DTYPE_F32, 1, 1, 4, 1)};
    const gyre_table_gradients gradients = {.bias = gyre_dense(gradient, GYRE_DTYPE_F32, 1, 1, 4, 1)};
    const gyre_positions here = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_cview ds = gyre_cdense(dscores, GYRE_DTYPE_F32, 1, 1, 1, 64);
    /* all keys at the query or after it */
    assert_ok(gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &here, .keys = &here),
                                     &ds, &gradients, NULL, NULL));
    assert_true(gradient[0] == 0x1p24F + 64);
    gyre_encoding_free(e);
}

/* v of Transformer-XL is infinite: rows of distances that no query sees still get no gradient. */
static void infinite_bias_affects_only_its_rows(void **state) {
    (void)state;
    enum { N = 4, D = 16, CLAMP = 12, ROWS = 2 * CLAMP + 1 };
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_TRANSFORMER_XL;
    config.heads = 1;
    config.head_dim = D;
    config.score.max_distance = CLAMP;
    config.score.bidirectional = 1;
    gyre_encoding *e = test_encoding(&config);
    static float x[N * D], r[ROWS * D], u[D], v[D], out[N * D], lse[N], d[3][N * D];
    static double dr[ROWS * D];
    test_random random = {3};
    test_fill(&random, x, N * D);
    for (int c = 0; c < D; c++)
        v[c] = INFINITY;
    const gyre_tables tables = {.query = gyre_cdense(r, GYRE_DTYPE_F32, 1, 1, ROWS, D),
                                .content_bias = gyre_cdense(u, GYRE_DTYPE_F32, 1, 1, 1, D),
                                .position_bias = gyre_cdense(v, GYRE_DTYPE_F32, 1, 1, 1, D)};
    const gyre_table_gradients gradients = {.query = gyre_dense(dr, GYRE_DTYPE_F64, 1, 1, ROWS, D)};
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.tables = &tables;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q = args.k = args.v = gyre_cdense(x, GYRE_DTYPE_F32, 1, N, 1, D);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, 1, D);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, N, 1, 1);
    const gyre_cview dout = gyre_cdense(x, GYRE_DTYPE_F32, 1, N, 1, D);
    const gyre_view dqkv[3] = {gyre_dense(d[0], GYRE_DTYPE_F32, 1, N, 1, D), gyre_dense(d[1], GYRE_DTYPE_F32, 1, N, 1, D),
                               gyre_dense(d[2], GYRE_DTYPE_F32, 1, N, 1, D)};
    const size_t bytes = attention_scratch(&args, 1, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    assert_ok(run_attention_gradient(
        &args,
        GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2], .tables = &gradients),
        (gyre_scratch){scratch, bytes}, NULL, NULL));
    for (int64_t m = 0; m < N; m++)
        for (int64_t n = m + 1; n < N; n++) {
            int64_t row;
            assert_ok(gyre_encoding_row(e, m, n, &row));
            for (int c = 0; c < D; c++)
                assert_true(dr[row * D + c] == 0);
        }
    free(scratch);
    gyre_encoding_free(e);
}

/* Many processors take a hundred cycles for a subnormal result.  Far keys have tiny weights, so they would be common. */
static void alibi_has_no_subnormal_products(void **state) {
    enum { N = 300, D = 16, HEADS = 8 };
    (void)state;
    static float x[N * HEADS * D], out[N * HEADS * D];
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = HEADS;
    gyre_encoding *e = test_encoding(&config);
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q = args.k = args.v = gyre_cdense(x, GYRE_DTYPE_F32, 1, N, HEADS, D);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, HEADS, D);
    for (int i = 0; i < N * HEADS * D; i++) /* exact, so that no product is small by itself */
        x[i] = (float)(i * 7 % 9 - 4) / 4;
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    feclearexcept(FE_ALL_EXCEPT);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    assert_false(fetestexcept(FE_UNDERFLOW));
    free(scratch);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_slopes_far_away),
        cmocka_unit_test(float_gradient_accumulates),
        cmocka_unit_test(infinite_bias_affects_only_its_rows),
        cmocka_unit_test(kerple_far_away),
        cmocka_unit_test(kerple_far_away_in_attention),
        cmocka_unit_test(deberta_beyond_the_table),
        cmocka_unit_test(no_scores_no_gradient),
        cmocka_unit_test(infinite_value_rows),
        cmocka_unit_test(alibi_has_no_subnormal_products),
        cmocka_unit_test(reports_which_sides_exist),
        cmocka_unit_test(schemes_without_scores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
