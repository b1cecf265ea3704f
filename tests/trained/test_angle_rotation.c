/* test_angle_rotation.c: rotation by angles of the caller against its definition in long double, the gradient against
 * differences of a loss, and angles that are sums along a sequence (gyre_gate_sums). */
#include "core/convert.h"
#include "gyre/gyre_attention.h"
#include "gyre/gyre_trained.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 5, HEADS = 3, PAIRS = 131 /* more than a chunk */, ROWS = BATCH * TOKENS * HEADS };
enum { CHANNELS = 2 * PAIRS + 5, SIZE = ROWS * CHANNELS, ANGLES = ROWS * PAIRS };

typedef struct shape {
    gyre_layout layout;
    gyre_dtype angles;
    int64_t heads, first_channel, pairs, channels;
} shape;
static const shape shapes[] = {{GYRE_LAYOUT_HALF, GYRE_DTYPE_F64, HEADS, 0, 4, 8},
                               {GYRE_LAYOUT_INTERLEAVED, GYRE_DTYPE_F32, 1, 0, 3, 7},
                               {GYRE_LAYOUT_HALF, GYRE_DTYPE_F32, HEADS, 3, 2, 9},
                               {GYRE_LAYOUT_INTERLEAVED, GYRE_DTYPE_F64, 1, 2, PAIRS, CHANNELS}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double in[SIZE], weight[SIZE], out[SIZE], angles[ANGLES];
static float float_angles[ANGLES];

static double draw(test_random *random) {
    return (double)(test_next(random) % 200001) / 100000 - 1;
}

/* Angles of every size; those of F32 are exact in both types. */
static void draw_all(uint64_t seed, double largest) {
    test_random random = {seed};
    for (int i = 0; i < SIZE; i++) {
        in[i] = 3 * draw(&random);
        weight[i] = draw(&random);
    }
    for (int i = 0; i < ANGLES; i++) {
        float_angles[i] = (float)(pow(largest, draw(&random)) * draw(&random));
        angles[i] = (double)float_angles[i];
    }
}

static gyre_cview rows_of(const double *x, const shape *s) {
    return gyre_cdense(x, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, s->channels);
}

static gyre_angle_rotation rotation_of(const shape *s) {
    const void *data = s->angles == GYRE_DTYPE_F64 ? (const void *)angles : float_angles;
    return (gyre_angle_rotation){.size = sizeof(gyre_angle_rotation),
                                 .layout = s->layout,
                                 .first_channel = s->first_channel,
                                 .angles = gyre_cdense(data, s->angles, BATCH, TOKENS, s->heads, s->pairs)};
}

static gyre_status rotate(const gyre_angle_rotation *r, gyre_direction direction, gyre_cview from, gyre_view to,
                          const gyre_exec *exec) {
    return gyre_angle_rotate(r, GYRE_ARGS(gyre_rotate_args, .direction = direction, .in = from, .out = to), exec, NULL);
}

static void run(const shape *s) {
    const gyre_angle_rotation r = rotation_of(s);
    assert_ok(rotate(&r, GYRE_DIRECTION_FORWARD, rows_of(in, s),
                     gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, s->channels), NULL));
}

/* want[channels] = a row with these channels, rotated. */
static void define(const shape *s, int row, const double *x, long double *want) {
    const double *angle = angles + (s->heads == 1 ? row / HEADS : row) * s->pairs;
    for (int64_t c = 0; c < s->channels; c++)
        want[c] = (long double)x[c];
    for (int64_t i = 0; i < s->pairs; i++) {
        const int64_t a = s->first_channel + (s->layout == GYRE_LAYOUT_HALF ? i : 2 * i),
                      b = a + (s->layout == GYRE_LAYOUT_HALF ? s->pairs : 1);
        const long double cosine = cosl((long double)angle[i]), sine = sinl((long double)angle[i]);
        want[a] = cosine * (long double)x[a] - sine * (long double)x[b];
        want[b] = sine * (long double)x[a] + cosine * (long double)x[b];
    }
}

/* cos and sin within 2^-52.5, two products and a sum. */
static void follows_the_definition(void **state) {
    (void)state;
    static const double sizes[] = {8, 1e9, 1e18};
    for (int size = 0; size < 3; size++) {
        draw_all(3 + (uint64_t)size, sizes[size]);
        for (int n = 0; n < SHAPES; n++) {
            const shape *s = &shapes[n];
            run(s);
            for (int row = 0; row < ROWS; row++) {
                long double want[CHANNELS];
                define(s, row, in + row * s->channels, want);
                for (int64_t c = 0; c < s->channels; c++)
                    test_close(out[row * s->channels + c], (double)want[c], 6 * 0x1.cp-52L, "rotated");
            }
        }
    }
}

/* f16, bf16 and f32, heads outside of tokens, channels backwards, angles of stride 0: rounded once; in place the same. */
static void types_and_strides(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F32};
    static const long double rounding[] = {0x1p-11L, 0x1p-8L, 0x1p-24L};
    const shape *s = &shapes[0];
    const int64_t d = s->channels;
    draw_all(4, 100);
    for (int t = 1; t < BATCH * TOKENS; t++) /* those of one token */
        memcpy(angles + t * HEADS * s->pairs, angles, sizeof *angles * (size_t)(HEADS * s->pairs));
    gyre_angle_rotation r = rotation_of(s);
    r.angles.stride[0] = r.angles.stride[1] = 0;
    for (int n = 0; n < 3; n++) {
        static float from[ROWS * 8], to[ROWS * 8];
        double wide[ROWS * 8], got[ROWS * 8];
        const int64_t size = (int64_t)gyre_dtype_size(types[n]), stride[4] = {TOKENS * d, d, BATCH * TOKENS * d, -1};
        gyre_store_row_f64(in, ROWS * d, from, types[n], 1);
        gyre_load_row_f64(from, types[n], 1, ROWS * d, wide);
        gyre_cview a = gyre_cdense((char *)from + (d - 1) * size, types[n], BATCH, TOKENS, HEADS, d);
        gyre_view b = gyre_dense((char *)to + (d - 1) * size, types[n], BATCH, TOKENS, HEADS, d);
        memcpy(a.stride, stride, sizeof stride);
        memcpy(b.stride, stride, sizeof stride);
        assert_ok(rotate(&r, GYRE_DIRECTION_FORWARD, a, b, NULL));
        gyre_load_row_f64(to, types[n], 1, ROWS * d, got);
        for (int row = 0; row < ROWS; row++) {
            const int64_t place = (row % HEADS * BATCH * TOKENS + row / HEADS) * d;
            double x[8];
            long double want[8];
            for (int64_t c = 0; c < d; c++)
                x[c] = wide[place + d - 1 - c];
            define(s, row, x, want);
            for (int64_t c = 0; c < d; c++)
                test_close(got[place + d - 1 - c], (double)want[c], rounding[n] * fabsl(want[c]) + 0x1p-25L, "rounded once");
        }
        gyre_view same = {.data = (void *)a.data, .dtype = a.dtype};
        memcpy(same.shape, a.shape, sizeof a.shape);
        memcpy(same.stride, a.stride, sizeof a.stride);
        assert_ok(rotate(&r, GYRE_DIRECTION_FORWARD, a, same, NULL));
        assert_memory_equal(from, to, (size_t)(ROWS * d * size));
    }
}

/* Back is the transpose and the inverse; threads and any cut of the tokens have the bits of one call. */
static void back_threads_and_cuts(void **state) {
    (void)state;
    static double back[SIZE], other[SIZE];
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    draw_all(5, 50);
    for (int n = 0; n < SHAPES; n++) {
        const shape *s = &shapes[n];
        const gyre_angle_rotation r = rotation_of(s);
        const size_t bytes = sizeof(double) * (size_t)(ROWS * s->channels);
        const gyre_view to = gyre_dense(other, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, s->channels);
        double left = 0, right = 0;
        run(s);
        assert_ok(rotate(&r, GYRE_DIRECTION_FORWARD, rows_of(in, s), to, &exec));
        assert_memory_equal(out, other, bytes);
        memset(other, 0, bytes);
        for (int64_t t = 0, count; t < TOKENS; t += count) {
            count = t == 1 ? 3 : 1;
            gyre_angle_rotation part = r;
            gyre_cview a = rows_of(in + t * HEADS * s->channels, s);
            gyre_view b = to;
            b.data = other + t * HEADS * s->channels;
            part.angles.data =
                (const char *)r.angles.data + t * s->heads * s->pairs * (int64_t)gyre_dtype_size(r.angles.dtype);
            a.shape[1] = b.shape[1] = part.angles.shape[1] = count;
            assert_ok(rotate(&part, GYRE_DIRECTION_FORWARD, a, b, NULL));
        }
        assert_memory_equal(out, other, bytes);
        const gyre_view undone = gyre_dense(back, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, s->channels);
        assert_ok(rotate(&r, GYRE_DIRECTION_INVERSE, rows_of(out, s), undone, NULL));
        for (int i = 0; i < ROWS * s->channels; i++)
            test_close(back[i], in[i], 1e-14L, "undone");
        assert_ok(rotate(&r, GYRE_DIRECTION_ADJOINT, rows_of(weight, s), undone, NULL));
        for (int i = 0; i < ROWS * s->channels; i++) {
            left += weight[i] * out[i];
            right += back[i] * in[i];
        }
        test_close(left, right, 1e-11L, "transposed");
    }
    gyre_pool_free(pool);
}

/* sum of weight x out; `number` moved by a step up or down. */
static double slope(const shape *s, double *number) {
    const double before = *number, step = 1e-5;
    double sum[2] = {0, 0};
    for (int up = 0; up < 2; up++) {
        *number = before + (up ? step : -step);
        run(s);
        for (int i = 0; i < ROWS * s->channels; i++)
            sum[up] += weight[i] * out[i];
    }
    *number = before;
    return (sum[1] - sum[0]) / (2 * step);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    static double found[ANGLES], again[ANGLES];
    static float narrow[ANGLES];
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    draw_all(6, 10);
    for (int n = 0; n < SHAPES; n++) {
        shape s = shapes[n];
        s.angles = GYRE_DTYPE_F64; /* whose steps are small */
        const int64_t count = BATCH * TOKENS * s.heads * s.pairs;
        gyre_angle_rotation r = rotation_of(&s);
        r.angles.data = NULL; /* not read */
        run(&s);
        const gyre_rotate_gradient_args *args =
            GYRE_ARGS(gyre_rotate_gradient_args, .in = rows_of(out, &s), .dout = rows_of(weight, &s));
        for (int64_t i = 0; i < count; i++) {
            found[i] = again[i] = 0.5;
            narrow[i] = 0.5f;
        }
        gyre_view to = gyre_dense(found, GYRE_DTYPE_F64, BATCH, TOKENS, s.heads, s.pairs);
        assert_ok(gyre_angle_rotate_gradient(&r, args, &to, NULL, NULL));
        to.data = again;
        assert_ok(gyre_angle_rotate_gradient(&r, args, &to, &exec, NULL));
        assert_memory_equal(found, again, sizeof *found * (size_t)count);
        to = gyre_dense(narrow, GYRE_DTYPE_F32, BATCH, TOKENS, s.heads, s.pairs);
        assert_ok(gyre_angle_rotate_gradient(&r, args, &to, NULL, NULL));
        for (int64_t i = 0; i<count; i += s.pairs> 100 ? 37 : 1) {
            test_close(found[i] - 0.5, slope(&s, &angles[i]), 2e-8L, "angles");
            test_close((double)narrow[i], found[i], 0x1p-23L * fabsl((long double)found[i]), "rounded once");
        }
    }
    gyre_pool_free(pool);
}

/* -- angles that tokens make, summed along a sequence -- */

enum { MADE = BATCH * TOKENS * HEADS * 4 };

/* sums[b][t][h][i], in the order of tokens, from before[b][h][i] on. */
static void define_sums(const double *made, const double *before, double *sums) {
    for (int b = 0; b < BATCH; b++)
        for (int column = 0; column < HEADS * 4; column++) {
            double sum = before ? before[b * HEADS * 4 + column] : 0;
            for (int t = 0; t < TOKENS; t++) {
                const int at = (b * TOKENS + t) * HEADS * 4 + column;
                sums[at] = sum += made[at];
            }
        }
}

static void sums_of_pairs_come_in_pieces(void **state) {
    (void)state;
    static double made[MADE], before[BATCH * HEADS * 4], want[MADE], got[MADE];
    test_random random = {12};
    for (int i = 0; i < MADE; i++)
        made[i] = draw(&random);
    for (int i = 0; i < BATCH * HEADS * 4; i++)
        before[i] = 1000 * draw(&random);
    gyre_cview from = gyre_cdense(made, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4);
    gyre_view to = gyre_dense(got, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4);
    for (int started = 0; started < 2; started++) {
        gyre_cview first = {.data = NULL};
        if (started) first = gyre_cdense(before, GYRE_DTYPE_F64, BATCH, 1, HEADS, 4);
        define_sums(made, started ? before : NULL, want);
        assert_ok(
            gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = from, .before = first, .sums = to), NULL, NULL));
        assert_memory_equal(got, want, sizeof got);
        memset(got, 0, sizeof got);
        for (int64_t t = 0, count; t < TOKENS; t += count) {
            count = t == 0 ? 2 : TOKENS - 2;
            gyre_cview a = from;
            gyre_view b = to;
            a.data = made + t * HEADS * 4;
            b.data = got + t * HEADS * 4;
            a.shape[1] = b.shape[1] = count;
            assert_ok(
                gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = a, .before = first, .sums = b), NULL, NULL));
            first = gyre_const(to); /* the sums of the last token of the piece */
            first.data = got + (t + count - 1) * HEADS * 4;
            first.shape[1] = 1;
        }
        assert_memory_equal(got, want, sizeof got);
    }
}

/* More columns than are summed together, strided columns, and documents of a packed batch. */
static void sums_of_many_columns(void **state) {
    (void)state;
    enum { N = 70, LONG = 9 };
    static float made[LONG * 2 * N];
    static double got[LONG * N], back[LONG * N];
    static const int64_t starts[] = {0, 4, 4, LONG};
    test_random random = {13};
    test_fill(&random, made, LONG * 2 * N);
    gyre_cview from = gyre_cdense(made, GYRE_DTYPE_F32, 1, LONG, 1, 2 * N);
    from.shape[3] = N;
    from.stride[3] = 2;
    const gyre_view to = gyre_dense(got, GYRE_DTYPE_F64, 1, LONG, 1, N),
                    dmade = gyre_dense(back, GYRE_DTYPE_F64, 1, LONG, 1, N);
    assert_ok(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = from, .starts = starts, .sequences = 3, .sums = to),
                             NULL, NULL));
    const gyre_cview dsums[2] = {gyre_const(to), {.data = NULL}};
    assert_ok(gyre_gate_sums_gradient(dsums, starts, 3, &dmade, NULL, NULL));
    for (int i = 0; i < N; i++) {
        double sum = 0, later = 0;
        for (int t = 0; t < LONG; t++) {
            sum = (double)made[t * 2 * N + 2 * i] + (t == 4 ? 0 : sum);
            assert_true(got[t * N + i] == sum);
        }
        for (int t = LONG - 1; t >= 0; t--) {
            later = (t == 3 ? 0 : later) + got[t * N + i];
            assert_true(back[t * N + i] == later);
        }
    }
}

/* The gradient of a loss of rotated rows for what is summed to their angles. */
static void gradient_through_sums(void **state) {
    (void)state;
    static double made[MADE], dangles[MADE], dmade[MADE];
    const shape *s = &shapes[0];
    test_random random = {14};
    draw_all(7, 1);
    for (int i = 0; i < MADE; i++)
        made[i] = draw(&random);
    define_sums(made, NULL, angles);
    run(s);
    memset(dangles, 0, sizeof dangles);
    const gyre_angle_rotation r = rotation_of(s);
    const gyre_view to = gyre_dense(dangles, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4),
                    through = gyre_dense(dmade, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4);
    assert_ok(gyre_angle_rotate_gradient(
        &r, GYRE_ARGS(gyre_rotate_gradient_args, .in = rows_of(out, s), .dout = rows_of(weight, s)), &to, NULL, NULL));
    const gyre_cview dsums[2] = {gyre_const(to), {.data = NULL}};
    assert_ok(gyre_gate_sums_gradient(dsums, NULL, 0, &through, NULL, NULL));
    for (int i = 0; i < MADE; i++) {
        const double number = made[i];
        double sum[2] = {0, 0};
        for (int up = 0; up < 2; up++) {
            made[i] = number + (up ? 1e-5 : -1e-5);
            define_sums(made, NULL, angles);
            run(s);
            for (int j = 0; j < ROWS * s->channels; j++)
                sum[up] += weight[j] * out[j];
        }
        made[i] = number;
        test_close(dmade[i], (sum[1] - sum[0]) / 2e-5, 1e-8L, "made");
    }
}

/* -- errors -- */

static void says_what_is_wrong(void **state) {
    (void)state;
    const shape *s = &shapes[0];
    gyre_error err = {0};
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, s->channels);
    const gyre_rotate_args *args = GYRE_ARGS(gyre_rotate_args, .in = rows_of(in, s), .out = to);
    gyre_angle_rotation r = rotation_of(s);
#define REFUSED(status, said)                                                                                               \
    do {                                                                                                                    \
        assert_int_equal(gyre_angle_rotate(&r, args, NULL, &err), status);                                                  \
        assert_string_equal(err.text, said " (gyre_angle_rotate)");                                                         \
        r = rotation_of(s);                                                                                                 \
    } while (0)
    r.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF;
    REFUSED(GYRE_EINVAL, "layout: 2 is neither HALF nor INTERLEAVED");
    r.first_channel = 1;
    REFUSED(GYRE_ESHAPE, "angles: 4 pairs from channel 1 on end past the 8 channels of a head");
    r.angles.shape[2] = 2;
    REFUSED(GYRE_ESHAPE, "angles: shape [2, 5, 2, 4] is not [2, 5, 3, 4]");
    r.angles.dtype = GYRE_DTYPE_F16;
    REFUSED(GYRE_EDTYPE, "angles: is F16, not F32 or F64");
    r.angles.data = out;
    REFUSED(GYRE_EINVAL, "out: overlaps angles");
    args = GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)3, .in = rows_of(in, s), .out = to);
    REFUSED(GYRE_EINVAL, "direction: 3 is not a gyre_direction");
#undef REFUSED
    assert_int_equal(gyre_angle_rotate(NULL, GYRE_ARGS(gyre_rotate_args, .in = rows_of(in, s), .out = to), NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "rotation: is NULL (gyre_angle_rotate)");
}

static void gradient_says_what_is_wrong(void **state) {
    (void)state;
    const shape *s = &shapes[0];
    gyre_error err = {0};
    double given[ROWS * 4];
    const gyre_angle_rotation r = rotation_of(s);
    const gyre_rotate_gradient_args *args =
        GYRE_ARGS(gyre_rotate_gradient_args, .in = rows_of(out, s), .dout = rows_of(weight, s));
    gyre_view to = gyre_dense(given, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4);
#define REFUSED(status, said)                                                                                               \
    do {                                                                                                                    \
        assert_int_equal(gyre_angle_rotate_gradient(&r, args, &to, NULL, &err), status);                                    \
        assert_string_equal(err.text, said " (gyre_angle_rotate_gradient)");                                                \
        to = gyre_dense(given, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 4);                                                    \
    } while (0)
    to.data = NULL;
    REFUSED(GYRE_EINVAL, "dangles: is NULL");
    to.dtype = GYRE_DTYPE_BF16;
    REFUSED(GYRE_EDTYPE, "dangles: is BF16, not F32 or F64");
    to.shape[3] = 5;
    REFUSED(GYRE_ESHAPE, "dangles: 5 pairs from channel 0 on end past the 8 channels of a head");
    to.data = weight;
    REFUSED(GYRE_EINVAL, "dangles: overlaps dout");
    args = GYRE_ARGS(gyre_rotate_gradient_args, .in = rows_of(out, s), .dout = rows_of(weight, &shapes[1]));
    REFUSED(GYRE_ESHAPE, "dout: shape [2, 5, 3, 7] is not [2, 5, 3, 8]");
#undef REFUSED
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_definition),       cmocka_unit_test(types_and_strides),
        cmocka_unit_test(back_threads_and_cuts),        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(sums_of_pairs_come_in_pieces), cmocka_unit_test(sums_of_many_columns),
        cmocka_unit_test(gradient_through_sums),        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(gradient_says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
