/* test_transformer_xl.c: rows, tables and refusals of Transformer-XL, and the sinusoid of its distances. */
#include "naive_attention_tables.h"

static gyre_encoding *transformer_xl(int64_t clamp, int bidirectional) {
    gyre_config config = WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = clamp, .bidirectional = bidirectional);
    config.heads = 3;
    config.head_dim = 4;
    return test_encoding(&config);
}

static void shape_is(const gyre_encoding *e, gyre_table which, int64_t batch, int64_t heads, int64_t rows,
                     int64_t channels) {
    int64_t shape[4];
    const int64_t want[4] = {batch, heads, rows, channels};
    assert_ok(gyre_encoding_table_shape(e, which, shape));
    assert_memory_equal(shape, want, sizeof want);
}

static void rows_and_tables(void **state) {
    (void)state;
    enum { CLAMP = 5 };
    for (int both = 0; both < 2; both++) {
        gyre_encoding *e = transformer_xl(CLAMP, both);
        assert_int_equal(gyre_encoding_places(e), GYRE_PLACE_SCORE);
        shape_is(e, GYRE_TABLE_QUERY, 1, 3, both ? 2 * CLAMP + 1 : CLAMP + 1, 4);
        shape_is(e, GYRE_TABLE_CONTENT_BIAS, 1, 3, 1, 4);
        shape_is(e, GYRE_TABLE_POSITION_BIAS, 1, 3, 1, 4);
        shape_is(e, GYRE_TABLE_KEY, 0, 0, 0, 0);
        shape_is(e, GYRE_TABLE_VALUE, 0, 0, 0, 0);
        shape_is(e, GYRE_TABLE_BIAS, 0, 0, 0, 0);
        for (int64_t m = -9; m <= 9; m++)
            for (int64_t n = -9; n <= 9; n++) {
                int64_t row, want = m - n > CLAMP ? CLAMP : m - n;
                want = both ? (want < -CLAMP ? -CLAMP : want) + CLAMP : want < 0 ? 0 : want;
                assert_ok(gyre_encoding_row(e, m, n, &row));
                assert_int_equal(row, want);
            }
        gyre_encoding_free(e);
    }
}

/* The sinusoid that callers project is the sinusoid of the distances: sines, then cosines, as at the input. */
static void sinusoid_of_distances(void **state) {
    (void)state;
    enum { DISTANCES = 9, DIM = 6 };
    gyre_config config = WITH(GYRE_KIND_SINUSOIDAL, .buckets = 0);
    config.input.dim = DIM;
    config.input.layout = GYRE_SINUSOID_SIN_COS;
    gyre_encoding *e = test_encoding(&config);
    const gyre_positions from = {NULL, GYRE_DTYPE_I64, -4, 0, 0, 0, 0, 0};
    double r[DISTANCES * DIM] = {0};
    const gyre_view view = gyre_dense(r, GYRE_DTYPE_F64, 1, DISTANCES, 1, DIM);
    const gyre_cview zeros = gyre_const(view);
    assert_ok(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &from, .in = zeros, .out = view), NULL, NULL));
    for (int i = 0; i < DISTANCES; i++)
        for (int c = 0; c < DIM / 2; c++) {
            const long double angle = (i - 4) / powl(10000, 2.0L * c / DIM);
            test_close(r[i * DIM + c], sinl(angle), 1e-15L, "sine");
            test_close(r[i * DIM + DIM / 2 + c], cosl(angle), 1e-15L, "cosine");
        }
    gyre_encoding_free(e);
}

static void bad_input(void **state) {
    (void)state;
    static const struct {
        gyre_config config;
        int64_t heads, head_dim;
        const char *field;
    } bad[] = {{WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 0), 2, 4, "score.max_distance"},
               {WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = INT32_MAX), 2, 4, "score"},
               {WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 8), 0, 4, "heads"},
               {WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 8), 2, 0, "head_dim"},
               {WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 8, .terms = GYRE_TERM_KEY), 2, 4, "score.terms"},
               {WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 8, .terms = GYRE_TERM_VALUE), 2, 4, "score.terms"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gyre_config config = bad[i].config;
        gyre_encoding *e = NULL;
        gyre_error err = {0, ""};
        config.heads = bad[i].heads;
        config.head_dim = bad[i].head_dim;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
        assert_null(e);
        assert_true(strncmp(err.text, bad[i].field, strlen(bad[i].field)) == 0);
    }
    gyre_encoding *e = transformer_xl(5, 0);
    float x[12] = {1, 2, 3}, y[12] = {7};
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_view scores = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 3, 4);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 12);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 12);
    /* vectors, no numbers */
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &zero, .keys = &zero, .scores = scores), NULL, NULL),
        GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &zero, .in = in, .out = out), NULL, NULL),
                     GYRE_EUNSUPPORTED);
    assert_true(y[0] == 7 && y[1] == 0);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_tables),
        cmocka_unit_test(sinusoid_of_distances),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
