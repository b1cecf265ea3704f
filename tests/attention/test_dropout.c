/* test_dropout.c: the generator against its published answers, and the choice it makes for blocks of weights. */
#include "attention/terms/dropout.h"

#include "naive_philox.h"
#include "run_each_tier.h"

#include <stdlib.h>
#include <string.h>

/* kat_vectors of Random123 1.09, the lines "philox4x32 10". */
static const uint32_t answers[3][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
};

/* Also as the last of the counters of a call, which there pass 2^32. */
static void matches_published_vectors(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < 3; i++)
        for (uint32_t at = 0; at < GYRE_PHILOX_NUMBERS / 4; at++) {
            const uint32_t *a = answers[i];
            const gyre_philox job = {{a[0] - at, a[1], a[2], a[3]}, {a[4], a[5]}};
            uint32_t got[GYRE_PHILOX_NUMBERS], plain[4];
            kernels->philox(&job, got);
            naive_philox(a, (uint64_t)a[5] << 32 | a[4], plain);
            assert_memory_equal(got + (size_t)4 * at, a + 6, sizeof plain);
            assert_memory_equal(plain, a + 6, sizeof plain);
        }
}

static void check_block(const gyre_dropout *dropout, const gyre_dropout_block *block) {
    const int64_t ld = block->count + 3, n = block->rows * ld;
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    assert_true(x && y);
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.5f + (float)i, y[i] = -x[i];
    gyre_dropout_apply(dropout, block, x, y, ld);
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t j = 0; j < ld; j++) {
            const float was = 0.5f + (float)(i * ld + j), got = x[i * ld + j];
            const int inside = j < block->count;
            const int kept = !inside || naive_is_kept(dropout->rate, dropout->seed, block->sequence, block->head,
                                                      block->query + i, block->key + j);
            const double want = !kept ? 0 : inside ? (double)was / (1 - dropout->rate) : (double)was;
            test_close((long double)got, want, 2e-7 * want, "dropped or divided");
            assert_true(y[i * ld + j] == -got);
        }
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5f + (float)i;
    gyre_dropout_apply(dropout, block, y, NULL, ld);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    free(x);
    free(y);
}

/* Wherever a block begins and ends, and however large the numbers are. */
static void block_matches_single_weights(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    const gyre_dropout all[] = {{0.1, 0, kernels},
                                {0.5, 0x123456789abcdef0u, kernels},
                                {0.99, UINT64_MAX, kernels},
                                {0x1p-32, 7, kernels},
                                {1 - 0x1p-40, 9, kernels}};
    const gyre_dropout_block blocks[] = {
        {0, 0, 0, 1, 0, 128},
        {0, 1, 5, 64, 128, 128},
        {3, 31, 7, 2, 1, 1},
        {3, 31, 7, 3, 2, 300},
        {9, 0, 0, 1, 127, 18},
        {1, 2, 3, 4, 4093, 131},
        {2147483646, 1, 2147483646, 1, 2147483520, 126},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            check_block(&all[i], &blocks[b]);
}

static double share_dropped(double chance, uint64_t seed) {
    enum { ROWS = 100, KEYS = 1000 };
    static float x[ROWS * KEYS];
    const gyre_dropout dropout = {chance, seed, gyre_kernels_select()};
    const gyre_dropout_block block = {0, 0, 0, ROWS, 0, KEYS};
    double dropped = 0;
    for (int i = 0; i < ROWS * KEYS; i++)
        x[i] = 1;
    gyre_dropout_apply(&dropout, &block, x, NULL, KEYS);
    for (int i = 0; i < ROWS * KEYS; i++)
        dropped += x[i] == 0;
    return dropped / (ROWS * KEYS);
}

/* Five standard deviations of 100 000 draws. */
static void drop_rate(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++)
        for (double chance = 0.1; chance < 1; chance += 0.2)
            test_close(share_dropped(chance, seed), chance, 5 * sqrt(chance * (1 - chance) / 100000), "share");
}

static void rate_0_changes_nothing(void **state) {
    (void)state;
    assert_true(share_dropped(0, 1) == 0);
    assert_true(share_dropped(0x1p-34, 1) == 0); /* below half a unit of 2^-32 */
}

/* A weight that is dropped is 0, not 0 times what it was; one that is kept stays a NaN. */
static void nonfinite_values_are_dropped(void **state) {
    const gyre_dropout dropout = {0.5, 4, tier_or_skip(*state)};
    const gyre_dropout_block block = {0, 0, 0, 1, 0, 64};
    float x[64], y[64];
    for (int i = 0; i < 64; i++)
        x[i] = NAN, y[i] = INFINITY;
    gyre_dropout_apply(&dropout, &block, x, y, 64);
    for (int j = 0; j < 64; j++) {
        const int kept = naive_is_kept(0.5, 4, 0, 0, 0, j);
        assert_true(kept ? isnan(x[j]) && isinf(y[j]) : x[j] == 0 && y[j] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(matches_published_vectors),     FOR_TIERS(block_matches_single_weights),
        FOR_TIERS(nonfinite_values_are_dropped),  cmocka_unit_test(drop_rate),
        cmocka_unit_test(rate_0_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
