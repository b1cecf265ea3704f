/* test_amx.c: products of floats with bf16 by the tiles of AMX, and the operations in plain C that stand for them.
 *
 * The tests of every tier (test_kernels.c, test_matrix.c) have the forward error bounds and the equal bits of one row and of
 * many; here are what AMX does otherwise than other tiers, and its error as measured. */
#include "guarded_memory.h"
#include "kernels/amx/tiles_emulated.h"

#include "check_product_kernels.h"
#include "run_each_tier.h"

#include <stdlib.h>

/* -- the emulation -- */
enum { PAIRS = TILE_ROWS };

/* high + low rounded to 24 bits, to the nearest and else to the even one; 0 if that is below 2^-126. */
static double round_sum(double high, double low) {
    if (!isfinite(high) || high == 0) return high;
    int exponent;
    const double scaled = ldexp(frexp(fabs(high), &exponent), 24), rest = copysign(1, high) * low;
    double whole = floor(scaled);
    const double fraction = scaled - whole;
    if (fraction > 0.5 || (fraction == 0.5 && (rest > 0 || (rest == 0 && fmod(whole, 2) == 1)))) whole++;
    const double rounded = ldexp(whole, exponent - 24);
    if (rounded >= 0x1p128) return copysign((double)INFINITY, high);
    return copysign(rounded < 0x1p-126 ? 0 : rounded, high);
}

/* a b + c: the product is exact in double, and a sum of two doubles is exact in two. */
static double add_product(double a, double b, double c) {
    const double product = a * b, high = product + c;
    const double of_c = high - product, low = (product - (high - of_c)) + (c - of_c);
    return round_sum(high, low);
}

static double operand(double x) {
    return fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

/* One number of C, by Intel's manual. */
static double defined_dot(const uint16_t *row, const uint16_t *column, float c) {
    double sums[2] = {0, 0};
    for (int i = 0; i < 2 * PAIRS; i++)
        sums[i % 2] =
            add_product(operand((double)gyre_bf16_widen(row[i])), operand((double)gyre_bf16_widen(column[i])), sums[i % 2]);
    return add_product(add_product(sums[0], 1, sums[1]), 1, operand((double)c));
}

/* Bits of a bf16 with any sign and fraction, and an exponent of first .. first + count - 1. */
static uint16_t bf16_of(test_random *random, int first, int count) {
    const uint32_t bits = (uint32_t)(test_next(random) >> 33);
    return (uint16_t)((bits & 0x807fu) | (uint32_t)(first + (int)(bits >> 16) % count) << 7);
}

static void emulates_the_manual(void **state) {
    (void)state;
    enum { KINDS = 6, ROUNDS = 400 };
    /* Exponents of a, b and c: near 1; any, with infinities and NaNs; products near 2^-126; subnormals; near overflow. */
    static const int first[KINDS][3] = {{120, 120, 120}, {0, 0, 0},       {64, 48, 0},
                                        {0, 120, 0},     {170, 170, 250}, {100, 100, 110}},
                     count[KINDS][3] = {{12, 12, 12}, {256, 256, 256}, {16, 20, 6}, {2, 12, 3}, {24, 22, 5}, {54, 54, 20}};
    static tile_registers t;
    uint16_t a[PAIRS * 32], b[PAIRS * 32], column[32];
    float c[PAIRS * PAIRS], got[PAIRS * PAIRS];
    test_random random = {49};
    for (int round = 0; round < KINDS * ROUNDS; round++) {
        const int k = round % KINDS;
        for (int i = 0; i < PAIRS * 32; i++)
            a[i] = bf16_of(&random, first[k][0], count[k][0]), b[i] = bf16_of(&random, first[k][1], count[k][1]);
        for (int i = 0; i < PAIRS * PAIRS; i++)
            c[i] = gyre_float_from_bits((uint32_t)bf16_of(&random, first[k][2], count[k][2]) << 16 |
                                        (uint32_t)(test_next(&random) >> 48));
        tile_begin(&t);
        tile_load(&t, 0, c, TILE_ROW_BYTES);
        tile_load(&t, 1, a, TILE_ROW_BYTES);
        tile_load(&t, 2, b, TILE_ROW_BYTES);
        tile_dot_bf16(&t, 0, 1, 2);
        tile_store(&t, 0, got, TILE_ROW_BYTES);
        for (int i = 0; i < PAIRS * PAIRS; i++) {
            for (int j = 0; j < 32; j++)
                column[j] = b[j / 2 * 32 + i % PAIRS * 2 + j % 2];
            const double want = defined_dot(a + i / PAIRS * 32, column, c[i]);
            if (isnan(want))
                assert_true(isnan(got[i]));
            else
                assert_int_equal(gyre_float_bits(got[i]), gyre_float_bits((float)want));
        }
    }
}

/* -- error -- */
static double normal(test_random *random) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += test_uniform(random);
    return sum / 2;
}

/* At most one unit of 2^-24 sum |x w|, with weights of uniform and rows of normal distribution. */
static void error_is_that_of_floats(void **state) {
    enum { ROWS = 16, OUTS = 64, MOST = 4096 };
    const gyre_kernels *k = tier_or_skip(*state);
    float *x = malloc(ROWS * MOST * sizeof *x), y[ROWS * OUTS];
    uint16_t *w = malloc(OUTS * MOST * sizeof *w);
    test_random random = {50};
    assert_true(x && w);
    for (int64_t in = 64; in <= MOST; in *= 2) {
        double most = 0, squares = 0;
        for (int64_t i = 0; i < ROWS * in; i++)
            x[i] = (float)normal(&random);
        for (int64_t i = 0; i < OUTS * in; i++)
            w[i] = gyre_bf16_round((float)test_uniform(&random) / 32);
        k->project_bf16(&(gyre_projection){ROWS, OUTS, in, x, in, w, in, y, OUTS});
        for (int64_t i = 0; i < ROWS * OUTS; i++) {
            double exact = 0, size = 0;
            for (int64_t c = 0; c < in; c++) {
                const double term = (double)x[i / OUTS * in + c] * (double)gyre_bf16_widen(w[i % OUTS * in + c]);
                exact += term;
                size += fabs(term);
            }
            const double error = fabs((double)y[i] - exact) / size * 0x1p24;
            most = fmax(most, error);
            squares += error * error;
        }
        print_message("%s, %lld channels: error %.3f rms, %.2f at most, of 2^-24 sum |x w|\n", k->tier, (long long)in,
                      sqrt(squares / (ROWS * OUTS)), most);
        assert_true(most <= 1);
    }
    free(x);
    free(w);
}

/* -- sizes -- */
/* Every remainder of channels, and many of rows and outputs, with operands that end at a page without access. */
static void every_remainder(void **state) {
    enum { MOST_IN = 3 * GYRE_TILE_CHANNELS + 1 };
    const gyre_kernels *k = tier_or_skip(*state);
    test_random random = {51};
    for (int64_t in = 1; in <= MOST_IN; in++) {
        const int64_t rows = 1 + in * 5 % PRODUCT_MOST_ROWS, outs = 1 + in * 11 % PRODUCT_MOST_OUTS;
        float *x = guarded((size_t)(rows * in) * sizeof *x);
        uint16_t *w = guarded((size_t)(outs * in) * sizeof *w);
        test_fill(&random, x, (size_t)(rows * in));
        for (int64_t i = 0; i < outs * in; i++)
            w[i] = gyre_bf16_round((float)test_uniform(&random));
        const row_product p = {GYRE_DTYPE_BF16, rows, outs, in, x, w};
        const char *wrong = check_row_product(k, &p);
        if (wrong) fail_msg("%s, %lld channels: %s", k->tier, (long long)in, wrong);
        unguard(x, (size_t)(rows * in) * sizeof *x);
        unguard(w, (size_t)(outs * in) * sizeof *w);
    }
}

/* A sum of no products is 0, also after a call whose sums are not. */
static void no_channels(void **state) {
    const gyre_kernels *k = tier_or_skip(*state);
    const float x = 1;
    const uint16_t w = gyre_bf16_round(1);
    float y = 0;
    for (int64_t in = 1; in >= 0; in--) {
        k->project_bf16(&(gyre_projection){1, 1, in, &x, 1, &w, 1, &y, 1});
        assert_true(y == (float)in);
    }
}

/* -- numbers that are not finite, and very small ones -- */
enum { ROWS = 7, OUTS = 35, IN = 150 };
typedef struct small_product {
    float x[ROWS * IN];
    uint16_t w[OUTS * IN];
    float y[ROWS * OUTS];
} small_product;

static void fill_product(test_random *random, small_product *s) {
    test_fill(random, s->x, ROWS * IN);
    for (int i = 0; i < OUTS * IN; i++)
        s->w[i] = gyre_bf16_round((float)test_uniform(random));
}

/* By tiles, which project_bf16 must agree with.  NaNs have any bits. */
static void run_small(const gyre_kernels *k, small_product *s) {
    static float placed[ROWS * OUTS];
    const row_product p = {GYRE_DTYPE_BF16, ROWS, OUTS, IN, s->x, s->w};
    multiply_in_tiles(k, &p, s->y);
    multiply_in_place(k, &p, 2, OUTS, placed);
    for (int i = 0; i < ROWS * OUTS; i++)
        if (!isnan(s->y[i]) || !isnan(placed[i])) assert_memory_equal(s->y + i, placed + i, sizeof *placed);
}

/* As IEEE 754 defines sums and products, and no other row or output changes. */
static void nonfinite_numbers(void **state) {
    static const float of_x[] = {INFINITY, -INFINITY, NAN, 3e38f, 1},
                       of_w[] = {2, INFINITY, -INFINITY, NAN, 0, 1e-40f, -3e38f};
    const gyre_kernels *k = tier_or_skip(*state);
    static small_product clean, s;
    test_random random = {52};
    fill_product(&random, &clean);
    run_small(k, &clean);
    for (size_t i = 0; i < sizeof of_x / sizeof *of_x; i++)
        for (size_t j = 0; j < sizeof of_w / sizeof *of_w; j++) {
            const int row = (int)(i + j) % ROWS, out = (int)(i * 11 + j * 5) % OUTS, c = (int)(i * 31 + j * 17) % IN;
            s = clean;
            s.x[row * IN + c] = of_x[i];
            s.w[out * IN + c] = gyre_bf16_round(of_w[j]);
            run_small(k, &s);
            for (int at = 0; at < ROWS * OUTS; at++) {
                const int r = at / OUTS, o = at % OUTS;
                if (r != row && o != out) assert_memory_equal(s.y + at, clean.y + at, sizeof *s.y);
                double sum = 0; /* cannot overflow, so what is not finite comes from a number */
                for (int l = 0; l < IN; l++)
                    sum += (double)s.x[r * IN + l] * (double)gyre_bf16_widen(s.w[o * IN + l]);
                const float want = (float)sum;
                if (isnan(want))
                    assert_true(isnan(s.y[at]));
                else if (isinf(want))
                    assert_true(s.y[at] == want);
                else
                    assert_true(isfinite(s.y[at]));
            }
        }
}

/* A NaN whose upper half is that of an infinity stays one. */
static void nan_with_a_low_payload(void **state) {
    const gyre_kernels *k = tier_or_skip(*state);
    static small_product s;
    test_random random = {53};
    fill_product(&random, &s);
    s.x[3 * IN + 40] = gyre_float_from_bits(0x7f800001u);
    run_small(k, &s);
    for (int at = 0; at < ROWS * OUTS; at++)
        assert_int_equal(isnan(s.y[at]) != 0, at / OUTS == 3);
}

/* What is lost near the end of the range: less than 2^-125 of each x, all of a subnormal weight, and sums below 2^-126, of
 * which there are 102 in 32 channels. */
static void small_numbers(void **state) {
    const gyre_kernels *k = tier_or_skip(*state);
    static small_product s;
    test_random random = {54};
    long double worst = 0;
    for (int round = 0; round < 40; round++) {
        fill_product(&random, &s);
        const int exponent = round * 126 / 39; /* products are about 2^-126 */
        for (int i = 0; i < ROWS * IN; i++)
            s.x[i] = ldexpf(s.x[i], -exponent);
        for (int i = 0; i < OUTS * IN; i++)
            s.w[i] = gyre_bf16_round(ldexpf(gyre_bf16_widen(s.w[i]), exponent - 126 + i % 3 * 4));
        run_small(k, &s);
        for (int at = 0; at < ROWS * OUTS; at++) {
            double exact = 0, size = 0, lost = 4 * (IN + GYRE_TILE_CHANNELS);
            for (int l = 0; l < IN; l++) {
                const double x = (double)s.x[at / OUTS * IN + l], w = (double)gyre_bf16_widen(s.w[at % OUTS * IN + l]);
                exact += x * w;
                size += fabs(x * w);
                lost += fabs(x) + 2 * fabs(w);
            }
            const double bound = (IN + 1) * 0x1p-24 * 1.001 * size + lost * 0x1p-126;
            worst = larger_fraction(worst, (long double)s.y[at], (long double)exact, (long double)bound);
        }
    }
    report_fraction("small numbers", k, worst);
}

/* -- the processor's -- */
/* The same bits as the emulation, for finite sums. */
static void processor_equals_the_emulation(void **state) {
    const gyre_kernels *k = tier_or_skip(*state), *emulated = gyre_kernels_tier("amx-emulated");
    static small_product of_processor, of_emulation;
    test_random random = {55};
    assert_non_null(emulated);
    for (int round = 0; round < 300; round++) {
        fill_product(&random, &of_processor);
        for (int i = 0; i < ROWS * IN; i++)
            of_processor.x[i] = ldexpf(of_processor.x[i], round % 3 ? (int)(test_next(&random) >> 33) % 120 - 110 : 0);
        of_emulation = of_processor;
        run_small(k, &of_processor);
        run_small(emulated, &of_emulation);
        assert_memory_equal(of_processor.y, of_emulation.y, sizeof of_processor.y);
    }
}

#define FOR_AMX(test) FOR_TIER(test, amx, "amx"), FOR_TIER(test, amx_emulated, "amx-emulated")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulates_the_manual),
        FOR_AMX(error_is_that_of_floats),
        FOR_AMX(every_remainder),
        FOR_AMX(no_channels),
        FOR_AMX(nonfinite_numbers),
        FOR_AMX(nan_with_a_low_payload),
        FOR_AMX(small_numbers),
        FOR_TIER(processor_equals_the_emulation, amx, "amx"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
