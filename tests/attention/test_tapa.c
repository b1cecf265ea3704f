/* test_tapa.c: TAPA where it differs from other schemes: its defaults, positions far apart, numbers that are not finite, the
 * temperature, a cache whose keys move, and what is refused.  (test_attention_schemes.c and test_gradient_options.c compare
 * it with its definition, test_decode.c and test_order.c run it over few queries and over caches.) */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_attention_tables.h"
#include "run_each_tier.h"

static const layout small = {1, 5, 9, 2, 1, 8, 8, 0, 0, 0, 0};

/* -- defaults -- */

static void defaults(void **state) {
    (void)state;
    for (int64_t dim = 2; dim < 70; dim++) {
        gyre_config config = PHASED(0);
        config.head_dim = dim;
        gyre_encoding *encoding = test_encoding(&config);
        const gyre_config *got = gyre_encoding_get_config(encoding);
        assert_true(got->score.amplitudes == dim / 2 && got->score.exponent == 0.1);
        assert_int_equal(gyre_encoding_places(encoding), GYRE_PLACE_SCORE);
        assert_string_equal(gyre_kind_name(got->kind), "tapa");
        gyre_encoding_free(encoding);
    }
}

/* Without a scale, that of the paper: one over the root of the amplitudes.  With one, it multiplies the whole score and the
 * phase stays. */
static void default_scale(void **state) {
    (void)state;
    static const int64_t amplitudes[] = {0, 1, 3, 7};
    for (int i = 0; i < 4; i++) {
        const gyre_config config = PHASED(.amplitudes = amplitudes[i], .exponent = 0.3);
        problem p = make_problem(&config, &small, 4);
        const gyre_tables tables = problem_tables(&p);
        attention_setup args = problem_args(&p, &tables);
        args.scale = 0;
        p.scale = 1 / sqrt((double)(amplitudes[i] ? amplitudes[i] : small.dim / 2));
        attend(&args, NULL);
        naive(&p);
        for (size_t e = 0; e < p.out_size; e++)
            test_close((long double)p.out[e], p.out64[e], 3e-6L, "out");
        free_problem(&p);
    }
}

/* -- positions -- */

/* The most that a phase may be off, in radians, for q and k of numbers below 1: float products, sums of `phases` of them,
 * and the turns. */
static long double phase_error(double alpha, int64_t phases, long double distance) {
    const long double sum = (long double)phases, eps = 0x1p-24L;
    return 6.2831853L * powl(distance, (long double)alpha) / sqrtl(sum) * sum * (sum + 4) * eps;
}

/* Each distance up to 2^32 is exact as a whole number, whichever end it begins at. */
static void far_away(void **state) {
    enum { KEYS = 40 };
    static const double exponents[] = {0.1, 0.25, 0.5};
    tier_or_skip(*state);
    assert_int_equal(setenv("GYRE_CPU", *state, 1), 0);
    for (int e = 0; e < 6; e++) {
        const layout s = {1, 3, KEYS, 2, 1, 12, 8, 0, 0, 0, 0};
        const gyre_config config = PHASED(.amplitudes = 8, .exponent = exponents[e % 3]);
        problem p = make_problem(&config, &s, 6);
        const int64_t end = e < 3 ? (int64_t)1 << 31 : -((int64_t)1 << 31), sign = e < 3 ? 1 : -1;
        for (int64_t i = 0; i < s.queries; i++)
            p.q_at[i] = end - sign * i;
        for (int64_t j = 0; j < KEYS; j++)
            p.k_at[j] = end - sign * (((int64_t)1 << (j % 33)) + j / 33);
        p.k_at[3] = p.q_at[0]; /* a distance of 0 */
        for (size_t i = 0; i < p.size[K]; i++)
            p.x64[K][i] = (double)(p.x[K][i] *= 0.125F);
        run_problem(&p, NULL);
        naive(&p);
        const long double worst = phase_error(exponents[e % 3], 4, 0x1p32L) * 0.125L * 8 * 0.125L * 0.7L;
        for (size_t i = 0; i < p.out_size; i++)
            test_close((long double)p.out[i], p.out64[i], 3e-6L + 2 * worst, "out");
        free_problem(&p);
    }
    unsetenv("GYRE_CPU");
}

/* A key at the query's position has the plain product, and a distance counts the same on both sides. */
static void near_and_symmetric(void **state) {
    (void)state;
    const layout s = {1, 1, 3, 1, 1, 8, 8, 0, 0, 0, 0};
    const gyre_config config = PHASED(0);
    problem p = make_problem(&config, &s, 8);
    const int64_t at[3] = {100, 93, 107};
    p.q_at[0] = 100;
    memcpy(p.k_at, at, sizeof at);
    memcpy(p.x[K] + 16, p.x[K] + 8, 8 * sizeof(float));
    memcpy(p.x64[K] + 16, p.x64[K] + 8, 8 * sizeof(double));
    float weights[3], *v = p.x[V];
    const gyre_tables tables = problem_tables(&p);
    attention_setup args = problem_args(&p, &tables);
    args.weights = gyre_dense(weights, GYRE_DTYPE_F32, 1, 1, 1, 3);
    attend(&args, NULL);
    assert_true(weights[1] == weights[2] && isfinite(v[0]));
    const scheme_pair same = {0, 100, 100, p.x64[Q], p.x64[K]}, apart = {0, 100, 93, p.x64[Q], p.x64[K] + 8};
    const double own = naive_score(&p, &same), other = naive_score(&p, &apart);
    test_close((long double)weights[0] / (long double)weights[1], expl((long double)(own - other)), 1e-5L, "ratio");
    free_problem(&p);
}

/* -- numbers that are not finite -- */

/* Those of keys that no query sees reach neither the output nor a gradient; those of a visible key make its row NaN. */
static void masked_keys_do_not_leak(void **state) {
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    tier_or_skip(*state);
    assert_int_equal(setenv("GYRE_CPU", *state, 1), 0);
    for (int i = 0; i < 6; i++) {
        const layout s = {1, 40, 40, 2, 1, 24, 8, 1, 0, 0, 0};
        const gyre_config config = PHASED(.amplitudes = 9);
        problem clean = make_problem(&config, &s, 9), p = make_problem(&config, &s, 9);
        for (int64_t c = i < 3 ? 0 : 9; c < (i < 3 ? 9 : 24); c++)
            p.x[K][39 * 24 + c] = bad[i % 3]; /* the last key, which the last query alone sees */
        memset(clean.x[DOUT] + 39 * 16, 0, 16 * sizeof(float));
        memset(p.x[DOUT] + 39 * 16, 0, 16 * sizeof(float));
        run_problem(&clean, NULL);
        run_problem(&p, NULL);
        assert_memory_equal(p.out, clean.out, 39 * 16 * sizeof(float));
        for (int64_t e = 0; e < 39 * 48; e++)
            test_close((long double)p.grad[Q][e], (long double)clean.grad[Q][e], 1e-6L, "dq");
        assert_true(isnan(p.out[39 * 16]));
        free_problem(&clean);
        free_problem(&p);
    }
    unsetenv("GYRE_CPU");
}

/* -- the temperature -- */

/* It multiplies the score, and so the amplitudes alone, here and where queries are multiplied before attention. */
static void temperature_multiplies_scores(void **state) {
    (void)state;
    for (int rotated = 0; rotated < 2; rotated++) {
        gyre_config hot = PHASED(.amplitudes = 3);
        const gyre_config cold = hot;
        hot.query.temperature = GYRE_TEMPERATURE_LLAMA4;
        hot.query.reference_length = 2;
        problem p = make_problem(rotated ? &cold : &hot, &small, 5);
        hot.head_dim = small.dim;
        gyre_encoding *encoding = test_encoding(&hot);
        const gyre_view q = gyre_dense(p.x[Q], GYRE_DTYPE_F32, 1, small.queries, small.heads, small.dim);
        const gyre_cview q_in = gyre_const(q);
        const gyre_positions at = {p.q_at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        if (rotated)
            assert_ok(gyre_rotate(
                encoding, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &at, .in = q_in, .out = q), NULL,
                NULL));
        for (int64_t i = 0; i < small.queries; i++)
            for (int64_t h = 0; h < small.heads; h++)
                for (int64_t c = 0; c < 3; c++)
                    p.x64[Q][(i * small.heads + h) * small.dim + c] *= 1 + 0.1 * log1p(floor((double)(p.q_at[i] + 1) / 2));
        run_problem(&p, NULL);
        naive(&p);
        for (size_t e = 0; e < p.out_size; e++)
            test_close((long double)p.out[e], p.out64[e], 3e-6L, "out");
        for (size_t e = 0; rotated && e < p.size[Q]; e++)
            test_close((long double)p.x[Q][e], p.x64[Q][e], 1e-6L, "query");
        gyre_encoding_free(encoding);
        free_problem(&p);
    }
}

/* -- a cache -- */

static gyre_cache *make_cache(const gyre_encoding *encoding, gyre_dtype dtype) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.heads = 1;
    config.head_dim = config.value_dim = 24;
    config.max_tokens = 300;
    config.page_tokens = 16;
    config.key_dtype = config.value_dtype = dtype;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

static void attend_cache(const gyre_cache *cache, const attention_setup *args) {
    const int64_t sequence = 0;
    const size_t bytes = cache_attention_scratch(cache, &sequence, args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, &sequence, args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
}

/* Keys are kept raw, so a shift of keys and queries changes no bit, and one of some keys is attention at their new
 * positions. */
static void keys_move_in_a_cache(void **state) {
    enum { TOKENS = 200 };
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    (void)state;
    for (int i = 0; i < 8; i++) {
        const layout s = {1, i < 4 ? 2 : 30, TOKENS, 2, 1, 24, 24, 0, 0, 0, 0};
        const gyre_config config = PHASED(.amplitudes = 10);
        const int64_t all[GYRE_MAX_AXES] = {-7654321}, some[GYRE_MAX_AXES] = {40000};
        const gyre_dtype type = types[i % 4];
        problem p = make_problem(&config, &s, 30);
        float before[30 * 2 * 24];
        attention_setup args = problem_args(&p, NULL);
        gyre_cache *cache = make_cache(p.encoding, type);
        assert_ok(gyre_cache_append(
            cache, GYRE_ARGS(gyre_cache_append_args, .k = args.k, .v = args.v, .positions = &args.k_pos), NULL, NULL));
        attend_cache(cache, &args);
        memcpy(before, p.out, p.out_size * sizeof *p.out);
        assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, TOKENS}, all, NULL));
        for (int64_t t = 0; t < s.queries; t++)
            p.q_at[t] += all[0];
        attend_cache(cache, &args);
        assert_memory_equal(before, p.out, p.out_size * sizeof *p.out);
        assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 20, 100}, some, NULL));
        attend_cache(cache, &args);
        for (int64_t t = 0; t < TOKENS; t++)
            p.k_at[t] += all[0] + (t >= 20 && t < 120 ? some[0] : 0);
        naive(&p);
        const long double most = type == GYRE_DTYPE_F32 ? 1e-5L : type == GYRE_DTYPE_F16 ? 1e-3L : 1e-2L;
        for (size_t e = 0; e < p.out_size; e++)
            test_close((long double)p.out[e], p.out64[e], most, "out of the cache");
        gyre_cache_free(cache);
        free_problem(&p);
    }
}

/* -- what is refused -- */

static void refuses_bad_configs(void **state) {
    (void)state;
    gyre_config good = PHASED(0);
    assert_config_error(&good, "head_dim: 0; TAPA needs at least 2 channels, for amplitude and phase (gyre_config)");
    good.head_dim = 1;
    assert_config_error(&good, "head_dim: 1; TAPA needs at least 2 channels, for amplitude and phase (gyre_config)");
    good.head_dim = 8;
    ASSERT_CONFIG_REFUSED(good, score.amplitudes, -1);
    ASSERT_CONFIG_REFUSED(good, score.amplitudes, (int64_t)1 << 40);
    ASSERT_CONFIG_REFUSED(good, score.amplitudes, 9);
    ASSERT_CONFIG_REFUSED(good, score.exponent, -0.1);
    ASSERT_CONFIG_REFUSED(good, score.exponent, 2.01);
    ASSERT_CONFIG_REFUSED(good, score.exponent, (double)INFINITY);
    ASSERT_CONFIG_REFUSED(good, score.exponent, (double)NAN);
    ASSERT_CONFIG_REFUSED(good, score.terms, GYRE_TERM_QUERY);
    good.score.amplitudes = 8;
    assert_config_error(&good, "score.amplitudes: 8 channels of 8 leave none for the phase (gyre_config)");
    good.score.amplitudes = 7;
    good.score.exponent = 2;
    gyre_encoding_free(test_encoding(&good));
    test_budget budget = {.left = 1};
    const gyre_alloc alloc = test_budget_alloc(&budget);
    gyre_encoding *encoding = NULL;
    assert_int_equal(gyre_encoding_create(&encoding, &good, &alloc, NULL), GYRE_ENOMEM);
    assert_true(!encoding && budget.live == 0);
}

/* It is no number on a score and no rotation, and its head has as many channels as its config. */
static void refuses_bad_calls(void **state) {
    (void)state;
    const gyre_config config = PHASED(0);
    problem p = make_problem(&config, &small, 2);
    float x[5 * 2 * 9] = {0}, *y = p.out;
    gyre_error err;
    const gyre_positions at = {.base = 0};
    const gyre_view scores = gyre_dense(x, GYRE_DTYPE_F32, 1, 5, 2, 9), half = gyre_dense(y, GYRE_DTYPE_F32, 1, 5, 1, 4);
    assert_int_equal(
        gyre_add_bias(p.encoding, GYRE_ARGS(gyre_add_bias_args, .queries = &at, .keys = &at, .scores = scores), NULL, &err),
        GYRE_EUNSUPPORTED);
    assert_string_equal(err.text, "encoding: tapa adds no bias to scores (gyre_add_bias)");
    assert_int_equal(gyre_cos_sin(p.encoding, &at, &half, &half, NULL, NULL), GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_encoding_frequencies(p.encoding, 0, NULL, NULL), GYRE_EUNSUPPORTED);
    attention_setup args = problem_args(&p, NULL);
    args.q.shape[3] = args.k.shape[3] = 6;
    assert_int_equal(run_attention(&args, (gyre_scratch){x, 0}, NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "q: 6 channels, but the encoding has head_dim 8 (gyre_attention)");
    free_problem(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(default_scale),
        FOR_TIERS(far_away),
        cmocka_unit_test(near_and_symmetric),
        FOR_TIERS(masked_keys_do_not_leak),
        cmocka_unit_test(temperature_multiplies_scores),
        cmocka_unit_test(keys_move_in_a_cache),
        cmocka_unit_test(refuses_bad_configs),
        cmocka_unit_test(refuses_bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
