/* test_contextual_cached.c: contextual attention over a cache has the bits of contextual attention over its tokens, for
 * every type that keeps them, and names what a cache cannot do. */
#include "cached_tokens.h"
#include "contextual_call.h"
#include "run_each_tier.h"
#include "scratch_bytes.h"

enum { QUERIES = 3, POSITIONS = 20, HEADS = CACHED_HEADS, DIM = CACHED_DIM, VALUES = CACHED_VALUES };

static cached_tokens sequence_tokens[CACHED_SEQUENCES];
static float q[CACHED_SEQUENCES][QUERIES][HEADS][DIM], embeddings[POSITIONS][DIM],
    out[CACHED_SEQUENCES][QUERIES][HEADS][VALUES], lse[CACHED_SEQUENCES][QUERIES][HEADS], want[QUERIES][HEADS][VALUES],
    want_lse[QUERIES][HEADS];

static gyre_contextual_args args_of_batch(void) {
    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, DIM);
    args.embeddings = gyre_cdense(embeddings, GYRE_DTYPE_F32, 1, POSITIONS, 1, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, VALUES);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, 1);
    return args;
}

static void run_cached(const gyre_cache *cache, const int64_t *sequences, const gyre_contextual_args *args,
                       const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = cache_contextual_scratch(cache, sequences, args, exec);
    assert_true(bytes > 0 && bytes <= cache_contextual_scratch(cache, NULL, args, exec));
    void *scratch = take(bytes);
    if (gyre_cache_contextual_attention(cache, sequences, args, (gyre_scratch){scratch, bytes}, exec, &err))
        fail_msg("%s", err.text);
    give(scratch, bytes);
}

/* The rows of batch row b over arrays. */
static void run_array(const gyre_contextual_args *given, int b, int64_t sequence) {
    const cached_tokens *s = &sequence_tokens[sequence];
    gyre_contextual_args args = *given;
    if (args.k_first) args.k_first += b;
    if (args.k_end) args.k_end += b;
    args.q = gyre_cdense(q[b], GYRE_DTYPE_F32, 1, QUERIES, HEADS, DIM);
    args.k = gyre_cdense(s->k, GYRE_DTYPE_F32, 1, s->count, CACHED_KEY_HEADS, DIM);
    args.v = gyre_cdense(s->v, GYRE_DTYPE_F32, 1, s->count, CACHED_KEY_HEADS, VALUES);
    args.out = gyre_dense(want, GYRE_DTYPE_F32, 1, QUERIES, HEADS, VALUES);
    args.lse = gyre_dense(want_lse, GYRE_DTYPE_F32, 1, QUERIES, HEADS, 1);
    run_forward(&args, NULL);
}

static void fill_queries(void) {
    test_random random = {21};
    test_fill(&random, &q[0][0][0][0], sizeof q / sizeof(float));
    test_fill(&random, &embeddings[0][0], sizeof embeddings / sizeof(float));
}

/* with_padding: the first token is left out, and 0, 2 and 4 of the last. */
static void check_cache(const gyre_cache *cache, int with_padding, const gyre_exec *exec) {
    static const int64_t orders[][CACHED_SEQUENCES] = {{0, 1, 2}, {2, 0, 0}, {1, 2, 1}};
    for (int i = 0; i < 3; i++) {
        int64_t k_first[CACHED_SEQUENCES], k_end[CACHED_SEQUENCES];
        gyre_contextual_args args = args_of_batch();
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            k_first[b] = 1;
            k_end[b] = sequence_tokens[orders[i][b]].count - 2 * b;
        }
        if (with_padding) args.k_first = k_first, args.k_end = k_end;
        run_cached(cache, orders[i], &args, exec);
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            run_array(&args, b, orders[i][b]);
            assert_memory_equal(out[b], want, sizeof want);
            assert_memory_equal(lse[b], want_lse, sizeof want_lse);
        }
    }
}

static void every_type_has_the_bits_of_arrays(void **state) {
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    static const int64_t pages[] = {0, 16, 100};
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    fill_queries();
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 3; p++) {
            gyre_cache *cache = cached_create(NULL, types[i], pages[p]);
            cached_make_all(cache, sequence_tokens, 5 + (uint64_t)i);
            check_cache(cache, 0, NULL);
            check_cache(cache, 0, &exec);
            check_cache(cache, p == 1, NULL);
            gyre_cache_free(cache);
        }
    gyre_pool_free(pool);
    unsetenv("GYRE_CPU");
}

/* Read token by token, each query over the tokens so far, is read whole. */
static void decoding_has_the_bits_of_a_whole_call(void **state) {
    (void)state;
    enum { TOKENS = 140 };
    static float all_q[TOKENS][HEADS][DIM], whole[TOKENS][HEADS][VALUES], one[HEADS][VALUES];
    cached_tokens *s = &sequence_tokens[0];
    gyre_cache *cache = cached_create(NULL, GYRE_DTYPE_Q8, 16);
    const int64_t sequence = 1;
    test_random random = {8};
    fill_queries();
    test_fill(&random, &all_q[0][0][0], TOKENS * HEADS * DIM);
    s->count = 0;
    gyre_contextual_args args = args_of_batch();
    args.lse.data = NULL;
    for (int t = 0; t < TOKENS; t++) {
        cached_append(cache, s, sequence, 1, &random);
        args.q = gyre_cdense(all_q[t], GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
        args.out = gyre_dense(whole[t], GYRE_DTYPE_F32, 1, 1, HEADS, VALUES);
        run_cached(cache, &sequence, &args, NULL);
    }
    for (int t = 0; t < TOKENS; t++) {
        args.q = gyre_cdense(all_q[t], GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
        args.k = gyre_cdense(s->k, GYRE_DTYPE_F32, 1, t + 1, CACHED_KEY_HEADS, DIM);
        args.v = gyre_cdense(s->v, GYRE_DTYPE_F32, 1, t + 1, CACHED_KEY_HEADS, VALUES);
        args.out = gyre_dense(one, GYRE_DTYPE_F32, 1, 1, HEADS, VALUES);
        run_forward(&args, NULL);
        assert_memory_equal(one, whole[t], sizeof one);
    }
    gyre_cache_free(cache);
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    static const int64_t all[] = {0, 1, 2}, wrong[] = {0, 1, 3};
    gyre_config alibi = GYRE_INIT(gyre_config);
    alibi.kind = GYRE_KIND_ALIBI;
    alibi.heads = HEADS;
    gyre_encoding *encoding = test_encoding(&alibi);
    gyre_cache *biased = cached_create(encoding, GYRE_DTYPE_F32, 16), *cache = cached_create(NULL, GYRE_DTYPE_F32, 16);
    cached_make_all(cache, sequence_tokens, 3);
    gyre_contextual_args args = args_of_batch();
    gyre_error err;
    float before[CACHED_SEQUENCES][QUERIES][HEADS][VALUES];
    memcpy(before, out, sizeof out);
#define REFUSED(status, message, ...)                                                                                       \
    assert_int_equal(gyre_cache_contextual_attention(__VA_ARGS__, &args, (gyre_scratch){NULL, 0}, NULL, &err), status);     \
    assert_string_equal(err.text, message " (gyre_cache_contextual_attention)")
    REFUSED(GYRE_EINVAL, "cache: is NULL", NULL, all);
    REFUSED(GYRE_EINVAL, "sequences: is NULL", cache, NULL);
    REFUSED(GYRE_EINVAL, "sequences[2]: 3 is not in 0 .. 2", cache, wrong);
    REFUSED(GYRE_EUNSUPPORTED, "cache: has an encoding, but queries count positions", biased, all);
    args.gate_keys = gyre_cdense(q, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, CACHED_KEY_HEADS, DIM);
    REFUSED(GYRE_EUNSUPPORTED, "gate_keys: a cache keeps keys and values alone", cache, all);
    args = args_of_batch();
    args.sequences = 1;
    REFUSED(GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch", cache, all);
    args = args_of_batch();
    args.q.shape[3] = DIM - 1;
    assert_int_equal(gyre_cache_contextual_attention(cache, all, &args, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_ESHAPE);
    assert_int_equal(cache_contextual_scratch(cache, all, &args, NULL), 0);
    args = args_of_batch();
    args.lse = args.out; /* over each other */
    args.lse.shape[3] = 1;
    assert_int_equal(gyre_cache_contextual_attention(cache, all, &args, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_EINVAL);
    args = args_of_batch();
    assert_int_equal(gyre_cache_contextual_attention(cache, all, &args, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_ENOMEM);
    assert_memory_equal(before, out, sizeof out);
    gyre_cache_free(cache);
    gyre_cache_free(biased);
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(every_type_has_the_bits_of_arrays),
                                       cmocka_unit_test(decoding_has_the_bits_of_a_whole_call),
                                       cmocka_unit_test(wrong_arguments_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
