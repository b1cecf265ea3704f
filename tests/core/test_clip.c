/* test_clip.c: clipped RoPE (arXiv 2602.05258) against its definition, which multiplies the last frequencies of any rotation
 * by a window: as its released code has it, with the window of torch.linspace(0, pi, n). */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "gyre/gyre_fields.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { PAIRS = 32, DIM = 2 * PAIRS };

static void frequencies(const gyre_config *config, int64_t length, double f[PAIRS]) {
    gyre_encoding *e = test_encoding(config);
    assert_ok(gyre_encoding_frequencies(e, length, f, NULL));
    gyre_encoding_free(e);
}

static gyre_config clipped(gyre_clip mode, int64_t pairs) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    config.trained_length = 4096;
    config.rope.clip.mode = mode;
    config.rope.clip.pairs = pairs;
    return config;
}

/* What pair i of `of` pairs is multiplied by, where n are clipped. */
static double window(gyre_clip mode, int n, int i, int of) {
    n = n < of ? n : of;
    const int j = i - (of - n);
    if (mode == GYRE_CLIP_NONE || j < 0) return 1;
    if (mode == GYRE_CLIP_HARD) return 0;
    const double step = n > 1 ? acos(-1) / (n - 1) : 0;
    return 0.5 * (1 + cos(j * step));
}

static void clips_any_scaling(void **state) {
    (void)state;
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE,         GYRE_SCALING_LINEAR,    GYRE_SCALING_NTK,
                                            GYRE_SCALING_DYNAMIC_NTK,  GYRE_SCALING_BY_PARTS,  GYRE_SCALING_BY_PARTS_PAPER,
                                            GYRE_SCALING_YARN,         GYRE_SCALING_LLAMA3,    GYRE_SCALING_LONGROPE,
                                            GYRE_SCALING_PROPORTIONAL, GYRE_SCALING_NTK_MIXED, GYRE_SCALING_DYNAMIC_YARN};
    static const int counts[] = {0, 1, 2, 7, 20, PAIRS, 1000};
    double before[PAIRS], after[PAIRS], lists[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        lists[i] = 1 + i / 8.0;
    for (size_t s = 0; s < sizeof scalings / sizeof *scalings; s++)
        for (int mode = GYRE_CLIP_NONE; mode <= GYRE_CLIP_HARD; mode++)
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
                if (mode == GYRE_CLIP_NONE && counts[n]) continue;
                gyre_config config = clipped(GYRE_CLIP_NONE, 0);
                config.rope.scaling = scalings[s];
                config.rope.factor = 4;
                config.rope.proportion = 0.75;
                config.rope.short_factor = config.rope.long_factor = lists;
                gyre_config_clear_unused(&config);
                frequencies(&config, 9000, before);
                config.rope.clip = (struct gyre_clip_config){(gyre_clip)mode, counts[n]};
                frequencies(&config, 9000, after);
                for (int i = 0; i < PAIRS; i++) {
                    const double w = window((gyre_clip)mode, counts[n] ? counts[n] : 20, i, PAIRS);
                    test_close(after[i], before[i] * w, 1e-15L * (long double)before[i], "clipped");
                }
                if (mode == GYRE_CLIP_HARD || (mode == GYRE_CLIP_SOFT && counts[n] != 1)) assert_true(after[PAIRS - 1] == 0);
            }
}

/* Llama 3's 64 pairs, to what the released code gives in float. */
static void as_released_for_llama_3(void **state) {
    (void)state;
    double f[64];
    gyre_config config = test_rope_config(128, GYRE_LAYOUT_HALF);
    config.rope.base = 8e6;
    config.rope.clip.mode = GYRE_CLIP_SOFT;
    gyre_encoding *e = test_encoding(&config);
    assert_int_equal(gyre_encoding_get_config(e)->rope.clip.pairs, 20);
    assert_ok(gyre_encoding_frequencies(e, 0, f, NULL));
    gyre_encoding_free(e);
    for (int i = 0; i < 64; i++) {
        const float inv_freq = 1.0f / powf(8e6f, (float)(2 * i) / 128.0f), theta = 3.14159265f / 19.0f * (float)(i - 44);
        const float want = i < 44 ? inv_freq : inv_freq * (0.5f * (1.0f + cosf(theta)));
        test_close(f[i], (double)want, 4e-6L * (long double)inv_freq, "released");
    }
}

/* An axial axis is a rotation of its own; chunked axes share one. */
static void axes(void **state) {
    (void)state;
    double before[PAIRS], after[PAIRS];
    for (int axial = 0; axial < 2; axial++) {
        gyre_config config = clipped(GYRE_CLIP_NONE, 0);
        config.rope.axes = 2;
        config.rope.axes_layout = axial ? GYRE_AXES_AXIAL : GYRE_AXES_CHUNKED;
        config.rope.axis_pairs[0] = 20;
        config.rope.axis_pairs[1] = 12;
        frequencies(&config, 0, before);
        config.rope.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 15};
        frequencies(&config, 0, after);
        for (int i = 0; i < PAIRS; i++) {
            const int of = !axial ? PAIRS : i < 20 ? 20 : 12, at = axial && i >= 20 ? i - 20 : i;
            test_close(after[i], before[i] * window(GYRE_CLIP_SOFT, 15, at, of), 1e-15L, "an axis");
        }
    }
}

/* Whole wavelengths are those of clipped frequencies; a pair that stands still has none. */
static void resonance_rounds_what_is_clipped(void **state) {
    (void)state;
    double before[PAIRS], after[PAIRS];
    const double turn = 2 * acos(-1);
    gyre_config config = clipped(GYRE_CLIP_SOFT, 12);
    frequencies(&config, 0, before);
    config.rope.resonance = 1;
    frequencies(&config, 0, after);
    for (int i = 0; i < PAIRS - 1; i++)
        test_close(turn / after[i], round(turn / before[i]), 1e-9L, "whole");
    assert_true(after[PAIRS - 1] == 0);
}

static void parts_are_counted(void **state) {
    (void)state;
    gyre_scaling_parts parts;
    for (int mode = GYRE_CLIP_SOFT; mode <= GYRE_CLIP_HARD; mode++) {
        const gyre_config config = clipped((gyre_clip)mode, 10);
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_scaling_parts(e, 0, &parts));
        assert_int_equal(parts.kept, mode == GYRE_CLIP_SOFT ? 23 : 22); /* the first of the window is kept */
        assert_int_equal(parts.blended, mode == GYRE_CLIP_SOFT ? 8 : 0);
        assert_int_equal(parts.divided, mode == GYRE_CLIP_SOFT ? 1 : 10);
        gyre_encoding_free(e);
    }
}

/* Angles at positions up to 2^31, to the error that gyre_rotate states. */
static void far_positions_are_exact(void **state) {
    (void)state;
    const gyre_config config = clipped(GYRE_CLIP_SOFT, 20);
    gyre_encoding *e = test_encoding(&config);
    for (int64_t m = 3; m <= INT64_C(1) << 31; m = m * 5 + 1) {
        double c[PAIRS], s[PAIRS];
        const gyre_positions at = {.base = m};
        const gyre_view to_c = gyre_dense(c, GYRE_DTYPE_F64, 1, 1, 1, PAIRS),
                        to_s = gyre_dense(s, GYRE_DTYPE_F64, 1, 1, 1, PAIRS);
        assert_ok(gyre_cos_sin(e, &at, &to_c, &to_s, NULL, NULL));
        for (int i = 0; i < PAIRS; i++) {
            const int j = i - (PAIRS - 20);
            const long double w = j < 0 ? 1 : j == 19 ? 0 : 0.5L * (1 + cosl(acosl(-1) * (long double)j / 19));
            const long double a = (long double)m * w * powl(10000, -(long double)i / PAIRS);
            test_close(c[i], cosl(a), 3e-10L, "cos");
            test_close(s[i], sinl(a), 3e-10L, "sin");
        }
    }
    gyre_encoding_free(e);
}

/* -- attention -- */
enum { N = 37, HEADS = 2, SIZE = N * HEADS * DIM };
static float q[SIZE], k[SIZE], v[SIZE], out[SIZE], weight[SIZE], dq[SIZE], dk[SIZE], dv[SIZE];

/* rows[t][h] rotated by the definition, at positions first + t. */
static void turn(const gyre_config *config, const float *x, int64_t first, int back, double *y) {
    for (int64_t t = 0; t < N; t++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < PAIRS; i++) {
                const int64_t row = (t * HEADS + h) * DIM;
                const double a = (double)(first + t) * pow(10000, -(double)i / PAIRS) *
                                 window(config->rope.clip.mode, (int)config->rope.clip.pairs, i, PAIRS) * (back ? -1 : 1);
                y[row + i] = (double)x[row + i] * cos(a) - (double)x[row + PAIRS + i] * sin(a);
                y[row + PAIRS + i] = (double)x[row + i] * sin(a) + (double)x[row + PAIRS + i] * cos(a);
            }
}

static double rq[SIZE], rk[SIZE], prob[HEADS][N][N];

static void define_attention(const gyre_config *config, int64_t first, double *want) {
    turn(config, q, first, 0, rq);
    turn(config, k, first, 0, rk);
    for (int h = 0; h < HEADS; h++)
        for (int m = 0; m < N; m++) {
            double sum = 0, *p = prob[h][m];
            for (int n = 0; n <= m; n++) {
                double score = 0;
                for (int c = 0; c < DIM; c++)
                    score += rq[(m * HEADS + h) * DIM + c] * rk[(n * HEADS + h) * DIM + c];
                sum += p[n] = exp(score / sqrt(DIM));
            }
            for (int c = 0; c < DIM; c++) {
                want[(m * HEADS + h) * DIM + c] = 0;
                for (int n = 0; n <= m; n++)
                    want[(m * HEADS + h) * DIM + c] += p[n] / sum * (double)v[(n * HEADS + h) * DIM + c];
            }
            for (int n = 0; n <= m; n++)
                p[n] /= sum;
        }
}

/* Gradient to the raw queries: that to the rotated ones, rotated back. */
static void define_query_gradient(const gyre_config *config, int64_t first, const double *y, double *want) {
    static float g[SIZE];
    memset(g, 0, sizeof g);
    for (int h = 0; h < HEADS; h++)
        for (int m = 0; m < N; m++) {
            const int64_t row = (m * HEADS + h) * DIM;
            double dot = 0;
            for (int c = 0; c < DIM; c++)
                dot += (double)weight[row + c] * y[row + c];
            for (int n = 0; n <= m; n++) {
                double dp = 0;
                for (int c = 0; c < DIM; c++)
                    dp += (double)weight[row + c] * (double)v[(n * HEADS + h) * DIM + c];
                const double ds = prob[h][m][n] * (dp - dot) / sqrt(DIM);
                for (int c = 0; c < DIM; c++)
                    g[row + c] += (float)(ds * rk[(n * HEADS + h) * DIM + c]);
            }
        }
    turn(config, g, first, 1, want);
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

static void attention_and_gradient(void **state) {
    (void)state;
    static double want[SIZE], gradient[SIZE];
    static float lse[N * HEADS];
    test_random random = {12};
    test_fill(&random, q, SIZE);
    test_fill(&random, k, SIZE);
    test_fill(&random, v, SIZE);
    test_fill(&random, weight, SIZE);
    for (int mode = GYRE_CLIP_SOFT; mode <= GYRE_CLIP_HARD; mode++) {
        const gyre_config config = clipped((gyre_clip)mode, 12);
        gyre_encoding *e = test_encoding(&config);
        attention_setup args = args_of(e, 3000);
        args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, N, HEADS, 1);
        attend(&args, NULL);
        define_attention(&config, 3000, want);
        for (int i = 0; i < SIZE; i++)
            test_close((double)out[i], want[i], 4e-6L, "out");
        define_query_gradient(&config, 3000, want, gradient);
        const gyre_cview dout = gyre_cdense(weight, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
        const gyre_view to[3] = {gyre_dense(dq, GYRE_DTYPE_F32, 1, N, HEADS, DIM),
                                 gyre_dense(dk, GYRE_DTYPE_F32, 1, N, HEADS, DIM),
                                 gyre_dense(dv, GYRE_DTYPE_F32, 1, N, HEADS, DIM)};
        differentiate(&args, &dout, to, NULL, NULL);
        for (int i = 0; i < SIZE; i++)
            test_close((double)dq[i], gradient[i], 4e-6L, "dq");
        gyre_encoding_free(e);
    }
}

/* A cache with rotated keys, moved to other positions after it was filled: scores do not change. */
static void cache_keeps_and_shifts(void **state) {
    (void)state;
    static double want[SIZE];
    test_random random = {13};
    test_fill(&random, q, SIZE);
    test_fill(&random, k, SIZE);
    test_fill(&random, v, SIZE);
    const gyre_config config = clipped(GYRE_CLIP_SOFT, 12);
    gyre_encoding *e = test_encoding(&config);
    gyre_cache_config cache_config = GYRE_INIT(gyre_cache_config);
    cache_config.encoding = e;
    cache_config.key_dtype = cache_config.value_dtype = GYRE_DTYPE_F32;
    cache_config.heads = HEADS;
    cache_config.head_dim = cache_config.value_dim = DIM;
    cache_config.max_tokens = 2 * N;
    cache_config.keys = GYRE_CACHE_KEYS_ROTATED;
    gyre_cache *cache = NULL;
    assert_ok(gyre_cache_create(&cache, &cache_config, NULL, NULL));
    attention_setup args = args_of(e, 500);
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = args.k, .v = args.v, .positions = &args.k_pos),
                                NULL, NULL));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, N}, (const int64_t[GYRE_MAX_AXES]){2500}, NULL));
    args.q_pos.base = 3000;
    args.k = args.v = (gyre_cview){0};
    const int64_t sequences[1] = {0};
    const size_t bytes = cache_attention_scratch(cache, sequences, &args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, sequences, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    define_attention(&config, 3000, want);
    for (int i = 0; i < SIZE; i++)
        test_close((double)out[i], want[i], 1e-5L, "cache");
    gyre_cache_free(cache);
    gyre_encoding_free(e);
}

static void wrong_fields(void **state) {
    (void)state;
    gyre_config config = clipped((gyre_clip)3, 4);
    assert_config_error(&config, "rope.clip.mode: 3 is not one of none, soft, hard (gyre_config)");
    config = clipped(GYRE_CLIP_SOFT, -1);
    assert_config_error(&config, "rope.clip.pairs: -1 is negative (gyre_config)");
    config = clipped(GYRE_CLIP_NONE, 4);
    assert_config_error(&config, "rope.clip.pairs: is set, but has no effect where rope.clip.mode is none (gyre_config)");
    config = clipped(GYRE_CLIP_HARD, 4);
    for (int path = GYRE_ANGLE_PATH_TORCH; path <= GYRE_ANGLE_PATH_TENSORRT_LLM; path++) {
        gyre_encoding *e = NULL;
        config.rope.angles = (gyre_angle_path)path;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, NULL), GYRE_EUNSUPPORTED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clips_any_scaling),
        cmocka_unit_test(as_released_for_llama_3),
        cmocka_unit_test(axes),
        cmocka_unit_test(resonance_rounds_what_is_clipped),
        cmocka_unit_test(parts_are_counted),
        cmocka_unit_test(far_positions_are_exact),
        cmocka_unit_test(attention_and_gradient),
        cmocka_unit_test(cache_keeps_and_shifts),
        cmocka_unit_test(wrong_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
