/* test_xpos_temperature.c: factors on rotated queries and keys: xPos, and the temperature of queries. */
#include "naive_rotation.h"

#include <string.h>

enum { WIDE = NAIVE_CHANNELS };

static double x[WIDE], y[WIDE], z[WIDE], q[WIDE], k[WIDE];

static void fill(test_random *random, gyre_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        test_put(x, dtype, (size_t)i, test_uniform(random));
}

typedef struct call {
    const gyre_encoding *e;
    gyre_direction direction;
    gyre_role role;
    gyre_dtype dtype;
    int64_t channels;
} call;

static gyre_status rotate(const call *c, int64_t position, const void *in, void *out) {
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, position, 0, 0, 0, 0, 0};
    const gyre_cview from = gyre_cdense(in, c->dtype, 1, 1, 1, c->channels);
    const gyre_view to = gyre_dense(out, c->dtype, 1, 1, 1, c->channels);
    return gyre_rotate(c->e,
                       GYRE_ARGS(gyre_rotate_args, .direction = c->direction, .role = c->role, .positions = &positions,
                                 .in = from, .out = to),
                       NULL, NULL);
}

/* -- xPos -- */
static gyre_config xpos(int64_t head_dim, gyre_layout layout, int64_t center) {
    gyre_config config = test_rope_config(head_dim, layout);
    config.rope.xpos_base = 512;
    config.rope.xpos_center = center;
    return config;
}

static void xpos_formula(void **state) {
    (void)state;
    test_random random = {51};
    const int64_t dims[] = {64, WIDE};
    for (int d = 0; d < 2; d++)
        for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED_TO_HALF; layout++)
            for (int type = 0; type < TEST_DTYPES; type++) {
                gyre_config config = xpos(dims[d], (gyre_layout)layout, 100);
                config.rope.dim = dims[d] - 8;
                config.rope.first_channel = 2;
                config.rope.table_positions = 150; /* a table of angles, not of magnitudes */
                gyre_encoding *e = test_encoding(&config);
                for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++)
                    for (int role = GYRE_ROLE_QUERY; role <= GYRE_ROLE_KEY; role++)
                        for (int64_t position = -100; position <= 2000; position += 100) {
                            const call c = {e, (gyre_direction)direction, (gyre_role)role, test_dtypes[type], dims[d]};
                            const naive_rotation naive = {gyre_encoding_get_config(e), NULL, c.direction, c.role};
                            fill(&random, test_dtypes[type], dims[d]);
                            assert_ok(rotate(&c, position, x, y));
                            naive_check(&naive, &position, 1, test_dtypes[type], x, y);
                        }
                gyre_encoding_free(e);
            }
}

static long double score(const gyre_encoding *e, int64_t m, int64_t n) {
    long double sum = 0;
    const call query = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, 64},
               key = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, GYRE_DTYPE_F64, 64};
    assert_ok(rotate(&query, m, q, y));
    assert_ok(rotate(&key, n, k, z));
    for (int i = 0; i < 64; i++)
        sum += (long double)y[i] * (long double)z[i];
    return sum;
}

/* The score of a pair of channels is RoPE's times zeta^((m - n) / base), at any two positions with any centre. */
static void xpos_scores_are_relative(void **state) {
    (void)state;
    test_random random = {52};
    const int64_t centers[] = {0, 700, -3000}, distances[] = {0, 1, 17, 500, 3000};
    const gyre_config plain = test_rope_config(64, GYRE_LAYOUT_HALF);
    gyre_encoding *rope = test_encoding(&plain);
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++)
        for (int pair = 0; pair < 32; pair++) {
            memset(q, 0, sizeof q);
            memset(k, 0, sizeof k);
            for (int member = 0; member < 2; member++) {
                q[pair + 32 * member] = test_uniform(&random);
                k[pair + 32 * member] = test_uniform(&random);
            }
            const long double zeta = (2 * pair + 0.4L * 64) / (1.4L * 64);
            const long double want = score(rope, distances[d], 0) * powl(zeta, (long double)distances[d] / 512);
            for (size_t c = 0; c < 3; c++)
                for (int64_t n = -900; n < 2000; n += 700) {
                    const gyre_config config = xpos(64, GYRE_LAYOUT_HALF, centers[c]);
                    gyre_encoding *e = test_encoding(&config);
                    test_close(score(e, n + distances[d], n), want, 1e-12L, "score");
                    gyre_encoding_free(e);
                }
        }
    gyre_encoding_free(rope);
}

static void xpos_inverse_and_adjoint(void **state) {
    (void)state;
    test_random random = {53};
    const gyre_config config = xpos(64, GYRE_LAYOUT_INTERLEAVED, 10);
    gyre_encoding *e = test_encoding(&config);
    for (int role = GYRE_ROLE_QUERY; role <= GYRE_ROLE_KEY; role++) {
        call c = {e, GYRE_DIRECTION_FORWARD, (gyre_role)role, GYRE_DTYPE_F64, 64};
        long double left = 0, right = 0;
        fill(&random, GYRE_DTYPE_F64, 64);
        test_fill_f64(&random, k, 64);
        assert_ok(rotate(&c, 900, x, y));
        c.direction = GYRE_DIRECTION_INVERSE;
        assert_ok(rotate(&c, 900, y, z));
        for (int i = 0; i < 64; i++)
            test_close(z[i], x[i], 1e-13L, "inverse");
        c.direction = GYRE_DIRECTION_ADJOINT;
        assert_ok(rotate(&c, 900, k, z));
        for (int i = 0; i < 64; i++) {
            left += (long double)y[i] * (long double)k[i];
            right += (long double)x[i] * (long double)z[i];
        }
        test_close(left, right, 1e-12L, "<E x, y> = <x, E' y>");
    }
    gyre_encoding_free(e);
}

/* The fastest pair shrinks by (0.4 / 1.4)^(n / 512), which is 2^-100 at n = 28328.8. One position more is refused, and
 * nothing is written, not even the rows before it. */
static void xpos_out_of_range(void **state) {
    (void)state;
    test_random random = {54};
    const int64_t last = (int64_t)floor(100 * 512 / log2(1.4 / 0.4));
    float in[2 * 64], out[2 * 64], before[2 * 64];
    gyre_config config = xpos(64, GYRE_LAYOUT_HALF, -50);
    gyre_encoding *e = test_encoding(&config);
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F32, 1, 2, 1, 64);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, 2, 1, 64);
    test_fill(&random, in, 2 * 64);
    test_fill(&random, out, 2 * 64);
    memcpy(before, out, sizeof out);
    for (int role = GYRE_ROLE_QUERY; role <= GYRE_ROLE_KEY; role++)
        for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++)
            for (int sign = -1; sign <= 1; sign += 2) {
                int64_t at[2] = {0, -50 + sign * (last + 1)};
                const gyre_positions positions = {at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
                assert_int_equal(
                    gyre_rotate(e,
                                GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction, .role = (gyre_role)role,
                                          .positions = &positions, .in = from, .out = to),
                                NULL, NULL),
                    GYRE_ERANGE);
                assert_memory_equal(out, before, sizeof out);
                at[1] -= sign;
                assert_ok(gyre_rotate(e,
                                      GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                                .role = (gyre_role)role, .positions = &positions, .in = from, .out = to),
                                      NULL, NULL));
                for (int i = 0; i < 2 * 64; i++)
                    assert_true(isfinite(out[i]));
                memcpy(out, before, sizeof out);
            }
    gyre_encoding_free(e);

    /* The attention factor is included: 2^60 leaves a factor of 2^40 upwards, and of 2^160 downwards. */
    config.rope.attention_factor = 0x1p60;
    e = test_encoding(&config);
    const call query = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F32, 64},
               key = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, GYRE_DTYPE_F32, 64};
    assert_int_equal(rotate(&key, -50 + last / 2, in, out), GYRE_ERANGE);
    assert_ok(rotate(&query, -50 + last, in, out));
    gyre_encoding_free(e);
}

/* -- the temperature -- */
static gyre_config temperature(gyre_kind kind, gyre_temperature which, int64_t length, double slope) {
    gyre_config config = test_rope_config(48, GYRE_LAYOUT_HALF);
    config.kind = kind;
    config.rope.dim = 24;
    config.rope.first_channel = 6;
    config.rope.attention_factor = kind == GYRE_KIND_ROPE ? 1.5 : 0;
    config.query.temperature = which;
    config.query.reference_length = length;
    config.query.slope = slope;
    return config;
}

/* Computed separately: 1 + 0.1 ln 2 = 1.0693..., ln 4096 / ln 512 = 4 / 3. */
static void temperature_figures(void **state) {
    (void)state;
    static const struct {
        gyre_temperature which;
        int64_t length, position;
        double slope, want;
    } figures[] = {{GYRE_TEMPERATURE_LLAMA4, 8192, 8190, 0.1, 1},
                   {GYRE_TEMPERATURE_LLAMA4, 8192, 8191, 0.1, 1.06931471805599453094},
                   {GYRE_TEMPERATURE_LLAMA4, 8192, 16383, 0.1, 1.10986122886681096914},
                   {GYRE_TEMPERATURE_LLAMA4, 8192, 131071, 0.1, 1.28332133440562160802},
                   {GYRE_TEMPERATURE_LLAMA4, 1, -1, 0.1, 1},
                   {GYRE_TEMPERATURE_LLAMA4, 1, -7, 0.1, 1},
                   {GYRE_TEMPERATURE_MINISTRAL, 16384, 16383, 0.1, 1},
                   {GYRE_TEMPERATURE_MINISTRAL, 16384, 16384, 0.1, 1.06931471805599453094},
                   {GYRE_TEMPERATURE_MINISTRAL, 16384, 32768, 0.5, 1.54930614433405484570},
                   {GYRE_TEMPERATURE_MINISTRAL, 1, -1, 0.1, 1},
                   {GYRE_TEMPERATURE_INKLING, 8192, 8191, 0.1, 1},
                   {GYRE_TEMPERATURE_INKLING, 8192, 8192, 0.1, 1.00001220628625256774},
                   {GYRE_TEMPERATURE_INKLING, 8192, 32767, 0.5, 1.69314718055994530942},
                   {GYRE_TEMPERATURE_INKLING, 1, -1, 0.1, 1},
                   {GYRE_TEMPERATURE_LOG, 512, 511, 0, 1},
                   {GYRE_TEMPERATURE_LOG, 512, 0, 0, 1},
                   {GYRE_TEMPERATURE_LOG, 512, -3, 0, 1},
                   {GYRE_TEMPERATURE_LOG, 512, 4095, 0, 4.0 / 3}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const gyre_config config = temperature(GYRE_KIND_NOPE, figures[i].which, figures[i].length, figures[i].slope);
        gyre_encoding *e = test_encoding(&config);
        const call c = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, 3};
        const double one[3] = {1, -2, 0};
        assert_int_equal(gyre_encoding_places(e), GYRE_PLACE_QUERY_KEY);
        assert_ok(rotate(&c, figures[i].position, one, y));
        test_close(y[0], figures[i].want, 1e-15L, "temperature");
        test_close(y[1], -2 * figures[i].want, 1e-15L, "temperature");
        assert_true(y[2] == 0);
        gyre_encoding_free(e);
    }
}

/* The whole row of a query is scaled, including channels that are not rotated. Keys are not scaled. */
static void temperature_formula(void **state) {
    (void)state;
    test_random random = {55};
    for (int which = GYRE_TEMPERATURE_LOG; which <= GYRE_TEMPERATURE_INKLING; which++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++)
                for (int role = GYRE_ROLE_QUERY; role <= GYRE_ROLE_KEY; role++)
                    for (int64_t position = 0; position <= 4000; position += 500) {
                        gyre_config config = temperature(GYRE_KIND_ROPE, (gyre_temperature)which, 300, 0.7);
                        config.rope.table_positions = 2000;
                        gyre_encoding *e = test_encoding(&config);
                        const call c = {e, (gyre_direction)direction, (gyre_role)role, test_dtypes[type], 48};
                        const naive_rotation naive = {gyre_encoding_get_config(e), NULL, c.direction, c.role};
                        fill(&random, test_dtypes[type], 48);
                        assert_ok(rotate(&c, position, x, y));
                        naive_check(&naive, &position, 1.5L, test_dtypes[type], x, y);
                        assert_ok(rotate(&c, position, x, x)); /* in place */
                        assert_memory_equal(x, y, 48 * gyre_dtype_size(test_dtypes[type]));
                        gyre_encoding_free(e);
                    }
}

/* Schemes without a rotation have a temperature too. Where it is 1, they copy all bits. */
static void temperature_without_rotation(void **state) {
    (void)state;
    test_random random = {56};
    const gyre_kind kinds[] = {GYRE_KIND_NOPE, GYRE_KIND_ALIBI};
    for (int i = 0; i < 2; i++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++) {
                gyre_config config = temperature(kinds[i], GYRE_TEMPERATURE_LOG, 100, 0);
                config.heads = 4;
                config.head_dim = WIDE;
                gyre_encoding *e = test_encoding(&config);
                const size_t size = gyre_dtype_size(test_dtypes[type]);
                const double by = log(1001) / log(100), factor = direction == GYRE_DIRECTION_INVERSE ? 1 / by : by;
                call c = {e, (gyre_direction)direction, GYRE_ROLE_QUERY, test_dtypes[type], WIDE};
                fill(&random, test_dtypes[type], WIDE);
                assert_ok(rotate(&c, 1000, x, y));
                for (int j = 0; j < WIDE; j++) {
                    const double got = test_get(y, test_dtypes[type], (size_t)j),
                                 from = test_get(x, test_dtypes[type], (size_t)j);
                    const double bound = 1e-15 * fabs(got) + 1.0000001 * test_half_ulp(test_dtypes[type], got);
                    test_close(got, from * factor, (long double)bound, "one rounding");
                }
                memset(x, 0xFF, 8); /* a NaN with a payload */
                assert_ok(rotate(&c, 99, x, y));
                assert_memory_equal(x, y, WIDE * size);
                c.role = GYRE_ROLE_KEY;
                assert_ok(rotate(&c, 1000, x, y));
                assert_memory_equal(x, y, WIDE * size);
                gyre_encoding_free(e);
            }
}

static void temperature_inverse_and_adjoint(void **state) {
    (void)state;
    test_random random = {57};
    const gyre_config config = temperature(GYRE_KIND_ROPE, GYRE_TEMPERATURE_LLAMA4, 64, 2);
    gyre_encoding *e = test_encoding(&config);
    call c = {e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, GYRE_DTYPE_F64, 48};
    long double left = 0, right = 0;
    fill(&random, GYRE_DTYPE_F64, 48);
    test_fill_f64(&random, k, 48);
    assert_ok(rotate(&c, 5000, x, y));
    c.direction = GYRE_DIRECTION_INVERSE;
    assert_ok(rotate(&c, 5000, y, z));
    for (int i = 0; i < 48; i++)
        test_close(z[i], x[i], 1e-14L, "inverse");
    c.direction = GYRE_DIRECTION_ADJOINT;
    assert_ok(rotate(&c, 5000, k, z));
    for (int i = 0; i < 48; i++) {
        left += (long double)y[i] * (long double)k[i];
        right += (long double)x[i] * (long double)z[i];
    }
    test_close(left, right, 1e-11L, "<E x, y> = <x, E' y>");
    gyre_encoding_free(e);
}

/* -- what is refused -- */
static void wrong_numbers(void **state) {
    (void)state;
    const double bad[] = {-1, (double)NAN, (double)INFINITY};
    const gyre_config good = xpos(64, GYRE_LAYOUT_HALF, 0),
                      log_n = temperature(GYRE_KIND_NOPE, GYRE_TEMPERATURE_LOG, 100, 0.1);
    for (int i = 0; i < 3; i++) {
        ASSERT_CONFIG_REFUSED(good, rope.xpos_base, bad[i]);
        ASSERT_CONFIG_REFUSED(log_n, query.slope, bad[i]);
    }
    ASSERT_CONFIG_REFUSED(good, rope.xpos_base, 3.99);
    ASSERT_CONFIG_REFUSED(good, rope.xpos_center, ((int64_t)1 << 31) + 1);
    ASSERT_CONFIG_REFUSED(good, rope.xpos_center, INT64_MIN);
    gyre_config config = good;
    config.rope.axes = 2;
    config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = 16;
    assert_config_refused(&config, "rope.xpos_base");
    ASSERT_CONFIG_REFUSED(log_n, query.temperature, (gyre_temperature)(GYRE_TEMPERATURE_INKLING + 1));
    ASSERT_CONFIG_REFUSED(log_n, query.temperature, (gyre_temperature)-1);
    ASSERT_CONFIG_REFUSED(log_n, query.reference_length, 0); /* nor is there a trained_length */
    ASSERT_CONFIG_REFUSED(log_n, query.reference_length, 1);
    ASSERT_CONFIG_REFUSED(log_n, query.reference_length, -1);
    ASSERT_CONFIG_REFUSED(log_n, query.slope, 0x1.1p32);
    ASSERT_CONFIG_REFUSED(temperature(GYRE_KIND_ROPE, GYRE_TEMPERATURE_LLAMA4, 8, 0), query.reference_length, 0);
    config = temperature(GYRE_KIND_NOPE, GYRE_TEMPERATURE_MINISTRAL, 0, 0);
    config.trained_length = 77;
    gyre_encoding *e = test_encoding(&config);
    assert_int_equal(gyre_encoding_get_config(e)->query.reference_length, 77);
    assert_true(gyre_encoding_get_config(e)->query.slope == 0.1);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xpos_formula),
        cmocka_unit_test(xpos_scores_are_relative),
        cmocka_unit_test(xpos_inverse_and_adjoint),
        cmocka_unit_test(xpos_out_of_range),
        cmocka_unit_test(temperature_figures),
        cmocka_unit_test(temperature_formula),
        cmocka_unit_test(temperature_without_rotation),
        cmocka_unit_test(temperature_inverse_and_adjoint),
        cmocka_unit_test(wrong_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
