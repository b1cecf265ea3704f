/* test_decode_kernels.c: every tier's kernels for few queries, keys and values of every type, against long double. */
#include "guarded_memory.h"
#include "kernels/kernels.h"
#include "util/integers.h"

#include "run_each_tier.h"

#include <float.h>
#include <stdlib.h>

/* -- types -- */

typedef struct element_type {
    const char *name;
    gyre_dtype dtype;
    size_t size;
} element_type;
static const element_type types[] = {
    {"f32", GYRE_DTYPE_F32, 4}, {"f16", GYRE_DTYPE_F16, 2}, {"bf16", GYRE_DTYPE_BF16, 2}, {"q8", GYRE_DTYPE_Q8, 1}};
enum { TYPES = sizeof types / sizeof *types };

static void (*scores_of(const gyre_kernels *kernels, int type))(const gyre_key_scores *) {
    void (*const all[])(const gyre_key_scores *) = {kernels->score_rows_f32, kernels->score_rows_f16,
                                                    kernels->score_rows_bf16, kernels->score_rows_q8};
    return all[type];
}
static void (*sums_of(const gyre_kernels *kernels, int type))(const gyre_weighted_values *) {
    void (*const all[])(const gyre_weighted_values *) = {kernels->weighted_sum_f32, kernels->weighted_sum_f16,
                                                         kernels->weighted_sum_bf16, kernels->weighted_sum_q8};
    return all[type];
}

static double element(const void *data, int type, int64_t at) {
    return type == 3 ? ((const int8_t *)data)[at] : test_get(data, types[type].dtype, (size_t)at);
}

/* n elements right before memory that cannot be read. */
static void *elements(test_random *random, int type, int64_t n) {
    char *data = guarded((size_t)n * types[type].size);
    for (int64_t i = 0; i < n; i++)
        if (type == 3)
            ((int8_t *)data)[i] = (int8_t)((int)(test_next(random) % 255) - 127);
        else
            test_put(data, types[type].dtype, (size_t)i, test_uniform(random));
    return data;
}

static float *floats(test_random *random, int64_t n) {
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    test_fill(random, x, (size_t)n);
    return x;
}

/* -- scores -- */

typedef struct few_case {
    int64_t rows, keys, channels, gap; /* gap: between rows */
} few_case;

/* Every remainder of the blocks of rows and keys; channels beyond whole vectors and beyond one part. */
static const few_case cases[] = {
    {1, 1, 1, 0},    {1, 17, 8, 0},  {2, 9, 24, 3},   {3, 33, 40, 8},  {4, 5, 128, 0},   {4, 128, 64, 16}, {5, 31, 80, 1},
    {6, 7, 16, 0},   {7, 20, 33, 5}, {8, 16, 256, 0}, {9, 3, 272, 24}, {12, 13, 7, 0},   {1, 40, 520, 0},  {4, 12, 15, 0},
    {2, 64, 128, 0}, {8, 8, 31, 0},  {4, 0, 32, 0},   {0, 5, 32, 0},   {32, 19, 96, 32}, {1, 16, 63, 1},   {4, 77, 128, 0}};
enum { CASES = sizeof cases / sizeof *cases };

/* With Q8 a tier may round a row of queries or weights to 16 bits (kernels.def).  out = the largest change of an x[i]. */
static long double rounding_of(int type, const float *x, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n && type == 3; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return (long double)largest / 65534 * 1.001L;
}

/* |score - exact| <= gamma_(channels + 2) sum |q k|, half an ulp more for the scale, and what Q8 adds. */
static long double check_scores(const gyre_kernels *kernels, int type, const few_case *c, int scaled, test_random *random) {
    const int64_t q_row_stride = gyre_round_up_i64(c->channels, 16) + (c->gap > 3 ? 16 : 0),
                  k_row_stride = c->channels + c->gap;
    const int64_t score_row_stride = c->keys + 3, size = (c->keys > 0 ? c->keys - 1 : 0) * k_row_stride + c->channels;
    float *q = floats(random, (c->rows + 1) * q_row_stride), *scores = floats(random, (c->rows + 1) * score_row_stride);
    float *was = floats(random, (c->rows + 1) * score_row_stride), *scale = floats(random, c->keys + 1);
    void *k = elements(random, type, size);
    memcpy(was, scores, (size_t)((c->rows + 1) * score_row_stride) * sizeof *was);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = c->channels; i < q_row_stride; i++)
            q[r * q_row_stride + i] = i < gyre_round_up_i64(c->channels, 16) ? 0 : NAN;
    const gyre_key_scores job = {
        c->rows,          c->keys, c->channels, q, q_row_stride, k, k_row_stride, scaled ? scale : NULL, scores,
        score_row_stride, 0,       NULL,        0};
    scores_of(kernels, type)(&job);
    long double worst = 0;
    for (int64_t r = 0; r <= c->rows; r++)
        for (int64_t j = 0; j < score_row_stride; j++) {
            const float got = scores[r * score_row_stride + j];
            if (r == c->rows || j >= c->keys) {
                assert_true(got == was[r * score_row_stride + j]);
                continue;
            }
            const long double off = rounding_of(type, q + r * q_row_stride, c->channels);
            long double exact = 0, sum = 0, rounding = 0;
            for (int64_t i = 0; i < c->channels; i++) {
                rounding += off * fabsl((long double)element(k, type, j * k_row_stride + i));
                const long double term =
                    (long double)q[r * q_row_stride + i] * (long double)element(k, type, j * k_row_stride + i);
                exact += term;
                sum += fabsl(term);
            }
            const long double by = scaled ? (long double)scale[j] : 1;
            worst = larger_fraction(worst, (long double)got, exact * by,
                                    ((long double)(c->channels + 2) * 0x1p-24L * 1.001L * sum + rounding) * fabsl(by));
        }
    unguard(k, (size_t)size * types[type].size);
    free(q);
    free(scores);
    free(was);
    free(scale);
    return worst;
}

static void scores_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {51};
    for (int type = 0; type < TYPES; type++) {
        long double worst = 0;
        for (int i = 0; i < CASES; i++)
            worst = fmaxl(worst, check_scores(kernels, type, &cases[i], i % 2 || type == 3, &random));
        for (int64_t channels = 1; channels <= 70; channels++) {
            const few_case c = {channels % 9 + 1, channels * 7 % 38 + 1, channels, channels % 4};
            worst = fmaxl(worst, check_scores(kernels, type, &c, 0, &random));
        }
        print_message("score_rows_%s ", types[type].name);
        report_fraction("", kernels, worst);
    }
}

/* A tier may add a score of Q8 as one integer: the largest fits 32 bits. */
static void largest_scores_of_q8_fit(void **state) {
    enum { CHANNELS = 512 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int sign = -1; sign <= 1; sign += 2) {
        float q[CHANNELS], score;
        int8_t k[CHANNELS];
        for (int i = 0; i < CHANNELS; i++)
            q[i] = (float)sign, k[i] = -128;
        const gyre_key_scores job = {1, 1, CHANNELS, q, CHANNELS, k, CHANNELS, NULL, &score, 1, 0, NULL, 0};
        kernels->score_rows_q8(&job);
        assert_true(fabsf(score / ((float)sign * -128 * CHANNELS) - 1) < 1e-6f);
    }
}

/* A score has the bits it has alone, whichever other rows and keys are asked for in one call. */
static void scores_same_for_any_split(void **state) {
    enum { ROWS = 11, KEYS = 37, CHANNELS = 88, PAD = 96 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {52};
    for (int type = 0; type < TYPES; type++) {
        float q[ROWS * PAD] = {0}, whole[ROWS * KEYS], one;
        for (int r = 0; r < ROWS; r++)
            test_fill(&random, q + r * PAD, CHANNELS);
        char *k = elements(&random, type, KEYS * CHANNELS);
        const gyre_key_scores all = {ROWS, KEYS, CHANNELS, q, PAD, k, CHANNELS, NULL, whole, KEYS, 0, NULL, 0};
        scores_of(kernels, type)(&all);
        for (int r = 0; r < ROWS; r++)
            for (int64_t j = 0; j < KEYS; j++) {
                const void *at = k + (size_t)(j * CHANNELS) * types[type].size;
                const gyre_key_scores alone = {1, 1, CHANNELS, q + r * PAD, PAD, at, CHANNELS, NULL, &one, 1, 0, NULL, 0};
                scores_of(kernels, type)(&alone);
                assert_memory_equal(&one, &whole[r * KEYS + j], sizeof one);
            }
        unguard(k, KEYS * CHANNELS * types[type].size);
    }
}

/* -- scores of keys that are rotated on the way -- */

static void (*rotated_scores_of(const gyre_kernels *kernels, int type))(const gyre_key_scores *) {
    void (*const all[])(const gyre_key_scores *) = {kernels->score_rotated_f32, kernels->score_rotated_f16,
                                                    kernels->score_rotated_bf16, kernels->score_rotated_q8};
    return all[type];
}

/* out = channel i of a key, of which channels c and pairs + c are rotated. */
static long double rotated_element(const void *k, int type, const float *angles, int64_t pairs, int64_t i) {
    const int64_t c = i % pairs;
    if (i >= 2 * pairs) return (long double)element(k, type, i);
    const long double cosine = angles[c], sine = angles[pairs + c];
    const long double a = (long double)element(k, type, c), b = (long double)element(k, type, pairs + c);
    return i < pairs ? a * cosine - b * sine : b * cosine + a * sine;
}

typedef struct rotated_case {
    int64_t rows, keys, channels, pairs;
} rotated_case;

/* As check_scores; each rotated channel has three roundings more, of at most |a| + |b|. */
static long double check_rotated(const gyre_kernels *kernels, int type, const rotated_case *c, test_random *random) {
    const int64_t pad = gyre_round_up_i64(c->channels, 16), k_row_stride = c->channels + 3,
                  size = c->keys * k_row_stride - 3;
    float *q = floats(random, c->rows * pad), *scores = floats(random, c->rows * c->keys), *scale = floats(random, c->keys);
    float *angles = floats(random, c->keys * 2 * c->pairs), one;
    char *k = elements(random, type, size);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = c->channels; i < pad; i++)
            q[r * pad + i] = 0;
    gyre_key_scores job = {c->rows, c->keys, c->channels, q, pad,    k,       k_row_stride,
                           scale,   scores,  c->keys,     0, angles, c->pairs};
    rotated_scores_of(kernels, type)(&job);
    long double worst = 0;
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t j = 0; j < c->keys; j++) {
            const char *key = k + (size_t)(j * k_row_stride) * types[type].size;
            long double exact = 0, sum = 0;
            for (int64_t i = 0; i < c->channels; i++) {
                const long double x = (long double)q[r * pad + i];
                exact += x * rotated_element(key, type, angles + j * 2 * c->pairs, c->pairs, i);
                sum += fabsl(x) *
                       (fabsl((long double)element(key, type, i % c->pairs)) + fabsl((long double)element(key, type, i)) +
                        fabsl((long double)element(key, type, i < c->pairs ? c->pairs + i : i)));
            }
            worst = larger_fraction(worst, (long double)scores[r * c->keys + j], exact * (long double)scale[j],
                                    (long double)(c->channels + 5) * 0x1p-24L * sum * fabsl((long double)scale[j]));
            const gyre_key_scores alone = {1,
                                           1,
                                           c->channels,
                                           q + r * pad,
                                           pad,
                                           key,
                                           k_row_stride,
                                           scale + j,
                                           &one,
                                           1,
                                           0,
                                           angles + j * 2 * c->pairs,
                                           c->pairs};
            rotated_scores_of(kernels, type)(&alone);
            assert_memory_equal(&one, &scores[r * c->keys + j], sizeof one);
        }
    unguard(k, (size_t)size * types[type].size);
    free(q);
    free(scores);
    free(scale);
    free(angles);
    return worst;
}

/* Each score has the bits it has alone. */
static void rotated_scores_within_bound(void **state) {
    static const rotated_case rotated[] = {
        {4, 37, 128, 64}, {1, 9, 64, 32}, {7, 21, 80, 16}, {2, 5, 33, 16}, {8, 16, 96, 48}};
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {56};
    for (int type = 0; type < TYPES; type++) {
        long double worst = 0;
        for (size_t i = 0; i < sizeof rotated / sizeof *rotated; i++)
            worst = fmaxl(worst, check_rotated(kernels, type, &rotated[i], &random));
        print_message("score_rotated_%s ", types[type].name);
        report_fraction("", kernels, worst);
    }
}

/* -- sums of values -- */

/* |out - exact| <= gamma_(keys + 1) (|out before| + sum |w v|) and what Q8 adds, and nothing written past a row. */
static long double check_sums(const gyre_kernels *kernels, int type, const few_case *c, test_random *random) {
    const int64_t v_row_stride = c->channels + c->gap, weight_row_stride = c->keys + 5,
                  room = gyre_round_up_i64(c->channels, 16);
    const int64_t out_row_stride = room + 3, size = (c->keys > 0 ? c->keys - 1 : 0) * v_row_stride + c->channels;
    float *weights = floats(random, (c->rows + 1) * weight_row_stride),
          *out = floats(random, (c->rows + 1) * out_row_stride);
    float *was = floats(random, (c->rows + 1) * out_row_stride);
    void *v = elements(random, type, size);
    memcpy(was, out, (size_t)((c->rows + 1) * out_row_stride) * sizeof *was);
    const gyre_weighted_values job = {c->rows, c->keys,      c->channels, weights,        weight_row_stride,
                                      v,       v_row_stride, out,         out_row_stride, 0};
    sums_of(kernels, type)(&job);
    long double worst = 0;
    for (int64_t r = 0; r <= c->rows; r++)
        for (int64_t i = 0; i < out_row_stride; i++) {
            const float got = out[r * out_row_stride + i], before = was[r * out_row_stride + i];
            if (r == c->rows || i >= room) {
                assert_true(got == before);
                continue;
            }
            assert_true(isfinite(got));
            const long double off = rounding_of(type, weights + r * weight_row_stride, c->keys);
            long double exact = (long double)before, sum = fabsl(exact), rounding = 0;
            for (int64_t j = 0; i < c->channels && j < c->keys; j++) {
                rounding += off * fabsl((long double)element(v, type, j * v_row_stride + i));
                const long double w = (long double)weights[r * weight_row_stride + j];
                exact += w * (long double)element(v, type, j * v_row_stride + i);
                sum += fabsl(w * (long double)element(v, type, j * v_row_stride + i));
            }
            if (i < c->channels)
                worst = larger_fraction(worst, (long double)got, exact,
                                        (long double)(c->keys + 1) * 0x1p-24L * 1.001L * sum + rounding);
        }
    unguard(v, (size_t)size * types[type].size);
    free(weights);
    free(out);
    free(was);
    return worst;
}

static void sums_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {53};
    for (int type = 0; type < TYPES; type++) {
        long double worst = 0;
        for (int i = 0; i < CASES; i++)
            worst = fmaxl(worst, check_sums(kernels, type, &cases[i], &random));
        for (int64_t channels = 1; channels <= 70; channels++) {
            const few_case c = {channels % 9 + 1, channels * 7 % 38 + 1, channels, channels % 4};
            worst = fmaxl(worst, check_sums(kernels, type, &c, &random));
        }
        print_message("weigh_rows_%s ", types[type].name);
        report_fraction("", kernels, worst);
    }
}

/* A row has the bits that it has alone, with its keys one after the other.  The weights of a call with Q8 may be rounded
 * together, so there a row is alone with all its keys. */
static void sums_same_for_any_split(void **state) {
    enum { ROWS = 11, KEYS = 21, CHANNELS = 88, PAD = 96 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {54};
    for (int type = 0; type < TYPES; type++) {
        float weights[ROWS * KEYS], whole[ROWS * PAD] = {0}, part[ROWS * PAD] = {0};
        test_fill(&random, weights, ROWS * KEYS);
        char *v = elements(&random, type, KEYS * CHANNELS);
        const gyre_weighted_values all = {ROWS, KEYS, CHANNELS, weights, KEYS, v, CHANNELS, whole, PAD, 0};
        sums_of(kernels, type)(&all);
        const int64_t together = type == 3 ? KEYS : 1;
        for (int r = 0; r < ROWS; r++)
            for (int64_t j = 0; j < KEYS; j += together) {
                const void *at = v + (size_t)(j * CHANNELS) * types[type].size;
                const gyre_weighted_values one = {
                    1, together, CHANNELS, weights + r * KEYS + j, KEYS, at, CHANNELS, part + r * PAD, PAD, 0};
                sums_of(kernels, type)(&one);
            }
        for (int r = 0; r < ROWS; r++)
            assert_memory_equal(whole + r * PAD, part + r * PAD, CHANNELS * sizeof *whole);
        unguard(v, KEYS * CHANNELS * types[type].size);
    }
}

/* Infinities and NaNs reach only the scores and sums that they belong to. */
static void nonfinite_elements_do_not_spread(void **state) {
    enum { ROWS = 5, KEYS = 19, CHANNELS = 40, PAD = 48 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {55};
    for (int type = 0; type < 3; type++) {
        float q[ROWS * PAD] = {0}, scores[ROWS * KEYS], weights[ROWS * KEYS], out[ROWS * PAD] = {0};
        for (int i = 0; i < ROWS * KEYS; i++)
            weights[i] = 0.5f;
        for (int i = 0; i < ROWS * PAD; i++)
            q[i] = i % PAD < CHANNELS ? 0.25f : 0;
        char *k = elements(&random, type, KEYS * CHANNELS);
        test_put(k, types[type].dtype, 7 * CHANNELS + 33, (double)INFINITY);
        test_put(k, types[type].dtype, 12 * CHANNELS + 2, (double)NAN);
        const gyre_key_scores job = {ROWS, KEYS, CHANNELS, q, PAD, k, CHANNELS, NULL, scores, KEYS, 0, NULL, 0};
        const gyre_weighted_values sums = {ROWS, KEYS, CHANNELS, weights, KEYS, k, CHANNELS, out, PAD, 0};
        scores_of(kernels, type)(&job);
        sums_of(kernels, type)(&sums);
        for (int r = 0; r < ROWS; r++) {
            for (int j = 0; j < KEYS; j++)
                assert_true(j == 7    ? scores[r * KEYS + j] == INFINITY
                            : j == 12 ? isnan(scores[r * KEYS + j])
                                      : isfinite(scores[r * KEYS + j]));
            for (int i = 0; i < CHANNELS; i++)
                assert_true(i == 33  ? out[r * PAD + i] == INFINITY
                            : i == 2 ? isnan(out[r * PAD + i])
                                     : isfinite(out[r * PAD + i]));
        }
        unguard(k, KEYS * CHANNELS * types[type].size);
    }
}

/* -- rows -- */

static void widens_int8(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float out[300];
    for (int64_t n = 0; n <= 290; n++) {
        int8_t *in = guarded((size_t)n + 1); /* an empty page */
        for (int64_t i = 0; i <= n; i++)
            in[i] = (int8_t)(i * 37 % 256 - 128), out[i] = -0.5f;
        kernels->widen_q8(in + 1, out, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(out[i] == (float)in[i + 1]);
        assert_true(out[n] == -0.5f);
        unguard(in, (size_t)n + 1);
    }
}

static void caps_within_bound(void **state) {
    static const float caps[] = {50, 30, 1, 0.125f, 1e4f};
    const gyre_kernels *kernels = tier_or_skip(*state);
    long double worst = 0, slopes = 0;
    for (size_t c = 0; c < sizeof caps / sizeof *caps; c++)
        for (uint32_t bits = 0x2b800000u; bits < 0x42c80000u;
             bits += 16 * 4099) { /* 2^-40 .. 100 times the cap, every 4099th */
            float x[16], y[16], same[16], slope[16];
            for (uint32_t i = 0; i < 16; i++) {
                const uint32_t at = bits + i * 4099;
                memcpy(&x[i], &at, sizeof at);
                same[i] = y[i] = x[i] = (i % 2 ? -caps[c] : caps[c]) * x[i];
            }
            kernels->softcap_row_f32(y, slope, 16, caps[c]);
            kernels->softcap_row_f32(same, NULL, 16, caps[c]);
            assert_memory_equal(y, same, sizeof y);
            for (int i = 0; i < 16; i++) {
                const double t = tanh((double)x[i] / (double)caps[c]), want = (double)caps[c] * t;
                worst = larger_fraction(worst, (long double)y[i], (long double)want, (long double)(0x1p-22 * fabs(want)));
                slopes = larger_fraction(slopes, (long double)slope[i], (long double)(1 - t * t), 0x1p-21L);
            }
        }
    report_fraction("softcap_row_f32", kernels, worst);
    report_fraction("softcap_row_f32's slope", kernels, slopes);
}

static void caps_at_the_edges(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float x[32] = {-INFINITY, INFINITY, NAN, 0, FLT_MAX, -FLT_MAX, 1e-30f, -1e-30f}, slope[32];
    x[31] = -INFINITY;
    kernels->softcap_row_f32(x, slope, 32, 20);
    assert_true(x[0] == -INFINITY && slope[0] == 0 && x[31] == -INFINITY && slope[31] == 0);
    assert_true(x[1] == 20 && slope[1] == 0);
    assert_true(isnan(x[2]) && isnan(slope[2]));
    assert_true(x[3] == 0 && slope[3] == 1);
    assert_true(x[4] == 20 && x[5] == -20 && slope[4] == 0 && slope[5] == 0);
    assert_true(fabsf(x[6] / 1e-30f - 1) < 1e-6f && fabsf(x[7] / -1e-30f - 1) < 1e-6f);
    for (int i = 8; i < 31; i++)
        assert_true(x[i] == 0 && slope[i] == 1);
}

/* -- one query, from its products to its row -- */

static void (*query_of(const gyre_kernels *kernels, int type))(const gyre_query_attention *, int *) {
    void (*const all[])(const gyre_query_attention *, int *) = {kernels->attend_query_f32, kernels->attend_query_f16,
                                                                kernels->attend_query_bf16};
    return all[type];
}

enum { TILE = 128, MOST_CHANNELS = 256 };

/* The row of a query by the kernels for each step, which are tested above. */
static void attend_in_steps(const gyre_kernels *kernels, int type, const gyre_query_attention *p, int64_t head, float *out) {
    float q[MOST_CHANNELS] = {0}, sums[MOST_CHANNELS] = {0}, scores[TILE], row_max = -INFINITY, tile_max, sum;
    double row_sum = 0;
    const char *k = (const char *)p->k + head / p->group * p->k_head_stride * (int64_t)types[type].size,
               *v = (const char *)p->v + head / p->group * p->v_head_stride * (int64_t)types[type].size;
    for (int64_t c = 0; c < p->channels; c++)
        q[c] = p->q[head * p->q_head_stride + c] * p->scale;
    for (int64_t first = 0; first < p->keys; first += TILE) {
        const int64_t keys = gyre_min_i64(TILE, p->keys - first), columns = gyre_round_up_i64(keys, 16);
        const gyre_key_scores score = {.rows = 1,
                                       .keys = keys,
                                       .channels = p->channels,
                                       .q = q,
                                       .k = k + first * p->k_row_stride * (int64_t)types[type].size,
                                       .k_row_stride = p->k_row_stride,
                                       .scores = scores};
        const gyre_weighted_values value = {.rows = 1,
                                            .keys = keys,
                                            .channels = p->value_channels,
                                            .weights = scores,
                                            .v = v + first * p->v_row_stride * (int64_t)types[type].size,
                                            .v_row_stride = p->v_row_stride,
                                            .out = sums};
        scores_of(kernels, type)(&score);
        for (int64_t j = keys; j < columns; j++)
            scores[j] = -INFINITY;
        kernels->max_row_f32(scores, columns, &tile_max);
        if (tile_max > row_max) {
            const float change = row_max - tile_max, shrink = change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
            for (int64_t c = 0; c < MOST_CHANNELS; c++)
                sums[c] *= shrink;
            row_sum *= (double)shrink;
            row_max = tile_max;
        }
        kernels->weights_row_f32(scores, columns, row_max, &sum);
        row_sum += (double)sum;
        sums_of(kernels, type)(&value);
    }
    for (int64_t c = 0; c < p->value_channels; c++)
        out[c] = (sums[c] + 0.0F) * (float)(1 / row_sum);
}

static void one_query_has_the_bits_of_its_steps(void **state) {
    static const struct {
        int64_t heads, group, keys, channels, value_channels;
    } queries[] = {{1, 1, 1, 64, 64},  {5, 1, 3, 8, 8},      {4, 1, 16, 33, 7},   {2, 3, 17, 40, 24}, {3, 1, 128, 16, 80},
                   {1, 6, 129, 80, 1}, {9, 1, 300, 20, 256}, {2, 4, 31, 256, 16}, {8, 1, 5, 1, 15},   {2, 5, 1, 24, 24},
                   {8, 1, 2, 8, 8},    {4, 1, 2, 33, 7},     {2, 3, 2, 40, 24},   {33, 1, 2, 16, 80}, {1, 6, 2, 256, 256}};
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {41};
    for (int type = 0; type < 3; type++)
        for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
            const int64_t heads = queries[i].heads, rows = heads * queries[i].group, channels = queries[i].channels,
                          values = queries[i].value_channels, keys = queries[i].keys;
            float *q = elements(&random, 0, rows * channels), want[MOST_CHANNELS], row_max[64];
            void *k = elements(&random, type, keys * heads * channels), *v = elements(&random, type, keys * heads * values);
            float *out = guarded((size_t)(rows * values) * sizeof *out);
            double row_sum[64];
            int finite = 0;
            const gyre_query_attention job = {.heads = heads,
                                              .group = queries[i].group,
                                              .keys = keys,
                                              .channels = channels,
                                              .value_channels = values,
                                              .q = q,
                                              .q_head_stride = channels,
                                              .scale = 2.5F,
                                              .k = k,
                                              .v = v,
                                              .k_row_stride = heads * channels,
                                              .k_head_stride = channels,
                                              .v_row_stride = heads * values,
                                              .v_head_stride = values,
                                              .out = out,
                                              .out_head_stride = values,
                                              .row_max = row_max,
                                              .row_sum = row_sum};
            query_of(kernels, type)(&job, &finite);
            assert_int_equal(finite, 1);
            for (int64_t h = 0; h < rows; h++) {
                attend_in_steps(kernels, type, &job, h, want);
                assert_memory_equal(out + h * values, want, (size_t)values * sizeof *want);
                assert_true(row_sum[h] >= 1 && row_sum[h] <= (double)keys && isfinite(row_max[h]));
            }
            test_put(v, types[type].dtype, (size_t)(keys * heads * values - 1), (double)INFINITY); /* of the last head */
            query_of(kernels, type)(&job, &finite);
            assert_int_equal(finite, 0);
            unguard(q, (size_t)(rows * channels) * sizeof *q);
            unguard(k, (size_t)(keys * heads * channels) * types[type].size);
            unguard(v, (size_t)(keys * heads * values) * types[type].size);
            unguard(out, (size_t)(rows * values) * sizeof *out);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(one_query_has_the_bits_of_its_steps),
        FOR_TIERS(scores_within_bound),
        FOR_TIERS(largest_scores_of_q8_fit),
        FOR_TIERS(scores_same_for_any_split),
        FOR_TIERS(rotated_scores_within_bound),
        FOR_TIERS(sums_within_bound),
        FOR_TIERS(sums_same_for_any_split),
        FOR_TIERS(nonfinite_elements_do_not_spread),
        FOR_TIERS(widens_int8),
        FOR_TIERS(caps_within_bound),
        FOR_TIERS(caps_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
