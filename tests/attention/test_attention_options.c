/* test_attention_options.c: softcap, sinks, masks and sink logits against the definition, alone and together, with every
 * kind of position. */
#include "attention_setup.h"
#include "naive_attention_options.h"

#include "run_each_tier.h"

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 9, 4, 2, 8, 8, 0, 0, 0, 0},     {1, 9, 9, 2, 1, 8, 8, 1, 4, 0, 0},      {2, 6, 20, 4, 4, 8, 8, 1, 5, -4, 1},
    {1, 8, 24, 2, 1, 8, 8, 2, 6, 0, 0},    {2, 7, 23, 2, 2, 8, 8, 2, 3, 0, 1},     {1, 12, 30, 2, 1, 8, 8, 0, 5, 0, 0},
    {1, 3, 400, 2, 1, 8, 8, 1, 30, 0, 0},  {1, 70, 290, 2, 1, 8, 8, 1, 40, 0, 0},  {1, 40, 270, 2, 2, 8, 8, 0, 25, 0, 1},
    {1, 66, 280, 2, 1, 8, 8, 2, 33, 0, 0}, {1, 3, 2200, 2, 1, 8, 8, 1, 300, 0, 0}, {1, 4, 300, 2, 1, 8, 8, 0, 60, 0, 1},
    {1, 6, 200, 2, 1, 8, 8, 0, 0, 0, 1},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, SMALL = 6 };

static void agrees_with_definition(void **state) {
    const char *tier = *state;
    uint64_t index = 0;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < LAYOUTS; i++)
            for (int bits = 0; bits < 16; bits++, index++) {
                if (!test_scheme_attends(scheme, (gyre_causal)layouts[i].causal)) continue;
                if (i >= SMALL && index % 5 != 0) continue;
                const options o = options_from_bits(bits, index, &layouts[i]);
                trial t = scheme_trial(scheme, &layouts[i], &o, 3 + i);
                run_trial(&t, NULL);
                check_trial(&t);
                free_trial(&t);
            }
    unsetenv("GYRE_CPU");
}

static void same_for_any_threads(void **state) {
    (void)state;
    const layout s = {2, 130, 300, 4, 2, 16, 16, 1, 50, 0, 0};
    const options o = options_from_bits(15, 1, &s);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        trial one = scheme_trial(scheme, &s, &o, 9), many = scheme_trial(scheme, &s, &o, 9);
        run_trial(&one, NULL);
        run_trial(&many, &exec);
        assert_memory_equal(one.p.out, many.p.out, one.p.out_size * sizeof(float));
        assert_memory_equal(one.p.lse, many.p.lse, (size_t)(s.batch * s.queries * s.heads) * sizeof(float));
        free_trial(&one);
        free_trial(&many);
    }
    gyre_pool_free(pool);
}

/* With as many sinks as keys, a causal window has no effect. */
static void all_are_sinks(void **state) {
    (void)state;
    for (int causal = 0; causal < 3; causal++) {
        layout s = {1, 150, 300, 2, 1, 16, 16, causal, 20, 0, 0};
        const options all = {.sinks = causal == 2 ? INT64_MAX : 300}, none = {0};
        trial windowed = scheme_trial(SCHEME_alibi_two_slopes, &s, &all, 4);
        s.window = 0;
        trial open = scheme_trial(SCHEME_alibi_two_slopes, &s, &none, 4);
        run_trial(&windowed, NULL);
        run_trial(&open, NULL);
        assert_memory_equal(windowed.p.out, open.p.out, open.p.out_size * sizeof(float));
        free_trial(&windowed);
        free_trial(&open);
    }
}

/* -- sequences of a packed batch -- */

enum { FIRST = 40, SECOND = 150, ALL = FIRST + SECOND };

/* Each sequence gives what it gives alone, with its part of the mask, its missing keys masked, and its own first keys. */
static void check_sequences(int scheme, int causal, int part_hidden) {
    const int64_t starts[3] = {0, FIRST, ALL}, k_first[2] = {3, 0}, k_end[2] = {FIRST, SECOND - 20};
    const layout packed = {1, ALL, ALL, 2, 1, 8, 8, causal, 12, 0, 0};
    const options o = {.sinks = 5, .sink_logits = 1, .window_after = 3};
    test_random random = {19};
    trial t = scheme_trial(scheme, &packed, &o, 15);
    float *mask = room((size_t)(ALL * 2 * SECOND), sizeof *mask);
    test_fill(&random, mask, (size_t)(ALL * 2 * SECOND));
    for (int e = 0; part_hidden && e < ALL * 2 * SECOND; e++)
        if (test_next(&random) % 4 == 0) mask[e] = -INFINITY;
    const gyre_tables tables = problem_tables(&t.p);
    attention_setup args = trial_args(&t, &tables);
    args.q_pos = args.k_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    args.q_starts = args.k_starts = starts;
    args.sequences = 2;
    args.k_first = k_first;
    args.k_end = k_end;
    args.mask = gyre_cdense(mask, GYRE_DTYPE_F32, 1, ALL, 2, SECOND);
    attend(&args, NULL);
    for (int64_t b = 0; b < 2; b++) {
        const int64_t first = starts[b], n = starts[b + 1] - first;
        const layout alone = {1, n, n, 2, 1, 8, 8, causal, 12, 0, 0};
        /* by order: the first five keys of the sequence */
        const options masked = {.sinks = 5 + (causal == 2 ? k_first[b] : 0), .sink_logits = 1, .mask = 1, .window_after = 3};
        trial one = make_trial(&t.p.config, &alone, &masked, 15);
        take_sequence(&one, &t, first);
        for (int64_t e = 0; e < one.pairs; e++) {
            const int there = e % n >= k_first[b] && e % n < k_end[b];
            one.mask64[e] = there ? (double)mask[(first * 2 + e / n) * SECOND + e % n] : -INFINITY;
        }
        define(&one);
        for (int64_t e = 0; e < n * 16; e++)
            test_close((long double)t.p.out[first * 16 + e], one.p.out64[e], 3e-6L, "out");
        free_trial(&one);
    }
    args.mask.shape[3] = ALL; /* longer than any sequence */
    assert_int_equal(attention_scratch(&args, 0, NULL), 0);
    free(mask);
    free_trial(&t);
}

/* Eight tokens, of which the last three are padding, with equal inputs: row t is the mean of v[0] .. v[min(t, 4)] where
 * order counts the padding.  With q_end 5 the fifth query stands beside the fifth key; with q_end 8 the last one does. */
static void order_counts_padding(void **state) {
    (void)state;
    enum { TOKENS = 8, END = 5, DIM = 4 };
    float q[TOKENS * DIM] = {0}, v[TOKENS * DIM], out[TOKENS * DIM], lse[TOKENS];
    const int64_t end = END, q_ends[] = {-1, END, TOKENS};
    for (int i = 0; i < TOKENS * DIM; i++)
        v[i] = (float)(i / DIM);
    for (int way = 0; way < 3; way++) {
        attention_setup args = GYRE_INIT(attention_setup);
        args.q = args.k = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
        args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
        args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
        args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, TOKENS, 1, 1);
        args.causal = GYRE_CAUSAL_BY_ORDER;
        args.k_end = &end;
        if (q_ends[way] >= 0) args.q_end = &q_ends[way];
        attend(&args, NULL);
        for (int t = 0; t < TOKENS; t++) {
            const int last = way == 2 ? t - (TOKENS - END) : t, seen = last < END ? last + 1 : END;
            const double mean = seen > 0 ? (double)(seen - 1) / 2 : 0;
            test_close(out[t * DIM], mean, 1e-6L, "out");
            if (seen > 0) test_close(lse[t], log(seen), 1e-6L, "lse");
            if (seen <= 0) assert_true(isinf(lse[t]) && lse[t] < 0);
        }
    }
}

static void packed_sequences_are_separate(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int causal = 0; causal < 3; causal++)
            if (test_scheme_attends(scheme, (gyre_causal)causal)) check_sequences(scheme, causal, scheme % 2 == 0);
}

/* -- rows that see nothing -- */

static void rows_without_visible_keys(void **state) {
    (void)state;
    const layout s = {1, 4, 140, 2, 1, 8, 8, 0, 0, 0, 0};
    for (int with_sink = 0; with_sink < 2; with_sink++)
        for (int scheme = 0; scheme < SCHEMES; scheme++) {
            if (!test_scheme_attends(scheme, GYRE_CAUSAL_NONE)) continue;
            const options o = {
                .mask = 1, .mask_dtype = GYRE_DTYPE_F16, .sink_logits = with_sink, .softcap = with_sink ? 0 : 2};
            trial t = scheme_trial(scheme, &s, &o, 8); /* row 1 is hidden */
            run_trial(&t, NULL);
            check_trial(&t);
            for (int64_t e = s.heads * s.value_dim; e < 2 * s.heads * s.value_dim; e++)
                assert_true(t.p.out[e] == 0);
            for (int64_t h = 0; h < s.heads; h++)
                assert_true(t.p.lse[s.heads + h] == (with_sink ? t.sink[h] : -INFINITY));
            free_trial(&t);
        }
}

/* -- what is hidden stays away -- */

enum { KEYS = 150, TOKENS = 70, DIM = 8 };

/* One head; NaN and infinities among keys and values from key `first` on. */
typedef struct plain {
    float q[TOKENS * DIM], k[KEYS * DIM], v[KEYS * DIM], out[TOKENS * DIM], lse[TOKENS], mask[TOKENS * KEYS];
} plain;

static plain *make_plain(void) {
    plain *p = room(1, sizeof *p);
    test_random random = {31};
    test_fill(&random, p->q, TOKENS * DIM);
    test_fill(&random, p->k, KEYS * DIM);
    test_fill(&random, p->v, KEYS * DIM);
    return p;
}

static attention_setup plain_args(plain *p) {
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(p->q, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    args.k = gyre_cdense(p->k, GYRE_DTYPE_F32, 1, KEYS, 1, DIM);
    args.v = gyre_cdense(p->v, GYRE_DTYPE_F32, 1, KEYS, 1, DIM);
    args.mask = gyre_cdense(p->mask, GYRE_DTYPE_F32, 1, TOKENS, 1, KEYS);
    args.out = gyre_dense(p->out, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    args.lse = gyre_dense(p->lse, GYRE_DTYPE_F32, 1, TOKENS, 1, 1);
    return args;
}

static void masked_keys_do_not_leak(void **state) {
    (void)state;
    static const float nonfinite[3] = {NAN, INFINITY, -INFINITY};
    for (int which = 0; which < 3; which++)
        for (int softcap = 0; softcap < 2; softcap++) {
            plain *clean = make_plain(), *dirty = make_plain();
            for (int i = 0; i < TOKENS; i++)
                for (int j = 0; j < KEYS; j++)
                    clean->mask[i * KEYS + j] = dirty->mask[i * KEYS + j] = j % 7 == 3 || j > 140 ? -INFINITY : 0.25f;
            for (int e = 0; e < KEYS * DIM; e++)
                if (clean->mask[e / DIM] == -INFINITY) dirty->k[e] = dirty->v[e] = nonfinite[which];
            attention_setup args[2] = {plain_args(clean), plain_args(dirty)};
            for (int i = 0; i < 2; i++) {
                args[i].softcap = softcap ? 2 : 0;
                attend(&args[i], NULL);
            }
            for (int e = 0; e < TOKENS * DIM; e++)
                test_close((long double)dirty->out[e], (long double)clean->out[e], 1e-6L, "out");
            for (int i = 0; i < TOKENS; i++)
                test_close((long double)dirty->lse[i], (long double)clean->lse[i], 1e-6L, "lse");
            free(clean);
            free(dirty);
        }
}

/* A NaN in the mask reaches only its row, and not even that where the key is masked otherwise. */
static void mask_of_nan(void **state) {
    (void)state;
    plain *p = make_plain();
    attention_setup args = plain_args(p);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q_pos.base = 10;
    p->mask[5 * KEYS + 15] = NAN; /* seen from 15 */
    p->mask[7 * KEYS + 18] = NAN; /* not seen from 17 */
    attend(&args, NULL);
    for (int e = 0; e < TOKENS * DIM; e++)
        assert_true(isnan(p->out[e]) == (e / DIM == 5));
    free(p);
}

/* -- biases -- */

/* Two keys at a distance of 1 from each other and 10^8 from the query, where floats do not separate their biases, and one
 * masked key between them and the query. */
static void biases_are_relative_to_visible_keys(void **state) {
    (void)state;
    static const double slope[1] = {0.5};
    gyre_config config = WITH(GYRE_KIND_ALIBI, .slopes = slope);
    config.heads = 1;
    gyre_encoding *encoding = test_encoding(&config);
    const int64_t q_at[1] = {100000000}, k_at[3] = {0, 1, 99999990};
    const float q[8] = {0}, k[24] = {0}, v[24] = {[0] = 1, [9] = 1, [18] = 1}, mask[3] = {0, 0, -INFINITY};
    float out[8];
    for (int by_mask = 0; by_mask < 2; by_mask++) {
        attention_setup args = GYRE_INIT(attention_setup);
        args.encoding = encoding;
        args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, 8);
        args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, 3, 1, 8);
        args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, 3, 1, 8);
        args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, 8);
        args.q_pos = (gyre_positions){q_at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        args.k_pos = (gyre_positions){k_at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        if (by_mask)
            args.mask = gyre_cdense(mask, GYRE_DTYPE_F32, 1, 1, 1, 3);
        else
            args.window = 5, args.sinks = 2, args.causal = GYRE_CAUSAL_BY_POSITION;
        attend(&args, NULL);
        test_close((long double)out[0], 1 / (1 + expl(0.5L)), 1e-6L, "the further key");
        test_close((long double)out[1], 1 / (1 + expl(-0.5L)), 1e-6L, "the nearer key");
        assert_true(out[2] == 0);
    }
    gyre_encoding_free(encoding);
}

/* Under a softcap the bias is not made relative: at this distance every score is -c, and all keys get the same weight. */
static void softcap_bends_the_whole_bias(void **state) {
    (void)state;
    static const gyre_config far[2] = {WITH(GYRE_KIND_ALIBI, .slopes = test_slopes),
                                       WITH(GYRE_KIND_KERPLE, .decay = GYRE_DECAY_POWER)};
    for (int i = 0; i < 2; i++) {
        const layout s = {1, 2, 6, 4, 2, 8, 8, 1, 0, 0, 0};
        const options o = {.softcap = 3};
        trial t = make_trial(&far[i], &s, &o, 5);
        t.p.q_at[0] = t.p.q_at[1] = 2000000;
        run_trial(&t, NULL);
        check_trial(&t);
        for (int64_t e = 0; e < s.heads; e++)
            test_close((long double)t.p.lse[e], -3 + logl(6), 2e-6L, "lse");
        free_trial(&t);
    }
}

/* -- the score that no key has -- */

/* A NaN sink of one head does not affect the other head. */
static void sink_of_nan(void **state) {
    (void)state;
    const layout s = {1, 5, 20, 2, 1, 8, 8, 0, 0, 0, 0};
    const options o = {.sink_logits = 1};
    trial t = scheme_trial(SCHEME_alibi_two_slopes, &s, &o, 12);
    t.sink[1] = NAN;
    run_trial(&t, NULL);
    for (size_t e = 0; e < t.p.out_size; e++)
        assert_true(isnan(t.p.out[e]) == (e / 8 % 2 == 1));
    free_trial(&t);
}

static void sink_logits_of_any_size(void **state) {
    (void)state;
    const layout s = {1, 5, 200, 2, 1, 8, 8, 0, 0, 0, 0};
    const options none = {0}, with = {.sink_logits = 1};
    trial want = scheme_trial(SCHEME_alibi_two_slopes, &s, &none, 12);
    run_trial(&want, NULL);
    for (int i = 0; i < 3; i++) {
        static const float sizes[3] = {-INFINITY, 60, 2000};
        trial t = scheme_trial(SCHEME_alibi_two_slopes, &s, &with, 12);
        t.sink[0] = t.sink[1] = sizes[i];
        run_trial(&t, NULL);
        if (i == 0) { /* no share at all */
            assert_memory_equal(t.p.out, want.p.out, t.p.out_size * sizeof(float));
            assert_memory_equal(t.p.lse, want.p.lse, (size_t)(s.queries * s.heads) * sizeof(float));
        }
        if (i == 1) check_trial(&t);
        for (size_t e = 0; i == 2 && e < t.p.out_size; e++)
            assert_true(t.p.out[e] == 0);
        for (int64_t e = 0; i > 0 && e < s.queries * s.heads; e++)
            assert_true(t.p.lse[e] == sizes[i]);
        free_trial(&t);
    }
    free_trial(&want);
}

/* A weight that the sink makes 0 adds nothing, even with an infinite value. */
static void values_behind_a_large_sink(void **state) {
    (void)state;
    for (int few = 0; few < 2; few++) {
        const layout s = {1, few ? 4 : 40, 150, 1, 1, 8, 8, 0, 0, 0, 0};
        const options o = {.sink_logits = 1};
        trial t = scheme_trial(SCHEME_none, &s, &o, 2);
        t.sink[0] = 500;
        t.p.x[V][8 * 60 + 3] = INFINITY;
        t.p.x[V][8 * 70 + 3] = -INFINITY;
        run_trial(&t, NULL);
        for (size_t e = 0; e < t.p.out_size; e++)
            assert_true(t.p.out[e] == 0);
        free_trial(&t);
    }
}

/* -- errors -- */

typedef struct mistake {
    void (*make)(attention_setup *args);
    gyre_status status;
} mistake;

#define MISTAKE(name, change)                                                                                               \
    static void name(attention_setup *args) {                                                                               \
        change;                                                                                                             \
    }
MISTAKE(softcap_negative, args->softcap = -1)
MISTAKE(softcap_nan, args->softcap = (double)NAN)
MISTAKE(softcap_infinite, args->softcap = (double)INFINITY)
MISTAKE(softcap_past_float, args->softcap = 1e300)
MISTAKE(softcap_under_float, args->softcap = 1e-300)
MISTAKE(sinks_negative, args->sinks = -1)
MISTAKE(dropout_negative, args->dropout = -0.1)
MISTAKE(dropout_one, args->dropout = 1)
MISTAKE(dropout_nan, args->dropout = (double)NAN)
MISTAKE(mask_f64, args->mask.dtype = GYRE_DTYPE_F64)
MISTAKE(mask_q8, args->mask.dtype = GYRE_DTYPE_Q8)
MISTAKE(mask_heads, args->mask.shape[2] = 2)
MISTAKE(mask_keys, args->mask.shape[3]--)
MISTAKE(mask_queries, args->mask.shape[1]++)
MISTAKE(sink_f16, args->sink_logits.dtype = GYRE_DTYPE_F16)
MISTAKE(sink_heads, args->sink_logits.shape[2] = 2)
MISTAKE(sink_tokens, args->sink_logits.shape[1] = 2)
MISTAKE(weights_f16, args->weights.dtype = GYRE_DTYPE_F16)
MISTAKE(weights_keys, args->weights.shape[3]--)
MISTAKE(weights_heads, args->weights.shape[2] = 2)
MISTAKE(weights_of_too_many, args->weights.shape[1] = TOKENS + 1; args->weights_first = 0)
MISTAKE(weights_past_the_last, args->weights_first = TOKENS)
MISTAKE(weights_before_the_first, args->weights_first = -1)
MISTAKE(weights_far_out, args->weights_first = INT64_MAX)
MISTAKE(weights_in_one_place, args->weights.stride[3] = 0)

static const mistake mistakes[] = {
    {softcap_negative, GYRE_EINVAL},
    {softcap_nan, GYRE_EINVAL},
    {softcap_infinite, GYRE_EINVAL},
    {softcap_past_float, GYRE_EINVAL},
    {softcap_under_float, GYRE_EINVAL},
    {sinks_negative, GYRE_EINVAL},
    {dropout_negative, GYRE_EINVAL},
    {dropout_one, GYRE_EINVAL},
    {dropout_nan, GYRE_EINVAL},
    {mask_f64, GYRE_EDTYPE},
    {mask_q8, GYRE_EDTYPE},
    {mask_heads, GYRE_ESHAPE},
    {mask_keys, GYRE_ESHAPE},
    {mask_queries, GYRE_ESHAPE},
    {sink_f16, GYRE_EDTYPE},
    {sink_heads, GYRE_ESHAPE},
    {sink_tokens, GYRE_ESHAPE},
    {weights_f16, GYRE_EDTYPE},
    {weights_keys, GYRE_ESHAPE},
    {weights_heads, GYRE_ESHAPE},
    {weights_of_too_many, GYRE_EINVAL},
    {weights_past_the_last, GYRE_EINVAL},
    {weights_before_the_first, GYRE_EINVAL},
    {weights_far_out, GYRE_EINVAL},
    {weights_in_one_place, GYRE_EINVAL},
};

static void refuses_bad_options(void **state) {
    (void)state;
    static float weights[2 * KEYS];
    const float sink[1] = {0};
    plain *p = make_plain();
    attention_setup right = plain_args(p);
    right.sink_logits = gyre_cdense(sink, GYRE_DTYPE_F32, 1, 1, 1, 1);
    right.weights = gyre_dense(weights, GYRE_DTYPE_F32, 1, 2, 1, KEYS);
    right.weights_first = TOKENS - 2;
    const size_t bytes = attention_scratch(&right, 0, NULL);
    void *scratch = scratch_for(bytes);
    memset(p->out, 0x5A, sizeof p->out);
    memset(weights, 0x5A, sizeof weights);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        attention_setup wrong = right;
        mistakes[i].make(&wrong);
        assert_int_equal(run_attention(&wrong, (gyre_scratch){scratch, bytes}, NULL, NULL), mistakes[i].status);
        for (size_t b = 0; b < sizeof p->out; b++)
            assert_int_equal(((unsigned char *)p->out)[b], 0x5A);
        for (size_t b = 0; b < sizeof weights; b++)
            assert_int_equal(((unsigned char *)weights)[b], 0x5A);
    }
    assert_ok(run_attention(&right, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_definition),
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(all_are_sinks),
        cmocka_unit_test(order_counts_padding),
        cmocka_unit_test(packed_sequences_are_separate),
        cmocka_unit_test(rows_without_visible_keys),
        cmocka_unit_test(masked_keys_do_not_leak),
        cmocka_unit_test(mask_of_nan),
        cmocka_unit_test(biases_are_relative_to_visible_keys),
        cmocka_unit_test(softcap_bends_the_whole_bias),
        cmocka_unit_test(sink_of_nan),
        cmocka_unit_test(sink_logits_of_any_size),
        cmocka_unit_test(values_behind_a_large_sink),
        cmocka_unit_test(refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
