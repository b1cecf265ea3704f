/* test_longrope_start.c: LongRoPE's start tokens (arXiv 2402.13753): past the trained length the first n positions rotate as
 * without a scaling, by the paper with the attention factor, by the released code without it. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { PAIRS = 8, DIM = 2 * PAIRS, TRAINED = 64, START = 5 };
static const double divide_long[PAIRS] = {1, 1.25, 1.5, 2, 3, 4, 6, 8},
                    divide_short[PAIRS] = {1, 1, 1, 1.125, 1.125, 1.25, 1.25, 1.5};

static gyre_config with_start(int64_t tokens, gyre_longrope_start starts) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_INTERLEAVED);
    config.trained_length = TRAINED;
    config.context_length = 8 * TRAINED;
    config.rope.scaling = GYRE_SCALING_LONGROPE;
    config.rope.factor = 8;
    config.rope.short_factor = divide_short;
    config.rope.long_factor = divide_long;
    config.rope.longrope.start_tokens = tokens;
    config.rope.longrope.starts = starts;
    return config;
}

static double attention_factor(void) {
    return sqrt(1 + log(8) / log(TRAINED));
}

/* *c, *s = cos and sin of pair i of the token at m, at context length n. */
static void define(const gyre_config *config, int64_t n, int64_t m, int i, long double *c, long double *s) {
    const long double theta = powl(10000, -(long double)i / PAIRS);
    const int is_start = n > TRAINED && m < config->rope.longrope.start_tokens;
    const double *lists = n > TRAINED ? divide_long : divide_short;
    const long double angle = (long double)m * (is_start ? theta : theta / (long double)lists[i]);
    const int plain = is_start && config->rope.longrope.starts == GYRE_LONGROPE_START_RELEASED;
    *c = cosl(angle) * (plain ? 1 : (long double)attention_factor());
    *s = sinl(angle) * (plain ? 1 : (long double)attention_factor());
}

/* In F64 and F32, from the table and without one, by steps and one by one, in every direction. */
static void rotates_by_the_definition(void **state) {
    (void)state;
    enum { N = 200 };
    for (int variant = 0; variant < 8; variant++) {
        gyre_config config = with_start(START, (gyre_longrope_start)(variant & 1));
        config.rope.table_positions = variant & 2 ? GYRE_NO_TABLE : 150;
        const int64_t length = variant & 4 ? 32 : 0; /* the short list: no start tokens */
        gyre_encoding *e = test_encoding(&config);
        static double x[N * DIM], y[N * DIM], c64[N * PAIRS], s64[N * PAIRS];
        static float x32[N * DIM], y32[N * DIM], c32[N * PAIRS], s32[N * PAIRS];
        test_random random = {(uint64_t)variant + 1};
        test_fill(&random, x32, N * DIM);
        for (int i = 0; i < N * DIM; i++)
            x[i] = (double)x32[i];
        const gyre_positions at = {.base = -7, .context_length = length};
        const gyre_view cv = gyre_dense(c64, GYRE_DTYPE_F64, 1, N, 1, PAIRS),
                        sv = gyre_dense(s64, GYRE_DTYPE_F64, 1, N, 1, PAIRS),
                        cf = gyre_dense(c32, GYRE_DTYPE_F32, 1, N, 1, PAIRS),
                        sf = gyre_dense(s32, GYRE_DTYPE_F32, 1, N, 1, PAIRS);
        assert_ok(gyre_cos_sin(e, &at, &cv, &sv, NULL, NULL));
        assert_ok(gyre_cos_sin(e, &at, &cf, &sf, NULL, NULL));
        for (int d = GYRE_DIRECTION_FORWARD; d <= GYRE_DIRECTION_ADJOINT; d++) {
            const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, N, 1, DIM),
                             in32 = gyre_cdense(x32, GYRE_DTYPE_F32, 1, N, 1, DIM);
            const gyre_view to = gyre_dense(y, GYRE_DTYPE_F64, 1, N, 1, DIM),
                            to32 = gyre_dense(y32, GYRE_DTYPE_F32, 1, N, 1, DIM);
            assert_ok(gyre_rotate(e,
                                  GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)d, .role = GYRE_ROLE_KEY,
                                            .positions = &at, .in = in, .out = to),
                                  NULL, NULL));
            assert_ok(gyre_rotate(e,
                                  GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)d, .role = GYRE_ROLE_KEY,
                                            .positions = &at, .in = in32, .out = to32),
                                  NULL, NULL));
            for (int t = 0; t < N; t++)
                for (int i = 0; i < PAIRS; i++) {
                    long double c, s;
                    define(&config, length ? length : 8 * TRAINED, t - 7, i, &c, &s);
                    test_close(c64[t * PAIRS + i], c, 1e-15L, "cos");
                    test_close((double)s32[t * PAIRS + i], s, 1e-7L, "sin");
                    test_close((double)c32[t * PAIRS + i], c, 1e-7L, "cos in float");
                    const long double size = d == GYRE_DIRECTION_INVERSE ? c * c + s * s : 1;
                    if (d != GYRE_DIRECTION_FORWARD) s = -s;
                    const long double u = (long double)x[t * DIM + 2 * i], v = (long double)x[t * DIM + 2 * i + 1];
                    test_close(y[t * DIM + 2 * i], (u * c - v * s) / size, 1e-14L, "x");
                    test_close(y[t * DIM + 2 * i + 1], (u * s + v * c) / size, 1e-14L, "y");
                    test_close((double)y32[t * DIM + 2 * i], (u * c - v * s) / size, 1e-6L, "x in float");
                }
        }
        gyre_encoding_free(e);
    }
}

/* -- attention -- */
enum { N = 150, HEADS = 2, SIZE = N * HEADS * DIM };
static float q[SIZE], k[SIZE], v[SIZE], out[SIZE], dout[SIZE], dq[SIZE], dk[SIZE], dv[SIZE];
static double want[SIZE], want_dk[SIZE];

static void turn(const gyre_config *config, int64_t m, const double *x, int back, double *y) {
    for (int i = 0; i < PAIRS; i++) {
        long double c, s;
        define(config, 8 * TRAINED, m, i, &c, &s);
        if (back) s = -s;
        y[2 * i] = (double)((long double)x[2 * i] * c - (long double)x[2 * i + 1] * s);
        y[2 * i + 1] = (double)((long double)x[2 * i] * s + (long double)x[2 * i + 1] * c);
    }
}

/* Forward and the gradient to raw keys; token t is at first + t. */
static void define_attention(const gyre_config *config, int64_t first) {
    static double rq[SIZE], rk[SIZE], dr[SIZE];
    for (int r = 0; r < N * HEADS; r++) {
        double x[DIM];
        for (int c = 0; c < DIM; c++)
            x[c] = (double)q[r * DIM + c];
        turn(config, first + r / HEADS, x, 0, rq + r * DIM);
        for (int c = 0; c < DIM; c++)
            x[c] = (double)k[r * DIM + c];
        turn(config, first + r / HEADS, x, 0, rk + r * DIM);
    }
    memset(want, 0, sizeof want);
    memset(dr, 0, sizeof dr);
    for (int h = 0; h < HEADS; h++)
        for (int m = 0; m < N; m++) {
            const int row = (m * HEADS + h) * DIM;
            double p[N], sum = 0, dot = 0;
            for (int n = 0; n <= m; n++) {
                double score = 0;
                for (int c = 0; c < DIM; c++)
                    score += rq[row + c] * rk[(n * HEADS + h) * DIM + c];
                sum += p[n] = exp(score / sqrt(DIM));
            }
            for (int n = 0; n <= m; n++)
                for (int c = 0; c < DIM; c++)
                    want[row + c] += p[n] / sum * (double)v[(n * HEADS + h) * DIM + c];
            for (int c = 0; c < DIM; c++)
                dot += (double)dout[row + c] * want[row + c];
            for (int n = 0; n <= m; n++) {
                double dp = 0;
                for (int c = 0; c < DIM; c++)
                    dp += (double)dout[row + c] * (double)v[(n * HEADS + h) * DIM + c];
                for (int c = 0; c < DIM; c++)
                    dr[(n * HEADS + h) * DIM + c] += p[n] / sum * (dp - dot) / sqrt(DIM) * rq[row + c];
            }
        }
    for (int r = 0; r < N * HEADS; r++)
        turn(config, first + r / HEADS, dr + r * DIM, 1, want_dk + r * DIM);
}

static void fill_all(uint64_t seed) {
    test_random random = {seed};
    test_fill(&random, q, SIZE);
    test_fill(&random, k, SIZE);
    test_fill(&random, v, SIZE);
    test_fill(&random, dout, SIZE);
}

static attention_setup args_of(const gyre_encoding *e, int64_t first) {
    attention_setup a = GYRE_INIT(attention_setup);
    a.encoding = e;
    a.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
    a.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
    a.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
    a.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
    a.q_pos.base = a.k_pos.base = first;
    a.causal = GYRE_CAUSAL_BY_POSITION;
    return a;
}

/* The two kinds of start tokens, with a table that is too short and without one. */
static void attention_and_gradient(void **state) {
    (void)state;
    static float lse[N * HEADS];
    fill_all(21);
    for (int variant = 0; variant < 4; variant++) {
        gyre_config config = with_start(70, (gyre_longrope_start)(variant & 1));
        config.rope.table_positions = variant & 2 ? GYRE_NO_TABLE : 64;
        gyre_encoding *e = test_encoding(&config);
        attention_setup args = args_of(e, 3);
        args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, N, HEADS, 1);
        attend(&args, NULL);
        define_attention(&config, 3);
        for (int i = 0; i < SIZE; i++)
            test_close((double)out[i], want[i], 4e-6L, "out");
        const gyre_cview grad = gyre_cdense(dout, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
        const gyre_view to[3] = {gyre_dense(dq, GYRE_DTYPE_F32, 1, N, HEADS, DIM),
                                 gyre_dense(dk, GYRE_DTYPE_F32, 1, N, HEADS, DIM),
                                 gyre_dense(dv, GYRE_DTYPE_F32, 1, N, HEADS, DIM)};
        differentiate(&args, &grad, to, NULL, NULL);
        for (int i = 0; i < SIZE; i++)
            test_close((double)dk[i], want_dk[i], 2e-5L, "dk");
        gyre_encoding_free(e);
    }
}

/* A cache keeps raw keys: a token that is moved takes the rotation of its new position, across the border too. */
static void cache_follows_positions(void **state) {
    (void)state;
    fill_all(22);
    const gyre_config config = with_start(START, GYRE_LONGROPE_START_RELEASED);
    gyre_encoding *e = test_encoding(&config);
    gyre_cache_config cache_config = GYRE_INIT(gyre_cache_config);
    cache_config.encoding = e;
    cache_config.heads = HEADS;
    cache_config.head_dim = DIM;
    cache_config.max_tokens = N;
    cache_config.keys = GYRE_CACHE_KEYS_ROTATED;
    gyre_cache *cache = NULL;
    gyre_error err;
    assert_int_equal(gyre_cache_create(&cache, &cache_config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "start tokens rotate otherwise, so a shift cannot reach their rotation"));
    cache_config.keys = GYRE_CACHE_KEYS_RAW;
    assert_ok(gyre_cache_create(&cache, &cache_config, NULL, NULL));
    attention_setup args = args_of(e, 200);
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = args.k, .v = args.v, .positions = &args.k_pos),
                                NULL, NULL));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, N}, (const int64_t[GYRE_MAX_AXES]){-200}, NULL));
    args.q_pos.base = 0;
    args.k = args.v = (gyre_cview){0};
    const int64_t sequences[1] = {0};
    define_attention(&config, 0);
    /* All queries, and the last alone, which reads each key once. */
    for (int alone = 0; alone < 2; alone++) {
        if (alone) {
            args.q = gyre_cdense(q + (N - 1) * HEADS * DIM, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
            args.out = gyre_dense(out + (N - 1) * HEADS * DIM, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
            args.q_pos.base = N - 1;
            memset(out + (N - 1) * HEADS * DIM, 0, HEADS * DIM * sizeof *out);
        }
        const size_t bytes = cache_attention_scratch(cache, sequences, &args, NULL);
        void *scratch = scratch_for(bytes);
        assert_ok(run_cache_attention(cache, sequences, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
        free(scratch);
        for (int i = 0; i < SIZE; i++)
            test_close((double)out[i], want[i], 4e-6L, "cache");
    }
    gyre_cache_free(cache);
    gyre_encoding_free(e);
}

/* Keys rotated under one encoding become those of another, across the border of the start tokens. */
static void rerotates(void **state) {
    (void)state;
    enum { M = 12 };
    const gyre_config config = with_start(START, GYRE_LONGROPE_START_PAPER);
    gyre_encoding *e = test_encoding(&config);
    double x[M * DIM], y[M * DIM], z[M * DIM];
    test_random random = {5};
    for (int i = 0; i < M * DIM; i++)
        x[i] = (double)(test_next(&random) % 1000) / 500 - 1;
    const gyre_positions old = {.base = 0}, moved = {.base = 3};
    const gyre_cview raw = gyre_cdense(x, GYRE_DTYPE_F64, 1, M, 1, DIM),
                     at_old = gyre_cdense(y, GYRE_DTYPE_F64, 1, M, 1, DIM);
    const gyre_view to = gyre_dense(y, GYRE_DTYPE_F64, 1, M, 1, DIM), back = gyre_dense(z, GYRE_DTYPE_F64, 1, M, 1, DIM);
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &old, .in = raw, .out = to),
                          NULL, NULL));
    assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &old,
                                      .new_positions = &moved, .in = at_old, .out = back),
                            NULL, NULL));
    for (int t = 0; t < M; t++) {
        double expected[DIM];
        turn(&config, t + 3, x + t * DIM, 0, expected);
        for (int c = 0; c < DIM; c++)
            test_close(z[t * DIM + c], expected[c], 1e-13L, "moved");
    }
    gyre_encoding_free(e);
}

static void wrong_fields(void **state) {
    (void)state;
    gyre_config config = with_start(-1, GYRE_LONGROPE_START_PAPER);
    assert_config_error(&config, "rope.longrope.start_tokens: -1 is negative (gyre_config)");
    config = with_start(4, (gyre_longrope_start)2);
    assert_config_error(&config, "rope.longrope.starts: 2 is not one of paper, released (gyre_config)");
    static const char *const with[] = {"another scaling than longrope", "far pairs that rotate less", "xPos",
                                       "several axes, or a scaling of an axis"};
    for (int i = 0; i < 4; i++) {
        char text[128];
        config = with_start(4, GYRE_LONGROPE_START_PAPER);
        if (i == 0) config.rope.scaling = GYRE_SCALING_YARN;
        if (i == 1) config.rope.far = GYRE_FAR_CLAMPED, config.rope.far_window = 8;
        if (i == 2) config.rope.xpos_base = 512;
        if (i == 3) config.rope.axes = 2, config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = PAIRS / 2;
        snprintf(text, sizeof text, "rope.longrope.start_tokens: start tokens cannot be combined with %s (gyre_config)",
                 with[i]);
        assert_config_error(&config, text);
    }
    for (int path = GYRE_ANGLE_PATH_TORCH; path <= GYRE_ANGLE_PATH_TENSORRT_LLM; path++) {
        gyre_encoding *e = NULL;
        config = with_start(4, GYRE_LONGROPE_START_PAPER);
        config.rope.angles = (gyre_angle_path)path;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, NULL), GYRE_EUNSUPPORTED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotates_by_the_definition),
        cmocka_unit_test(attention_and_gradient),
        cmocka_unit_test(cache_follows_positions),
        cmocka_unit_test(rerotates),
        cmocka_unit_test(wrong_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
