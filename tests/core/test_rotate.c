/* test_rotate.c: rotations against figures, an error bound and the laws they obey. */
#include "core/rotation/rotate_rows.h"
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
enum { TYPES = 4, BIG = 1400 };
/* -- an oracle in long double -- */
typedef struct pair_turn {
    int64_t low, high; /* channels */
    long double c, s;
} pair_turn;

static pair_turn turn_of(const gyre_config *config, int64_t pair, int64_t position) {
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim;
    const long double base = config->rope.base != 0 ? (long double)config->rope.base : 10000.0L;
    const long double angle = (long double)position * powl(base, -2.0L * (long double)pair / (long double)dim);
    const int half = config->rope.layout == GYRE_LAYOUT_HALF;
    return (pair_turn){half ? pair : 2 * pair, half ? pair + dim / 2 : 2 * pair + 1, cosl(angle), sinl(angle)};
}

/* What the long double angle itself may be off by. */
static long double angle_slack(int64_t position) {
    return 1e-18L + 32.0L * LDBL_EPSILON * fabsl((long double)position);
}

/* Every channel of y = E(position) x within gamma_2 (|a c| + |b s|), the rounding of cos and sin, and half an ulp. */
static void check_row(const gyre_config *config, gyre_dtype dtype, int64_t position, const void *x, const void *y,
                      int64_t first) {
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim;
    const long double u = dtype == GYRE_DTYPE_F64 ? 0x1p-53L : 0x1p-24L, gamma_2 = 2 * u / (1 - 2 * u);
    for (int64_t i = 0; i < dim / 2; i++) {
        const pair_turn t = turn_of(config, i, position);
        const long double a = (long double)test_get(x, dtype, (size_t)(first + t.low));
        const long double b = (long double)test_get(x, dtype, (size_t)(first + t.high));
        const long double want[2] = {a * t.c - b * t.s, a * t.s + b * t.c};
        const long double size[2] = {fabsl(a * t.c) + fabsl(b * t.s), fabsl(a * t.s) + fabsl(b * t.c)};
        /* F64 cos and sin come out of libm within an ulp or two, not rounded from something better. */
        const long double angle =
            (fabsl(a) + fabsl(b)) * angle_slack(position) + (dtype == GYRE_DTYPE_F64 ? 4 * u : u) * (size[0] + size[1]);
        for (int m = 0; m < 2; m++) {
            const double got = test_get(y, dtype, (size_t)(first + (m ? t.high : t.low)));
            const long double store = dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 ? test_half_ulp(dtype, got) : 0;
            test_close(got, want[m], gamma_2 * size[m] + angle + store, "turned pair");
        }
    }
}

static gyre_positions at(int64_t position) {
    gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0};
    positions.base = position;
    return positions;
}

/* One row of one head. */
static gyre_status rotate_row(const gyre_encoding *e, gyre_direction direction, gyre_dtype dtype, int64_t position,
                              const void *x, void *y) {
    const int64_t n = gyre_encoding_get_config(e)->head_dim;
    const gyre_positions positions = at(position);
    const gyre_cview in = gyre_cdense(x, dtype, 1, 1, 1, n);
    const gyre_view out = gyre_dense(y, dtype, 1, 1, 1, n);
    return gyre_rotate(e, direction, GYRE_ROLE_QUERY, &positions, &in, &out, NULL, NULL);
}

static void agrees_with_reference(void **state) {
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
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, position, x, got));
        for (size_t i = 0; i < n; i++)
            test_close(got[i], y[i], 1e-9, "reference, f64");
        for (size_t i = 0; i < n; i++)
            x32[i] = (float)x[i];
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F32, position, x32, got32));
        check_row(&config, GYRE_DTYPE_F32, position, x32, got32, 0);
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

/* cos and sin of 2^31 base^(-2 pair / dim), from 60 digits: long double would be off by as much as the library. */
static void farthest_angles(void **state) {
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
    /* Where long double is double, the frequency has its 53 bits. */
    const long double bound = LDBL_MANT_DIG >= 64 ? 1e-9L : 1e-6L;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double x[256] = {0}, y[256];
        gyre_config config = test_rope_config(figures[i].dim, GYRE_LAYOUT_HALF);
        config.rope.base = figures[i].base;
        gyre_encoding *e = test_encoding(&config);
        x[figures[i].pair] = 1;
        for (int sign = -1; sign <= 1; sign += 2) {
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, sign * end, x, y));
            test_close(y[figures[i].pair], figures[i].c, bound, "cos");
            test_close(y[figures[i].pair + figures[i].dim / 2], sign * figures[i].s, bound, "sin");
        }
        gyre_encoding_free(e);
    }
}

static void every_type_keeps_the_bound(void **state) {
    (void)state;
    const int64_t positions[] = {0, 1, -1, 17, 4095, 131071, -123456789, (int64_t)1 << 31, -((int64_t)1 << 31)};
    test_random random = {1};
    double x[80], y[80];
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TYPES; type++)
            for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
                gyre_config config = test_rope_config(80, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
                config.rope.dim = 64;
                gyre_encoding *e = test_encoding(&config);
                for (size_t i = 0; i < 80; i++) /* magnitudes down to f16's subnormals */
                    test_put(x, types[type], i, ldexp(test_uniform(&random), -(int)(i % 20)));
                assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, types[type], positions[p], x, y));
                check_row(&config, types[type], positions[p], x, y, 0);
                gyre_encoding_free(e);
            }
}

/* More pairs than the library works on at a time. */
static void wide_heads(void **state) {
    (void)state;
    static double x[BIG], y[BIG];
    test_random random = {2};
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TYPES; type++) {
            gyre_config config = test_rope_config(BIG, layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
            config.rope.dim = BIG - 6;
            gyre_encoding *e = test_encoding(&config);
            for (size_t i = 0; i < BIG; i++)
                test_put(x, types[type], i, test_uniform(&random));
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, types[type], 777, x, y));
            check_row(&config, types[type], 777, x, y, 0);
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

static gyre_encoding *plain(gyre_layout layout) {
    gyre_config config = test_rope_config(72, layout);
    config.rope.dim = 64;
    return test_encoding(&config);
}

static gyre_encoding *yarn(void) {
    gyre_config config = test_rope_config(72, GYRE_LAYOUT_HALF);
    config.rope.dim = 64;
    config.trained_length = 1024;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 8;
    return test_encoding(&config);
}

static void isometry_and_group(void **state) {
    (void)state;
    test_random random = {3};
    double x[72], y[72], z[72], w[72];
    for (int layout = 0; layout < 2; layout++) {
        gyre_encoding *e = plain(layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
        for (int trial = 0; trial < 50; trial++) {
            const int64_t a = (int64_t)(test_next(&random) % 20000) - 10000,
                          b = (int64_t)(test_next(&random) % 20000) - 10000;
            test_fill_f64(&random, x, 72);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, b, x, y));
            test_close(dot(y, y, 72), dot(x, x, 72), 1e-13, "isometry");
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, a, y, z));
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, a + b, x, w));
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
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, m, q, eq));
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, n, k, ek));
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
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, position, x, ex));
        assert_ok(rotate_row(e, GYRE_DIRECTION_INVERSE, GYRE_DTYPE_F64, position, ex, back));
        for (int i = 0; i < 72; i++)
            test_close(back[i], x[i], 1e-15, "inverse");
        assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_DTYPE_F64, position, y, ey));
        test_close(dot(ex, y, 72), dot(x, ey, 72), 1e-13, "<E x, y> = <x, E' y>");
        assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_DTYPE_F64, position, ex, back));
        for (int i = 0; i < 64; i++)
            test_close(back[i], factor * factor * x[i], 1e-14, "adjoint after forward");
    }
    gyre_encoding_free(e);
}

/* The gradient of L = sum w . E(m) x to x, by central differences. */
static void adjoint_is_the_gradient(void **state) {
    (void)state;
    test_random random = {6};
    double x[72], w[72], y[72], gradient[72];
    const double step = 1e-4;
    gyre_encoding *e = yarn();
    test_fill_f64(&random, x, 72);
    test_fill_f64(&random, w, 72);
    assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_DTYPE_F64, 1234, w, gradient));
    for (int i = 0; i < 72; i++) {
        double loss[2];
        for (int side = 0; side < 2; side++) {
            const double kept = x[i];
            x[i] += side ? step : -step;
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, 1234, x, y));
            loss[side] = dot(w, y, 72);
            x[i] = kept;
        }
        test_close((loss[1] - loss[0]) / (2 * step), gradient[i], 1e-9, "gradient");
    }
    gyre_encoding_free(e);
}

/* Whatever the bits: NaN payloads, infinities, -0. */
static void position_0_and_the_rest_pass_untouched(void **state) {
    (void)state;
    uint64_t x[72], y[72];
    test_random random = {7};
    for (int layout = 0; layout < 2; layout++) {
        gyre_encoding *e = plain(layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
        for (int type = 0; type < TYPES; type++) {
            const size_t size = gyre_dtype_size(types[type]);
            for (int i = 0; i < 72; i++)
                x[i] = i % 3 ? test_next(&random) : i % 2 ? UINT64_MAX : (uint64_t)1 << 63 | (uint64_t)1 << 31 | 1u << 15;
            memset(y, 0, sizeof y);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, types[type], 0, x, y));
            assert_memory_equal(x, y, 72 * size);
            memset(y, 0, sizeof y);
            assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, types[type], 5, x, y));
            assert_memory_equal((char *)x + 64 * size, (char *)y + 64 * size, 8 * size);
            assert_true(memcmp(x, y, 64 * size) != 0);
        }
        gyre_encoding_free(e);
    }
}

/* -- memory -- */
enum { BATCH = 2, TOKENS = 70, HEADS = 3, CHANNELS = 72, ALL = BATCH * TOKENS * HEADS * CHANNELS };

typedef struct sample {
    gyre_encoding *e;
    gyre_dtype dtype;
    int64_t position[BATCH][TOKENS];
    gyre_positions positions;
    double x[ALL], dense[ALL]; /* memory for any type */
} sample;

static sample *sample_make(gyre_dtype dtype, gyre_layout layout) {
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {8};
    s->e = plain(layout);
    s->dtype = dtype;
    for (size_t i = 0; i < ALL; i++)
        test_put(s->x, dtype, i, test_uniform(&random));
    for (int i = 0; i < BATCH * TOKENS; i++)
        s->position[i / TOKENS][i % TOKENS] = (int64_t)(test_next(&random) % 4000) - 1000;
    s->positions = (gyre_positions){s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0};
    const gyre_cview in = gyre_cdense(s->x, dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(s->dense, dtype, BATCH, TOKENS, HEADS, CHANNELS);
    assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &s->positions, &in, &out, NULL, NULL));
    return s;
}

static void sample_free(sample *s) {
    gyre_encoding_free(s->e);
    free(s);
}

typedef void sample_check(sample *s);
static void for_all_samples(sample_check *check) {
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TYPES; type++) {
            sample *s = sample_make(types[type], layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
            check(s);
            sample_free(s);
        }
}

static void check_batches(sample *s) {
    gyre_config config = *gyre_encoding_get_config(s->e);
    for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
        const int token = row / HEADS;
        check_row(&config, s->dtype, s->position[token / TOKENS][token % TOKENS], s->x, s->dense, row * CHANNELS);
    }
}

static void check_in_place(sample *s) {
    const gyre_view out = gyre_dense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_cview in = gyre_const(out);
    assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &s->positions, &in, &out, NULL, NULL));
    assert_memory_equal(s->x, s->dense, ALL * gyre_dtype_size(s->dtype));
}

/* Memory as [channel][head][token][batch] with gaps, walked backwards along the tokens. */
static void check_strided(sample *s) {
    const size_t size = gyre_dtype_size(s->dtype);
    const int64_t stride[4] = {2, -2 * BATCH, 2 * BATCH * TOKENS, 2 * BATCH * TOKENS * HEADS};
    char *x = calloc(2 * ALL, size), *y = calloc(2 * ALL, size);
    assert_non_null(x);
    assert_non_null(y);
    const int64_t start = 2 * BATCH * (TOKENS - 1);
    gyre_view out = gyre_dense(y + (size_t)start * size, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    memcpy(out.stride, stride, sizeof stride);
    gyre_cview in = gyre_const(out);
    in.data = x + (size_t)start * size;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < ALL; i++) {
            const int64_t place = start + i / (TOKENS * HEADS * CHANNELS) * stride[0] +
                                  i / (HEADS * CHANNELS) % TOKENS * stride[1] + i / CHANNELS % HEADS * stride[2] +
                                  i % CHANNELS * stride[3];
            if (pass)
                assert_memory_equal(y + (size_t)place * size, (char *)s->dense + (size_t)i * size, size);
            else
                memcpy(x + (size_t)place * size, (char *)s->x + (size_t)i * size, size);
        }
        if (!pass) assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &s->positions, &in, &out, NULL, NULL));
    }
    free(x);
    free(y);
}

/* Any cut along batch, token or head gives the whole. */
static void check_splits(sample *s) {
    const size_t size = gyre_dtype_size(s->dtype);
    static double y[ALL];
    memset(y, 0, sizeof y);
    const gyre_cview whole = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t first = 0, count; first < TOKENS; first += count)
            for (int64_t h = 0; h < HEADS; h += 2) {
                count = first == 0 ? 33 : first == 33 ? 1 : TOKENS - 34;
                const int64_t offset = b * whole.stride[0] + first * whole.stride[1] + h * whole.stride[2];
                gyre_cview in = whole;
                in.data = (const char *)s->x + (size_t)offset * size;
                in.shape[0] = 1;
                in.shape[1] = count;
                in.shape[2] = h + 2 <= HEADS ? 2 : 1;
                gyre_view out = {(char *)y + (size_t)offset * size, s->dtype, {0}, {0}};
                memcpy(out.shape, in.shape, sizeof in.shape);
                memcpy(out.stride, in.stride, sizeof in.stride);
                const gyre_positions positions = {&s->position[b][first], GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0};
                assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL));
            }
    assert_memory_equal(y, s->dense, ALL * size);
}

static void check_threads(sample *s) {
    static double y[ALL];
    const gyre_cview in = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(y, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    for (int threads = 1; threads <= 3; threads++) {
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, threads, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        memset(y, 0, sizeof y);
        assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &s->positions, &in, &out, &exec, NULL));
        assert_memory_equal(y, s->dense, ALL * gyre_dtype_size(s->dtype));
        gyre_pool_free(pool);
    }
}

/* The same positions as I32, backwards, and one row for the whole batch. */
static void check_position_views(sample *s) {
    static double y[ALL];
    const size_t size = gyre_dtype_size(s->dtype), row = ALL / BATCH * size;
    int32_t narrow[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        narrow[TOKENS - 1 - t] = (int32_t)s->position[0][t];
    const gyre_positions positions = {narrow + TOKENS - 1, GYRE_DTYPE_I32, 0, 0, 0, -1, 0};
    gyre_cview in = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(y, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    in.stride[0] = 0; /* one input row for both */
    assert_ok(gyre_rotate(s->e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL));
    assert_memory_equal(y, s->dense, row);
    assert_memory_equal((char *)y + row, s->dense, row);
}

static void batches_keep_the_bound(void **state) {
    (void)state;
    for_all_samples(check_batches);
}
static void in_place_is_out_of_place(void **state) {
    (void)state;
    for_all_samples(check_in_place);
}
static void strided_is_dense(void **state) {
    (void)state;
    for_all_samples(check_strided);
}
static void splits_are_the_whole(void **state) {
    (void)state;
    for_all_samples(check_splits);
}
static void threads_change_nothing(void **state) {
    (void)state;
    for_all_samples(check_threads);
}
static void positions_in_any_form(void **state) {
    (void)state;
    for_all_samples(check_position_views);
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
            for (int64_t position = -2; position < 25; position++) { /* before, inside and past the table */
                assert_ok(rotate_row(computed, (gyre_direction)direction, GYRE_DTYPE_F32, position, x, y));
                assert_ok(rotate_row(table, (gyre_direction)direction, GYRE_DTYPE_F32, position, x, z));
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

/* A length in the call does what the same length in the config does, table or not. */
static void length_in_the_call(void **state) {
    (void)state;
    static double x[BIG], y[BIG], z[BIG];
    test_random random = {10};
    for (int type = 0; type < TYPES; type++) {
        gyre_config config = dynamic_config();
        config.rope.table_positions = 100;
        gyre_encoding *trained = test_encoding(&config);
        config.rope.context_length = 1000;
        gyre_encoding *longer = test_encoding(&config);
        for (size_t i = 0; i < BIG; i++)
            test_put(x, types[type], i, test_uniform(&random));
        gyre_positions positions = at(77);
        const gyre_cview in = gyre_cdense(x, types[type], 1, 1, 1, BIG);
        const gyre_view out = gyre_dense(y, types[type], 1, 1, 1, BIG);
        positions.context_length = 1000;
        assert_ok(gyre_rotate(trained, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, &positions, &in, &out, NULL, NULL));
        assert_ok(rotate_row(longer, GYRE_DIRECTION_FORWARD, types[type], 77, x, z));
        assert_memory_equal(y, z, BIG * gyre_dtype_size(types[type]));
        assert_ok(rotate_row(trained, GYRE_DIRECTION_FORWARD, types[type], 77, x, z));
        assert_memory_not_equal(y, z, BIG * gyre_dtype_size(types[type]));
        gyre_encoding_free(trained);
        gyre_encoding_free(longer);
    }
}

/* What attention calls for its tiles. */
static void rows_turn_as_views_do(void **state) {
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
            gyre_encoding *e = test_encoding(&config);
            test_fill(&random, x, ROWS * BIG);
            const gyre_positions positions = {where, GYRE_DTYPE_I64, 0, length, 0, 1, 0};
            const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, ROWS, 1, BIG);
            const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, ROWS, 1, BIG);
            const gyre_rotation_spec turn = {.role = GYRE_ROLE_KEY, .length = length, .positions = &positions};
            assert_ok(gyre_rotate(e, GYRE_DIRECTION_ADJOINT, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL));
            gyre_rotation_angles(e, &turn, 0, ROWS, angles);
            gyre_rotate_rows(e, angles, ROWS, x, BIG, 1);
            assert_memory_equal(x, y, sizeof x);
            gyre_encoding_free(e);
        }
}

/* -- the rest -- */
static void other_schemes_copy(void **state) {
    (void)state;
    float x[24], y[24] = {0};
    test_random random = {12};
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *e = test_encoding(&config);
    test_fill(&random, x, 24);
    const gyre_positions positions = at(3);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 2, 2, 2, 3);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 2, 2, 2, 3);
    assert_ok(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, &positions, &in, &out, NULL, NULL));
    assert_memory_equal(x, y, sizeof x);
    gyre_encoding_free(e);
}

static void far_positions_leave_the_output_alone(void **state) {
    (void)state;
    float x[3 * 72], y[3 * 72], before[3 * 72];
    test_random random = {13};
    test_fill(&random, x, 3 * 72);
    test_fill(&random, y, 3 * 72);
    memcpy(before, y, sizeof y);
    gyre_encoding *e = plain(GYRE_LAYOUT_HALF);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const int64_t far = ((int64_t)1 << 31) + 1;
    const int64_t lists[][3] = {{0, 1, far}, {0, -far, 2}, {INT64_MIN, 0, 0}, {0, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const gyre_positions positions = {lists[i], GYRE_DTYPE_I64, 0, 0, 0, 1, 0};
        assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, &positions, &in, &out, NULL, NULL),
                         GYRE_ERANGE);
    }
    const int64_t bases[] = {far - 3, far - 2, -far, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        const gyre_positions positions = at(bases[i]);
        const int reached = bases[i] == far - 3; /* far - 3 .. far - 1 are all inside */
        assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, &positions, &in, &out, NULL, NULL),
                         reached ? GYRE_OK : GYRE_ERANGE);
        if (reached) memcpy(y, before, sizeof y);
    }
    assert_memory_equal(y, before, sizeof y);
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    float x[72] = {0}, y[72];
    gyre_encoding *e = plain(GYRE_LAYOUT_HALF);
    const gyre_positions good = at(1);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 72);
    assert_int_equal(gyre_rotate(NULL, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &in, &out, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, NULL, &in, &out, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e, (gyre_direction)7, GYRE_ROLE_KEY, &good, &in, &out, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, (gyre_role)7, &good, &in, &out, NULL, NULL), GYRE_EINVAL);

    gyre_positions positions = good;
    positions.context_length = -1;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL), GYRE_EINVAL);
    positions = good;
    positions.data = x;
    positions.dtype = GYRE_DTYPE_F32;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL), GYRE_EDTYPE);

    gyre_cview bad = in;
    bad.dtype = GYRE_DTYPE_I32;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &bad, &out, NULL, NULL), GYRE_EDTYPE);
    bad.dtype = GYRE_DTYPE_F16;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &bad, &out, NULL, NULL), GYRE_EDTYPE);
    bad = in;
    bad.shape[1] = 2;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &bad, &out, NULL, NULL), GYRE_ESHAPE);
    bad = in;
    bad.data = NULL;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &bad, &out, NULL, NULL), GYRE_EINVAL);

    gyre_cview narrow = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 64);
    gyre_view narrow_out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 64);
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &narrow, &narrow_out, NULL, NULL),
                     GYRE_ESHAPE);
    narrow.shape[0] = narrow_out.shape[0] = -1;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &narrow, &narrow_out, NULL, NULL),
                     GYRE_ESHAPE);

    /* In place through other strides, and an output that overlaps itself. */
    gyre_view shifted = gyre_dense(x, GYRE_DTYPE_F32, 1, 1, 1, 72);
    shifted.stride[3] = -1;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &in, &shifted, NULL, NULL), GYRE_EINVAL);
    shifted = out;
    shifted.stride[3] = 0;
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &in, &shifted, NULL, NULL), GYRE_EINVAL);

    /* Strides that no int64 holds. */
    const int64_t most = (int64_t)1 << 40;
    const gyre_cview absurd = gyre_cdense(x, GYRE_DTYPE_F32, most, most, most, 72);
    const gyre_view absurd_out = gyre_dense(y, GYRE_DTYPE_F32, most, most, most, 72);
    assert_int_equal(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &good, &absurd, &absurd_out, NULL, NULL),
                     GYRE_ESHAPE);
    gyre_encoding_free(e);
}

/* No tokens, in dense views too; shapes that would take forever to walk. */
static void nothing_to_rotate(void **state) {
    (void)state;
    float x[72];
    const int64_t wide = (int64_t)1 << 40, shapes[][3] = {{1, 0, 1}, {2, 0, 1}, {0, wide, wide}, {wide, wide, 0}};
    gyre_encoding *e = plain(GYRE_LAYOUT_HALF);
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 1, 0, INT64_MAX, INT64_MAX, 0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const gyre_view out = gyre_dense(i % 2 ? x : NULL, GYRE_DTYPE_F32, shapes[i][0], shapes[i][1], shapes[i][2], 72);
        const gyre_cview in = gyre_const(out);
        assert_ok(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL));
    }
    /* Where there is no data, strides of positions are not looked at, whatever they are. */
    float y[3 * 72], z[3 * 72];
    test_random random = {19};
    test_fill(&random, z, 3 * 72);
    const gyre_cview in = gyre_cdense(z, GYRE_DTYPE_F32, 1, 3, 1, 72);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 3, 1, 72);
    assert_ok(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &positions, &in, &out, NULL, NULL));
    const gyre_config *config = gyre_encoding_get_config(e);
    for (int t = 0; t < 3; t++)
        check_row(config, GYRE_DTYPE_F32, 1 + t, z, y, 72 * t);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_reference),
        cmocka_unit_test(farthest_angles),
        cmocka_unit_test(every_type_keeps_the_bound),
        cmocka_unit_test(wide_heads),
        cmocka_unit_test(isometry_and_group),
        cmocka_unit_test(scores_depend_on_distance_only),
        cmocka_unit_test(inverse_and_adjoint),
        cmocka_unit_test(adjoint_is_the_gradient),
        cmocka_unit_test(position_0_and_the_rest_pass_untouched),
        cmocka_unit_test(batches_keep_the_bound),
        cmocka_unit_test(in_place_is_out_of_place),
        cmocka_unit_test(strided_is_dense),
        cmocka_unit_test(splits_are_the_whole),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(positions_in_any_form),
        cmocka_unit_test(table_rows_equal_computed_rows),
        cmocka_unit_test(length_in_the_call),
        cmocka_unit_test(rows_turn_as_views_do),
        cmocka_unit_test(other_schemes_copy),
        cmocka_unit_test(far_positions_leave_the_output_alone),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(nothing_to_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
