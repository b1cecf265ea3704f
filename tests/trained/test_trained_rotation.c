/* test_trained_rotation.c: rotations with trained frequencies against their definition in long double, and gradients against
 * differences of a loss. */
#include "core/convert.h"
#include "gyre/gyre_trained.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 5, HEADS = 3, CHANNELS = 14, PAIRS = 5, FIRST = 3, MAX_AXES = 3 };
enum { SIZE = BATCH * TOKENS * HEADS * CHANNELS };

typedef struct shape {
    const char *name;
    gyre_layout layout;
    int64_t axes, frequency_heads, phase_heads; /* phase_heads 0: no phases */
} shape;

static const shape shapes[] = {{"one axis", GYRE_LAYOUT_HALF, 1, 1, 0},
                               {"mixed", GYRE_LAYOUT_INTERLEAVED, 2, HEADS, 0},
                               {"shared frequencies, phases of heads", GYRE_LAYOUT_HALF, 2, 1, HEADS},
                               {"three axes, shared phases", GYRE_LAYOUT_INTERLEAVED, 3, HEADS, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double frequencies[MAX_AXES * HEADS * PAIRS], phases[HEADS * PAIRS], in[SIZE], weight[SIZE], out[SIZE];
static int64_t at[BATCH][TOKENS][MAX_AXES];

static double draw(test_random *random) {
    return (double)(test_next(random) % 2000) / 1000 - 1;
}

static void draw_all(uint64_t seed) {
    test_random random = {seed};
    for (int i = 0; i < MAX_AXES * HEADS * PAIRS; i++)
        frequencies[i] = draw(&random);
    for (int i = 0; i < HEADS * PAIRS; i++)
        phases[i] = 3 * draw(&random);
    for (int i = 0; i < SIZE; i++) {
        in[i] = draw(&random);
        weight[i] = draw(&random);
    }
    for (int64_t *p = &at[0][0][0]; p < &at[0][0][0] + BATCH * TOKENS * MAX_AXES; p++)
        *p = (int64_t)(test_next(&random) % 41) - 20;
}

static gyre_trained_rotation rotation_of(const shape *s) {
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    r.layout = s->layout;
    r.first_channel = FIRST;
    r.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, s->axes, s->frequency_heads, PAIRS);
    if (s->phase_heads) r.phases = gyre_cdense(phases, GYRE_DTYPE_F64, 1, 1, s->phase_heads, PAIRS);
    return r;
}

static gyre_positions positions_of(void) {
    return (gyre_positions){
        .data = at, .dtype = GYRE_DTYPE_I64, .stride_batch = TOKENS * MAX_AXES, .stride_token = MAX_AXES, .stride_axis = 1};
}

/* want = row [b][t][h] of the rotation, by the formula of the header. */
static void define(const shape *s, int b, int t, int h, int back, const double *x, double *want) {
    memcpy(want, x, CHANNELS * sizeof *want);
    for (int i = 0; i < PAIRS; i++) {
        long double angle = s->phase_heads ? (long double)phases[(s->phase_heads == 1 ? 0 : h) * PAIRS + i] : 0;
        for (int a = 0; a < s->axes; a++)
            angle += (long double)at[b][t][a] *
                     (long double)frequencies[(a * s->frequency_heads + (s->frequency_heads == 1 ? 0 : h)) * PAIRS + i];
        if (back) angle = -angle;
        const int u = FIRST + (s->layout == GYRE_LAYOUT_HALF ? i : 2 * i),
                  v = s->layout == GYRE_LAYOUT_HALF ? u + PAIRS : u + 1;
        want[u] = (double)((long double)x[u] * cosl(angle) - (long double)x[v] * sinl(angle));
        want[v] = (double)((long double)x[u] * sinl(angle) + (long double)x[v] * cosl(angle));
    }
}

static void rotates_by_the_formula(void **state) {
    (void)state;
    draw_all(3);
    for (int n = 0; n < SHAPES; n++)
        for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++) {
            const gyre_trained_rotation r = rotation_of(&shapes[n]);
            const gyre_positions positions = positions_of();
            const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
            const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
            assert_ok(gyre_trained_rotate(&r,
                                          GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                                    .positions = &positions, .in = from, .out = to),
                                          NULL, NULL));
            for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
                double want[CHANNELS];
                define(&shapes[n], row / HEADS / TOKENS, row / HEADS % TOKENS, row % HEADS, direction > 0,
                       in + row * CHANNELS, want);
                for (int c = 0; c < CHANNELS; c++)
                    test_close(out[row * CHANNELS + c], want[c], 1e-14L, shapes[n].name);
            }
            /* In place, the same bits. */
            static double same[SIZE];
            memcpy(same, in, sizeof same);
            const gyre_view own = gyre_dense(same, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
            const gyre_cview own_in = gyre_const(own);
            assert_ok(gyre_trained_rotate(&r,
                                          GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                                    .positions = &positions, .in = own_in, .out = own),
                                          NULL, NULL));
            assert_memory_equal(same, out, sizeof same);
        }
}

/* Short types are rounded once, whatever their strides; heads lie outside of tokens and channels backwards. */
static void types_and_strides(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    draw_all(4);
    for (int d = 0; d < 3; d++) {
        static char from[SIZE * 4], to[SIZE * 4];
        double wide[SIZE], got;
        const size_t size = gyre_dtype_size(types[d]);
        gyre_store_row_f64(in, SIZE, from, types[d], 1);
        gyre_load_row_f64(from, types[d], 1, SIZE, wide);
        const gyre_trained_rotation r = rotation_of(&shapes[3]);
        const gyre_positions positions = positions_of();
        const int64_t stride[4] = {TOKENS * CHANNELS, CHANNELS, BATCH * TOKENS * CHANNELS, -1};
        gyre_cview a = gyre_cdense(from + (CHANNELS - 1) * size, types[d], BATCH, TOKENS, HEADS, CHANNELS);
        gyre_view b = gyre_dense(to + (CHANNELS - 1) * size, types[d], BATCH, TOKENS, HEADS, CHANNELS);
        memcpy(a.stride, stride, sizeof stride);
        memcpy(b.stride, stride, sizeof stride);
        assert_ok(
            gyre_trained_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = a, .out = b), NULL, NULL));
        for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
            const int bt = row / HEADS, h = row % HEADS;
            double x[CHANNELS], want[CHANNELS];
            const int64_t begin = (h * BATCH * TOKENS + bt) * CHANNELS + CHANNELS - 1;
            for (int c = 0; c < CHANNELS; c++)
                x[c] = wide[begin - c];
            define(&shapes[3], bt / TOKENS, bt % TOKENS, h, 0, x, want);
            for (int c = 0; c < CHANNELS; c++) {
                gyre_load_row_f64(to + (begin - c) * (int64_t)size, types[d], 1, 1, &got);
                test_close(got, want[c], d == 0 ? 0x1p-23L : d == 1 ? 0x1p-10L : 0x1p-7L, "rounded");
            }
        }
    }
}

/* The loss is the sum of weight x rotated. */
static double loss(const gyre_trained_rotation *r) {
    const gyre_positions positions = positions_of();
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    double sum = 0;
    assert_ok(
        gyre_trained_rotate(r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from, .out = to), NULL, NULL));
    for (int i = 0; i < SIZE; i++)
        sum += weight[i] * out[i];
    return sum;
}

static double slope(const gyre_trained_rotation *r, double *number) {
    const double before = *number, step = 1e-6;
    *number = before + step;
    const double up = loss(r);
    *number = before - step;
    const double down = loss(r);
    *number = before;
    return (up - down) / (2 * step);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    draw_all(5);
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int n = 0; n < SHAPES; n++) {
        const shape *s = &shapes[n];
        const gyre_trained_rotation r = rotation_of(s);
        const gyre_positions positions = positions_of();
        double df[MAX_AXES * HEADS * PAIRS], dp[HEADS * PAIRS], again[MAX_AXES * HEADS * PAIRS];
        for (int i = 0; i < MAX_AXES * HEADS * PAIRS; i++)
            df[i] = again[i] = 7; /* what is there stays */
        for (int i = 0; i < HEADS * PAIRS; i++)
            dp[i] = 7;
        gyre_trained_gradients g = GYRE_INIT(gyre_trained_gradients);
        g.frequencies = gyre_dense(df, GYRE_DTYPE_F64, 1, s->axes, s->frequency_heads, PAIRS);
        if (s->phase_heads) g.phases = gyre_dense(dp, GYRE_DTYPE_F64, 1, 1, s->phase_heads, PAIRS);
        loss(&r);
        const gyre_cview rotated = gyre_cdense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        const gyre_cview dout = gyre_cdense(weight, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        assert_ok(gyre_trained_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = rotated, .dout = dout), &g, NULL, NULL));
        g.frequencies.data = again;
        g.phases.data = NULL;
        assert_ok(gyre_trained_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = rotated, .dout = dout), &g, &exec,
            NULL));
        assert_memory_equal(again, df, sizeof df); /* the same bits for any threads, and alone */
        for (int i = 0; i < s->axes * s->frequency_heads * PAIRS; i++)
            test_close(df[i] - 7, slope(&r, &frequencies[i]), 2e-7L, s->name);
        for (int i = 0; i < s->phase_heads * PAIRS; i++)
            test_close(dp[i] - 7, slope(&r, &phases[i]), 2e-8L, s->name);
    }
    gyre_pool_free(pool);
}

/* Frequencies of RoPE make RoPE, and attention without an encoding then is attention with it. */
static void rope_is_a_case(void **state) {
    (void)state;
    enum { N = 9, H = 2, D = 8 };
    float q[N * H * D], k[N * H * D], v[N * H * D], turned_q[N * H * D], turned_k[N * H * D], with[N * H * D],
        without[N * H * D];
    double f[D / 2];
    test_random random = {8};
    const gyre_config config = test_rope_config(D, GYRE_LAYOUT_INTERLEAVED);
    gyre_encoding *rope = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(rope, 0, f, NULL));
    test_fill(&random, q, N * H * D);
    test_fill(&random, k, N * H * D);
    test_fill(&random, v, N * H * D);
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    r.layout = GYRE_LAYOUT_INTERLEAVED;
    r.frequencies = gyre_cdense(f, GYRE_DTYPE_F64, 1, 1, 1, D / 2);
    const gyre_positions positions = {.base = 0};
    const gyre_cview from[2] = {gyre_cdense(q, GYRE_DTYPE_F32, 1, N, H, D), gyre_cdense(k, GYRE_DTYPE_F32, 1, N, H, D)};
    const gyre_view to[2] = {gyre_dense(turned_q, GYRE_DTYPE_F32, 1, N, H, D),
                             gyre_dense(turned_k, GYRE_DTYPE_F32, 1, N, H, D)};
    for (int i = 0; i < 2; i++)
        assert_ok(gyre_trained_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from[i], .out = to[i]),
                                      NULL, NULL));
    gyre_attention_dense_args s = GYRE_INIT(gyre_attention_dense_args);
    s.batch = 1;
    s.queries = s.keys = N;
    s.heads = H;
    s.head_dim = D;
    s.causal = GYRE_CAUSAL_BY_POSITION;
    s.encoding = rope;
    s.q = q, s.k = k, s.v = v, s.out = with;
    assert_ok(gyre_attention_dense(&s, NULL));
    s.encoding = NULL;
    s.q = turned_q, s.k = turned_k, s.out = without;
    assert_ok(gyre_attention_dense(&s, NULL));
    for (int i = 0; i < N * H * D; i++)
        test_close((double)without[i], (double)with[i], 2e-6L, "attention");
    gyre_encoding_free(rope);
}

static gyre_status try(const gyre_trained_rotation *r, const gyre_positions *positions, gyre_error *err) {
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    return gyre_trained_rotate(r, GYRE_ARGS(gyre_rotate_args, .positions = positions, .in = from, .out = to), NULL, err);
}

#define REFUSED(status, says, change)                                                                                       \
    do {                                                                                                                    \
        gyre_trained_rotation r = rotation_of(&shapes[2]);                                                                  \
        gyre_positions p = positions_of();                                                                                  \
        gyre_error err = {0, ""};                                                                                           \
        assert_ok(try(&r, &p, NULL));                                                                                       \
        memset(out, 0x5a, sizeof out);                                                                                      \
        change;                                                                                                             \
        assert_int_equal(try(&r, &p, &err), status);                                                                        \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
        assert_true(((unsigned char *)out)[0] == 0x5a);                                                                     \
    } while (0)

static void wrong_arguments(void **state) {
    (void)state;
    draw_all(6);
    static double bad[HEADS * PAIRS * 2];
    bad[3] = NAN;
    REFUSED(GYRE_EINVAL, "layout: 2 is neither", r.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF);
    REFUSED(GYRE_EINVAL, "size: 0 is not set", r.size = 0);
    REFUSED(GYRE_ESHAPE, "5 pairs from channel 5 on", r.first_channel = 5);
    REFUSED(GYRE_ESHAPE, "from channel -1 on", r.first_channel = -1);
    /* More than fit are not read: one that is not finite, 2^40 times. */
    REFUSED(GYRE_ESHAPE, "1099511627776 pairs from channel",
            (r.frequencies.shape[3] = (int64_t)1 << 40, r.frequencies.stride[3] = 0, r.frequencies.data = &bad[3],
             r.phases.data = NULL));
    REFUSED(GYRE_ESHAPE, "are of 5 axes", r.frequencies.shape[1] = 5);
    REFUSED(GYRE_ESHAPE, "are of 0 axes", r.frequencies.shape[1] = 0);
    REFUSED(GYRE_ESHAPE, "frequencies: ", r.frequencies.shape[2] = 2);
    REFUSED(GYRE_ESHAPE, "phases: ", r.phases.shape[3] = 4);
    REFUSED(GYRE_EDTYPE, "frequencies: is F16", r.frequencies.dtype = GYRE_DTYPE_F16);
    REFUSED(GYRE_EINVAL, "frequencies: ", r.frequencies.data = NULL);
    REFUSED(GYRE_EINVAL, "at [0, 0, 0, 3] is not finite", r.frequencies.data = bad);
    REFUSED(GYRE_EDTYPE, "positions.dtype", p.dtype = GYRE_DTYPE_F32);
    const int64_t far[2] = {0, INT64_C(1) << 33};
    REFUSED(GYRE_ERANGE, "is past 2^31", (p.data = far, p.stride_batch = p.stride_token = 0, p.one_position = 1));
    REFUSED(GYRE_EINVAL, "positions.stride_token: is 0 over", p.stride_token = 0); /* on the second axis */
    gyre_trained_rotation r = rotation_of(&shapes[0]);
    gyre_trained_gradients g = GYRE_INIT(gyre_trained_gradients);
    double dp[PAIRS];
    const gyre_positions p = positions_of();
    const gyre_cview x = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    g.phases = gyre_dense(dp, GYRE_DTYPE_F64, 1, 1, 1, PAIRS);
    assert_int_equal(gyre_trained_rotate_gradient(
                         &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &p, .in = x, .dout = x), &g, NULL, NULL),
                     GYRE_EINVAL);
    g.phases.data = NULL;
    g.frequencies = gyre_dense(dp, GYRE_DTYPE_F64, 1, 1, 1, PAIRS - 1);
    assert_int_equal(gyre_trained_rotate_gradient(
                         &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &p, .in = x, .dout = x), &g, NULL, NULL),
                     GYRE_ESHAPE);
    gyre_cview no_memory = x;
    no_memory.data = NULL;
    assert_int_equal(
        gyre_trained_rotate_gradient(&r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &p, .in = x, .dout = no_memory),
                                     &g, NULL, NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_trained_rotate_gradient(&r, NULL, &g, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_trained_rotate_gradient(
                         &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &p, .in = x, .dout = x), NULL, NULL, NULL),
                     GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotates_by_the_formula), cmocka_unit_test(types_and_strides),
                                       cmocka_unit_test(gradients_are_slopes), cmocka_unit_test(rope_is_a_case),
                                       cmocka_unit_test(wrong_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
