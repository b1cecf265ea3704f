/* test_adaptive_cached.c: adaptive attention over a cache has the bits of adaptive attention over its tokens, at the
 * positions that they have now, for every type that keeps them, and names what a cache cannot do. */
#include "adaptive_call.h"
#include "cached_tokens.h"
#include "run_each_tier.h"
#include "scratch_bytes.h"

enum { QUERIES = 3, WIDTH = 9, HEADS = CACHED_HEADS, DIM = CACHED_DIM, VALUES = CACHED_VALUES, MOST = CACHED_MOST };

static cached_tokens sequence_tokens[CACHED_SEQUENCES];
static float q[CACHED_SEQUENCES][QUERIES][HEADS][DIM], w1[WIDTH][2 * HEADS], w2[HEADS][WIDTH], table[2][HEADS],
    bias[CACHED_SEQUENCES][QUERIES][HEADS][MOST], out[CACHED_SEQUENCES][QUERIES][HEADS][VALUES],
    lse[CACHED_SEQUENCES][QUERIES][HEADS], want[QUERIES][HEADS][VALUES], want_lse[QUERIES][HEADS];
static gyre_tables tables;
static gyre_encoding *kerple;

static gyre_adaptive_args args_of_batch(int64_t longest) {
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, DIM);
    args.network.hidden_weights = gyre_cdense(w1, GYRE_DTYPE_F32, 1, 1, WIDTH, 2 * HEADS);
    args.network.output_weights = gyre_cdense(w2, GYRE_DTYPE_F32, 1, 1, HEADS, WIDTH);
    args.tables = &tables;
    args.bias = gyre_cdense(bias, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, longest);
    args.bias.stride[2] = MOST;
    args.bias.stride[1] = HEADS * MOST;
    args.bias.stride[0] = QUERIES * HEADS * MOST;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, VALUES);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, CACHED_SEQUENCES, QUERIES, HEADS, 1);
    return args;
}

static int setup(void **state) {
    (void)state;
    gyre_config config = GYRE_INIT(gyre_config);
    test_random random = {4};
    config.kind = GYRE_KIND_KERPLE;
    config.heads = HEADS;
    kerple = test_encoding(&config);
    test_fill(&random, &q[0][0][0][0], sizeof q / sizeof(float));
    test_fill(&random, &bias[0][0][0][0], sizeof bias / sizeof(float));
    test_fill(&random, &w1[0][0], sizeof w1 / sizeof(float));
    test_fill(&random, &w2[0][0], sizeof w2 / sizeof(float));
    for (float *x = &table[0][0]; x < &table[0][0] + 2 * HEADS; x++)
        *x = (float)(0.01 + test_uniform(&random));
    tables = (gyre_tables){.bias = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, 2, HEADS)};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    gyre_encoding_free(kerple);
    return 0;
}

static void run_cached(const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *args,
                       const gyre_exec *exec) {
    gyre_error err = {0, ""};
    gyre_adaptive_args any = *args;
    any.bias.data = NULL; /* which has as many keys as the longest sequence */
    const size_t bytes = cache_adaptive_scratch(cache, sequences, args, exec);
    assert_true(bytes > 0 && bytes <= cache_adaptive_scratch(cache, NULL, &any, exec));
    void *scratch = take(bytes);
    if (gyre_cache_adaptive_attention(cache, sequences, args, (gyre_scratch){scratch, bytes}, exec, &err))
        fail_msg("%s", err.text);
    give(scratch, bytes);
}

/* The rows of batch row b over arrays, with queries at `q_at`. */
static void run_array(const gyre_adaptive_args *given, int b, int64_t sequence, const gyre_encoding *encoding,
                      const int64_t *q_at) {
    const cached_tokens *s = &sequence_tokens[sequence];
    const gyre_positions k_pos = {s->at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}, q_pos = {q_at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    gyre_adaptive_args args = *given;
    args.encoding = encoding;
    args.q_pos = encoding ? &q_pos : NULL;
    args.k_pos = encoding ? &k_pos : NULL;
    args.q = gyre_cdense(q[b], GYRE_DTYPE_F32, 1, QUERIES, HEADS, DIM);
    args.k = gyre_cdense(s->k, GYRE_DTYPE_F32, 1, s->count, CACHED_KEY_HEADS, DIM);
    args.v = gyre_cdense(s->v, GYRE_DTYPE_F32, 1, s->count, CACHED_KEY_HEADS, VALUES);
    if (args.bias.data) args.bias.data = bias[b];
    if (args.k_first) args.k_first += b;
    if (args.k_end) args.k_end += b;
    args.bias.shape[0] = 1;
    args.bias.shape[3] = s->count;
    args.out = gyre_dense(want, GYRE_DTYPE_F32, 1, QUERIES, HEADS, VALUES);
    args.lse = gyre_dense(want_lse, GYRE_DTYPE_F32, 1, QUERIES, HEADS, 1);
    run_forward(&args, NULL);
}

/* with_positions: the caller says where the queries stand, which is past the last tokens.  with_padding: the first token is
 * left out, and 0, 2 and 4 of the last. */
static void check_cache(const gyre_cache *cache, const gyre_encoding *encoding, int with_positions, int with_padding,
                        const gyre_exec *exec) {
    static const int64_t orders[][CACHED_SEQUENCES] = {{0, 1, 2}, {2, 0, 0}};
    int64_t at[CACHED_SEQUENCES][QUERIES], k_first[CACHED_SEQUENCES], k_end[CACHED_SEQUENCES];
    for (int i = 0; i < 2; i++) {
        int64_t longest = 0;
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            const cached_tokens *s = &sequence_tokens[orders[i][b]];
            longest = s->count > longest ? s->count : longest;
            k_first[b] = 1;
            k_end[b] = s->count - (with_padding ? 2 * b : 0);
            for (int m = 0; m < QUERIES; m++)
                at[b][m] = with_positions ? s->at[s->count - 1] + 3 * m : s->at[k_end[b] - QUERIES + m];
        }
        const gyre_positions q_pos = {at, GYRE_DTYPE_I64, 0, 0, QUERIES, 1, 0, 0};
        gyre_adaptive_args args = args_of_batch(longest);
        if (with_positions) args.q_pos = &q_pos;
        if (with_padding) args.k_first = k_first, args.k_end = k_end;
        run_cached(cache, orders[i], &args, exec);
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            run_array(&args, b, orders[i][b], encoding, at[b]);
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
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 3; p++) {
            const gyre_encoding *encoding = p < 2 ? kerple : NULL;
            gyre_cache *cache = cached_create(encoding, types[i], pages[p]);
            cached_make_all(cache, sequence_tokens, 5 + (uint64_t)i);
            check_cache(cache, encoding, 0, 0, NULL);
            check_cache(cache, encoding, p != 1, 0, &exec); /* without an encoding they mean nothing */
            check_cache(cache, encoding, p == 1, 1, NULL);
            gyre_cache_free(cache);
        }
    gyre_pool_free(pool);
    unsetenv("GYRE_CPU");
}

/* A padded batch has more queries than some sequences have keys.  Those before the first token count down from it. */
static void more_queries_than_keys_have_the_bits_of_arrays(void **state) {
    (void)state;
    static const int64_t all[] = {0, 1, 2};
    for (int two_sided = 0; two_sided < 2; two_sided++) {
        gyre_cache *cache = cached_create(kerple, GYRE_DTYPE_F32, 16);
        cached_make_all(cache, sequence_tokens, 9);
        const int64_t ends[] = {QUERIES - 1, 1, 0};
        int64_t at[CACHED_SEQUENCES][QUERIES], longest = 0;
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            const cached_tokens *s = &sequence_tokens[b];
            longest = s->count > longest ? s->count : longest;
            for (int64_t m = 0; m < QUERIES; m++) {
                const int64_t token = ends[b] - QUERIES + m;
                at[b][m] = token < 0 ? s->at[0] + token : s->at[token];
            }
        }
        gyre_adaptive_args args = args_of_batch(longest);
        args.k_end = ends;
        args.two_sided = two_sided;
        run_cached(cache, all, &args, NULL);
        for (int b = 0; b < CACHED_SEQUENCES; b++) {
            run_array(&args, b, all[b], kerple, at[b]);
            assert_memory_equal(out[b], want, sizeof want);
            assert_memory_equal(lse[b], want_lse, sizeof want_lse);
        }
        gyre_cache_free(cache);
    }
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    static const int64_t all[] = {0, 1, 2}, wrong[] = {-1, 1, 0};
    gyre_config rope = test_rope_config(DIM, GYRE_LAYOUT_HALF), axes = rope;
    axes.rope.axes = 2;
    axes.rope.axes_layout = GYRE_AXES_AXIAL;
    axes.rope.axis_pairs[0] = axes.rope.axis_pairs[1] = DIM / 4;
    gyre_encoding *rotation = test_encoding(&rope), *axial = test_encoding(&axes);
    gyre_cache *cache = cached_create(kerple, GYRE_DTYPE_F32, 16), *rotated = cached_create(rotation, GYRE_DTYPE_F32, 16),
               *plane = cached_create(axial, GYRE_DTYPE_F32, 16);
    test_random random = {3};
    memset(sequence_tokens, 0, sizeof sequence_tokens);
    for (int i = 0; i < 2; i++)
        cached_append(cache, &sequence_tokens[i], i, 10, &random); /* sequence 2 is empty */
    gyre_adaptive_args args = args_of_batch(10);
    gyre_error err;
    static float before[CACHED_SEQUENCES][QUERIES][HEADS][VALUES];
    memcpy(before, out, sizeof out);
#define REFUSED(status, message, ...)                                                                                       \
    assert_int_equal(gyre_cache_adaptive_attention(__VA_ARGS__, &args, (gyre_scratch){NULL, 0}, NULL, &err), status);       \
    assert_string_equal(err.text, message " (gyre_cache_adaptive_attention)")
    REFUSED(GYRE_EINVAL, "cache: is NULL", NULL, all);
    REFUSED(GYRE_EINVAL, "sequences: is NULL", cache, NULL);
    REFUSED(GYRE_EINVAL, "sequences[0]: -1 is not in 0 .. 2", cache, wrong);
    REFUSED(GYRE_EUNSUPPORTED, "cache: positions have 2 axes, not 1", plane, all);
    assert_int_equal(gyre_cache_adaptive_attention(rotated, all, &args, (gyre_scratch){NULL, 0}, NULL, &err),
                     GYRE_EUNSUPPORTED);
    args.sequences = 1;
    REFUSED(GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch", cache, all);
    args = args_of_batch(9);
    assert_int_equal(gyre_cache_adaptive_attention(cache, all, &args, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_ESHAPE);
    args = args_of_batch(10);
    assert_int_equal(gyre_cache_adaptive_attention(cache, all, &args, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_ENOMEM);
#undef REFUSED
    const size_t bytes = cache_adaptive_scratch(cache, all, &args, NULL);
    void *scratch = take(bytes);
    static const int64_t past[] = {10, 11, 0};
    args.k_end = past;
    assert_int_equal(gyre_cache_adaptive_attention(cache, all, &args, (gyre_scratch){scratch, bytes}, NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "k_first, k_end: keys 0 .. 11 of row 1, whose sequence has 10 tokens "
                                  "(gyre_cache_adaptive_attention)");
    assert_memory_equal(before, out, sizeof out);
    give(scratch, bytes);
    gyre_cache_free(plane);
    gyre_cache_free(rotated);
    gyre_cache_free(cache);
    gyre_encoding_free(axial);
    gyre_encoding_free(rotation);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(every_type_has_the_bits_of_arrays),
                                       cmocka_unit_test(more_queries_than_keys_have_the_bits_of_arrays),
                                       cmocka_unit_test(wrong_arguments_are_named)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
