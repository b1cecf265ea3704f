/* test_rotate.c: rotations against reference values, an error bound and the laws of rotations; refused arguments. */
#include "core/rotation/rotate_rows.h"
#include "naive_rotation.h"

#include <stdlib.h>
#include <string.h>

enum { BIG = NAIVE_CHANNELS };

static gyre_positions at(int64_t position) {
    gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    positions.base = position;
    return positions;
}

static void reference_values_agree(void **state) {
    (void)state;
    json_t *cases = test_reference("rotate.json"), *c;
    size_t index;
    json_array_foreach(cases, index, c) {
        double x[128], y[128], got[128];
        float x32[128], got32[128];
        const int interleaved = strcmp(test_string(c, "pairing"), "interleaved") == 0;
        gyre_config config =
            test_rope_config(test_integer(c, "head_dim"), interleaved ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
        config.rope.dim = test_integer(c, "rotary_dim");
        config.rope.base = test_number(c, "base");
        const int64_t position = test_integer(c, "position");
        const size_t n = test_numbers(c, "x", x, 128);
        assert_int_equal(test_numbers(c, "y", y, 128), n);
        gyre_encoding *e = test_encoding(&config);
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, position, x, got));
        for (size_t i = 0; i < n; i++)
            test_close(got[i], y[i], 1e-9, "reference, f64");
        for (size_t i = 0; i < n; i++)
            x32[i] = (float)x[i];
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F32, position, x32, got32));
        naive_check_rope(&config, GYRE_DTYPE_F32, position, x32, got32, 0);
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

/* cos and sin of 2^31 base^(-2 pair / dim), computed with 60 digits: long double would be as far off as the library. */
static void angles_at_the_largest_positions(void **state) {
    (void)state;
    static const struct {
        double base;
        int dim, pair;
        double c, s;
    } figures[] = {{10000, 128, 1, -0.49004266899440396407, -0.87169844703592367463},
                   {10000, 128, 20, 0.60749201473044630476, 0.79432578457377500007},
                   {10000, 128, 63, -0.93716457553388961375, 0.34888760133370246893},
                   {500000, 256, 7, -0.96306580778141896755, -0.26926613207442738695},
                   {500000, 256, 127, -0.64442117191837445336, 0.76467074822000931361}};
    const int64_t end = (int64_t)1 << 31;
    /* Where long double is double, the frequency has only 53 bits. */
    const long double bound = LDBL_MANT_DIG >= 64 ? 1e-9L : 1e-6L;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double x[256] = {0}, y[256];
        gyre_config config = test_rope_config(figures[i].dim, GYRE_LAYOUT_HALF);
        config.rope.base = figures[i].base;
        gyre_encoding *e = test_encoding(&config);
        x[figures[i].pair] = 1;
        for (int sign = -1; sign <= 1; sign += 2) {
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, sign * end, x, y));
            test_close(y[figures[i].pair], figures[i].c, bound, "cos");
            test_close(y[figures[i].pair + figures[i].dim / 2], sign * figures[i].s, bound, "sin");
        }
        gyre_encoding_free(e);
    }
}

static void error_bound_holds_for_every_type(void **state) {
    (void)state;
    const int64_t positions[] = {0, 1, -1, 17, 4095, 131071, -123456789, (int64_t)1 << 31, -((int64_t)1 << 31)};
    test_random random = {1};
    double x[80], y[80];
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
                gyre_config config = test_rope_config(80, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
                config.rope.dim = 64;
                gyre_encoding *e = test_encoding(&config);
                for (size_t i = 0; i < 80; i++) /* magnitudes down to f16's subnormals */
                    test_put(x, test_dtypes[type], i, ldexp(test_uniform(&random), -(int)(i % 20)));
                assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], positions[p], x, y));
                naive_check_rope(&config, test_dtypes[type], positions[p], x, y, 0);
                gyre_encoding_free(e);
            }
}

/* More pairs than the library processes at once. */
static void heads_wider_than_one_block(void **state) {
    (void)state;
    static double x[BIG], y[BIG];
    test_random random = {2};
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TEST_DTYPES; type++) {
            gyre_config config = test_rope_config(BIG, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
            config.rope.dim = BIG - 6;
            gyre_encoding *e = test_encoding(&config);
            for (size_t i = 0; i < BIG; i++)
                test_put(x, test_dtypes[type], i, test_uniform(&random));
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 777, x, y));
            naive_check_rope(&config, test_dtypes[type], 777, x, y, 0);
            gyre_encoding_free(e);
        }
}

/* -- laws -- */
static double dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static gyre_encoding *yarn(void) {
    gyre_config config = test_rope_config(72, GYRE_LAYOUT_HALF);
    config.rope.dim = 64;
    config.trained_length = 1024;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 8;
    return test_encoding(&config);
}

static void rotation_is_an_isometry_and_a_group(void **state) {
    (void)state;
    test_random random = {3};
    double x[72], y[72], z[72], w[72];
    for (int layout = 0; layout < 2; layout++) {
        gyre_encoding *e = rope_encoding(72, 64, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
        for (int trial = 0; trial < 50; trial++) {
            const int64_t a = (int64_t)(test_next(&random) % 20000) - 10000,
                          b = (int64_t)(test_next(&random) % 20000) - 10000;
            test_fill_f64(&random, x, 72);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, b, x, y));
            test_close(dot(y, y, 72), dot(x, x, 72), 1e-13, "isometry");
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, a, y, z));
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, a + b, x, w));
            for (int i = 0; i < 72; i++)
                test_close(z[i], w[i], 4e-15, "E(a) E(b) = E(a + b)");
        }
        gyre_encoding_free(e);
    }
}

static void scores_depend_on_distance_only(void **state) {
    (void)state;
    test_random random = {4};
    double q[72], k[72], eq[72], ek[72];
    gyre_encoding *e = yarn();
    test_fill_f64(&random, q, 72);
    test_fill_f64(&random, k, 72);
    double first = 0;
    for (int64_t shift = 0; shift < 5; shift++) {
        const int64_t m = 300 + 100003 * shift, n = 17 + 100003 * shift;
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, m, q, eq));
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, n, k, ek));
        if (shift == 0) first = dot(eq, ek, 72);
        test_close(dot(eq, ek, 72), first, 1e-13, "score");
    }
    gyre_encoding_free(e);
}

static void inverse_and_adjoint(void **state) {
    (void)state;
    test_random random = {5};
    double x[72], y[72], ex[72], ey[72], back[72], factor;
    gyre_encoding *e = yarn();
    assert_ok(gyre_encoding_frequencies(e, 0, NULL, &factor));
    assert_true(factor > 1.2);
    for (int64_t position = -3000; position < 3000; position += 777) {
        test_fill_f64(&random, x, 72);
        test_fill_f64(&random, y, 72);
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, position, x, ex));
        assert_ok(rotate_row(e, GYRE_DIRECTION_INVERSE, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, position, ex, back));
        for (int i = 0; i < 72; i++)
            test_close(back[i], x[i], 1e-15, "inverse");
        assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, position, y, ey));
        test_close(dot(ex, y, 72), dot(x, ey, 72), 1e-13, "<E x, y> = <x, E' y>");
        assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, position, ex, back));
        for (int i = 0; i < 64; i++)
            test_close(back[i], factor * factor * x[i], 1e-14, "adjoint after forward");
    }
    gyre_encoding_free(e);
}

/* The gradient of L = w . E(m) x with respect to x, by central differences. */
static void adjoint_is_the_gradient(void **state) {
    (void)state;
    test_random random = {6};
    double x[72], w[72], y[72], gradient[72];
    const double step = 1e-4;
    gyre_encoding *e = yarn();
    test_fill_f64(&random, x, 72);
    test_fill_f64(&random, w, 72);
    assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, 1234, w, gradient));
    for (int i = 0; i < 72; i++) {
        double loss[2];
        for (int side = 0; side < 2; side++) {
            const double original = x[i];
            x[i] += side ? step : -step;
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, 1234, x, y));
            loss[side] = dot(w, y, 72);
            x[i] = original;
        }
        test_close((loss[1] - loss[0]) / (2 * step), gradient[i], 1e-9, "gradient");
    }
    gyre_encoding_free(e);
}

/* Every bit is copied: NaN payloads, infinities, -0. */
static void position_0_and_unrotated_channels_are_copied(void **state) {
    (void)state;
    uint64_t x[72], y[72];
    test_random random = {7};
    for (int layout = 0; layout < 2; layout++) {
        gyre_encoding *e = rope_encoding(72, 64, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
        for (int type = 0; type < TEST_DTYPES; type++) {
            const size_t size = gyre_dtype_size(test_dtypes[type]);
            for (int i = 0; i < 72; i++)
                x[i] = i % 3 ? test_next(&random) : i % 2 ? UINT64_MAX : (uint64_t)1 << 63 | (uint64_t)1 << 31 | 1u << 15;
            memset(y, 0, sizeof y);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 0, x, y));
            assert_memory_equal(x, y, 72 * size);
            memset(y, 0, sizeof y);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 5, x, y));
            assert_memory_equal((char *)x + 64 * size, (char *)y + 64 * size, 8 * size);
            assert_true(memcmp(x, y, 64 * size) != 0);
        }
        gyre_encoding_free(e);
    }
}

/* -- tables and lengths -- */
static void table_rows_equal_computed_rows(void **state) {
    (void)state;
    static float x[2 * BIG], y[BIG], z[BIG];
    const int64_t dims[] = {64, BIG - 8};
    test_random random = {9};
    test_fill(&random, x, BIG);
    for (int d = 0; d < 2; d++)
        for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++) {
            gyre_config config = test_rope_config(BIG, GYRE_LAYOUT_HALF);
            config.rope.dim = dims[d];
            config.trained_length = 16;
            config.rope.scaling = GYRE_SCALING_YARN;
            config.rope.factor = 4;
            gyre_encoding *computed = test_encoding(&config);
            config.rope.table_positions = 20;
            gyre_encoding *table = test_encoding(&config);
            for (int64_t position = -2; position < 25; position++) { /* below, inside and above the table */
                assert_ok(rotate_row(computed, (gyre_direction)direction, GYRE_ROLE_QUERY, GYRE_DTYPE_F32, position, x, y));
                assert_ok(rotate_row(table, (gyre_direction)direction, GYRE_ROLE_QUERY, GYRE_DTYPE_F32, position, x, z));
                assert_memory_equal(y, z, sizeof y);
            }
            gyre_encoding_free(computed);
            gyre_encoding_free(table);
        }
}

static gyre_config dynamic_config(void) {
    gyre_config config = test_rope_config(BIG, GYRE_LAYOUT_INTERLEAVED);
    config.trained_length = 64;
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 2;
    return config;
}

/* A context length in the call has the effect of the same length in the config, with an angle table or without. */
static void context_length_in_the_call(void **state) {
    (void)state;
    static double x[BIG], y[BIG], z[BIG];
    test_random random = {10};
    for (int type = 0; type < TEST_DTYPES; type++) {
        gyre_config config = dynamic_config();
        config.rope.table_positions = 100;
        gyre_encoding *trained = test_encoding(&config);
        config.context_length = config.trained_length;
        gyre_encoding *declared = test_encoding(&config);
        config.context_length = 1000;
        gyre_encoding *longer = test_encoding(&config);
        for (size_t i = 0; i < BIG; i++)
            test_put(x, test_dtypes[type], i, test_uniform(&random));
        gyre_positions positions = at(77);
        const gyre_cview in = gyre_cdense(x, test_dtypes[type], 1, 1, 1, BIG);
        const gyre_view out = gyre_dense(y, test_dtypes[type], 1, 1, 1, BIG);
        positions.context_length = 1000;
        assert_ok(gyre_rotate(
            trained, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out),
            NULL, NULL));
        assert_ok(rotate_row(longer, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 77, x, z));
        assert_memory_equal(y, z, BIG * gyre_dtype_size(test_dtypes[type]));
        assert_int_equal(rotate_row(trained, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 77, x, z),
                         GYRE_EINVAL);
        assert_memory_equal(y, z, BIG * gyre_dtype_size(test_dtypes[type]));
        assert_ok(rotate_row(declared, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, test_dtypes[type], 77, x, z));
        assert_memory_not_equal(y, z, BIG * gyre_dtype_size(test_dtypes[type]));
        gyre_encoding_free(trained);
        gyre_encoding_free(declared);
        gyre_encoding_free(longer);
    }
}

/* gyre_rotate_rows, which attention calls for its tiles, against gyre_rotate. */
static void rotated_rows_match_views(void **state) {
    (void)state;
    enum { ROWS = 5 };
    static float x[ROWS * BIG], y[ROWS * BIG], angles[ROWS * BIG];
    const int64_t where[ROWS] = {0, 3, 99, -7, 100};
    test_random random = {11};
    for (int wide = 0; wide < 2; wide++)
        for (int64_t length = 0; length <= 640; length += 640) {
            gyre_config config = dynamic_config();
            config.rope.table_positions = 100;
            config.rope.dim = wide ? BIG - 2 : 64;
            config.context_length = config.trained_length;
            gyre_encoding *e = test_encoding(&config);
            test_fill(&random, x, ROWS * BIG);
            const gyre_positions positions = {where, GYRE_DTYPE_I64, 0, length, 0, 1, 0, 0};
            const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, ROWS, 1, BIG);
            const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, ROWS, 1, BIG);
            const gyre_rotation_spec spec = {.role = GYRE_ROLE_KEY, .length = length, .positions = &positions};
            assert_ok(gyre_rotate(e,
                                  GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_ADJOINT, .role = GYRE_ROLE_KEY,
                                            .positions = &positions, .in = in, .out = out),
                                  NULL, NULL));
            gyre_rotation_angles(e, &spec, 0, ROWS, angles);
            gyre_rotate_rows(e, angles, ROWS, x, BIG, 1);
            assert_memory_equal(x, y, sizeof x);
            gyre_encoding_free(e);
        }
}

/* -- other schemes and arguments -- */
static void other_schemes_copy(void **state) {
    (void)state;
    float x[24], y[24] = {0};
    test_random random = {12};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_NOPE;
    gyre_encoding *e = test_encoding(&config);
    test_fill(&random, x, 24);
    const gyre_positions positions = at(3);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 2, 2, 2, 3);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 2, 2, 2, 3);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out), NULL, NULL));
    assert_memory_equal(x, y, sizeof x);
    gyre_encoding_free(e);
}

static void positions_out_of_range_write_nothing(void **state) {
    (void)state;
    float x[3 * 72], y[3 * 72], before[3 * 72];
    test_random random = {13};
    test_fill(&random, x, 3 * 72);
    test_fill(&random, y, 3 * 72);
    memcpy(before, y, sizeof y);
    gyre_encoding *e = rope_encoding(72, 64, GYRE_LAYOUT_HALF);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const int64_t far = ((int64_t)1 << 31) + 1;
    const int64_t lists[][3] = {{0, 1, far}, {0, -far, 2}, {INT64_MIN, 0, 0}, {0, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const gyre_positions positions = {lists[i], GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        assert_int_equal(
            gyre_rotate(e,
                        GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out),
                        NULL, NULL),
            GYRE_ERANGE);
    }
    const int64_t bases[] = {far - 3, far - 2, -far, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        const gyre_positions positions = at(bases[i]);
        const int reached = bases[i] == far - 3; /* far - 3 .. far - 1 are all in range */
        assert_int_equal(
            gyre_rotate(e,
                        GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out),
                        NULL, NULL),
            reached ? GYRE_OK : GYRE_ERANGE);
        if (reached) memcpy(y, before, sizeof y);
    }
    assert_memory_equal(y, before, sizeof y);
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    float x[72] = {0}, y[72];
    gyre_encoding *e = rope_encoding(72, 64, GYRE_LAYOUT_HALF);
    const gyre_positions good = at(1);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 72);
    assert_int_equal(
        gyre_rotate(NULL, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = in, .out = out), NULL,
                    NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .in = in, .out = out), NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e,
                                 GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)7, .role = GYRE_ROLE_KEY,
                                           .positions = &good, .in = in, .out = out),
                                 NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e,
                                 GYRE_ARGS(gyre_rotate_args, .role = (gyre_role)7, .positions = &good, .in = in, .out = out),
                                 NULL, NULL),
                     GYRE_EINVAL);

    gyre_positions positions = good;
    positions.context_length = -1;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                    NULL, NULL),
        GYRE_EINVAL);
    positions = good;
    positions.data = x;
    positions.dtype = GYRE_DTYPE_F32;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                    NULL, NULL),
        GYRE_EDTYPE);

    gyre_cview bad = in;
    bad.dtype = GYRE_DTYPE_I32;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = bad, .out = out), NULL,
                    NULL),
        GYRE_EDTYPE);
    bad.dtype = GYRE_DTYPE_F16;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = bad, .out = out), NULL,
                    NULL),
        GYRE_EDTYPE);
    bad = in;
    bad.shape[1] = 2;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = bad, .out = out), NULL,
                    NULL),
        GYRE_ESHAPE);
    bad = in;
    bad.data = NULL;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = bad, .out = out), NULL,
                    NULL),
        GYRE_EINVAL);

    gyre_cview narrow = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 64);
    gyre_view narrow_out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 64);
    assert_int_equal(
        gyre_rotate(e,
                    GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = narrow, .out = narrow_out),
                    NULL, NULL),
        GYRE_ESHAPE);
    narrow.shape[0] = narrow_out.shape[0] = -1;
    assert_int_equal(
        gyre_rotate(e,
                    GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = narrow, .out = narrow_out),
                    NULL, NULL),
        GYRE_ESHAPE);

    /* In place with other strides, and an output that overlaps itself. */
    gyre_view shifted = gyre_dense(x, GYRE_DTYPE_F32, 1, 1, 1, 72);
    shifted.stride[3] = -1;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = in, .out = shifted),
                    NULL, NULL),
        GYRE_EINVAL);
    /* An output that begins within the input: some tokens would be written before they are read. */
    gyre_view later = gyre_dense(x + 1, GYRE_DTYPE_F32, 1, 1, 1, 72);
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = in, .out = later), NULL,
                    NULL),
        GYRE_EINVAL);
    shifted = out;
    shifted.stride[3] = 0;
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = in, .out = shifted),
                    NULL, NULL),
        GYRE_EINVAL);

    /* Strides that overflow int64. */
    const int64_t large = (int64_t)1 << 40;
    const gyre_cview absurd = gyre_cdense(x, GYRE_DTYPE_F32, large, large, large, 72);
    const gyre_view absurd_out = gyre_dense(y, GYRE_DTYPE_F32, large, large, large, 72);
    assert_int_equal(
        gyre_rotate(e,
                    GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &good, .in = absurd, .out = absurd_out),
                    NULL, NULL),
        GYRE_ESHAPE);
    gyre_encoding_free(e);
}

/* No tokens, in dense views too; empty shapes with dimensions too large to loop over. */
static void nothing_to_rotate(void **state) {
    (void)state;
    float x[72];
    const int64_t wide = (int64_t)1 << 40, shapes[][3] = {{1, 0, 1}, {2, 0, 1}, {0, wide, wide}, {wide, wide, 0}};
    gyre_encoding *e = rope_encoding(72, 64, GYRE_LAYOUT_HALF);
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 1, 0, INT64_MAX, INT64_MAX, 0, 0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const gyre_view out = gyre_dense(i % 2 ? x : NULL, GYRE_DTYPE_F32, shapes[i][0], shapes[i][1], shapes[i][2], 72);
        const gyre_cview in = gyre_const(out);
        assert_ok(
            gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                        NULL, NULL));
    }
    /* Without position data, the strides of the positions are ignored. */
    float y[3 * 72], z[3 * 72];
    test_random random = {19};
    test_fill(&random, z, 3 * 72);
    const gyre_cview in = gyre_cdense(z, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 3, 1, 72);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out), NULL, NULL));
    const gyre_config *config = gyre_encoding_get_config(e);
    for (int t = 0; t < 3; t++)
        naive_check_rope(config, GYRE_DTYPE_F32, 1 + t, z, y, 72 * t);
    gyre_encoding_free(e);
}

/* A stride of 0 over several tokens has to be meant: one_position says so.  One token needs no stride. */
static void one_position_for_all_tokens(void **state) {
    (void)state;
    enum { ROWS = 2, TOKENS = 5, DIM = 16, ALL = ROWS * TOKENS * DIM };
    static float x[ALL], listed[ALL], meant[ALL];
    const int64_t of_rows[ROWS] = {31, -4};
    int64_t each[ROWS][TOKENS];
    test_random random = {12};
    test_fill(&random, x, ALL);
    for (int b = 0; b < ROWS; b++)
        for (int t = 0; t < TOKENS; t++)
            each[b][t] = of_rows[b];
    gyre_encoding *e = NULL;
    assert_ok(gyre_rope_create(&e, DIM, 0, GYRE_LAYOUT_HALF, NULL));
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, ROWS, TOKENS, 1, DIM);
    gyre_positions positions = {each, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
    assert_ok(gyre_rotate(e,
                          GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = in,
                                    .out = gyre_dense(listed, GYRE_DTYPE_F32, ROWS, TOKENS, 1, DIM)),
                          NULL, NULL));
    positions = (gyre_positions){.data = of_rows, .dtype = GYRE_DTYPE_I64, .stride_batch = 1};
    const gyre_rotate_args *args = GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = in,
                                             .out = gyre_dense(meant, GYRE_DTYPE_F32, ROWS, TOKENS, 1, DIM));
    assert_int_equal(gyre_rotate(e, args, NULL, NULL), GYRE_EINVAL);
    for (int i = 0; i < ALL; i++)
        assert_true(meant[i] == 0);
    positions.one_position = 1;
    assert_ok(gyre_rotate(e, args, NULL, NULL));
    assert_memory_equal(meant, listed, sizeof meant);
    positions.one_position = 0;
    gyre_rotate_args single = *args;
    single.in.shape[1] = single.out.shape[1] = 1;
    assert_ok(gyre_rotate(e, &single, NULL, NULL));
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_values_agree),
        cmocka_unit_test(angles_at_the_largest_positions),
        cmocka_unit_test(error_bound_holds_for_every_type),
        cmocka_unit_test(heads_wider_than_one_block),
        cmocka_unit_test(rotation_is_an_isometry_and_a_group),
        cmocka_unit_test(scores_depend_on_distance_only),
        cmocka_unit_test(inverse_and_adjoint),
        cmocka_unit_test(adjoint_is_the_gradient),
        cmocka_unit_test(position_0_and_unrotated_channels_are_copied),
        cmocka_unit_test(table_rows_equal_computed_rows),
        cmocka_unit_test(context_length_in_the_call),
        cmocka_unit_test(rotated_rows_match_views),
        cmocka_unit_test(one_position_for_all_tokens),
        cmocka_unit_test(other_schemes_copy),
        cmocka_unit_test(positions_out_of_range_write_nothing),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(nothing_to_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
