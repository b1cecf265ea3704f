/* test_cos_sin.c: rows of cos and sin: exact at any position, and the same bits whichever way they are computed. */
#include "support.h"

#include "core/rotation/angle_table.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { PAIRS = 64, POSITIONS = 20000 };

static gyre_config config_with(int64_t table) {
    gyre_config config = test_rope_config(2 * PAIRS, GYRE_LAYOUT_HALF);
    config.rope.base = 500000;
    config.rope.table_positions = table;
    return config;
}

static gyre_positions from(int64_t base) {
    return (gyre_positions){NULL, GYRE_DTYPE_I64, base, 0, 0, 0, 0, 0};
}

static void rows_at(const gyre_encoding *e, int64_t base, int64_t tokens, float *cosine, float *sine) {
    const int64_t pairs = gyre_encoding_get_config(e)->rope.dim / 2;
    const gyre_positions positions = from(base);
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F32, 1, tokens, 1, pairs),
                    s = gyre_dense(sine, GYRE_DTYPE_F32, 1, tokens, 1, pairs);
    assert_ok(gyre_cos_sin(e, &positions, &c, &s, NULL, NULL));
}

/* base^(-i / PAIRS), and the angle reduced by whole revolutions, in long double. 2 pi has 64 bits here, so at 2^31 the
 * reduced angle is right to 2^-33, far below the bound. */
static long double angle_of(const gyre_encoding *e, int64_t position, int64_t i) {
    const long double base = (long double)gyre_encoding_get_config(e)->rope.base;
    return (long double)position * powl(base, -(long double)i / (long double)PAIRS);
}

static void angles_are_exact_at_any_position(void **state) {
    (void)state;
    static float c[4 * PAIRS], s[4 * PAIRS];
    static const int64_t bases[] = {0, 1, 61, 4095, 131071, 999999, 123456789, -1, -70, -2000000011, 2147483640};
    double worst = 0;
    for (int table = 0; table < 2; table++) {
        const gyre_config config = config_with(table ? 0 : GYRE_NO_TABLE);
        gyre_encoding *e = test_encoding(&config);
        for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
            rows_at(e, bases[b], 4, c, s);
            for (int64_t t = 0; t < 4; t++)
                for (int64_t i = 0; i < PAIRS; i++) {
                    const int64_t m = bases[b] + t;
                    const long double angle = angle_of(e, m, i), bound = 0x1p-24L + fabsl((long double)m) * 0x1p-52L;
                    worst = fmax(worst, (double)(fabsl((long double)c[t * PAIRS + i] - cosl(angle)) / bound));
                    worst = fmax(worst, (double)(fabsl((long double)s[t * PAIRS + i] - sinl(angle)) / bound));
                }
        }
        gyre_encoding_free(e);
    }
    print_message("exact rows: %.2f of 2^-24 + |position| 2^-52\n", worst);
    assert_true(worst <= 1);
}

/* Computed by steps from an anchor or pair by pair: the same bits. */
static void step_of_rows_changes_no_bit(void **state) {
    (void)state;
    static float c[2][POSITIONS * PAIRS], s[2][POSITIONS * PAIRS];
    for (int clockwise = 0; clockwise < 2; clockwise++) {
        gyre_config config = config_with(100);
        config.rope.clockwise = clockwise;
        config.rope.attention_factor = clockwise ? 1.2079441542 : 1;
        gyre_encoding *with = test_encoding(&config);
        config.rope.table_positions = GYRE_NO_TABLE;
        gyre_encoding *without = test_encoding(&config);
        rows_at(with, -77, POSITIONS, c[0], s[0]);
        rows_at(without, -77, POSITIONS, c[1], s[1]);
        assert_memory_equal(c[0], c[1], sizeof c[0]);
        assert_memory_equal(s[0], s[1], sizeof s[0]);
        for (int64_t m = 0; m < 100; m++) {
            const float *row = gyre_angle_table_row(with, m);
            assert_non_null(row);
            assert_memory_equal(row, c[1] + (m + 77) * PAIRS, PAIRS * sizeof *row);
            assert_memory_equal(row + PAIRS, s[1] + (m + 77) * PAIRS, PAIRS * sizeof *row);
        }
        assert_null(gyre_angle_table_row(with, 100));
        assert_null(gyre_angle_table_row(with, -1));
        gyre_encoding_free(with);
        gyre_encoding_free(without);
    }
}

/* At 1024 radians per position and large positions, most of each product of doubles is in its low part. */
static void fast_pairs_change_no_bit(void **state) {
    (void)state;
    static float c[2][POSITIONS * PAIRS], s[2][POSITIONS * PAIRS];
    static double factors[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        factors[i] = 0x1p-10;
    for (int table = 0; table < 2; table++) {
        gyre_config config = config_with(table ? 100 : GYRE_NO_TABLE);
        config.rope.base = 10000;
        config.trained_length = config.context_length = 4096;
        config.rope.scaling = GYRE_SCALING_LONGROPE;
        config.rope.short_factor = config.rope.long_factor = factors;
        gyre_encoding *e = test_encoding(&config);
        rows_at(e, ((int64_t)1 << 31) - POSITIONS, POSITIONS, c[table], s[table]);
        gyre_encoding_free(e);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    assert_memory_equal(s[0], s[1], sizeof s[0]);
}

/* Tokens of an image have a position per axis: a row combines the cached rows of several positions. */
static void each_axis_has_its_own_rows(void **state) {
    (void)state;
    enum { TOKENS = 40, HEADS = 3, AXES = 3, N = TOKENS * HEADS * 2 * PAIRS };
    static float x[N], got[2][N];
    int64_t where[AXES][TOKENS];
    test_random random = {5};
    test_fill(&random, x, N);
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t a = 0; a < AXES; a++)
            where[a][t] =
                t < 30 ? 7 + t % (2 + a) + 50 * a : 980 + t * a - 1000 * (t == 35); /* the last: some outside the table */
    const gyre_positions positions = {where, GYRE_DTYPE_I64, 0, 0, 0, 1, TOKENS, 0};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 2 * PAIRS);
    for (int direction = 0; direction < 3; direction++) {
        for (int table = 0; table < 2; table++) {
            gyre_config config = config_with(table ? 1000 : GYRE_NO_TABLE);
            config.rope.axes = AXES;
            config.rope.axes_layout = GYRE_AXES_INTERLEAVED;
            config.rope.axis_pairs[0] = PAIRS - 2 * (PAIRS / 3);
            config.rope.axis_pairs[1] = config.rope.axis_pairs[2] = PAIRS / 3;
            gyre_encoding *e = test_encoding(&config);
            const gyre_view out = gyre_dense(got[table], GYRE_DTYPE_F32, 1, TOKENS, HEADS, 2 * PAIRS);
            assert_ok(gyre_rotate(e,
                                  GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction, .role = GYRE_ROLE_KEY,
                                            .positions = &positions, .in = in, .out = out),
                                  NULL, NULL));
            if (table) assert_true(gyre_angle_table_bytes(e) > 0);
            gyre_encoding_free(e);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
    }
}

/* -- many at once -- */
enum { THREADS = 4, TABLE = 3000 };
typedef struct reader {
    const gyre_encoding *e;
    int64_t start;
    float rotated[2 * PAIRS];
    int wrong;
} reader;

/* Every thread computes a row at every position of an empty table, each in another order. */
static void *compute_all(void *arg) {
    reader *r = arg;
    float x[2 * PAIRS], y[2 * PAIRS], want[2 * PAIRS];
    gyre_config config = config_with(GYRE_NO_TABLE);
    gyre_encoding *alone = test_encoding(&config);
    for (int i = 0; i < 2 * PAIRS; i++)
        x[i] = (float)(i + 1);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 2 * PAIRS);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 2 * PAIRS),
                    expected = gyre_dense(want, GYRE_DTYPE_F32, 1, 1, 1, 2 * PAIRS);
    for (int64_t i = 0; i < TABLE; i++) {
        const gyre_positions at = from((r->start + i * 7) % TABLE);
        if (gyre_rotate(r->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out),
                        NULL, NULL) != GYRE_OK)
            r->wrong++;
        if (gyre_rotate(alone,
                        GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = expected),
                        NULL, NULL) != GYRE_OK)
            r->wrong++;
        if (memcmp(y, want, sizeof y) != 0) r->wrong++;
    }
    gyre_encoding_free(alone);
    return NULL;
}

static void concurrent_readers_agree(void **state) {
    (void)state;
    const gyre_config config = config_with(TABLE);
    gyre_encoding *e = test_encoding(&config);
    pthread_t threads[THREADS];
    reader readers[THREADS];
    assert_int_equal(gyre_angle_table_bytes(e), 0); /* made as it is needed */
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (reader){.e = e, .start = i * TABLE / THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, compute_all, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readers[i].wrong, 0);
    }
    const size_t steps = 2 * 64 * PAIRS * sizeof(double), blocks = (TABLE + 63) / 64;
    assert_int_equal(gyre_angle_table_bytes(e), steps + blocks * 2 * 64 * PAIRS * sizeof(float));
    gyre_encoding_free(e);
}

/* -- shapes and errors -- */
static void views_of_any_type_and_stride(void **state) {
    (void)state;
    enum { BATCH = 2, TOKENS = 5, STEP = 3 };
    static double c[BATCH * TOKENS * PAIRS * STEP], s[BATCH * TOKENS * PAIRS * STEP];
    static float row_c[PAIRS], row_s[PAIRS];
    const int64_t where[BATCH * TOKENS] = {0, 70, 3, -9, 1000000, 5, 5, 64, 63, 2};
    const gyre_positions positions = {where, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
    const gyre_config config = config_with(0);
    gyre_encoding *e = test_encoding(&config);
    gyre_view cv = gyre_dense(c, GYRE_DTYPE_F64, BATCH, TOKENS, 1, PAIRS), sv = cv;
    sv.data = s;
    for (int i = 0; i < 4; i++)
        cv.stride[i] *= STEP;
    assert_ok(gyre_cos_sin(e, &positions, &cv, &sv, NULL, NULL));
    for (int64_t t = 0; t < BATCH * TOKENS; t++) {
        rows_at(e, where[t], 1, row_c, row_s);
        for (int64_t i = 0; i < PAIRS; i++) {
            assert_true((float)c[(t * PAIRS + i) * STEP] == row_c[i]);
            assert_true((float)s[t * PAIRS + i] == row_s[i]);
        }
    }
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    static float c[PAIRS], s[PAIRS];
    const gyre_config config = config_with(0);
    gyre_config none = GYRE_INIT(gyre_config);
    none.kind = GYRE_KIND_NOPE;
    gyre_encoding *e = test_encoding(&config), *still = test_encoding(&none);
    const gyre_positions at = from(3), past = from(((int64_t)1 << 31) + 1);
    const gyre_view cv = gyre_dense(c, GYRE_DTYPE_F32, 1, 1, 1, PAIRS), sv = gyre_dense(s, GYRE_DTYPE_F32, 1, 1, 1, PAIRS);
    const gyre_view half = gyre_dense(s, GYRE_DTYPE_F32, 1, 1, 1, PAIRS / 2),
                    whole = gyre_dense(s, GYRE_DTYPE_F16, 1, 1, 1, PAIRS);
    assert_int_equal(gyre_cos_sin(NULL, &at, &cv, &sv, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cos_sin(e, &at, &cv, NULL, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cos_sin(still, &at, &cv, &sv, NULL, NULL), GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_cos_sin(e, &at, &cv, &half, NULL, NULL), GYRE_ESHAPE);
    assert_int_equal(gyre_cos_sin(e, &at, &whole, &whole, NULL, NULL), GYRE_EDTYPE);
    static float both[2 * PAIRS];
    gyre_error err = {0, ""};
    const gyre_view low = gyre_dense(both, GYRE_DTYPE_F32, 1, 1, 1, PAIRS),
                    high = gyre_dense(both + PAIRS - 1, GYRE_DTYPE_F32, 1, 1, 1, PAIRS);
    gyre_view even = low, odd = low;
    even.stride[3] = odd.stride[3] = 2;
    odd.data = both + 1;
    assert_int_equal(gyre_cos_sin(e, &at, &low, &low, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "cosine: overlaps sine"));
    assert_int_equal(gyre_cos_sin(e, &at, &low, &high, NULL, NULL), GYRE_EINVAL);
    for (int i = 0; i < 2 * PAIRS; i++)
        assert_true(both[i] == 0);
    assert_ok(gyre_cos_sin(e, &at, &even, &odd, NULL, NULL)); /* interleaved, and apart */
    assert_int_equal(gyre_cos_sin(e, &past, &cv, &sv, NULL, NULL), GYRE_ERANGE);
    gyre_encoding_free(e);
    gyre_encoding_free(still);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_exact_at_any_position),
        cmocka_unit_test(step_of_rows_changes_no_bit),
        cmocka_unit_test(fast_pairs_change_no_bit),
        cmocka_unit_test(each_axis_has_its_own_rows),
        cmocka_unit_test(concurrent_readers_agree),
        cmocka_unit_test(views_of_any_type_and_stride),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
