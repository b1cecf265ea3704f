/* test_fourier_rotation.c: FoPE against its definition in long double, gradients against differences of a loss, the released
 * code's padding, RoPE as a case, and scores of attention over the result. */
#include "attention_setup.h"
#include "core/convert.h"
#include "gyre/gyre_trained.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 11, HEADS = 3, CHANNELS = 19, PAIRS = 7, SERIES = 5, FIRST = 3, TERMS = 19 };
enum { SIZE = BATCH * TOKENS * HEADS * CHANNELS, COEFFICIENTS = HEADS * TERMS * SERIES };

static double frequencies[TERMS], cosines[COEFFICIENTS], sines[COEFFICIENTS], in[SIZE], weight[SIZE], out[SIZE];
static int64_t at[BATCH][TOKENS];

typedef struct shape {
    const char *name;
    int64_t heads, pairs; /* of coefficients; 0 = SERIES */
    gyre_layout layout;
    gyre_fourier_rest rest;
} shape;
static const shape shapes[] = {{"heads of their own", HEADS, PAIRS, GYRE_LAYOUT_HALF, GYRE_FOURIER_REST_STILL},
                               {"shared, as released", 1, PAIRS, GYRE_LAYOUT_INTERLEAVED, GYRE_FOURIER_REST_RELEASED},
                               {"half, as released", HEADS, PAIRS, GYRE_LAYOUT_HALF, GYRE_FOURIER_REST_RELEASED},
                               {"interleaved", HEADS, PAIRS, GYRE_LAYOUT_INTERLEAVED, GYRE_FOURIER_REST_STILL},
                               {"no rest", 1, 0, GYRE_LAYOUT_HALF, GYRE_FOURIER_REST_STILL}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double draw(test_random *random) {
    return (double)(test_next(random) % 2000) / 1000 - 1;
}

static void draw_all(uint64_t seed) {
    test_random random = {seed};
    for (int t = 0; t < TERMS; t++)
        frequencies[t] = draw(&random);
    for (int i = 0; i < COEFFICIENTS; i++) {
        cosines[i] = draw(&random);
        sines[i] = draw(&random);
    }
    for (int i = 0; i < SIZE; i++) {
        in[i] = draw(&random);
        weight[i] = draw(&random);
    }
    for (int64_t *p = &at[0][0]; p < &at[0][0] + BATCH * TOKENS; p++)
        *p = (int64_t)(test_next(&random) % 41) - 20;
}

static gyre_fourier_rotation rotation_of(const shape *s) {
    gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
    r.layout = s->layout;
    r.first_channel = FIRST;
    r.pairs = s->pairs;
    r.rest = s->rest;
    r.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, 1, 1, TERMS);
    r.cosines = gyre_cdense(cosines, GYRE_DTYPE_F64, 1, s->heads, TERMS, SERIES);
    r.sines = gyre_cdense(sines, GYRE_DTYPE_F64, 1, s->heads, TERMS, SERIES);
    return r;
}

static const gyre_positions positions = {.data = at, .dtype = GYRE_DTYPE_I64, .stride_batch = TOKENS, .stride_token = 1};

/* *c, *s of a pair by the formula of the header. */
static void series_of(const shape *of, int64_t m, int h, int i, long double *c, long double *s) {
    *c = i < SERIES ? 0 : 1;
    *s = i < SERIES || of->rest == GYRE_FOURIER_REST_STILL ? 0 : 1;
    for (int t = 0; i < SERIES && t < TERMS; t++) {
        const int k = ((of->heads == 1 ? 0 : h) * TERMS + t) * SERIES + i;
        *c += (long double)cosines[k] * cosl((long double)m * (long double)frequencies[t]);
        *s += (long double)sines[k] * sinl((long double)m * (long double)frequencies[t]);
    }
}

static void define(const shape *of, int row, gyre_direction direction, const double *x, double *want) {
    const int h = row % HEADS, bt = row / HEADS, pairs = of->pairs ? (int)of->pairs : SERIES;
    memcpy(want, x, CHANNELS * sizeof *want);
    for (int i = 0; i < pairs; i++) {
        long double c, s, size = 1;
        series_of(of, at[bt / TOKENS][bt % TOKENS], h, i, &c, &s);
        if (direction == GYRE_DIRECTION_INVERSE) size = c * c + s * s;
        if (direction != GYRE_DIRECTION_FORWARD) s = -s;
        const int u = FIRST + (of->layout == GYRE_LAYOUT_HALF ? i : 2 * i),
                  v = of->layout == GYRE_LAYOUT_HALF ? u + pairs : u + 1;
        want[u] = (double)(((long double)x[u] * c - (long double)x[v] * s) / size);
        want[v] = (double)(((long double)x[u] * s + (long double)x[v] * c) / size);
    }
}

static void run(const gyre_fourier_rotation *r, gyre_direction direction) {
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    assert_ok(gyre_fourier_rotate(
        r, GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &positions, .in = from, .out = to), NULL, NULL));
}

static void follows_the_definition(void **state) {
    (void)state;
    draw_all(3);
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int n = 0; n < SHAPES; n++)
        for (int d = GYRE_DIRECTION_FORWARD; d <= GYRE_DIRECTION_ADJOINT; d++) {
            static double same[SIZE];
            const gyre_fourier_rotation r = rotation_of(&shapes[n]);
            run(&r, (gyre_direction)d);
            for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
                double want[CHANNELS];
                define(&shapes[n], row, (gyre_direction)d, in + row * CHANNELS, want);
                for (int c = 0; c < CHANNELS; c++)
                    test_close(out[row * CHANNELS + c], want[c], 3e-14L * (1 + fabsl(want[c])) * 20, shapes[n].name);
            }
            /* In place and with threads, the same bits. */
            memcpy(same, in, sizeof same);
            const gyre_view own = gyre_dense(same, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
            const gyre_cview own_in = gyre_const(own);
            assert_ok(gyre_fourier_rotate(&r,
                                          GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)d,
                                                    .positions = &positions, .in = own_in, .out = own),
                                          &exec, NULL));
            assert_memory_equal(same, out, sizeof same);
        }
    gyre_pool_free(pool);
}

/* More terms than those whose angles are kept for all heads, and a last part of a block of tokens. */
static void many_terms(void **state) {
    (void)state;
    enum { MANY = 83, M_TOKENS = 13, M_HEADS = 2, M_SERIES = 3, M_CHANNELS = 2 * M_SERIES };
    static double f[MANY], a[M_HEADS][MANY][M_SERIES], b[M_HEADS][MANY][M_SERIES];
    double x[M_TOKENS][M_HEADS][M_CHANNELS], y[M_TOKENS][M_HEADS][M_CHANNELS];
    test_random random = {8};
    for (int t = 0; t < MANY; t++)
        f[t] = draw(&random);
    for (int i = 0; i < M_HEADS * MANY * M_SERIES; i++) {
        (&a[0][0][0])[i] = draw(&random);
        (&b[0][0][0])[i] = draw(&random);
    }
    for (int i = 0; i < M_TOKENS * M_HEADS * M_CHANNELS; i++)
        (&x[0][0][0])[i] = draw(&random);
    gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
    r.frequencies = gyre_cdense(f, GYRE_DTYPE_F64, 1, 1, 1, MANY);
    r.cosines = gyre_cdense(a, GYRE_DTYPE_F64, 1, M_HEADS, MANY, M_SERIES);
    r.sines = gyre_cdense(b, GYRE_DTYPE_F64, 1, M_HEADS, MANY, M_SERIES);
    const gyre_positions from_five = {.base = 5};
    const gyre_cview from = gyre_cdense(x, GYRE_DTYPE_F64, 1, M_TOKENS, M_HEADS, M_CHANNELS);
    const gyre_view to = gyre_dense(y, GYRE_DTYPE_F64, 1, M_TOKENS, M_HEADS, M_CHANNELS);
    assert_ok(
        gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &from_five, .in = from, .out = to), NULL, NULL));
    for (int m = 0; m < M_TOKENS; m++)
        for (int h = 0; h < M_HEADS; h++)
            for (int i = 0; i < M_SERIES; i++) {
                const double *u = &x[m][h][i], *v = u + M_SERIES;
                long double c = 0, s = 0;
                for (int t = 0; t < MANY; t++) {
                    c += (long double)a[h][t][i] * cosl((m + 5) * (long double)f[t]);
                    s += (long double)b[h][t][i] * sinl((m + 5) * (long double)f[t]);
                }
                test_close(y[m][h][i], (double)(*u * c - *v * s), 3e-12, "first of a pair");
                test_close(y[m][h][i + M_SERIES], (double)(*u * s + *v * c), 3e-12, "second of a pair");
            }
}

/* f16 and bf16, heads outside of tokens, channels backwards; coefficients in float, terms apart. */
static void types_and_strides(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static float spread[2 * COEFFICIENTS];
    draw_all(4);
    for (int i = 0; i < COEFFICIENTS; i++) {
        spread[2 * i] = (float)cosines[i];
        cosines[i] = (double)spread[2 * i];
    }
    for (int d = 0; d < 3; d++) {
        static char from[SIZE * 4], to[SIZE * 4];
        double wide[SIZE], got;
        const int64_t size = (int64_t)gyre_dtype_size(types[d]);
        gyre_store_row_f64(in, SIZE, from, types[d], 1);
        gyre_load_row_f64(from, types[d], 1, SIZE, wide);
        gyre_fourier_rotation r = rotation_of(&shapes[2]);
        r.cosines = gyre_cdense(spread, GYRE_DTYPE_F32, 1, HEADS, TERMS, SERIES);
        for (int i = 0; i < 4; i++)
            r.cosines.stride[i] *= 2;
        const int64_t stride[4] = {TOKENS * CHANNELS, CHANNELS, BATCH * TOKENS * CHANNELS, -1};
        gyre_cview a = gyre_cdense(from + (CHANNELS - 1) * size, types[d], BATCH, TOKENS, HEADS, CHANNELS);
        gyre_view b = gyre_dense(to + (CHANNELS - 1) * size, types[d], BATCH, TOKENS, HEADS, CHANNELS);
        memcpy(a.stride, stride, sizeof stride);
        memcpy(b.stride, stride, sizeof stride);
        assert_ok(
            gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = a, .out = b), NULL, NULL));
        for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
            double x[CHANNELS], want[CHANNELS];
            const int64_t begin = (row % HEADS * BATCH * TOKENS + row / HEADS) * CHANNELS + CHANNELS - 1;
            for (int c = 0; c < CHANNELS; c++)
                x[c] = wide[begin - c];
            define(&shapes[2], row, GYRE_DIRECTION_FORWARD, x, want);
            for (int c = 0; c < CHANNELS; c++) {
                gyre_load_row_f64(to + (begin - c) * size, types[d], 1, 1, &got);
                const long double ulp = d == 0 ? 0x1p-24L : d == 1 ? 0x1p-11L : 0x1p-8L;
                test_close(got, want[c], ulp * fabsl(want[c]) * 1.001L + 1e-9L, "rounded once");
            }
        }
    }
}

/* Angles of the given numbers, up to 2^31. */
static void far_positions(void **state) {
    (void)state;
    draw_all(5);
    for (int64_t m = -(INT64_C(1) << 31); m <= INT64_C(1) << 31; m += 613566757) {
        double x[2] = {1, 0}, y[2];
        const double one = 1, f = frequencies[3];
        gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
        r.frequencies = gyre_cdense(&f, GYRE_DTYPE_F64, 1, 1, 1, 1);
        r.cosines = r.sines = gyre_cdense(&one, GYRE_DTYPE_F64, 1, 1, 1, 1);
        const gyre_positions base = {.base = m};
        const gyre_cview from = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, 2);
        const gyre_view to = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, 2);
        assert_ok(
            gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &base, .in = from, .out = to), NULL, NULL));
        test_close(y[0], cosl((long double)m * (long double)f), 2e-10L, "cos");
        test_close(y[1], sinl((long double)m * (long double)f), 2e-10L, "sin");
    }
}

static double slope(const gyre_fourier_rotation *r, double *number) {
    const double before = *number, step = 1e-6;
    double sum[2] = {0, 0};
    for (int up = 0; up < 2; up++) {
        *number = before + (up ? step : -step);
        run(r, GYRE_DIRECTION_FORWARD);
        for (int i = 0; i < SIZE; i++)
            sum[up] += weight[i] * out[i];
    }
    *number = before;
    return (sum[1] - sum[0]) / (2 * step);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    draw_all(6);
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int n = 0; n < SHAPES; n++) {
        const shape *s = &shapes[n];
        const int64_t count = s->heads * TERMS * SERIES;
        static double df[TERMS], dc[COEFFICIENTS], ds[COEFFICIENTS], again[COEFFICIENTS];
        for (int i = 0; i < COEFFICIENTS; i++)
            dc[i] = ds[i] = again[i] = 7; /* what is there stays */
        for (int i = 0; i < TERMS; i++)
            df[i] = 7;
        const gyre_fourier_rotation r = rotation_of(s);
        gyre_fourier_gradients g = GYRE_INIT(gyre_fourier_gradients);
        g.frequencies = gyre_dense(df, GYRE_DTYPE_F64, 1, 1, 1, TERMS);
        g.cosines = gyre_dense(dc, GYRE_DTYPE_F64, 1, s->heads, TERMS, SERIES);
        g.sines = gyre_dense(ds, GYRE_DTYPE_F64, 1, s->heads, TERMS, SERIES);
        const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        const gyre_cview dout = gyre_cdense(weight, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
        assert_ok(gyre_fourier_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = dout), &g, NULL, NULL));
        g.frequencies.data = g.sines.data = NULL;
        g.cosines.data = again;
        assert_ok(gyre_fourier_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = dout), &g, &exec, NULL));
        assert_memory_equal(again, dc, sizeof dc); /* the same bits for any threads, and alone */
        for (int i = 0; i < TERMS; i++)
            test_close(df[i] - 7, slope(&r, &frequencies[i]), 2e-5L, s->name);
        for (int64_t i = 0; i < count; i++) {
            test_close(dc[i] - 7, slope(&r, &cosines[i]), 1e-7L, s->name);
            test_close(ds[i] - 7, slope(&r, &sines[i]), 1e-7L, s->name);
        }
    }
    gyre_pool_free(pool);
}

/* A series of one term for each pair, with coefficient 1, is RoPE. */
static void rope_is_a_case(void **state) {
    (void)state;
    enum { D = 8 };
    double theta[D / 2], eye[D / 2 * D / 2] = {0}, x[D], y[D], z[D];
    const gyre_config config = test_rope_config(D, GYRE_LAYOUT_HALF);
    gyre_encoding *rope = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(rope, 0, theta, NULL));
    for (int i = 0; i < D / 2; i++)
        eye[i * (D / 2) + i] = 1;
    for (int i = 0; i < D; i++)
        x[i] = i - 2.5;
    gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
    r.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, D / 2);
    r.cosines = r.sines = gyre_cdense(eye, GYRE_DTYPE_F64, 1, 1, D / 2, D / 2);
    const gyre_positions at_77 = {.base = 77};
    const gyre_cview from = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, D);
    const gyre_view to = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, D), same = gyre_dense(z, GYRE_DTYPE_F64, 1, 1, 1, D);
    assert_ok(gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &at_77, .in = from, .out = to), NULL, NULL));
    assert_ok(gyre_rotate(
        rope, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at_77, .in = from, .out = same), NULL, NULL));
    for (int i = 0; i < D; i++)
        test_close(y[i], z[i], 1e-13L, "rope");
    gyre_encoding_free(rope);
}

/* FoPE as its released configs have it (512 tokens, heads of 64): frequencies from 2 pi / L on, min(their number, D / 4)
 * series, the rest padded with 1, and attention over the result. */
static void scores_of_attention(void **state) {
    (void)state;
    enum { N = 6, D = 64, V = 4, MOST = D / 2 };
    static float q[N * D], k[N * D], v[N * V], wide_q[N * D], wide_k[N * D], got[N * V];
    double theta[MOST], c[MOST * (D / 4)], s[MOST * (D / 4)];
    test_random random = {9};
    test_fill(&random, q, N * D);
    test_fill(&random, k, N * D);
    test_fill(&random, v, N * V);
    int terms = 1;
    while (terms < MOST && pow(10000, -2.0 * terms / D) >= 2 * acos(-1) / 512)
        terms++;
    const int series = terms < D / 4 ? terms : D / 4, step = (terms + series - 1) / series;
    assert_int_equal(terms, 16);
    for (int t = 0; t < terms; t++) {
        theta[t] = pow(10000, -2.0 * t / D);
        for (int i = 0; i < series; i++) {
            c[t * series + i] = (t == i * step) + 0.3 * draw(&random);
            s[t * series + i] = (t == i * step) + 0.3 * draw(&random);
        }
    }
    gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
    r.pairs = D / 2;
    r.rest = GYRE_FOURIER_REST_RELEASED;
    r.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, terms);
    r.cosines = gyre_cdense(c, GYRE_DTYPE_F64, 1, 1, terms, series);
    r.sines = gyre_cdense(s, GYRE_DTYPE_F64, 1, 1, terms, series);
    const gyre_positions from_0 = {.base = 0};
    const gyre_cview a = gyre_cdense(q, GYRE_DTYPE_F32, 1, N, 1, D), b = gyre_cdense(k, GYRE_DTYPE_F32, 1, N, 1, D);
    const gyre_view to_q = gyre_dense(wide_q, GYRE_DTYPE_F32, 1, N, 1, D),
                    to_k = gyre_dense(wide_k, GYRE_DTYPE_F32, 1, N, 1, D);
    assert_ok(gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &from_0, .in = a, .out = to_q), NULL, NULL));
    assert_ok(gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &from_0, .in = b, .out = to_k), NULL, NULL));
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_const(to_q);
    args.k = gyre_const(to_k);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, 1, V);
    args.out = gyre_dense(got, GYRE_DTYPE_F32, 1, N, 1, V);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    for (int m = 0; m < N; m++) {
        double weights[N], sum = 0, want[V] = {0};
        for (int n = 0; n <= m; n++) {
            double score = 0;
            for (int i = 0; i < D / 2; i++) {
                double cm = i < series ? 0 : 1, sm = cm, cn = cm, sn = cm;
                for (int t = 0; i < series && t < terms; t++) {
                    cm += c[t * series + i] * cos(m * theta[t]);
                    sm += s[t * series + i] * sin(m * theta[t]);
                    cn += c[t * series + i] * cos(n * theta[t]);
                    sn += s[t * series + i] * sin(n * theta[t]);
                }
                const double x = (double)q[m * D + i], y = (double)q[m * D + D / 2 + i], u = (double)k[n * D + i],
                             w = (double)k[n * D + D / 2 + i];
                score += (x * cm - y * sm) * (u * cn - w * sn) + (x * sm + y * cm) * (u * sn + w * cn);
            }
            sum += weights[n] = exp(score / sqrt(D));
        }
        for (int n = 0; n <= m; n++)
            for (int i = 0; i < V; i++)
                want[i] += weights[n] / sum * (double)v[n * V + i];
        for (int i = 0; i < V; i++)
            test_close((double)got[m * V + i], want[i], 5e-6L, "attention");
    }
}

static void wrong_arguments(void **state) {
    (void)state;
    draw_all(7);
    gyre_fourier_rotation r = rotation_of(&shapes[0]);
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, CHANNELS);
    gyre_fourier_gradients g = GYRE_INIT(gyre_fourier_gradients);
    gyre_error err;
    memset(out, 0x5a, sizeof out);
#define REFUSED(call, status, says)                                                                                         \
    do {                                                                                                                    \
        assert_int_equal(call, status);                                                                                     \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
    } while (0)
#define ROTATE                                                                                                              \
    gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from, .out = to), NULL, &err)
#define BROKEN(change, status, says)                                                                                        \
    do {                                                                                                                    \
        r = rotation_of(&shapes[0]);                                                                                        \
        change;                                                                                                             \
        REFUSED(ROTATE, status, says);                                                                                      \
    } while (0)
    BROKEN(r.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF, GYRE_EINVAL, "layout: 2");
    BROKEN(r.rest = (gyre_fourier_rest)2, GYRE_EINVAL, "rest: 2 is not a gyre_fourier_rest");
    BROKEN(r.pairs = SERIES - 1, GYRE_EINVAL, "pairs: 4 are fewer than the 5 with a series");
    BROKEN(r.pairs = 9, GYRE_ESHAPE, "9 pairs from channel 3");
    BROKEN(r.pairs = -1, GYRE_EINVAL, "pairs: -1");
    BROKEN(r.cosines.shape[1] = 2, GYRE_ESHAPE, "cosines: ");
    BROKEN(r.sines.shape[3] = 4, GYRE_ESHAPE, "sines: ");
    static const double nan = NAN; /* 2^40 times: none is read before the coefficients are counted */
    BROKEN((r.frequencies.shape[3] = (int64_t)1 << 40, r.frequencies.stride[3] = 0, r.frequencies.data = &nan), GYRE_ESHAPE,
           "cosines: ");
    BROKEN(r.frequencies.shape[1] = 2, GYRE_ESHAPE, "frequencies: ");
    BROKEN(r.frequencies.data = NULL, GYRE_EINVAL, "frequencies: ");
    BROKEN(r.sines.dtype = GYRE_DTYPE_F16, GYRE_EDTYPE, "sines: is F16");
    r = rotation_of(&shapes[0]);
    sines[17] = NAN;
    REFUSED(ROTATE, GYRE_EINVAL, "sines: nan at [0, 0, 3, 2] is not finite");
    sines[17] = 0;
    REFUSED(gyre_fourier_rotate(
                &r,
                GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)3, .positions = &positions, .in = from, .out = to),
                NULL, &err),
            GYRE_EINVAL, "direction: 3");
    REFUSED(gyre_fourier_rotate(&r, GYRE_ARGS(gyre_rotate_args, .in = from, .out = to), NULL, &err), GYRE_EINVAL,
            "positions: is NULL");
    REFUSED(
        gyre_fourier_rotate(NULL, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = from, .out = to), NULL, &err),
        GYRE_EINVAL, "rotation: is NULL");
    to.dtype = GYRE_DTYPE_F32;
    REFUSED(ROTATE, GYRE_EDTYPE, "out: ");
    REFUSED(
        gyre_fourier_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = from), NULL, NULL, &err),
        GYRE_EINVAL, "gradients: is NULL");
    g.cosines = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, TERMS, SERIES);
    REFUSED(gyre_fourier_rotate_gradient(
                &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = from), &g, NULL, &err),
            GYRE_ESHAPE, "gradients.cosines: ");
    gyre_cview narrow = from;
    narrow.shape[3] = 4;
    REFUSED(
        gyre_fourier_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &positions, .in = from, .dout = narrow), &g, NULL, &err),
        GYRE_ESHAPE, "dout: ");
    assert_true(((unsigned char *)out)[0] == 0x5a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_definition), cmocka_unit_test(many_terms),
                                       cmocka_unit_test(types_and_strides),      cmocka_unit_test(far_positions),
                                       cmocka_unit_test(gradients_are_slopes),   cmocka_unit_test(rope_is_a_case),
                                       cmocka_unit_test(scores_of_attention),    cmocka_unit_test(wrong_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
