/* test_input.c: vectors added at the input and their gradient, and how every type is rounded. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 67, DIM = 300, ALL = BATCH * TOKENS * DIM };

static gyre_encoding *sinusoid(int64_t dim, gyre_sinusoid layout, double base) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_SINUSOIDAL;
    config.input.dim = dim;
    config.input.layout = layout;
    config.input.base = base;
    return test_encoding(&config);
}

static gyre_encoding *learned(int64_t rows, int64_t dim) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_LEARNED;
    config.input.dim = dim;
    config.input.positions = rows;
    return test_encoding(&config);
}

static void agrees_with_reference(void **state) {
    (void)state;
    static const char *const keys[] = {"interleaved", "concatenated", "tensor2tensor"};
    json_t *cases = test_reference("sinusoidal.json"), *c;
    size_t index;
    json_array_foreach(cases, index, c) for (int layout = 0; layout < 3; layout++) {
        double want[1024], got[1024], zero[1024] = {0};
        if (json_is_null(json_object_get(c, keys[layout]))) continue;
        const size_t dim = test_numbers(c, keys[layout], want, 1024);
        gyre_encoding *e = sinusoid((int64_t)dim, (gyre_sinusoid)layout, test_number(c, "base"));
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, test_integer(c, "position"), 0, 0, 0, 0, 0};
        const gyre_cview in = gyre_cdense(zero, GYRE_DTYPE_F64, 1, 1, 1, (int64_t)dim);
        const gyre_view out = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, 1, (int64_t)dim);
        assert_ok(
            gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), NULL, NULL));
        for (size_t i = 0; i < dim; i++)
            test_close(got[i], want[i], 1e-12, keys[layout]);
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

static void odd_tensor2tensor_ends_in_zero(void **state) {
    (void)state;
    double x[9] = {0}, even[8] = {0};
    gyre_encoding *e = sinusoid(9, GYRE_SINUSOID_SIN_COS_T2T, 0), *f = sinusoid(8, GYRE_SINUSOID_SIN_COS_T2T, 0);
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 12, 0, 0, 0, 0, 0};
    const gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 1, 1, 1, 9), out8 = gyre_dense(even, GYRE_DTYPE_F64, 1, 1, 1, 8);
    const gyre_cview in = gyre_const(out), in8 = gyre_const(out8);
    assert_ok(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), NULL, NULL));
    assert_ok(
        gyre_add_input(f, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in8, .out = out8), NULL, NULL));
    assert_memory_equal(x, even, sizeof even);
    assert_true(x[8] == 0);
    gyre_encoding_free(e);
    gyre_encoding_free(f);
}

/* Rows of a float table by the kernel, and the same channels with a stride of two: the same bits. */
static void strides_change_no_bit(void **state) {
    (void)state;
    enum { ROWS = 64, WIDTH = 4096, N = ROWS * WIDTH };
    static float table[N];
    static uint16_t x[N], y[N], apart[2 * N];
    test_random random = {7};
    gyre_encoding *e = learned(ROWS, WIDTH);
    const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, ROWS, WIDTH)};
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    for (int type = 1; type <= 2; type++) {
        for (int i = 0; i < N; i++) {
            table[i] = (float)ldexp(test_uniform(&random), -(int)(test_next(&random) % 24));
            x[i] = apart[2 * i] =
                (uint16_t)((test_dtypes[type] == GYRE_DTYPE_F16 ? 0x3c00 : 0x3f80) + test_next(&random) % 64);
        }
        const gyre_cview in = gyre_cdense(x, test_dtypes[type], 1, ROWS, 1, WIDTH);
        const gyre_view out = gyre_dense(y, test_dtypes[type], 1, ROWS, 1, WIDTH);
        gyre_view strided = gyre_dense(apart, test_dtypes[type], 1, ROWS, 1, WIDTH);
        for (int i = 0; i < 4; i++)
            strided.stride[i] *= 2;
        const gyre_cview same = gyre_const(strided);
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
            NULL));
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = same, .out = strided), NULL,
            NULL));
        for (int i = 0; i < N; i++)
            assert_int_equal(apart[2 * i], y[i]);
    }
    gyre_encoding_free(e);
}

/* -- rounding: a table of awkward numbers, added to 0 -- */
static double awkward(test_random *random, gyre_dtype dtype) {
    static const int least[] = {-152, -27, -136, -60}, most[] = {129, 17, 129, 60};
    const int span = most[dtype] - least[dtype];
    const double x = ldexp(test_uniform(random), least[dtype] + (int)(test_next(random) % (uint64_t)span));
    const double half = test_half_ulp(dtype, x), tie = (nearbyint(x / (2 * half)) + 0.5) * 2 * half;
    switch (test_next(random) % 4) {
    case 0:
        return tie;
    case 1:
        return nextafter(tie, INFINITY); /* through a float in between, this would round to the tie */
    case 2:
        return nextafter(tie, -INFINITY);
    default:
        return x;
    }
}

static void stores_round_once_to_nearest_even(void **state) {
    (void)state;
    enum { N = 20000 };
    double *table = calloc(N, sizeof *table);
    void *x = calloc(N, 8), *want = calloc(N, 8);
    assert_true(table && x && want);
    gyre_encoding *e = learned(1, N);
    test_random random = {21};
    for (int type = 0; type < TEST_DTYPES; type++) {
        const size_t size = gyre_dtype_size(test_dtypes[type]);
        memset(x, 0, N * size);
        for (size_t i = 0; i < N; i++) {
            table[i] = awkward(&random, test_dtypes[type]);
            test_put(want, test_dtypes[type], i, table[i] + 0.0);
        }
        const double edges[] = {65504, 65519.999, 65520, 65536, 1e300, -1e300, INFINITY, 3.4e38, -3.39e38, 1e-320, 0x1p-25};
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
            table[i] = edges[i];
            test_put(want, test_dtypes[type], i, edges[i]);
        }
        const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 1, N)};
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
        const gyre_view out = gyre_dense(x, test_dtypes[type], 1, 1, 1, N);
        const gyre_cview in = gyre_const(out);
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
            NULL));
        for (size_t i = 0; i < N; i++)
            if (memcmp((char *)x + i * size, (char *)want + i * size, size) != 0)
                fail_msg("type %d: %a became %a, not %a", type, table[i], test_get(x, test_dtypes[type], i),
                         test_get(want, test_dtypes[type], i));
    }
    gyre_encoding_free(e);
    free(table);
    free(x);
    free(want);
}

/* Every 16-bit pattern plus 0 is itself, and NaN stays NaN. */
static void every_16_bit_number_survives(void **state) {
    (void)state;
    enum { N = 65536 };
    uint16_t *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    double *zero = calloc(N, sizeof *zero);
    assert_true(x && y && zero);
    gyre_encoding *e = learned(1, N);
    for (int type = 1; type <= 2; type++) {
        for (unsigned i = 0; i < N; i++) {
            x[i] = (uint16_t)i;
            zero[i] = i & 0x8000u ? -0.0 : 0.0; /* keeps the sign of 0 */
        }
        const gyre_tables tables = {.input = gyre_cdense(zero, GYRE_DTYPE_F64, 1, 1, 1, N)};
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
        const gyre_cview in = gyre_cdense(x, test_dtypes[type], 1, 1, 1, N);
        const gyre_view out = gyre_dense(y, test_dtypes[type], 1, 1, 1, N);
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
            NULL));
        for (unsigned i = 0; i < N; i++)
            if (isnan(test_get(x, test_dtypes[type], i)))
                assert_true(isnan(test_get(y, test_dtypes[type], i)));
            else
                assert_int_equal(y[i], x[i]);
    }
    gyre_encoding_free(e);
    free(x);
    free(y);
    free(zero);
}

/* -- the learned table -- */
typedef struct sample {
    gyre_encoding *e;
    int64_t position[BATCH][TOKENS];
    gyre_positions positions;
    double x[ALL], y[ALL], table[50 * DIM];
} sample;

static sample *sample_make(gyre_dtype dtype) {
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {22};
    s->e = learned(50, DIM);
    for (int i = 0; i < BATCH * TOKENS; i++)
        s->position[i / TOKENS][i % TOKENS] = (int64_t)(test_next(&random) % 50);
    s->positions = (gyre_positions){s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
    for (size_t i = 0; i < ALL; i++)
        test_put(s->x, dtype, i, test_uniform(&random));
    test_fill_f64(&random, s->table, 50 * DIM);
    return s;
}

static void sample_free(sample *s) {
    gyre_encoding_free(s->e);
    free(s);
}

/* Against a direct sum: dense, then with the table transposed and every view strided. */
static void learned_rows_are_added(void **state) {
    (void)state;
    for (int type = 0; type < TEST_DTYPES; type++) {
        sample *s = sample_make(test_dtypes[type]);
        static double want[ALL], wide[2 * ALL], transposed[50 * DIM];
        const size_t size = gyre_dtype_size(test_dtypes[type]);
        for (int i = 0; i < ALL; i++) {
            const int64_t row = s->position[i / DIM / TOKENS][i / DIM % TOKENS];
            test_put(want, test_dtypes[type], (size_t)i,
                     test_get(s->x, test_dtypes[type], (size_t)i) + s->table[row * DIM + i % DIM]);
        }
        for (int i = 0; i < 50 * DIM; i++)
            transposed[i % DIM * 50 + i / DIM] = s->table[i];
        gyre_tables tables = {.input = gyre_cdense(s->table, GYRE_DTYPE_F64, 1, 1, 50, DIM)};
        const gyre_cview in = gyre_cdense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM);
        gyre_view out = gyre_dense(s->y, test_dtypes[type], BATCH, TOKENS, 1, DIM);
        assert_ok(gyre_add_input(
            s->e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out), NULL,
            NULL));
        assert_memory_equal(s->y, want, ALL * size);

        tables.input.data = transposed;
        tables.input.stride[2] = 1;
        tables.input.stride[3] = 50;
        out.data = wide;
        for (int d = 0; d < 4; d++)
            out.stride[d] *= 2;
        assert_ok(gyre_add_input(
            s->e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out), NULL,
            NULL));
        for (size_t i = 0; i < ALL; i++)
            assert_memory_equal((char *)wide + 2 * i * size, (char *)want + i * size, size);

        out = gyre_dense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM); /* in place */
        assert_ok(gyre_add_input(
            s->e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out), NULL,
            NULL));
        assert_memory_equal(s->x, want, ALL * size);
        sample_free(s);
    }
}

static void gradient_is_the_sum_in_token_order(void **state) {
    (void)state;
    for (int type = 0; type < TEST_DTYPES; type++)
        for (int narrow = 0; narrow < 2; narrow++) {
            sample *s = sample_make(test_dtypes[type]);
            const gyre_dtype table_type = narrow ? GYRE_DTYPE_F32 : GYRE_DTYPE_F64;
            static double want[50 * DIM], got[50 * DIM];
            for (size_t i = 0; i < 50 * DIM; i++) {
                test_put(want, table_type, i, 0.5); /* accumulated into, not cleared */
                test_put(got, table_type, i, 0.5);
            }
            for (int i = 0; i < ALL; i++) {
                const size_t at = (size_t)(s->position[i / DIM / TOKENS][i / DIM % TOKENS] * DIM + i % DIM);
                test_put(want, table_type, at,
                         test_get(want, table_type, at) + test_get(s->x, test_dtypes[type], (size_t)i));
            }
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, 3, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            const gyre_cview dout = gyre_cdense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            const gyre_table_gradients gradients = {.input = gyre_dense(got, table_type, 1, 1, 50, DIM)};
            assert_ok(gyre_add_input_gradient(s->e, &s->positions, &dout, &gradients, type % 2 ? &exec : NULL, NULL));
            assert_memory_equal(got, want, 50 * DIM * gyre_dtype_size(table_type));
            gyre_pool_free(pool);
            sample_free(s);
        }
}

/* One row of positions for the whole batch gives the same as one row each. Threads change nothing. */
static void shared_positions(void **state) {
    (void)state;
    static double x[ALL], y[ALL], z[ALL];
    int32_t each[BATCH][TOKENS];
    test_random random = {23};
    test_fill_f64(&random, x, ALL);
    for (int i = 0; i < BATCH * TOKENS; i++)
        each[i / TOKENS][i % TOKENS] = 40 + i % TOKENS;
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    gyre_encoding *e = sinusoid(DIM, GYRE_SINUSOID_INTERLEAVED, 0);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM),
                    other = gyre_dense(z, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
    const gyre_positions one = {NULL, GYRE_DTYPE_I64, 40, 0, 0, 0, 0, 0},
                         both = {each, GYRE_DTYPE_I32, 0, 0, TOKENS, 1, 0, 0};
    assert_ok(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &one, .in = in, .out = out), NULL, NULL));
    assert_ok(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &both, .in = in, .out = other), &exec, NULL));
    assert_memory_equal(y, z, sizeof y);
    gyre_encoding_free(e);
    gyre_pool_free(pool);
}

/* No tokens, in dense views too; empty shapes with dimensions too large to loop over. */
static void empty_inputs(void **state) {
    (void)state;
    float x[DIM];
    double table[DIM];
    gyre_encoding *e = learned(1, DIM);
    const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 1, DIM)};
    const gyre_table_gradients gradients = {.input = gyre_dense(table, GYRE_DTYPE_F64, 1, 1, 1, DIM)};
    const int64_t nowhere = -1;
    const gyre_positions positions = {&nowhere, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const int64_t shapes[][2] = {{2, 0}, {0, 2}, {0, 0}, {0, (int64_t)1 << 40}, {(int64_t)1 << 62, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const gyre_view out = gyre_dense(i % 2 ? x : NULL, GYRE_DTYPE_F32, shapes[i][0], shapes[i][1], 1, DIM);
        const gyre_cview in = gyre_const(out);
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
            NULL));
        assert_ok(gyre_add_input_gradient(e, &positions, &in, &gradients, NULL, NULL));
    }
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    sample *s = sample_make(GYRE_DTYPE_F32);
    static double before[ALL];
    const gyre_tables tables = {.input = gyre_cdense(s->table, GYRE_DTYPE_F64, 1, 1, 50, DIM)};
    const gyre_cview in = gyre_cdense(s->x, GYRE_DTYPE_F32, BATCH, TOKENS, 1, DIM);
    const gyre_view out = gyre_dense(s->y, GYRE_DTYPE_F32, BATCH, TOKENS, 1, DIM);
    const gyre_table_gradients gradients = {.input = gyre_dense(s->table, GYRE_DTYPE_F64, 1, 1, 50, DIM)};
    memcpy(before, s->y, sizeof before);

    s->position[1][TOKENS - 1] = 50; /* one past the table */
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_ERANGE);
    assert_int_equal(gyre_add_input_gradient(s->e, &s->positions, &in, &gradients, NULL, NULL), GYRE_ERANGE);
    s->position[1][TOKENS - 1] = -1;
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_ERANGE);
    s->position[1][TOKENS - 1] = 0;
    assert_int_equal(
        gyre_add_input(s->e, GYRE_ARGS(gyre_add_input_args, .positions = &s->positions, .in = in, .out = out), NULL, NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_add_input_gradient(s->e, &s->positions, &in, NULL, NULL, NULL), GYRE_EINVAL);

    gyre_tables bad = tables;
    bad.input.shape[2] = 49;
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &bad, .positions = &s->positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_ESHAPE);
    bad = tables;
    bad.input.dtype = GYRE_DTYPE_F16;
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &bad, .positions = &s->positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_EDTYPE);
    const gyre_cview two_heads = gyre_cdense(s->x, GYRE_DTYPE_F32, BATCH, TOKENS, 2, DIM / 2);
    const gyre_view two_out = gyre_dense(s->y, GYRE_DTYPE_F32, BATCH, TOKENS, 2, DIM / 2);
    assert_int_equal(gyre_add_input(s->e,
                                    GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions,
                                              .in = two_heads, .out = two_out),
                                    NULL, NULL),
                     GYRE_ESHAPE);
    gyre_cview integers = in;
    integers.dtype = GYRE_DTYPE_I32;
    assert_int_equal(gyre_add_input(s->e,
                                    GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions,
                                              .in = integers, .out = out),
                                    NULL, NULL),
                     GYRE_EDTYPE);
    assert_int_equal(gyre_add_input_gradient(s->e, &s->positions, &integers, &gradients, NULL, NULL), GYRE_EDTYPE);
    assert_memory_equal(s->y, before, sizeof before);

    gyre_config nope = GYRE_INIT(gyre_config);
    nope.kind = GYRE_KIND_NOPE;
    gyre_encoding *e = test_encoding(&nope);
    assert_int_equal(
        gyre_add_input(e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &s->positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
    e = sinusoid(DIM, GYRE_SINUSOID_SIN_COS, 0); /* nothing to train */
    assert_ok(gyre_add_input_gradient(e, &s->positions, &in, NULL, NULL, NULL));
    gyre_table_gradients unread = {.input = gyre_dense(s->table, GYRE_DTYPE_F16, 1, 2, 3, 4)};
    unread.input.stride[3] = 0;
    assert_ok(gyre_add_input_gradient(e, &s->positions, &in, &unread, NULL, NULL));
    gyre_encoding_free(e);
    sample_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_reference),
        cmocka_unit_test(odd_tensor2tensor_ends_in_zero),
        cmocka_unit_test(strides_change_no_bit),
        cmocka_unit_test(stores_round_once_to_nearest_even),
        cmocka_unit_test(every_16_bit_number_survives),
        cmocka_unit_test(learned_rows_are_added),
        cmocka_unit_test(gradient_is_the_sum_in_token_order),
        cmocka_unit_test(shared_positions),
        cmocka_unit_test(empty_inputs),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
