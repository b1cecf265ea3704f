/* test_kernels.c: every tier's kernels against long double, with forward error bounds. */
#include "guarded_memory.h"
#include "kernels/kernels.h"

#include "check_product_kernels.h"
#include "check_rotation_kernels.h"
#include "run_each_tier.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- product -- */

typedef struct product_case {
    int64_t m, n, k;
    int by_columns; /* a lies transposed */
    int64_t gap;    /* gap between rows, and between neighbours of a when by_columns is 2 */
} product_case;

/* |c - exact| <= gamma_(k + 1) (|c0| + sum |a b|): one rounding per product and per sum, in any order. */
static long double check_product(const gyre_kernels *kernels, const product_case *t, int accumulate, test_random *random) {
    long double worst = 0;
    const int64_t a_step = t->by_columns == 2 ? 3 : 1;
    const int64_t a_row_stride = t->by_columns ? a_step : t->k + t->gap,
                  a_col_stride = t->by_columns ? t->m * a_step + t->gap : 1;
    const int64_t b_row_stride = t->n + t->gap, c_row_stride = t->n + t->gap;
    const size_t a_size = (size_t)((t->m - 1) * a_row_stride + (t->k > 0 ? t->k - 1 : 0) * a_col_stride + 1);
    const size_t b_size = (size_t)(t->k * b_row_stride + 1), c_size = (size_t)(t->m * c_row_stride);
    float *a = malloc(a_size * sizeof *a), *b = malloc(b_size * sizeof *b), *c = malloc(2 * c_size * sizeof *c);
    float *before = c + c_size;
    test_fill(random, a, a_size);
    test_fill(random, b, b_size);
    test_fill(random, c, c_size);
    memcpy(before, c, c_size * sizeof *c);
    const gyre_matmul product = {t->m, t->n,         t->k,       a, a_row_stride, a_col_stride, b, b_row_stride,
                                 c,    c_row_stride, accumulate, 0};
    kernels->matmul_f32(&product);
    for (int64_t i = 0; i < t->m; i++) {
        for (int64_t j = 0; j < c_row_stride; j++) {
            const float was = before[i * c_row_stride + j], got = c[i * c_row_stride + j];
            if (j >= t->n) {
                assert_true(got == was);
                continue;
            }
            long double exact = accumulate ? (long double)was : 0, size = fabsl(exact);
            for (int64_t l = 0; l < t->k; l++) {
                const long double term =
                    (long double)a[i * a_row_stride + l * a_col_stride] * (long double)b[l * b_row_stride + j];
                exact += term;
                size += fabsl(term);
            }
            worst = larger_fraction(worst, (long double)got, exact, (long double)(t->k + 1) * 0x1p-24L * 1.001L * size);
        }
    }
    free(a);
    free(b);
    free(c);
    return worst;
}

static void product_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {31};
    long double worst = 0;
    for (int64_t m = 1; m <= 26; m++) /* every remainder of the row blocks, every width of the column blocks */
        for (int64_t n = 16; n <= 144; n += 16) {
            const product_case shape = {m, n, 1 + (m * n) % 37, (int)(m % 3), m % 5};
            worst = fmaxl(worst, check_product(kernels, &shape, (int)(n / 16 % 2), &random));
        }
    static const product_case others[] = {{64, 64, 128, 0, 0}, {64, 64, 64, 1, 0}, {3, 32, 0, 0, 1}, {1, 256, 200, 0, 7}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            worst = fmaxl(worst, check_product(kernels, &others[i], accumulate, &random));
    report_fraction("matmul_f32", kernels, worst);
}

/* A row of the product alone has the same bits as among others, and so has a group of its columns. */
static void product_same_for_any_split(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    enum { M = 29, N = 96, K = 50 };
    static float a[M * K], b[K * N], whole[M * N], part[M * N];
    test_random random = {32};
    test_fill(&random, a, M * K);
    test_fill(&random, b, K * N);
    const gyre_matmul all = {M, N, K, a, K, 1, b, N, whole, N, 0, 0};
    kernels->matmul_f32(&all);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j += 48) {
            const gyre_matmul one = {1, 48, K, a + i * K, K, 1, b + j, N, part + i * N + j, N, 0, 0};
            kernels->matmul_f32(&one);
        }
    assert_memory_equal(whole, part, sizeof whole);
}

/* Rows against a matrix: tiles and rows in place give the same bits. */
static void one_order_of_sums(void **state) {
    const char *wrong = check_row_products(tier_or_skip(*state));
    if (wrong) fail_msg("%s: %s", (const char *)*state, wrong);
}

static void blocks_of_ggml(void **state) {
    const char *wrong = check_quant_blocks(tier_or_skip(*state), gyre_kernels_tier("scalar"));
    if (wrong) fail_msg("%s: %s", (const char *)*state, wrong);
}

/* -- rows -- */

static void exp_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float x[16], y[16], sum;
    double worst = 0;
    const uint32_t step = 4099; /* of the 1.1e9 floats between -87.3365 and -0, and as many positive ones up to 80 */
    for (int sign = 0; sign < 2; sign++) {
        const float end = sign ? 87.3365f : 80;
        uint32_t bits = 0, last;
        memcpy(&last, &end, sizeof last);
        while (bits <= last - 16 * step) {
            for (int i = 0; i < 16; i++, bits += step) {
                memcpy(&x[i], &bits, sizeof bits);
                y[i] = x[i] = sign ? -x[i] : x[i];
            }
            kernels->exp_row_f32(y, 16, 0, &sum);
            for (int i = 0; i < 16; i++) {
                const double want = exp((double)x[i]), share = fabs((double)y[i] - want) / (0x1p-22 * want);
                worst = share <= worst ? worst : isnan(share) ? (double)INFINITY : share;
            }
        }
    }
    report_fraction("exp_row_f32", kernels, (long double)worst);
}

static void exp_at_the_edges(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float y[16] = {0,    -INFINITY, NAN,  -87.33f, -87.34f, -88,   -104, -1e30f,
                   -0.f, -FLT_MIN,  1e-8, -1,      1,       -1000, -90,  -FLT_MAX};
    float sum;
    kernels->exp_row_f32(y, 16, 0, &sum);
    assert_true(y[0] == 1 && y[8] == 1 && y[9] == 1);
    assert_true(isnan(y[2]) && isnan(sum));
    assert_true(y[3] >= FLT_MIN);
    static const int zeros[] = {1, 4, 5, 6, 7, 13, 14, 15};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        assert_true(y[zeros[i]] == 0);

    float shifted[48], total = 0;
    for (int i = 0; i < 48; i++)
        shifted[i] = 1000 - (float)i;
    kernels->exp_row_f32(shifted, 48, 1000, &sum);
    for (int i = 0; i < 48; i++) {
        test_close(shifted[i], expl(-i), 0x1p-22L * expl(-i), "exp(x - shift)");
        total += shifted[i];
    }
    test_close(sum, total, 1e-6L, "sum");

    float nan[16];
    for (uint32_t i = 0; i < 16; i++) { /* any NaN stays a NaN */
        const uint32_t bits = 0x7FC00000u | i * 0x12345u | i << 31;
        memcpy(&nan[i], &bits, sizeof bits);
    }
    kernels->exp_row_f32(nan, 16, 3, &sum);
    for (int i = 0; i < 16; i++)
        assert_true(isnan(nan[i]));
}

/* The same bits as exp_row_f32, but zeros from a larger number on. */
static void weights_at_the_edges(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float y[16] = {3, -66.25f, -66.375f, -INFINITY, NAN, 2, 1, 0, -1, -2, -5, -20, -50, -80, -90, -1000}, x[16], sum,
          expected;
    memcpy(x, y, sizeof x);
    kernels->exp_row_f32(x, 16, 3, &expected);
    kernels->weights_row_f32(y, 16, 3, &sum);
    for (int i = 0; i < 16; i++) {
        const int zero = i == 2 || i == 3 || i >= 13;
        assert_true(zero ? y[i] == 0 : memcmp(&x[i], &y[i], sizeof *x) == 0);
    }
    assert_true(isnan(sum) && y[1] >= 0x1p-100f);
    y[4] = 0;
    kernels->weights_row_f32(y, 16, 3, &sum);
    assert_false(isnan(sum));
}

static void row_sums_and_maxima(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {33};
    float a[160], b[160], got;
    long double worst = 0;
    for (int64_t n = 0; n <= 160; n += 16) {
        test_fill(&random, a, 160);
        test_fill(&random, b, 160);
        long double dot = 0, size = 0;
        float most = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            dot += (long double)a[i] * (long double)b[i];
            size += fabsl((long double)a[i] * (long double)b[i]);
            most = fmaxf(most, a[i]);
        }
        kernels->dot_row_f32(a, b, n, &got);
        worst = larger_fraction(worst, (long double)got, dot, (long double)n * 0x1p-24L * 1.001L * size);
        kernels->max_row_f32(a, n, &got);
        assert_true(got == most);
    }
    for (int at = 0; at < 32; at++) {
        for (int i = 0; i < 32; i++)
            a[i] = i % 2 ? NAN : -INFINITY;
        a[at] = -3;
        kernels->max_row_f32(a, 32, &got);
        assert_true(got == -3);
    }
    report_fraction("dot_row_f32", kernels, worst);
}

static void finds_nonfinite_values(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    const float bad[] = {INFINITY, -INFINITY, NAN};
    float x[48];
    int finite;
    for (int i = 0; i < 48; i++)
        x[i] = i % 2 ? FLT_MAX : -FLT_MIN;
    kernels->finite_row_f32(x, 48, &finite);
    assert_int_equal(finite, 1);
    for (int i = 0; i < 48; i++) {
        const float original = x[i];
        x[i] = bad[i % 3];
        kernels->finite_row_f32(x, 48, &finite);
        assert_int_equal(finite, 0);
        x[i] = original;
    }
}

/* No float past the end of an operand is read, for every layout of a. (A compiler once did.) */
static void product_reads_inside_its_operands(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int way = 0; way < 3; way++)
        for (int64_t m = 1; m <= 9; m++)
            for (int64_t n = 16; n <= 48; n += 16)
                for (int64_t k = 1; k <= 5; k++) {
                    const int64_t row = way == 0   ? 1
                                        : way == 1 ? k + 3
                                                   : 5,
                                  col = way == 0   ? m + 7
                                        : way == 1 ? 1
                                                   : 5 * m + 1;
                    const size_t sizes[3] = {(size_t)((m - 1) * row + (k - 1) * col + 1), (size_t)((k - 1) * (n + 1300) + n),
                                             (size_t)((m - 1) * (n + 16) + n)};
                    void *at[3];
                    for (int i = 0; i < 3; i++)
                        at[i] = guarded(sizes[i] * sizeof(float));
                    const gyre_matmul product = {m,     n,        k,     at[0],  row,   col,
                                                 at[1], n + 1300, at[2], n + 16, k % 2, k % 3 == 0};
                    kernels->matmul_f32(&product);
                    for (int i = 0; i < 3; i++)
                        unguard(at[i], sizes[i] * sizeof(float));
                }
}

/* Every order of rows, any width, and no score past the last one. */
static void picks_entries(void **state) {
    enum { LINES = 5, WIDTH = 40, ROWS = 120 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {35};
    static float from[LINES * ROWS + WIDTH], to[LINES * (WIDTH + 1)], want[LINES * (WIDTH + 1)];
    for (int way = -2; way <= 3; way++) /* -2: no rows; 2: in random order; 3: in random order, with a step */
        for (int64_t n = 0; n <= WIDTH; n++) {
            int32_t row[2 * ROWS];
            int64_t offset[LINES];
            test_fill(&random, from, LINES * ROWS + WIDTH);
            test_fill(&random, to, LINES * (WIDTH + 1));
            memcpy(want, to, sizeof want);
            for (int i = 0; i < 2 * ROWS; i++)
                row[i] = 1000 + (way >= 2    ? (int)(test_next(&random) % (way == 3 ? 30 : ROWS))
                                 : way == -1 ? 90 - i
                                             : way * i + 7);
            for (int l = 0; l < LINES; l++)
                offset[l] = (int64_t)(test_next(&random) % 40);
            const gyre_gather_add pick = {.lines = LINES,
                                          .n = n,
                                          .to = to,
                                          .to_row_stride = WIDTH + 1,
                                          .from = from,
                                          .from_row_stride = way == 3 ? 0 : ROWS,
                                          .row = way == -2 ? NULL : row,
                                          .offset = n % 2 ? offset : NULL,
                                          .base = 1000,
                                          .steady = way > -2 && way < 2,
                                          .step = way == 3 ? 16 : 0};
            for (int l = 0; l < LINES; l++)
                for (int64_t j = 0; j < n; j++) {
                    const int64_t at = (n % 2 ? offset[l] : 0) + j;
                    const int64_t entry = way == -2  ? l * ROWS + at
                                          : way == 3 ? (row[at] - 1000) * 16 + j
                                                     : l * ROWS + row[at] - 1000;
                    want[l * (WIDTH + 1) + j] += from[entry];
                }
            kernels->gather_add_f32(&pick);
            assert_memory_equal(to, want, sizeof want);
        }
}

static void softmax_gradient_row(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {34};
    float p[48], dp[48], was[48];
    test_fill(&random, p, 48);
    test_fill(&random, dp, 48);
    p[3] = p[20] = 0;
    dp[3] = NAN;
    dp[20] = INFINITY;
    dp[21] = NAN;
    memcpy(was, dp, sizeof dp);
    kernels->softmax_gradient_row_f32(p, dp, 48, 0.25f);
    for (int i = 0; i < 48; i++) {
        if (i == 21)
            assert_true(isnan(dp[i]));
        else
            assert_true(dp[i] == (p[i] == 0 ? 0 : p[i] * (was[i] - 0.25f)));
    }
}

static void transposes(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    enum { ROWS = 48, COLUMNS = 32, IN = COLUMNS + 3, OUT = ROWS + 5 };
    static float in[ROWS * IN], out[COLUMNS * OUT];
    for (int i = 0; i < ROWS * IN; i++)
        in[i] = (float)i;
    for (int i = 0; i < COLUMNS * OUT; i++)
        out[i] = -1;
    const gyre_transpose job = {ROWS, COLUMNS, in, IN, out, OUT};
    kernels->transpose_f32(&job);
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < OUT; r++)
            assert_true(out[c * OUT + r] == (r < ROWS ? in[r * IN + c] : -1));
}

/* -- rotation -- */

static void rotates(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < ROTATION_TYPES; i++) {
        const rotation_type *type = &rotation_types[i];
        const rotation_verdict verdict = check_rotations(rotation_of(kernels, type->dtype), type->dtype);
        print_message("rotate_%s %s: %.2f of its bound\n", type->name, kernels->tier, verdict.worst);
        if (verdict.wrong) fail_msg("rotate_%s %s: %s", type->name, kernels->tier, verdict.wrong);
    }
}

/* Several tokens at once are the tokens one by one, bit for bit, and nothing between them is written. */
static void rotates_tokens(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    enum { TOKENS = 3, HEADS_OF_TOKEN = 2, PAIRS = 64, BETWEEN = 2 * PAIRS + 32 };
    void (*const several[ROTATION_TYPES])(const gyre_rotate_tokens_job *) = {
        kernels->rotate_tokens_f32, kernels->rotate_tokens_f16, kernels->rotate_tokens_bf16, kernels->rotate_tokens_f64};
    static double angles[TOKENS][2 * PAIRS], in[TOKENS * HEADS_OF_TOKEN * BETWEEN];
    static _Alignas(64) double want[TOKENS * HEADS_OF_TOKEN * BETWEEN], got[TOKENS * HEADS_OF_TOKEN * BETWEEN];
    static const int64_t counts[] = {7, 16, 18, 29, 32, 40, 48, 64};
    test_random random = {4};
    for (int i = 0; i < ROTATION_TYPES; i++)
        for (size_t c = 0; c < 3 * sizeof counts / sizeof *counts; c++)
            for (int way = 0; way < ROTATION_VARIANTS; way++) {
                /* Rows at any place; the same, to be written past the caches; rows at lines, to be written so. */
                const int past_caches = c % 3 > 0, at_lines = c % 3 == 2;
                const int64_t pairs = counts[c / 3], between = 2 * PAIRS + (at_lines ? 32 : 5);
                const gyre_dtype dtype = rotation_types[i].dtype, table = dtype == GYRE_DTYPE_F64 ? dtype : GYRE_DTYPE_F32;
                const rotation_case k = rotation_variant(dtype, way, pairs);
                const size_t size = gyre_dtype_size(dtype), angle = gyre_dtype_size(table);
                for (size_t j = 0; j < sizeof in / sizeof *in; j++)
                    test_put(in, dtype, j, test_uniform(&random));
                const void *rows[TOKENS];
                memset(want, 0x5A, sizeof want);
                memset(got, 0x5A, sizeof got);
                gyre_rotate_job one = {in,
                                       want,
                                       HEADS_OF_TOKEN,
                                       pairs,
                                       TOKENS * between,
                                       TOKENS * between,
                                       k.from_half,
                                       k.to_half,
                                       k.negate_sine,
                                       NULL,
                                       NULL,
                                       0,
                                       past_caches};
                for (size_t t = 0; t < TOKENS; t++) {
                    for (size_t j = 0; j < 2 * (size_t)pairs; j++)
                        test_put(angles[t], table, j, test_uniform(&random));
                    one.in = (char *)in + t * (size_t)between * size;
                    one.out = (char *)want + t * (size_t)between * size;
                    one.cosine = rows[t] = angles[t];
                    one.sine = (char *)angles[t] + (size_t)pairs * angle;
                    rotation_of(kernels, dtype)(&one);
                }
                one.in = in;
                one.out = got;
                several[i](&(gyre_rotate_tokens_job){one, rows, TOKENS, between, between});
                assert_memory_equal(got, want, sizeof got);
            }
}

static void nonfinite_pairs_do_not_spread(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < ROTATION_TYPES; i++) {
        const rotation_type *type = &rotation_types[i];
        const char *wrong = check_nonfinite_pairs(rotation_of(kernels, type->dtype), type->dtype);
        if (wrong) fail_msg("rotate_%s %s: %s", type->name, kernels->tier, wrong);
    }
}

static void rounds_to_nearest_even(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < ROTATION_TYPES; i++) {
        const rotation_type *type = &rotation_types[i];
        if (gyre_dtype_size(type->dtype) != 2) continue;
        const char *wrong = check_all_roundings(rotation_of(kernels, type->dtype), type->dtype);
        if (wrong) fail_msg("rotate_%s %s: %s", type->name, kernels->tier, wrong);
    }
}

/* The bf16 conversion instruction and the integer version agree, on NaNs too. All upper halves of a float with many lower
 * halves, small numbers among large ones, by a rotation by (x, 0) of (1, 0) and (0, 1), and by adding to -0. */
static void instruction_rounds_as_whole_numbers(void **state) {
    enum { PAIRS = 64, UPPER = 65536, LOWER = 10 };
    static const uint32_t lower[LOWER] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x4000, 0xc000, 0x1234, 0xfedc};
    const gyre_kernels *instruction = tier_or_skip(*state), *whole = gyre_kernels_tier("avx512");
    static uint16_t in[2 * PAIRS], out[2][2 * PAIRS];
    static float x[PAIRS];
    static const float zeros[PAIRS];
    for (uint32_t first = 0; first < UPPER * LOWER; first += PAIRS) {
        for (uint32_t i = 0; i < PAIRS; i++) {
            const uint32_t bits = ((first + i) / LOWER * 40503u) << 16 | lower[(first + i) % LOWER];
            memcpy(&x[i], &bits, sizeof bits);
        }
        for (int way = 0; way < ROTATION_VARIANTS; way++) {
            const int from_half = way & 1, to_half = way >> 1 & 1, member = way >> 2;
            for (int i = 0; i < 2 * PAIRS; i++)
                in[i] = (from_half ? i / PAIRS : i % 2) == member ? 0x3f80 : 0;
            const gyre_rotate_job job = {in, out[0], 1, PAIRS, 2 * PAIRS, 2 * PAIRS, from_half, to_half, 0, x, zeros, 0, 0};
            gyre_rotate_job again = job;
            again.out = out[1];
            instruction->rotate_bf16(&job);
            whole->rotate_bf16(&again);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
        }
        for (int i = 0; i < PAIRS; i++)
            in[i] = 0x8000;
        instruction->add_bf16(in, out[0], x, PAIRS);
        whole->add_bf16(in, out[1], x, PAIRS);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
}

/* Every operand ends at a page without access: no byte past the end is read or written. */
static void rotation_reads_inside_its_operands(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    enum { OPERANDS = 4 };
    for (int i = 0; i < ROTATION_TYPES; i++)
        for (int64_t pairs = 1; pairs <= 40; pairs += pairs < 18 ? 1 : 11)
            for (int way = 0; way < ROTATION_VARIANTS; way++) {
                const rotation_type *type = &rotation_types[i];
                const rotation_case k = rotation_variant(type->dtype, way, pairs);
                const size_t size = gyre_dtype_size(type->dtype), angles = (size_t)pairs * (size == 8 ? 8 : 4);
                const size_t bytes[OPERANDS] = {2 * (size_t)pairs * size, 2 * (size_t)pairs * size, angles, angles};
                char *at[OPERANDS];
                for (int o = 0; o < OPERANDS; o++)
                    at[o] = guarded(bytes[o]);
                const gyre_rotate_job job = {at[0],     at[1],         1,     pairs, 2 * pairs, 2 * pairs, k.from_half,
                                             k.to_half, k.negate_sine, at[2], at[3], 0,         0};
                rotation_of(kernels, type->dtype)(&job);
                for (int o = 0; o < OPERANDS; o++)
                    unguard(at[o], bytes[o]);
            }
}

/* A float sum is exact in double, so rounding it once gives the right answer. For 16-bit types, that is rounded once
 * more. */
static void adds_rows(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    enum { MOST = 70 };
    void (*const adds[])(const void *, void *, const float *, int64_t) = {kernels->add_f32, kernels->add_f16,
                                                                          kernels->add_bf16};
    static float in[MOST + 1], out[MOST + 1], want[MOST + 1], row[MOST]; /* of any type */
    test_random random = {37};
    for (int type = 0; type < 3; type++)
        for (int64_t n = 0; n <= MOST; n++) {
            const gyre_dtype dtype = rotation_types[type].dtype;
            test_fill(&random, row, MOST);
            memset(out, 0x5A, sizeof out);
            memset(want, 0x5A, sizeof want);
            for (size_t i = 0; i < (size_t)n; i++) {
                test_put(in, dtype, i, test_uniform(&random));
                test_put(want, dtype, i, (double)(float)(test_get(in, dtype, i) + (double)row[i]));
            }
            adds[type](in, out, row, n);
            assert_memory_equal(out, want, sizeof out);
            adds[type](in, in, row, n);
            assert_memory_equal(in, want, (size_t)n * gyre_dtype_size(dtype));
        }
}

static void scales_rows(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    static const float factors[] = {0.3f, -7, 0, 1, 0x1p-140f, INFINITY};
    test_random random = {36};
    float x[81], y[81];
    for (int64_t n = 0; n <= 80; n += 16)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            test_fill(&random, x, 81);
            memcpy(y, x, sizeof y);
            kernels->scale_row_f32(y + 1, n, factors[f]);
            assert_true(y[0] == x[0]);
            for (int64_t i = 1; i < 81; i++)
                assert_true(y[i] == (i <= n ? (float)((double)x[i] * (double)factors[f]) : x[i]));
        }
}

/* Sum and product are rounded once each, in place or not; a hidden unit at 0 has the slope. */
static void runs_leaky_relus(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {38};
    float x[81], y[81], units[81], dy[81];
    for (int64_t n = 0; n <= 80; n += 16) {
        test_fill(&random, x, 81);
        test_fill(&random, dy, 81);
        x[3] = -0.25F; /* 0 with the bias */
        x[4] = NAN;
        x[5] = -INFINITY;
        memcpy(units, x, sizeof x);
        memset(y, 0, sizeof y);
        kernels->leaky_relu_row_f32(units + 1, y + 1, n, 0.25F, -0.3F);
        for (int64_t i = 0; i < 81; i++) {
            const int inside = i >= 1 && i <= n;
            const float unit = inside ? x[i] + 0.25F : x[i], want = unit > 0 ? unit : -0.3F * unit;
            assert_true(isnan(unit) ? isnan(units[i]) : units[i] == unit);
            assert_true(!inside ? y[i] == 0 : isnan(want) ? isnan(y[i]) : y[i] == want);
        }
        memcpy(units, x, sizeof x);
        kernels->leaky_relu_row_f32(units + 1, units + 1, n, 0.25F, -0.3F);
        assert_memory_equal(units + 1, n ? y + 1 : x + 1, (size_t)(n ? n : 80) * sizeof *y);
        x[3] = 0;
        memcpy(y, dy, sizeof y);
        kernels->leaky_relu_gradient_row_f32(x + 1, y + 1, n, -0.3F);
        for (int64_t i = 0; i < 81; i++)
            assert_true(y[i] == (i < 1 || i > n || x[i] > 0 ? dy[i] : -0.3F * dy[i]));
    }
}

/* The distance is exact; the product and the difference are rounded once each. So all tiers give the same bits. */
static void subtracts_alibi_bias(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    static const float distances[] = {0, 5, 47, 1000, -3, -1000, 8388500, -8388500};
    test_random random = {37};
    float x[81], y[81];
    for (int64_t n = 0; n <= 80; n += 16)
        for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
            test_fill(&random, x, 81);
            memcpy(y, x, sizeof y);
            kernels->alibi_row_f32(y + 1, n, 0.3f, distances[d]);
            for (int64_t i = 0; i < 81; i++) {
                const float fall = (float)((double)0.3f * fabs((double)distances[d] - (double)(i - 1)));
                assert_true(y[i] == (i >= 1 && i <= n ? x[i] - fall : x[i]));
            }
        }
}

/* Each sum and difference is rounded once, so all tiers give the same bits. */
static void adds_differences(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    static const float from[] = {0, 1, -1e4f, 3e30f};
    test_random random = {38};
    float x[81], y[81], high[81], low[81];
    for (int64_t n = 0; n <= 80; n += 16)
        for (size_t f = 0; f < sizeof from / sizeof *from; f++) {
            test_fill(&random, x, 81);
            test_fill(&random, high, 81);
            test_fill(&random, low, 81);
            memcpy(y, x, sizeof y);
            const gyre_differences by = {high + 1, low + 1, from[f], 0x1p-20f};
            kernels->difference_row_f32(y + 1, n, &by);
            for (int64_t i = 0; i < 81; i++) {
                const float apart = from[f] - high[i], rest = 0x1p-20f - low[i], difference = apart + rest;
                assert_true(y[i] == (i >= 1 && i <= n ? x[i] + difference : x[i]));
            }
        }
}

/* Rounded twice at most, the same way on all tiers; what is not finite stays so. */
static void splits_doubles(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {39};
    double x[80];
    float high[81], low[81];
    for (int64_t n = 0; n <= 80; n += 16) {
        for (int64_t i = 0; i < 80; i++)
            x[i] = -1e6 + 1e3 * test_uniform(&random);
        x[7] = NAN;
        x[9] = -INFINITY;
        high[n] = low[n] = 5;
        kernels->split_row_f64(x, -1e6, n, high, low);
        assert_true(high[n] == 5 && low[n] == 5);
        for (int64_t i = 0; i < n; i++) {
            const double difference = x[i] - -1e6;
            if (i == 7) assert_true(isnan(high[i]));
            if (i == 9) assert_true(high[i] == -INFINITY);
            if (i == 7 || i == 9) continue;
            assert_true(high[i] == (float)difference && low[i] == (float)(difference - (double)high[i]));
        }
    }
}

/* An encoding of libgyre_rope has another copy of the table of places, with the name of its tier. */
static void kernels_beside_another_table_are_those_of_its_tier(void **state) {
    const gyre_place_kernels *places = gyre_place_kernels_tier(*state);
    if (!places) skip();
    const gyre_place_kernels copy = *places;
    assert_non_null(gyre_kernels_beside(&copy));
    assert_ptr_equal(gyre_kernels_beside(&copy), gyre_kernels_beside(places));
    assert_string_equal(gyre_kernels_beside(&copy)->tier, places->tier);
}

static void every_tier_has_every_kernel(void **state) {
    const char *why = why_skipped(*state);
    if (why) print_message("%s is skipped here and in all tests below: %s\n", (const char *)*state, why);
    const gyre_kernels *kernels = tier_or_skip(*state);
#define GYRE_KERNEL(name, parameters) assert_true(kernels->name != NULL);
#include "kernels/kernels.def"
#undef GYRE_KERNEL
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(every_tier_has_every_kernel),
        FOR_TIERS(kernels_beside_another_table_are_those_of_its_tier),
        FOR_TIERS(product_within_bound),
        FOR_TIERS(product_same_for_any_split),
        FOR_TIERS(one_order_of_sums),
        FOR_TIERS(blocks_of_ggml),
        FOR_TIERS(exp_within_bound),
        FOR_TIERS(exp_at_the_edges),
        FOR_TIERS(weights_at_the_edges),
        FOR_TIERS(row_sums_and_maxima),
        FOR_TIERS(finds_nonfinite_values),
        FOR_TIERS(picks_entries),
        FOR_TIERS(product_reads_inside_its_operands),
        FOR_TIERS(softmax_gradient_row),
        FOR_TIERS(transposes),
        FOR_TIERS(rotates),
        FOR_TIERS(nonfinite_pairs_do_not_spread),
        FOR_TIERS(rounds_to_nearest_even),
        FOR_TIER(instruction_rounds_as_whole_numbers, avx512bf16, "avx512bf16"),
        FOR_TIERS(rotates_tokens),
        FOR_TIERS(rotation_reads_inside_its_operands),
        FOR_TIERS(scales_rows),
        FOR_TIERS(runs_leaky_relus),
        FOR_TIERS(subtracts_alibi_bias),
        FOR_TIERS(adds_differences),
        FOR_TIERS(splits_doubles),
        FOR_TIERS(adds_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
