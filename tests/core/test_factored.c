/* test_factored.c: the kernels of products of three vectors, against long double and against the product of matrices. */
#include "kernels/kernels.h"
#include "run_each_tier.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 48, KEYS = 112, WIDE = KEYS + 24, ROWS = 9 };

/* out[j] = sum over c of (a[c] f[c][j]) b[c][j]; with one row for all keys, the bits of matmul_f32. */
static void products(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    static float a[CHANNELS], factors[CHANNELS * WIDE], b[CHANNELS * KEYS], out[KEYS], alike[KEYS], row[CHANNELS];
    test_random random = {3};
    test_fill(&random, a, CHANNELS);
    test_fill(&random, factors, CHANNELS * WIDE);
    test_fill(&random, b, CHANNELS * KEYS);
    for (int64_t n = 16; n <= KEYS; n += 16)
        for (int64_t at = 0; at < 3; at++) {
            kernels->factored_product_f32(&(gyre_factored_product){n, CHANNELS, a, factors + at, WIDE, b, KEYS, out});
            for (int64_t j = 0; j < n; j++) {
                long double sum = 0, size = 0;
                for (int64_t c = 0; c < CHANNELS; c++) {
                    const long double x =
                        (long double)a[c] * (long double)factors[c * WIDE + at + j] * (long double)b[c * KEYS + j];
                    sum += x;
                    size += fabsl(x);
                }
                test_close((long double)out[j], sum, size * CHANNELS * 0x1p-24L, "product");
            }
        }
    for (int64_t c = 0; c < CHANNELS; c++) {
        row[c] = a[c] * factors[c * WIDE];
        for (int64_t j = 0; j < WIDE; j++)
            factors[c * WIDE + j] = factors[c * WIDE];
    }
    kernels->factored_product_f32(&(gyre_factored_product){KEYS, CHANNELS, a, factors, WIDE, b, KEYS, out});
    kernels->matmul_f32(&(gyre_matmul){.m = 1,
                                       .n = KEYS,
                                       .k = CHANNELS,
                                       .a = row,
                                       .a_row_stride = CHANNELS,
                                       .a_col_stride = 1,
                                       .b = b,
                                       .b_row_stride = KEYS,
                                       .c = alike,
                                       .c_row_stride = KEYS});
    assert_memory_equal(out, alike, sizeof out);
}

/* Keys without a gradient are not read: theirs may be infinite. */
static void gradients(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    static float a[CHANNELS], factors[ROWS * CHANNELS], b[KEYS * CHANNELS], dout[KEYS];
    static float da[CHANNELS], dfactors[ROWS * CHANNELS], db[KEYS * CHANNELS];
    static long double want_a[CHANNELS], want_factors[ROWS * CHANNELS], want_b[KEYS * CHANNELS];
    int32_t row[KEYS];
    test_random random = {4};
    test_fill(&random, a, CHANNELS);
    test_fill(&random, factors, ROWS * CHANNELS);
    test_fill(&random, b, KEYS * CHANNELS);
    test_fill(&random, dout, KEYS);
    test_fill(&random, da, CHANNELS); /* it is added to */
    for (int64_t c = 0; c < CHANNELS; c++)
        want_a[c] = (long double)da[c];
    for (int64_t j = 0; j < KEYS; j++) {
        row[j] = (int32_t)(test_next(&random) % ROWS);
        if (j % 5 == 0) dout[j] = 0, b[j * CHANNELS + j % CHANNELS] = INFINITY;
        for (int64_t c = 0; c < CHANNELS && dout[j] != 0; c++) {
            const long double d = (long double)dout[j], x = (long double)a[c],
                              f = (long double)factors[row[j] * CHANNELS + c], y = (long double)b[j * CHANNELS + c];
            want_a[c] += d * f * y;
            want_factors[row[j] * CHANNELS + c] += d * x * y;
            want_b[j * CHANNELS + c] += d * f * x;
        }
    }
    kernels->factored_gradient_f32(&(gyre_factored_gradient){KEYS, CHANNELS, dout, row, a, factors, b, da, dfactors, db});
    for (int64_t i = 0; i < CHANNELS; i++)
        test_close((long double)da[i], want_a[i], 3e-5L, "da");
    for (int64_t i = 0; i < ROWS * CHANNELS; i++)
        test_close((long double)dfactors[i], want_factors[i], 3e-5L, "dfactors");
    for (int64_t i = 0; i < KEYS * CHANNELS; i++)
        test_close((long double)db[i], want_b[i], 1e-6L, "db");
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(products), FOR_TIERS(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
