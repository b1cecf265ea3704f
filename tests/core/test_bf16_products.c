/* test_bf16_products.c: products with bf16 on every tier: with the other operand rounded to bf16 too
 * (gyre_kernels_rounding), and matmul_bf16.  The definitions are in double. */
#include "guarded_memory.h"

#include "check_product_kernels.h"
#include "kernels/half_precision.h"
#include "run_each_tier.h"

#include <stdlib.h>

/* -- x rounded to bf16 -- */
/* Eight significant bits of a normal float: the nearest, else the even one. */
static double rounded(double x) {
    int exponent;
    const double scaled = ldexp(frexp(fabs(x), &exponent), 8), fraction = scaled - floor(scaled);
    double whole = floor(scaled);
    if (fraction > 0.5 || (fraction == 0.5 && fmod(whole, 2) == 1)) whole++;
    return copysign(ldexp(whole, exponent - 8), x);
}

/* A product, and the same with x rounded before. */
typedef struct product_pair {
    row_product given, before;
    float *x, *rounded_x;
    uint16_t *w;
} product_pair;

/* Operands end at a page without access.  A third of the numbers are halfway between two bf16. */
static product_pair make_pair(test_random *random, int64_t rows, int64_t outs, int64_t in) {
    product_pair p;
    p.x = guarded((size_t)(rows * in) * sizeof *p.x);
    p.rounded_x = guarded((size_t)(rows * in) * sizeof *p.rounded_x);
    p.w = guarded((size_t)(outs * in) * sizeof *p.w);
    test_fill(random, p.x, (size_t)(rows * in));
    for (int64_t i = 0; i < rows * in; i += 3)
        p.x[i] = gyre_float_from_bits((gyre_float_bits(p.x[i]) & 0xffff0000u) | 0x8000u);
    for (int64_t i = 0; i < rows * in; i++)
        p.rounded_x[i] = (float)rounded((double)p.x[i]);
    for (int64_t i = 0; i < outs * in; i++)
        p.w[i] = gyre_bf16_round((float)test_uniform(random));
    p.given = (row_product){GYRE_DTYPE_BF16, rows, outs, in, p.x, p.w};
    p.before = p.given;
    p.before.x = p.rounded_x;
    return p;
}
static void free_pair(product_pair *p) {
    const row_product *g = &p->given;
    unguard(p->x, (size_t)(g->rows * g->in) * sizeof *p->x);
    unguard(p->rounded_x, (size_t)(g->rows * g->in) * sizeof *p->rounded_x);
    unguard(p->w, (size_t)(g->outs * g->in) * sizeof *p->w);
}

/* The largest |y - exact| as a fraction of that of rounding x to eight bits and adding floats. */
static double share_of_rounding(const row_product *p, const float *y) {
    double worst = 0;
    for (int64_t i = 0; i < p->rows * p->outs; i++) {
        double exact = 0, size = 0;
        for (int64_t c = 0; c < p->in; c++) {
            const double term = (double)p->x[i / p->outs * p->in + c] *
                                (double)gyre_bf16_widen(((const uint16_t *)p->w)[i % p->outs * p->in + c]);
            exact += term;
            size += fabs(term);
        }
        const double bound = (0x1p-8 + (double)(p->in + 1) * 0x1p-24) * 1.01 * size;
        const double share = fabs((double)y[i] - exact) / bound;
        worst = share <= worst ? worst : isnan(share) ? (double)INFINITY : share;
    }
    return worst;
}

static void of_the_definition(void **state) {
    static const int64_t inputs[] = {1, 2, 15, 16, 31, 33, 70, 97, 128, 131, 768, 769, PRODUCT_MOST_IN};
    static float y[PRODUCT_VALUES], before[PRODUCT_VALUES];
    const gyre_kernels *k = tier_or_skip(*state);
    const gyre_kernels rounding = gyre_kernels_rounding(k);
    test_random random = {56};
    double worst = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const int64_t rows = 1 + (int64_t)i * 5 % PRODUCT_MOST_ROWS, outs = PRODUCT_MOST_OUTS - (int64_t)i % 3;
        product_pair p = make_pair(&random, rows, outs, inputs[i]);
        const char *wrong = check_row_product(&rounding, &p.before);
        if (wrong) fail_msg("%s, %lld channels: %s", k->tier, (long long)inputs[i], wrong);
        multiply_in_tiles(k, &p.before, before);
        multiply_in_tiles(&rounding, &p.given, y);
        assert_memory_equal(y, before, (size_t)(rows * outs) * sizeof *y);
        worst = fmax(worst, share_of_rounding(&p.given, y));
        for (int64_t at_once = 1; at_once <= rows; at_once += 3) {
            memset(y, 0xFF, sizeof y);
            multiply_in_place(&rounding, &p.given, at_once, outs - at_once, y);
            assert_memory_equal(y, before, (size_t)(rows * outs) * sizeof *y);
        }
        free_pair(&p);
    }
    report_fraction("products of rounded numbers", k, (long double)worst);
}

/* A sum of no products is 0. */
static void no_channels(void **state) {
    const gyre_kernels rounding = gyre_kernels_rounding(tier_or_skip(*state));
    const float x = 1;
    const uint16_t w = gyre_bf16_round(1);
    float y[2] = {3, 3};
    rounding.project_bf16(&(gyre_projection){1, 1, 0, &x, 1, &w, 1, y, 1});
    assert_true(y[0] == 0 && y[1] == 3);
}

/* What is not finite before or after it is rounded.  Bits of NaNs may differ. */
static void nonfinite_numbers(void **state) {
    enum { ROWS = 5, OUTS = 35, IN = 150 };
    static const float of_x[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 1},
                       of_w[] = {2, INFINITY, -INFINITY, NAN, 0, -3e38f};
    const gyre_kernels *k = tier_or_skip(*state);
    const gyre_kernels rounding = gyre_kernels_rounding(k);
    static float tiles[PRODUCT_VALUES], placed[PRODUCT_VALUES], before[PRODUCT_VALUES];
    test_random random = {57};
    product_pair p = make_pair(&random, ROWS, OUTS, IN);
    for (size_t i = 0; i < sizeof of_x / sizeof *of_x; i++)
        for (size_t j = 0; j < sizeof of_w / sizeof *of_w; j++) {
            const int at = (int)(i * 31 + j * 17) % IN, row = (int)(i + j) % ROWS, out = (int)(i * 11 + j * 5) % OUTS;
            const float x = p.x[row * IN + at], rounded_x = p.rounded_x[row * IN + at];
            const uint16_t w = p.w[out * IN + at];
            p.x[row * IN + at] = of_x[i];
            p.rounded_x[row * IN + at] = fabsf(of_x[i]) > 3.3895e38f ? copysignf(INFINITY, of_x[i]) : of_x[i];
            p.w[out * IN + at] = gyre_bf16_round(of_w[j]);
            multiply_in_tiles(&rounding, &p.given, tiles);
            multiply_in_place(&rounding, &p.given, 2, OUTS, placed);
            multiply_in_tiles(k, &p.before, before);
            for (int o = 0; o < ROWS * OUTS; o++) {
                assert_true(isnan(before[o]) ? isnan(tiles[o]) : tiles[o] == before[o]);
                assert_true(isnan(before[o]) ? isnan(placed[o]) : placed[o] == before[o]);
            }
            p.x[row * IN + at] = x, p.rounded_x[row * IN + at] = rounded_x, p.w[out * IN + at] = w;
        }
    free_pair(&p);
}

/* -- matmul_bf16 -- */
/* a [m][k], or [k][m] if by_columns; b [k][n]; c [m][n]. */
typedef struct square_product {
    int64_t m, n, k;
    int by_columns, accumulate;
} square_product;

enum { MOST_M = 130, MOST_N = 144, MOST_K = 300 };
typedef struct operands {
    float a[MOST_M * MOST_K], b[MOST_K * MOST_N], c[MOST_M * MOST_N], before[MOST_M * MOST_N];
} operands;

static gyre_matmul product_of(const square_product *p, operands *o) {
    return (gyre_matmul){.m = p->m,
                         .n = p->n,
                         .k = p->k,
                         .a = o->a,
                         .a_row_stride = p->by_columns ? 1 : p->k,
                         .a_col_stride = p->by_columns ? p->m : 1,
                         .b = o->b,
                         .b_row_stride = p->n,
                         .c = o->c,
                         .c_row_stride = p->n,
                         .accumulate = p->accumulate};
}

static void fill_operands(test_random *random, operands *o) {
    test_fill(random, o->a, MOST_M * MOST_K);
    test_fill(random, o->before, MOST_M * MOST_N);
    for (int i = 0; i < MOST_K * MOST_N; i++)
        o->b[i] = gyre_bf16_widen(gyre_bf16_round((float)test_uniform(random)));
    memcpy(o->c, o->before, sizeof o->c);
}

/* The largest error as a fraction of gamma_(k + 1) (sum |a b| + |before|). */
static long double product_share(const square_product *p, operands *o) {
    const gyre_matmul g = product_of(p, o);
    long double worst = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            long double exact = p->accumulate ? (long double)o->before[i * p->n + j] : 0, size = fabsl(exact);
            for (int64_t l = 0; l < p->k; l++) {
                const long double term =
                    (long double)g.a[i * g.a_row_stride + l * g.a_col_stride] * (long double)g.b[l * g.b_row_stride + j];
                exact += term;
                size += fabsl(term);
            }
            const long double bound = (long double)(p->k + 1) * 0x1p-24L * 1.001L * size;
            worst = larger_fraction(worst, (long double)o->c[i * p->n + j], exact, bound);
        }
    return worst;
}

/* Every remainder of rows and of products, and blocks of products. */
static void matmul_within_bound(void **state) {
    const gyre_kernels *k = tier_or_skip(*state);
    static operands o;
    test_random random = {58};
    long double worst = 0;
    for (int64_t i = 1; i <= 70; i++) {
        const square_product p = {i, 16 * (1 + i % 9), i < 40 ? i : i * 7 % MOST_K, i % 2, i / 2 % 2};
        fill_operands(&random, &o);
        const gyre_matmul g = product_of(&p, &o);
        k->matmul_bf16(&g);
        worst = fmaxl(worst, product_share(&p, &o));
    }
    const square_product tall = {MOST_M, 32, 96, 0, 1}, empty = {3, 32, 0, 0, 0};
    fill_operands(&random, &o);
    k->matmul_bf16(&(gyre_matmul){.m = 0});
    gyre_matmul g = product_of(&tall, &o);
    k->matmul_bf16(&g);
    worst = fmaxl(worst, product_share(&tall, &o));
    g = product_of(&empty, &o);
    k->matmul_bf16(&g);
    for (int i = 0; i < 3 * 32; i++)
        assert_true(o.c[i] == 0);
    report_fraction("matmul_bf16", k, worst);
}

/* A row alone, a group of columns alone and products with zeros at the end have the same bits. */
static void matmul_same_for_any_cut(void **state) {
    enum { M = 67, N = 96, K = 77, LONGER = 128 };
    const gyre_kernels *k = tier_or_skip(*state);
    static operands o;
    static float part[MOST_M * MOST_N], a[LONGER], b[LONGER * N];
    test_random random = {59};
    const square_product p = {M, N, K, 0, 0};
    fill_operands(&random, &o);
    const gyre_matmul whole = product_of(&p, &o);
    k->matmul_bf16(&whole);
    memcpy(b, o.b, (size_t)(K * N) * sizeof *b);
    test_fill(&random, b + (size_t)(K * N), (size_t)((LONGER - K) * N));
    for (int64_t i = 0; i < M; i++) {
        memcpy(a, o.a + i * K, K * sizeof *a);
        for (int64_t j = 0; j < N; j += 48)
            k->matmul_bf16(&(gyre_matmul){1, 48, i % 2 ? K : LONGER, a, K, 1, b + j, N, part + i * N + j, N, 0, 0});
    }
    assert_memory_equal(part, o.c, (size_t)(M * N) * sizeof *part);
}

/* As IEEE 754 defines sums and products; no other row or column changes. */
static void matmul_of_nonfinite_numbers(void **state) {
    enum { M = 37, N = 48, K = 140 };
    static const float of_a[] = {INFINITY, -INFINITY, NAN, 3e38f, 1},
                       of_b[] = {2, INFINITY, -INFINITY, NAN, 0, 1e-40f, -2e38f};
    const gyre_kernels *k = tier_or_skip(*state);
    static operands clean, o;
    test_random random = {60};
    const square_product p = {M, N, K, 0, 0};
    fill_operands(&random, &clean);
    const gyre_matmul of_clean = product_of(&p, &clean);
    k->matmul_bf16(&of_clean);
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++)
        for (size_t j = 0; j < sizeof of_b / sizeof *of_b; j++) {
            const int row = (int)(i * 9 + j) % M, column = (int)(i * 11 + j * 5) % N, l = (int)(i * 31 + j * 17) % K;
            o = clean;
            o.a[row * K + l] = of_a[i];
            o.b[l * N + column] = gyre_bf16_widen(gyre_bf16_round(of_b[j]));
            const gyre_matmul g = product_of(&p, &o);
            k->matmul_bf16(&g);
            for (int at = 0; at < M * N; at++) {
                double sum = 0; /* cannot overflow, so what is not finite comes from a number */
                if (at / N != row && at % N != column) assert_memory_equal(o.c + at, clean.c + at, sizeof *o.c);
                for (int m = 0; m < K; m++)
                    sum += (double)o.a[at / N * K + m] * (double)o.b[m * N + at % N];
                const float want = (float)sum;
                if (isnan(want))
                    assert_true(isnan(o.c[at]));
                else if (isinf(want))
                    assert_true(o.c[at] == want);
                else
                    assert_true(isfinite(o.c[at]));
            }
        }
}

/* -- the processor's -- */
/* The same bits as the emulation, for finite sums. */
static void processor_equals_the_emulation(void **state) {
    enum { M = 37, N = 48, K = 140 };
    const gyre_kernels *k = tier_or_skip(*state), *emulated = gyre_kernels_tier("amx-emulated");
    const gyre_kernels rounding = gyre_kernels_rounding(k), emulated_rounding = gyre_kernels_rounding(emulated);
    static operands of_processor, of_emulation;
    static float y[PRODUCT_VALUES], emulated_y[PRODUCT_VALUES];
    test_random random = {61};
    for (int round = 0; round < 60; round++) {
        const square_product p = {M, N, K, round % 2, 0};
        fill_operands(&random, &of_processor);
        for (int i = 0; i < M * K; i++)
            of_processor.a[i] = ldexpf(of_processor.a[i], round % 3 ? (int)(test_next(&random) >> 33) % 120 - 110 : 0);
        of_emulation = of_processor;
        const gyre_matmul g = product_of(&p, &of_processor), e = product_of(&p, &of_emulation);
        k->matmul_bf16(&g);
        emulated->matmul_bf16(&e);
        assert_memory_equal(of_processor.c, of_emulation.c, (size_t)(M * N) * sizeof(float));
        product_pair pair = make_pair(&random, 1 + round % PRODUCT_MOST_ROWS, PRODUCT_MOST_OUTS, 1 + round * 13);
        multiply_in_tiles(&rounding, &pair.given, y);
        multiply_in_tiles(&emulated_rounding, &pair.given, emulated_y);
        assert_memory_equal(y, emulated_y, (size_t)(pair.given.rows * pair.given.outs) * sizeof *y);
        free_pair(&pair);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(of_the_definition),
                                       FOR_TIERS(no_channels),
                                       FOR_TIERS(nonfinite_numbers),
                                       FOR_TIERS(matmul_within_bound),
                                       FOR_TIERS(matmul_same_for_any_cut),
                                       FOR_TIERS(matmul_of_nonfinite_numbers),
                                       FOR_TIER(processor_equals_the_emulation, amx, "amx")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
