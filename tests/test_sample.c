/* test_sample.c: which token comes next: edge cases by hand, shares against many draws. */
#include "support.h"

#include "gyre/gyre_model.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 200000, MOST = 8 };

static int32_t sample(const float *logits, int64_t vocab, double temperature, double top_p, int64_t top_k, uint64_t *state) {
    float copy[64];
    gyre_sampling s = GYRE_SAMPLING_INIT;
    s.temperature = temperature;
    s.top_p = top_p;
    s.top_k = top_k;
    memcpy(copy, logits, (size_t)vocab * sizeof *copy);
    return gyre_sample(copy, vocab, &s, state);
}

static void test_greedy(void **state) {
    (void)state;
    uint64_t seed = 7, before;
    assert_int_equal(sample((const float[]){1, 3, 3, 2}, 4, 0, 1, 0, &seed), 1);
    before = seed;
    assert_int_equal(sample((const float[]){-INFINITY, -5}, 2, 0, 1, 0, &seed), 1);
    assert_true(seed != before);
    assert_int_equal(sample((const float[]){-0.0f, 0.0f}, 2, 0, 1, 0, &seed), 0);
    assert_int_equal(sample((const float[]){1, NAN}, 2, 0, 1, 0, &seed), -1);
    assert_int_equal(sample((const float[]){1, NAN}, 2, 1, 1, 0, &seed), -1);
    assert_int_equal(sample((const float[]){-INFINITY, -INFINITY}, 2, 1, 1, 0, &seed), -1);
    assert_int_equal(sample((const float[]){INFINITY, 1}, 2, 1, 1, 0, &seed), 0);
}

/* A draw moves the generator by one step whatever is asked for, so that greedy and random runs can be compared. */
static void test_one_step(void **state) {
    (void)state;
    uint64_t a = 3, b = 3, c = 3;
    sample((const float[]){1, 2, 3}, 3, 0, 1, 0, &a);
    sample((const float[]){1, 2, 3}, 3, 1, 0.5, 2, &b);
    sample((const float[]){1, NAN, 3}, 3, 1, 1, 0, &c);
    assert_true(a == b && b == c && a == 3 + UINT64_C(0x9e3779b97f4a7c15));
}

static void expect_shares(const float *logits, int64_t vocab, double temperature, double top_p, int64_t top_k,
                          const double *shares) {
    int64_t counts[MOST] = {0};
    double chi = 0.0;
    int kept = 0;
    uint64_t seed = 99;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = sample(logits, vocab, temperature, top_p, top_k, &seed);
        assert_true(id >= 0 && id < vocab);
        counts[id]++;
    }
    for (int64_t i = 0; i < vocab; i++) {
        const double expected = shares[i] * DRAWS, off = (double)counts[i] - expected;
        if (shares[i] > 0.0) {
            chi += off * off / expected;
            kept++;
        } else {
            assert_int_equal(counts[i], 0);
        }
    }
    assert_true(chi < 30.0 + kept); /* 1 in 10^5 at 7 degrees of freedom is 35 */
}

static void test_shares(void **state) {
    (void)state;
    /* Shares 8 : 4 : 2 : 1 : 1 of 16. */
    const float l = 0.69314718f, x[] = {l, 4 * l - l, 0, 2 * l, 0};
    expect_shares(x, 5, 1, 1, 0, (const double[]){2 / 16., 8 / 16., 1 / 16., 4 / 16., 1 / 16.});
    expect_shares(x, 5, 0.5, 1, 0, (const double[]){4 / 86., 64 / 86., 1 / 86., 16 / 86., 1 / 86.});
    expect_shares(x, 5, 1, 1, 3, (const double[]){2 / 14., 8 / 14., 0, 4 / 14., 0});
    expect_shares(x, 5, 1, 1, 4, (const double[]){2 / 15., 8 / 15., 1 / 15., 4 / 15., 0});
    expect_shares(x, 5, 1, 0.7, 0, (const double[]){0, 8 / 12., 0, 4 / 12., 0});
    expect_shares(x, 5, 1, 0.9, 0, (const double[]){2 / 15., 8 / 15., 1 / 15., 4 / 15., 0});
    expect_shares(x, 5, 1, 0, 0, (const double[]){0, 1, 0, 0, 0});
    expect_shares(x, 5, 1, 0.6, 2, (const double[]){0, 1, 0, 0, 0}); /* 8 of the 12 that are left */
    expect_shares((const float[]){2, 2, 2, 2}, 4, 1, 0.5, 0, (const double[]){0.5, 0.5, 0, 0});
    expect_shares((const float[]){2, -INFINITY, 2, -1000}, 4, 1, 1, 0, (const double[]){0.5, 0, 0.5, 0});
    expect_shares((const float[]){5, -3, 5, -1}, 4, INFINITY, 1, 0, (const double[]){0.25, 0.25, 0.25, 0.25});
    expect_shares((const float[]){5, 4, 5, 4}, 4, 1e-300, 1, 0, (const double[]){0.5, 0, 0.5, 0});
    expect_shares((const float[]){-3e38f, 3e38f, 0}, 3, 1, 1, 0, (const double[]){0, 1, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy), cmocka_unit_test(test_one_step),
                                       cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
