/* test_polar_rotation.c: PoPE against its definition in long double, gradients against differences of a loss, and scores of
 * attention over the result. */
#include "attention_setup.h"
#include "core/convert.h"
#include "gyre/gyre_trained.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 4, HEADS = 3, CHANNELS = 6, ROWS = BATCH * TOKENS * HEADS };
enum { SIZE = ROWS * CHANNELS };
static const long double two_pi = 6.283185307179586476925286766559005768L;

static double frequencies[2 * HEADS * CHANNELS], phases[HEADS * CHANNELS], in[SIZE], weight[2 * SIZE], out[2 * SIZE];
static int64_t at[BATCH][TOKENS][2];

typedef struct shape {
    gyre_layout layout;
    int64_t axes, frequency_heads, phase_heads;
} shape;
static const shape shapes[] = {
    {GYRE_LAYOUT_HALF, 1, 1, 0}, {GYRE_LAYOUT_INTERLEAVED, 1, 1, HEADS}, {GYRE_LAYOUT_HALF, 2, HEADS, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double draw(test_random *random) {
    return (double)(test_next(random) % 2000) / 1000 - 1;
}

/* Phases from -9 to 3: some are past their bounds. */
static void draw_all(uint64_t seed) {
    test_random random = {seed};
    for (int i = 0; i < 2 * HEADS * CHANNELS; i++)
        frequencies[i] = draw(&random);
    for (int i = 0; i < HEADS * CHANNELS; i++)
        phases[i] = 6 * draw(&random) - 3;
    for (int i = 0; i < SIZE; i++)
        in[i] = i % 7 ? 4 * draw(&random) : 60 * draw(&random);
    for (int i = 0; i < 2 * SIZE; i++)
        weight[i] = draw(&random);
    for (int64_t *p = &at[0][0][0]; p < &at[0][0][0] + BATCH * TOKENS * 2; p++)
        *p = (int64_t)(test_next(&random) % 41) - 20;
}

static gyre_trained_rotation rotation_of(const shape *s) {
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    r.layout = s->layout;
    r.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, s->axes, s->frequency_heads, CHANNELS);
    if (s->phase_heads) r.phases = gyre_cdense(phases, GYRE_DTYPE_F64, 1, 1, s->phase_heads, CHANNELS);
    return r;
}

static const gyre_positions positions = {
    .data = at, .dtype = GYRE_DTYPE_I64, .stride_batch = TOKENS * 2, .stride_token = 2, .stride_axis = 1};

/* want = [2 CHANNELS] of row [b][t][h]. */
static void define(const shape *s, int row, const double *x, double *want) {
    const int h = row % HEADS, t = row / HEADS % TOKENS, b = row / HEADS / TOKENS;
    for (int i = 0; i < CHANNELS; i++) {
        long double a = s->phase_heads ? (long double)phases[(s->phase_heads == 1 ? 0 : h) * CHANNELS + i] : 0;
        a = a < -two_pi ? -two_pi : a > 0 ? 0 : a;
        for (int axis = 0; axis < s->axes; axis++)
            a += (long double)at[b][t][axis] *
                 (long double)frequencies[(axis * s->frequency_heads + (s->frequency_heads == 1 ? 0 : h)) * CHANNELS + i];
        const long double m = x[i] > 40 ? (long double)x[i] : log1pl(expl((long double)x[i]));
        want[s->layout == GYRE_LAYOUT_HALF ? i : 2 * i] = (double)(m * cosl(a));
        want[s->layout == GYRE_LAYOUT_HALF ? i + CHANNELS : 2 * i + 1] = (double)(m * sinl(a));
    }
}

static void run(const gyre_trained_rotation *r) {
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 2 * CHANNELS);
    assert_ok(gyre_polar_rotate(r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from, .out = to), NULL, NULL));
}

static void follows_the_definition(void **state) {
    (void)state;
    draw_all(3);
    for (int n = 0; n < SHAPES; n++) {
        const gyre_trained_rotation r = rotation_of(&shapes[n]);
        run(&r);
        for (int row = 0; row < ROWS; row++) {
            double want[2 * CHANNELS];
            define(&shapes[n], row, in + row * CHANNELS, want);
            for (int c = 0; c < 2 * CHANNELS; c++)
                test_close(out[row * 2 * CHANNELS + c], want[c], 4e-13L, "polar");
        }
    }
}

/* f16 and bf16 into f32, heads outside of tokens, channels backwards. */
static void types_and_strides(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F32};
    draw_all(4);
    for (int d = 0; d < 3; d++) {
        static char from[SIZE * 4];
        static float to[2 * SIZE];
        double wide[SIZE];
        const int64_t size = (int64_t)gyre_dtype_size(types[d]);
        gyre_store_row_f64(in, SIZE, from, types[d], 1);
        gyre_load_row_f64(from, types[d], 1, SIZE, wide);
        gyre_cview a = gyre_cdense(from + (CHANNELS - 1) * size, types[d], BATCH, TOKENS, HEADS, CHANNELS);
        const int64_t stride[4] = {TOKENS * CHANNELS, CHANNELS, BATCH * TOKENS * CHANNELS, -1};
        memcpy(a.stride, stride, sizeof stride);
        const gyre_view b = gyre_dense(to, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, 2 * CHANNELS);
        const gyre_trained_rotation r = rotation_of(&shapes[1]);
        assert_ok(
            gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = a, .out = b), NULL, NULL));
        for (int row = 0; row < ROWS; row++) {
            double x[CHANNELS], want[2 * CHANNELS];
            for (int c = 0; c < CHANNELS; c++)
                x[c] = wide[(row % HEADS * BATCH * TOKENS + row / HEADS) * CHANNELS + CHANNELS - 1 - c];
            define(&shapes[1], row, x, want);
            for (int c = 0; c < 2 * CHANNELS; c++)
                test_close((double)to[row * 2 * CHANNELS + c], want[c], 0x1p-24L * fabsl(want[c]) + 1e-12L, "rounded once");
        }
    }
}

static double slope(const gyre_trained_rotation *r, double *number) {
    const double before = *number, step = 1e-6;
    double sum[2] = {0, 0};
    for (int up = 0; up < 2; up++) {
        *number = before + (up ? step : -step);
        run(r);
        for (int i = 0; i < 2 * SIZE; i++)
            sum[up] += weight[i] * out[i];
    }
    *number = before;
    return (sum[1] - sum[0]) / (2 * step);
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
        static double dx[SIZE], df[2 * HEADS * CHANNELS], dp[HEADS * CHANNELS], other[SIZE];
        memset(df, 0, sizeof df);
        memset(dp, 0, sizeof dp);
        gyre_trained_gradients g = GYRE_INIT(gyre_trained_gradients);
        g.frequencies = gyre_dense(df, GYRE_DTYPE_F64, 1, s->axes, s->frequency_heads, CHANNELS);
        if (s->phase_heads) g.phases = gyre_dense(dp, GYRE_DTYPE_F64, 1, 1, s->phase_heads, CHANNELS);
        const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        const gyre_cview dout = gyre_cdense(weight, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 2 * CHANNELS);
        gyre_view din = gyre_dense(dx, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        assert_ok(gyre_polar_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = dout, .din = din), &g,
            &exec, NULL));
        din.data = other;
        assert_ok(gyre_polar_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = dout, .din = din), NULL,
            NULL, NULL));
        assert_memory_equal(dx, other, sizeof dx);
        static double alone_df[2 * HEADS * CHANNELS], alone_dp[HEADS * CHANNELS];
        memset(alone_df, 0, sizeof alone_df);
        memset(alone_dp, 0, sizeof alone_dp);
        g.frequencies.data = alone_df;
        if (s->phase_heads) g.phases.data = alone_dp;
        assert_ok(gyre_polar_rotate_gradient(/* without din */
                                             &r,
                                             GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from,
                                                       .dout = dout),
                                             &g, &exec, NULL));
        assert_memory_equal(df, alone_df, sizeof df);
        assert_memory_equal(dp, alone_dp, sizeof dp);
        for (int i = 0; i < SIZE; i++)
            test_close(dx[i], slope(&r, &in[i]), 2e-7L, "in");
        for (int i = 0; i < s->axes * s->frequency_heads * CHANNELS; i++)
            test_close(df[i], slope(&r, &frequencies[i]), 3e-5L, "frequencies");
        for (int i = 0; i < s->phase_heads * CHANNELS; i++) {
            test_close(dp[i], slope(&r, &phases[i]), 1e-6L, "phases");
            if (phases[i] > 0 || (long double)phases[i] < -two_pi) assert_true(dp[i] == 0);
        }
    }
    gyre_pool_free(pool);
}

/* Attention over views of 2 CHANNELS, and its scores: sum of magnitudes times cos((n - m) theta + delta). */
static void scores_of_attention(void **state) {
    (void)state;
    enum { N = 5, D = 8, V = 4 };
    float q[N * D], k[N * D], wide_q[N * 2 * D], wide_k[N * 2 * D], v[N * V], got[N * V];
    double theta[D], delta[D];
    test_random random = {8};
    test_fill(&random, q, N * D);
    test_fill(&random, k, N * D);
    test_fill(&random, v, N * V);
    const gyre_config config = test_rope_config(2 * D, GYRE_LAYOUT_HALF); /* its frequencies are base^(-i / D) */
    gyre_encoding *rope = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(rope, 0, theta, NULL));
    for (int i = 0; i < D; i++) {
        delta[i] = -(double)i / 2;
        test_close(theta[i], pow(10000, -(double)i / D), 1e-15L, "theta");
    }
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    r.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, D);
    const gyre_positions from_0 = {.base = 0};
    const gyre_cview a = gyre_cdense(q, GYRE_DTYPE_F32, 1, N, 1, D), b = gyre_cdense(k, GYRE_DTYPE_F32, 1, N, 1, D);
    const gyre_view to_q = gyre_dense(wide_q, GYRE_DTYPE_F32, 1, N, 1, 2 * D),
                    to_k = gyre_dense(wide_k, GYRE_DTYPE_F32, 1, N, 1, 2 * D);
    assert_ok(gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &from_0, .in = a, .out = to_q), NULL, NULL));
    r.phases = gyre_cdense(delta, GYRE_DTYPE_F64, 1, 1, 1, D);
    assert_ok(gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &from_0, .in = b, .out = to_k), NULL, NULL));
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_const(to_q);
    args.k = gyre_const(to_k);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, 1, V);
    args.out = gyre_dense(got, GYRE_DTYPE_F32, 1, N, 1, V);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.scale = 1 / sqrt(D);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    for (int m = 0; m < N; m++) {
        double weights[N], sum = 0, want[V] = {0};
        for (int n = 0; n <= m; n++) {
            double score = 0;
            for (int i = 0; i < D; i++)
                score +=
                    log1p(exp((double)q[m * D + i])) * log1p(exp((double)k[n * D + i])) * cos((n - m) * theta[i] + delta[i]);
            sum += weights[n] = exp(score / sqrt(D));
        }
        for (int n = 0; n <= m; n++)
            for (int c = 0; c < V; c++)
                want[c] += weights[n] / sum * (double)v[n * V + c];
        for (int c = 0; c < V; c++)
            test_close((double)got[m * V + c], want[c], 3e-6L, "attention");
    }
    gyre_encoding_free(rope);
}

static void wrong_arguments(void **state) {
    (void)state;
    draw_all(6);
    gyre_trained_rotation r = rotation_of(&shapes[1]);
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_cview dout = gyre_cdense(weight, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 2 * CHANNELS);
    gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 2 * CHANNELS);
    gyre_error err;
    memset(out, 0x5a, sizeof out);
#define REFUSED(call, status, says)                                                                                         \
    do {                                                                                                                    \
        assert_int_equal(call, status);                                                                                     \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
    } while (0)
#define ROTATE gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from, .out = to), NULL, &err)
    r.first_channel = 1;
    REFUSED(ROTATE, GYRE_EINVAL, "first_channel: 1 is not 0");
    r.first_channel = 0;
    r.frequencies.shape[3] = r.phases.shape[3] = CHANNELS - 1;
    REFUSED(ROTATE, GYRE_ESHAPE, "frequencies: 5 of them, but 6 channels");
    r = rotation_of(&shapes[1]);
    r.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF;
    REFUSED(ROTATE, GYRE_EINVAL, "layout: 2");
    r = rotation_of(&shapes[1]);
    to.shape[3] = CHANNELS;
    REFUSED(ROTATE, GYRE_ESHAPE, "out: ");
    to.shape[3] = 2 * CHANNELS;
    to.data = in;
    REFUSED(ROTATE, GYRE_EINVAL, "out: overlaps in");
    to.data = out;
    to.dtype = GYRE_DTYPE_I64;
    REFUSED(ROTATE, GYRE_EDTYPE, "out: is I64");
    to.dtype = GYRE_DTYPE_F64;
    REFUSED(gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .in = from, .out = to), NULL, &err), GYRE_EINVAL,
            "positions: is NULL");
    gyre_cview no_memory = from;
    no_memory.data = NULL;
    REFUSED(
        gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = no_memory, .out = to), NULL, &err),
        GYRE_EINVAL, "in: has no memory");
    REFUSED(gyre_polar_rotate(&r, NULL, NULL, &err), GYRE_EINVAL, "gyre_rotate_args: is NULL");
    REFUSED(gyre_polar_rotate(&r,
                              GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_INVERSE, .positions = &positions,
                                        .in = from, .out = to),
                              NULL, &err),
            GYRE_EUNSUPPORTED, "direction: 1 is not FORWARD");
    REFUSED(gyre_polar_rotate_gradient(
                &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = dout, .din = to), NULL,
                NULL, &err),
            GYRE_ESHAPE, "din: ");
    REFUSED(gyre_polar_rotate_gradient(
                &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = from, .din = to), NULL,
                NULL, &err),
            GYRE_ESHAPE, ": ");
    no_memory = dout;
    no_memory.data = NULL;
    REFUSED(gyre_polar_rotate_gradient(
                &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = no_memory), NULL, NULL,
                &err),
            GYRE_EINVAL, "dout: has no memory");
    REFUSED(gyre_polar_rotate_gradient(&r, NULL, NULL, NULL, &err), GYRE_EINVAL, "gyre_rotate_gradient_args: is NULL");
    assert_true(((unsigned char *)out)[0] == 0x5a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_definition), cmocka_unit_test(types_and_strides),
                                       cmocka_unit_test(gradients_are_slopes), cmocka_unit_test(scores_of_attention),
                                       cmocka_unit_test(wrong_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
