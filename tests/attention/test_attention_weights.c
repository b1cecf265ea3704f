/* test_attention_weights.c: attention_setup.weights against the definition, for any range of queries, and for any ends
 * of sequences. */
#include "attention_setup.h"
#include "naive_attention_options.h"

#include "run_each_tier.h"

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 6, 20, 4, 2, 8, 8, 1, 5, 0, 0},     {2, 9, 30, 2, 2, 8, 8, 1, 0, -4, 1},   {1, 100, 290, 2, 1, 8, 8, 1, 60, 0, 0},
    {1, 3, 2100, 2, 1, 8, 8, 1, 700, 0, 0}, {1, 600, 600, 1, 1, 8, 8, 1, 0, 0, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, LARGE = 4 };

/* All queries, then a range of them through strides; nothing else is written. */
static void check_ranges(trial *t, attention_setup *args, const gyre_exec *exec) {
    const layout *s = &t->p.s;
    const int64_t ranges[3][2] = {{0, s->queries}, {s->queries / 2, s->queries - s->queries / 2}, {s->queries - 2, 1}};
    define(t);
    for (int r = 0; r < 3; r++) {
        const int64_t first = ranges[r][0], n = ranges[r][1], row = 2 * s->keys + 3;
        const size_t size = (size_t)(s->batch * n * s->heads * row), guarded = size + (size_t)(2 * s->heads * row);
        float *weights = room(guarded, sizeof *weights);
        for (size_t e = 0; e < guarded; e++)
            weights[e] = 7;
        args->weights = gyre_dense(weights, GYRE_DTYPE_F32, s->batch, n, s->heads, s->keys);
        const int64_t stride[4] = {n * s->heads * row, s->heads * row, row, 2};
        memcpy(args->weights.stride, stride, sizeof stride);
        args->weights_first = first;
        attend(args, exec);
        for (size_t e = size; e < guarded; e++)
            assert_true(weights[e] == 7);
        for (int64_t i = 0; i < s->batch * n * s->heads; i++) {
            const int64_t b = i / s->heads / n, query = first + i / s->heads % n, h = i % s->heads;
            const double *want = t->weights64 + pair_at(&t->p, b, query, h, 0);
            double sum = 0, all = 0;
            for (int64_t j = 0; j < row; j++) {
                const double got = (double)weights[i * row + j];
                if (j % 2 == 1 || j >= 2 * s->keys) {
                    assert_true(got == 7);
                    continue;
                }
                test_close(got, want[j / 2], 2e-6L, "weight");
                if (want[j / 2] == 0) assert_true(got == 0);
                sum += got;
                all += want[j / 2];
            }
            test_close(sum, all, 1e-6L, "sum of a row"); /* 1 without a sink, if any key is visible */
            if (!t->o.sink_logits && all > 0) test_close(sum, 1, 1e-6L, "sum of a row");
        }
        free(weights);
    }
}

static void agrees_with_definition(void **state) {
    const char *tier = *state;
    size_t index = 0;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < LAYOUTS; i++)
            for (int all = 0; all < 2; all++, index++) {
                static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
                const options o = {.softcap = 1.5 * all,
                                   .sinks = 5 * all,
                                   .mask = all,
                                   .mask_dtype = types[index / 2 % 3],
                                   .rows_alike = index / 2 % 2 == 1,
                                   .sink_logits = all};
                if (!test_scheme_attends(scheme, GYRE_CAUSAL_BY_POSITION)) continue;
                if (i == LARGE && scheme != (int)(index % SCHEMES)) continue;
                trial t = scheme_trial(scheme, &layouts[i], &o, 30 + i);
                const gyre_tables tables = problem_tables(&t.p);
                attention_setup args = trial_args(&t, &tables);
                check_ranges(&t, &args, NULL);
                check_trial(&t);
                free_trial(&t);
            }
    unsetenv("GYRE_CPU");
}

/* Asking for weights changes no other output, dropout does not change the weights, and threads change nothing. */
static void weights_change_no_other_output(void **state) {
    (void)state;
    const layout s = {2, 150, 290, 4, 2, 16, 16, 1, 90, 0, 0};
    const options o = {.sinks = 3, .sink_logits = 1};
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        trial t = scheme_trial(scheme, &s, &o, 6);
        const gyre_tables tables = problem_tables(&t.p);
        attention_setup args = trial_args(&t, &tables);
        const size_t size = (size_t)t.pairs * sizeof *t.weights, out_size = t.p.out_size * sizeof *t.p.out;
        float *out = room(t.p.out_size, sizeof *out), *weights = room((size_t)t.pairs, sizeof *weights);
        attend(&args, NULL);
        memcpy(out, t.p.out, out_size);
        args.weights = gyre_dense(t.weights, GYRE_DTYPE_F32, s.batch, s.queries, s.heads, s.keys);
        attend(&args, NULL);
        assert_memory_equal(out, t.p.out, out_size);
        memcpy(weights, t.weights, size);
        memset(t.weights, 0xFF, size);
        attend(&args, &exec);
        assert_memory_equal(weights, t.weights, size);
        args.dropout = 0.5;
        memset(t.weights, 0xFF, size);
        attend(&args, NULL);
        assert_memory_equal(weights, t.weights, size);
        free(out);
        free(weights);
        free_trial(&t);
    }
    gyre_pool_free(pool);
}

/* Scores are what the softmax reads, by the definition's weights and log-sum-exp; of a masked key -infinity. */
static void scores_agree_with_definition(void **state) {
    static const layout layouts_of_scores[] = {{2, 9, 30, 2, 2, 8, 8, 1, 0, -4, 1}, {1, 100, 290, 2, 1, 8, 8, 1, 60, 0, 0}};
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int all = 0; all < 2; all++) {
            const options o = {.softcap = 1.5 * all, .sinks = 5 * all, .mask = all, .sink_logits = all};
            if (!test_scheme_attends(scheme, GYRE_CAUSAL_BY_POSITION)) continue;
            trial t = scheme_trial(scheme, &layouts_of_scores[all], &o, 40);
            const layout *s = &t.p.s;
            const gyre_tables tables = problem_tables(&t.p);
            attention_setup args = trial_args(&t, &tables);
            define(&t);
            args.weights = gyre_dense(t.weights, GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->keys);
            args.weights_are_scores = 1;
            attend(&args, NULL);
            for (int64_t e = 0; e < t.pairs; e++) {
                const double lse = t.lse64[e / s->keys], weight = t.weights64[e], score = log(weight) + lse;
                if (weight == 0)
                    assert_true(t.weights[e] == -INFINITY);
                else
                    test_close((long double)t.weights[e], score, 2e-5L * (1 + fabsl(score)), "score");
            }
            check_trial(&t);
            free_trial(&t);
        }
    unsetenv("GYRE_CPU");
}

/* Rows with a NaN are NaN for visible keys and 0 for masked ones. */
static void weights_of_nan(void **state) {
    (void)state;
    const layout s = {1, 40, 200, 1, 1, 8, 8, 1, 30, 0, 0};
    const options o = {0};
    trial t = scheme_trial(SCHEME_rope, &s, &o, 6);
    const gyre_tables tables = problem_tables(&t.p);
    attention_setup args = trial_args(&t, &tables);
    args.weights = gyre_dense(t.weights, GYRE_DTYPE_F32, 1, s.queries, 1, s.keys);
    t.p.x[Q][7 * s.dim] = NAN;
    attend(&args, NULL);
    for (int64_t i = 0; i < s.queries; i++)
        for (int64_t j = 0; j < s.keys; j++) {
            const float got = t.weights[i * s.keys + j];
            const int seen = trial_visible(&t, 0, i, j);
            assert_true(i == 7 && seen ? isnan(got) : seen ? got > 0 : got == 0);
        }
    free_trial(&t);
}

/* Two sequences packed, or two rows padded: each has the weights that it has alone, and zeros where it has no keys. */
static void packed_sequences_are_separate(void **state) {
    (void)state;
    enum { FIRST = 40, SECOND = 70, ALL = FIRST + SECOND, FROM = 33, WANTED = 30 };
    const int64_t starts[3] = {0, FIRST, ALL}, k_first[2] = {0, 6}, k_end[2] = {FIRST - 3, SECOND};
    const layout packed = {1, ALL, ALL, 2, 1, 8, 8, 1, 0, 0, 0};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const options none = {0};
        trial t = scheme_trial(scheme, &packed, &none, 15);
        const gyre_tables tables = problem_tables(&t.p);
        attention_setup args = trial_args(&t, &tables);
        const size_t size = (size_t)(WANTED * 2 * SECOND);
        float *weights = room(size, sizeof *weights);
        memset(weights, 0xFF, size * sizeof *weights);
        args.q_pos = args.k_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
        args.q_starts = args.k_starts = starts;
        args.sequences = 2;
        args.k_first = k_first;
        args.k_end = k_end;
        args.weights = gyre_dense(weights, GYRE_DTYPE_F32, 1, WANTED, 2, SECOND);
        args.weights_first = FROM;
        attend(&args, NULL);
        for (int64_t b = 0; b < 2; b++) {
            const int64_t first = starts[b], n = starts[b + 1] - first;
            const layout alone = {1, n, n, 2, 1, 8, 8, 1, 0, 0, 0};
            const options hidden = {.mask = 1, .mask_dtype = GYRE_DTYPE_F32}; /* missing keys act as masked ones */
            trial one = make_trial(&t.p.config, &alone, &hidden, 15);
            take_sequence(&one, &t, first);
            for (int64_t e = 0; e < one.pairs; e++)
                one.mask64[e] = e % n >= k_first[b] && e % n < k_end[b] ? 0 : -INFINITY;
            define(&one);
            for (int64_t i = 0; i < WANTED; i++)
                for (int64_t h = 0; h < 2; h++)
                    for (int64_t j = 0; j < SECOND; j++) {
                        const int64_t query = FROM + i - first;
                        if (query < 0 || query >= n) continue;
                        const double want = j < n ? one.weights64[pair_at(&one.p, 0, query, h, j)] : 0;
                        test_close((long double)weights[(i * 2 + h) * SECOND + j], want, 2e-6L, "weight");
                    }
            free_trial(&one);
        }
        free(weights);
        free_trial(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_definition),
        FOR_TIERS(scores_agree_with_definition),
        cmocka_unit_test(weights_change_no_other_output),
        cmocka_unit_test(weights_of_nan),
        cmocka_unit_test(packed_sequences_are_separate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
