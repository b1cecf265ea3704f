/* test_sample.c: sampling, against probabilities computed here in long double from a sorted list. */
#include "gyre/gyre_model.h"
#include "support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 40, DRAWS = 20000 };

static gyre_sampling sampling(double temperature, double top_p, int64_t top_k) {
    gyre_sampling s = GYRE_INIT(gyre_sampling);
    s.temperature = temperature;
    s.top_p = top_p;
    s.top_k = top_k;
    return s;
}

static int32_t sample(const float *logits, int64_t vocab, const gyre_sampling *s, uint64_t *state) {
    float *copy = malloc((size_t)vocab * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, logits, (size_t)vocab * sizeof *copy);
    const int32_t token = gyre_sample(copy, vocab, s, state);
    free(copy);
    return token;
}

static void make_logits(float *logits, int64_t vocab, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = (float)((double)(test_next(&random) >> 40) / (1 << 24) * 8 - 4);
}

/* -- the reference -- */
typedef struct entry {
    float logit;
    int id;
} entry;

static int by_likelihood(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

/* share[id] = the probability of each token: the first top_k of the sorted list, and of those the first that reach top_p. */
static void shares(const float *logits, const gyre_sampling *s, long double share[VOCAB]) {
    entry list[VOCAB];
    long double weight[VOCAB], all = 0, kept = 0;
    for (int i = 0; i < VOCAB; i++)
        list[i] = (entry){logits[i], i};
    qsort(list, VOCAB, sizeof *list, by_likelihood);
    int count = s->top_k > 0 && s->top_k < VOCAB ? (int)s->top_k : VOCAB;
    for (int i = 0; i < count; i++)
        all += weight[i] = expl(((long double)list[i].logit - list[0].logit) / s->temperature);
    if (s->top_p < 1)
        for (int i = 0; i < count; i++)
            if ((kept += weight[i]) >= s->top_p * all) count = i + 1;
    kept = 0;
    memset(share, 0, VOCAB * sizeof *share);
    for (int i = 0; i < count; i++)
        kept += weight[i];
    for (int i = 0; i < count; i++)
        share[list[i].id] = weight[i] / kept;
}

/* -- tests -- */
static void test_greedy(void **state) {
    (void)state;
    const float logits[] = {0, 3, -1, 3, 2};
    const gyre_sampling greedy = GYRE_INIT(gyre_sampling);
    uint64_t generator = 5, other = 5;
    assert_int_equal(sample(logits, 5, &greedy, &generator), 1); /* the first of equals */
    assert_int_not_equal(generator, 5);
    const gyre_sampling hot = sampling(2, 0.5, 3);
    (void)sample(logits, 5, &hot, &other);
    assert_true(generator == other); /* one step whichever token is drawn */
    const gyre_sampling first = sampling(3, 1, 1), little = sampling(3, 1e-300, 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(sample(logits, 5, &first, &generator), 1);
        assert_int_equal(sample(logits, 5, &little, &generator), 1);
    }
}

static void test_zero_options_are_defaults(void **state) {
    (void)state;
    const float logits[] = {0, 3, -1, 3, 2};
    uint64_t generator = 5, other = 5;
    gyre_sampling zeros = GYRE_INIT(gyre_sampling);
    zeros.temperature = 3;
    const gyre_sampling ones = sampling(3, 1, 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(sample(logits, 5, &zeros, &generator), sample(logits, 5, &ones, &other));
}

static void test_nonfinite_logits(void **state) {
    (void)state;
    uint64_t generator = 1;
    const gyre_sampling ways[] = {sampling(0, 1, 0), sampling(1, 1, 0), sampling(1, 0.9, 2)};
    for (int w = 0; w < 3; w++) {
        assert_int_equal(sample((float[]){1, NAN, 2}, 3, &ways[w], &generator), -1);
        assert_int_equal(sample((float[]){-INFINITY, -INFINITY}, 2, &ways[w], &generator), -1);
        assert_int_equal(sample((float[]){-INFINITY, -5, -INFINITY}, 3, &ways[w], &generator), 1);
        assert_int_equal(sample((float[]){5, INFINITY, 6}, 3, &ways[w], &generator), 1);
    }
}

/* Every token is drawn with its probability, within 5 deviations; tokens cut off are never drawn. */
static void test_frequencies(void **state) {
    (void)state;
    float logits[VOCAB];
    make_logits(logits, VOCAB, 3);
    logits[7] = logits[9] = logits[30]; /* ties, of which a cut may keep some */
    const gyre_sampling ways[] = {sampling(1, 1, 0),     sampling(0.5, 1, 0),    sampling(4, 1, 0),    sampling(1, 0.8, 0),
                                  sampling(1, 1, 5),     sampling(2, 0.6, 10),   sampling(1, 1, 39),   sampling(1, 1, 4000),
                                  sampling(1, 0.999, 0), sampling(1e-3, 0.9, 0), sampling(50, 0.5, 0), sampling(9, 0.3, 0)};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        long double share[VOCAB];
        int64_t count[VOCAB] = {0};
        uint64_t generator = w;
        shares(logits, &ways[w], share);
        for (int i = 0; i < DRAWS; i++) {
            const int32_t token = sample(logits, VOCAB, &ways[w], &generator);
            assert_true(token >= 0 && token < VOCAB);
            count[token]++;
        }
        for (int i = 0; i < VOCAB; i++) {
            if (share[i] == 0 && count[i]) fail_msg("way %zu: token %d was left out, yet drawn", w, i);
            const long double deviation = sqrtl(share[i] * (1 - share[i]) * DRAWS);
            test_close((long double)count[i], share[i] * DRAWS, 5 * deviation + 1, "draws");
        }
    }
}

/* All cuts inside ties: the first k tokens are kept. */
static void test_ties(void **state) {
    (void)state;
    float logits[1000];
    int seen[1000] = {0};
    uint64_t generator = 9;
    for (int i = 0; i < 1000; i++)
        logits[i] = i % 10 ? -2.0f : 1.5f;
    const gyre_sampling seven = sampling(1, 1, 7);
    for (int i = 0; i < 2000; i++)
        seen[sample(logits, 1000, &seven, &generator)] = 1;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(seen[i], i % 10 == 0 && i < 70);
}

/* The same seed gives the same tokens; another seed gives others. */
static void test_seeds(void **state) {
    (void)state;
    float logits[VOCAB];
    make_logits(logits, VOCAB, 11);
    const gyre_sampling s = sampling(1, 0.95, 0);
    uint64_t a = 42, b = 42, c = 43;
    int differ = 0;
    for (int i = 0; i < 200; i++) {
        const int32_t first = sample(logits, VOCAB, &s, &a);
        assert_int_equal(first, sample(logits, VOCAB, &s, &b));
        differ += first != sample(logits, VOCAB, &s, &c);
    }
    assert_true(differ > 50);
}

/* A cut that coincides, up to rounding, with the end of a group of likely tokens: the rest is cut whatever the order of
 * summation. */
static void test_cut_at_a_boundary(void **state) {
    (void)state;
    enum { LIKELY = 12, ALL = 60, CASES = 200 };
    test_random random = {1};
    uint64_t generator = 3;
    int astray = 0;
    for (int c = 0; c < CASES; c++) {
        float logits[ALL];
        double likely = 0, all = 0;
        for (int i = 0; i < ALL; i++) {
            const float x = (float)((double)(test_next(&random) >> 40) / (1 << 24));
            logits[i] = i < LIKELY ? 4 + 0.2f * x : -1 + 0.05f * x;
            all += exp((double)logits[i]);
            if (i < LIKELY) likely += exp((double)logits[i]);
        }
        const gyre_sampling s = sampling(1, likely / all, 0);
        int drawn = 0;
        for (int i = 0; i < 400; i++)
            drawn += sample(logits, ALL, &s, &generator) >= LIKELY;
        astray += drawn > 3; /* one unlikely token may be needed to reach top_p: a two-thousandth of it */
    }
    assert_int_equal(astray, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy),
                                       cmocka_unit_test(test_zero_options_are_defaults),
                                       cmocka_unit_test(test_nonfinite_logits),
                                       cmocka_unit_test(test_frequencies),
                                       cmocka_unit_test(test_ties),
                                       cmocka_unit_test(test_seeds),
                                       cmocka_unit_test(test_cut_at_a_boundary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
