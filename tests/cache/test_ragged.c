/* test_ragged.c: many sequences of a cache in one call: attention of any mix of prompts and single tokens, with the bits of
 * a call for each sequence, and appending. */
#include "gyre/gyre_cache.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 9, HEADS = 6, KV_HEADS = 2, DIM = 32, MOST_TOKENS = 420, ALL_TOKENS = SEQUENCES * MOST_TOKENS };

/* Tokens of each sequence, and how many of the last are its queries. */
static const int64_t tokens_of[SEQUENCES] = {130, 1, 300, 17, 0, 64, 128, 420, 5},
                     queries_of[SEQUENCES] = {1, 1, 40, 0, 0, 9, 128, 1, 5};

typedef struct ragged_case {
    const char *name;
    gyre_dtype kv, q, out;
    gyre_cache_keys keys;
    int64_t page;
    gyre_causal causal;
    gyre_order order;
    int64_t window;
    int has_mask, has_positions, has_padding;
} ragged_case;

#define F32   GYRE_DTYPE_F32
#define BF16  GYRE_DTYPE_BF16
#define Q8    GYRE_DTYPE_Q8
#define RAW   GYRE_CACHE_KEYS_RAW
#define TURN  GYRE_CACHE_KEYS_ROTATED
#define AT    GYRE_CAUSAL_BY_POSITION
#define ORDER GYRE_CAUSAL_BY_ORDER
static const ragged_case cases[] = {{"pages", F32, F32, F32, TURN, 16, AT, GYRE_ORDER_FAST, 0, 0, 0, 0},
                                    {"one page a sequence", F32, F32, F32, TURN, 0, AT, GYRE_ORDER_FAST, 0, 0, 0, 0},
                                    {"raw keys", F32, BF16, F32, RAW, 32, ORDER, GYRE_ORDER_FAST, 0, 0, 0, 0},
                                    {"bf16", BF16, BF16, BF16, TURN, 64, AT, GYRE_ORDER_FAST, 0, 0, 0, 0},
                                    {"q8", Q8, F32, F32, TURN, 16, AT, GYRE_ORDER_FAST, 0, 0, 0, 0},
                                    {"a fixed order", BF16, F32, F32, TURN, 48, AT, GYRE_ORDER_FIXED, 0, 0, 0, 0},
                                    {"a window", F32, F32, F32, TURN, 16, AT, GYRE_ORDER_FAST, 50, 0, 0, 0},
                                    {"a mask", F32, F32, F32, TURN, 16, AT, GYRE_ORDER_FAST, 0, 1, 0, 0},
                                    {"positions", F32, F32, F32, TURN, 16, AT, GYRE_ORDER_FAST, 0, 0, 1, 0},
                                    {"padding", F32, F32, F32, TURN, 16, ORDER, GYRE_ORDER_FAST, 0, 0, 0, 1}};

/* -- the caches -- */

static float keys[ALL_TOKENS][KV_HEADS][DIM], values[ALL_TOKENS][KV_HEADS][DIM], q[ALL_TOKENS][HEADS][DIM];
static float out[ALL_TOKENS][HEADS][DIM], want[ALL_TOKENS][HEADS][DIM], mask[ALL_TOKENS][MOST_TOKENS];
static double lse[ALL_TOKENS][HEADS], want_lse[ALL_TOKENS][HEADS];

static void fill_all(void) {
    test_random random = {11};
    test_fill(&random, &keys[0][0][0], sizeof keys / sizeof(float));
    test_fill(&random, &values[0][0][0], sizeof values / sizeof(float));
    test_fill(&random, &q[0][0][0], sizeof q / sizeof(float));
    test_fill(&random, &mask[0][0], sizeof mask / sizeof(float));
    for (int i = 0; i < ALL_TOKENS; i++)
        for (int j = 0; j < MOST_TOKENS; j += 7)
            mask[i][j] = (float)-INFINITY;
}

static gyre_cache *make_cache(const ragged_case *c, const gyre_encoding *rope) {
    gyre_cache *cache = NULL;
    gyre_error err;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = rope;
    config.keys = c->keys;
    config.key_dtype = config.value_dtype = c->kv;
    config.heads = KV_HEADS;
    config.head_dim = DIM;
    config.sequences = SEQUENCES;
    config.max_tokens = ALL_TOKENS;
    config.page_tokens = c->page;
    assert_ok(gyre_cache_create(&cache, &config, NULL, &err));
    return cache;
}

static gyre_cview rows_of(const void *data, int64_t first, int64_t tokens) {
    return gyre_cdense((const float *)data + first * KV_HEADS * DIM, F32, 1, tokens, KV_HEADS, DIM);
}

static void append_one(gyre_cache *cache, int64_t sequence, int64_t from, int64_t tokens, int64_t base) {
    const gyre_positions at = {.base = base};
    gyre_error err;
    assert_ok(gyre_cache_append(cache,
                                GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = rows_of(keys, from, tokens),
                                          .v = rows_of(values, from, tokens), .positions = &at),
                                NULL, &err));
}

static void fill_cache(gyre_cache *cache) {
    for (int64_t s = 0; s < SEQUENCES; s++)
        append_one(cache, s, s * MOST_TOKENS, tokens_of[s], 3 * s);
}

/* -- attention -- */

static void *scratch_of(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                        const gyre_exec *exec, size_t *bytes) {
    gyre_error err;
    assert_ok(gyre_cache_attention_scratch(cache, sequences, args, exec, bytes, &err));
    void *memory = aligned_alloc(64, *bytes);
    assert_non_null(memory);
    return memory;
}

static void attend(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                   const gyre_exec *exec) {
    gyre_error err = {0, ""};
    size_t bytes;
    void *memory = scratch_of(cache, sequences, args, exec, &bytes);
    const gyre_status status = gyre_cache_attention(cache, sequences, args, (gyre_scratch){memory, bytes}, exec, &err);
    if (status) fail_msg("%s", err.text);
    free(memory);
}

/* Padding of sequence s: its first keys, its last keys, and its last queries. */
static void padding_of(int64_t s, int64_t *first, int64_t *end, int64_t *q_end) {
    *first = tokens_of[s] / 5;
    *end = tokens_of[s] - tokens_of[s] / 7;
    *q_end = queries_of[s] - queries_of[s] / 3;
}

/* Queries first .. of `count` sequences from s on, which are those of all or of one. */
static gyre_attention_args args_of(const ragged_case *c, int64_t first, int64_t queries, int64_t longest, void *to,
                                   void *lse_to) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    const int64_t size = c->out == F32 ? 4 : 2;
    args.q = gyre_cdense((const char *)q + first * HEADS * DIM * (c->q == F32 ? 4 : 2), c->q, 1, queries, HEADS, DIM);
    args.out = gyre_dense((char *)to + first * HEADS * DIM * size, c->out, 1, queries, HEADS, DIM);
    args.lse = gyre_dense((double *)lse_to + first * HEADS, GYRE_DTYPE_F64, 1, queries, HEADS, 1);
    args.causal = c->causal;
    args.order = c->order;
    args.window = c->window;
    if (c->has_mask) {
        args.mask = gyre_cdense(mask[first], F32, 1, queries, HEADS, longest);
        args.mask.stride[1] = MOST_TOKENS;
        args.mask.stride[2] = 0;
    }
    return args;
}

static void check_case(const ragged_case *c, const gyre_encoding *rope, const gyre_exec *exec) {
    int64_t sequences[SEQUENCES], starts[SEQUENCES + 1] = {0}, first[SEQUENCES], end[SEQUENCES], q_end[SEQUENCES];
    int64_t positions[ALL_TOKENS], longest = 0, total = 0;
    gyre_cache *cache = make_cache(c, rope);
    fill_cache(cache);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        sequences[s] = SEQUENCES - 1 - s; /* not in order */
        starts[s + 1] = starts[s] + queries_of[sequences[s]];
        longest = tokens_of[s] > longest ? tokens_of[s] : longest;
        padding_of(sequences[s], &first[s], &end[s], &q_end[s]);
    }
    total = starts[SEQUENCES];
    for (int64_t i = 0; i < total; i++)
        positions[i] = 37 * i % 400;
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    const gyre_positions at = {.data = positions, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
    memset(want, 0, sizeof want), memset(want_lse, 0, sizeof want_lse);
    memset(out, 0xff, sizeof out), memset(lse, 0xff, sizeof lse);
    for (int64_t s = 0; s < SEQUENCES; s++) { /* a call for each */
        gyre_attention_args args = args_of(c, starts[s], starts[s + 1] - starts[s], tokens_of[sequences[s]], want, want_lse);
        gyre_attention_batch one = GYRE_INIT(gyre_attention_batch);
        one.k_first = &first[s], one.k_end = &end[s], one.q_end = &q_end[s];
        if (c->has_padding) args.batch = &one;
        if (c->has_positions) args.q_pos = at, args.q_pos.data = positions + starts[s];
        if (starts[s + 1] > starts[s]) attend(cache, &sequences[s], &args, NULL);
    }
    gyre_attention_args args = args_of(c, 0, total, longest, out, lse);
    batch.q_starts = starts;
    batch.sequences = SEQUENCES;
    if (c->has_padding) batch.k_first = first, batch.k_end = end, batch.q_end = q_end;
    if (c->has_positions) args.q_pos = at;
    args.batch = &batch;
    attend(cache, sequences, &args, exec);
    if (memcmp(out, want, (size_t)(total * HEADS * DIM) * (c->out == F32 ? 4 : 2)) != 0) fail_msg("%s: out", c->name);
    if (memcmp(lse, want_lse, (size_t)(total * HEADS) * sizeof(double)) != 0) fail_msg("%s: lse", c->name);
    gyre_cache_free(cache);
}

static void check_cases(const gyre_exec *exec) {
    gyre_encoding *rope = NULL;
    fill_all();
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], rope, exec);
    gyre_encoding_free(rope);
}

static void a_batch_has_the_bits_of_its_sequences(void **state) {
    (void)state;
    check_cases(NULL);
}

static void a_batch_on_threads_has_the_bits_of_its_sequences(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    check_cases(&exec);
    gyre_pool_free(pool);
}

/* Batch rows too are dealt out to threads, as a batch of one token for each of many sequences is. */
static void rows_on_threads_have_the_bits_of_one_thread(void **state) {
    (void)state;
    const int64_t sequences[] = {0, 2, 3, 5, 6, 7, 8, 2};
    gyre_pool *pool = NULL;
    gyre_encoding *rope = NULL;
    fill_all();
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    gyre_cache *cache = make_cache(&cases[0], rope);
    fill_cache(cache);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, F32, 8, 1, HEADS, DIM);
    args.causal = AT;
    args.out = gyre_dense(want, F32, 8, 1, HEADS, DIM);
    attend(cache, sequences, &args, NULL);
    args.out.data = out;
    attend(cache, sequences, &args, &exec);
    assert_memory_equal(out, want, 8 * HEADS * DIM * 4);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
    gyre_pool_free(pool);
}

static void assert_refused(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                           gyre_status status, const char *text) {
    static _Alignas(64) char scratch[1 << 20];
    gyre_error err = {0, ""};
    assert_int_equal(gyre_cache_attention(cache, sequences, args, (gyre_scratch){scratch, sizeof scratch}, NULL, &err),
                     status);
    assert_string_equal(err.text, text);
}

static void what_a_ragged_batch_refuses(void **state) {
    (void)state;
    const int64_t sequences[] = {0, 1}, starts[] = {0, 2, 3}, falling[] = {0, 2, 1}, few[] = {0, 1, 2};
    gyre_cache *cache = make_cache(&cases[0], NULL);
    fill_cache(cache);
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, F32, 1, 3, HEADS, DIM);
    args.out = gyre_dense(out, F32, 1, 3, HEADS, DIM);
    args.batch = &batch;
    batch.q_starts = starts;
    assert_refused(cache, sequences, &args, GYRE_EINVAL,
                   "sequences: 0 is below 1, but q_starts is set (gyre_cache_attention)");
    batch.sequences = 2;
    batch.k_starts = starts;
    assert_refused(cache, sequences, &args, GYRE_EINVAL,
                   "k_starts: are set, but each sequence of the cache has its own keys (gyre_cache_attention)");
    batch.k_starts = NULL;
    batch.q_starts = falling;
    assert_refused(cache, sequences, &args, GYRE_EINVAL, "q_starts[2]: 1 is below 2 before it (gyre_cache_attention)");
    batch.q_starts = few;
    assert_refused(cache, sequences, &args, GYRE_EINVAL,
                   "q_starts[2]: 2 is not the number of tokens, 3 (gyre_cache_attention)");
    batch.q_starts = starts;
    args.q_pos.base = (int64_t)1 << 31; /* past by the second query of row 0, which has the most queries and few keys */
    assert_refused(cache, sequences, &args, GYRE_ERANGE, "q_pos: 2147483649 of token 1 is past 2^31 (gyre_cache_attention)");
    args.q_pos.base = 0;
    args.out.shape[1] = 2;
    assert_refused(cache, sequences, &args, GYRE_ESHAPE, "out: 2 tokens, but q has 3 (gyre_cache_attention)");
    args.out.shape[1] = 3;
    weights.out = gyre_dense(want, F32, 1, 3, HEADS, 130);
    args.weights = &weights;
    assert_refused(cache, sequences, &args, GYRE_EUNSUPPORTED,
                   "weights: of a batch with q_starts, over a cache (gyre_cache_attention)");
    args.weights = NULL;
    args.q.shape[0] = args.out.shape[0] = 2;
    assert_refused(cache, sequences, &args, GYRE_ESHAPE,
                   "q: 2 batch rows, but with q_starts it has 1 (gyre_cache_attention)");
    gyre_cache_free(cache);
}

/* -- appending -- */

/* Both caches have the same tokens: positions, and what queries make of keys and values. */
static void assert_same_caches(const gyre_cache *a, const gyre_cache *b) {
    for (int64_t s = 0; s < SEQUENCES; s++) {
        static int64_t at[2][MOST_TOKENS];
        const int64_t tokens = gyre_cache_tokens(a, s);
        assert_int_equal(tokens, gyre_cache_tokens(b, s));
        if (tokens == 0) continue;
        assert_ok(gyre_cache_positions(a, (gyre_cache_range){s, 0, tokens}, 0, at[0], NULL));
        assert_ok(gyre_cache_positions(b, (gyre_cache_range){s, 0, tokens}, 0, at[1], NULL));
        assert_memory_equal(at[0], at[1], (size_t)tokens * sizeof at[0][0]);
        gyre_attention_args args = GYRE_INIT(gyre_attention_args);
        args.q = gyre_cdense(q, F32, 1, tokens, HEADS, DIM);
        args.causal = AT;
        args.out = gyre_dense(want, F32, 1, tokens, HEADS, DIM);
        attend(a, &s, &args, NULL);
        args.out.data = out;
        attend(b, &s, &args, NULL);
        assert_memory_equal(out, want, (size_t)(tokens * HEADS * DIM) * 4);
    }
}

/* Prompts of different lengths, then single tokens, some of them after a shift. */
static void a_batch_appends_what_calls_append(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    gyre_encoding *rope = NULL;
    fill_all();
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (size_t i = 0; i < 5; i++) {
        const int64_t sequences[] = {3, 0, 8, 5}, starts[] = {0, 70, 70, 75, 200}, delta[GYRE_MAX_AXES] = {9};
        gyre_cache *one = make_cache(&cases[i], rope), *batch = make_cache(&cases[i], rope);
        const gyre_positions at = {.base = 2};
        for (int n = 0; n < 4; n++)
            append_one(one, sequences[n], starts[n], starts[n + 1] - starts[n], 2);
        gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
        args.sequences = sequences, args.starts = starts, args.count = 4;
        args.k = rows_of(keys, 0, 200), args.v = rows_of(values, 0, 200), args.positions = &at;
        assert_ok(gyre_cache_append_batch(batch, &args, &exec, NULL));
        assert_same_caches(one, batch);
        assert_ok(gyre_cache_shift(one, (gyre_cache_range){3, 10, 60}, delta, NULL));
        assert_ok(gyre_cache_shift(batch, (gyre_cache_range){3, 10, 60}, delta, NULL));
        const int64_t next[] = {2 + 70 + 9, 0, 2 + 5, 2 + 125}; /* sequence 0 has no token yet */
        for (int n = 0; n < 4; n++)
            append_one(one, sequences[n], 200 + n, 1, next[n]);
        args.starts = NULL, args.positions = NULL;
        args.k = rows_of(keys, 200, 4), args.v = rows_of(values, 200, 4);
        assert_ok(gyre_cache_append_batch(batch, &args, NULL, NULL));
        assert_same_caches(one, batch);
        gyre_cache_free(one), gyre_cache_free(batch);
    }
    gyre_encoding_free(rope);
    gyre_pool_free(pool);
}

static void a_batch_is_appended_whole_or_not_at_all(void **state) {
    (void)state;
    const int64_t sequences[] = {0, 1, 2}, twice[] = {0, 1, 0}, none[] = {0, SEQUENCES, 1}, starts[] = {0, 100, 2000, 4000};
    gyre_error err = {0, ""};
    gyre_cache *cache = make_cache(&cases[0], NULL), *same = make_cache(&cases[0], NULL);
    append_one(cache, 0, 0, 30, 0), append_one(same, 0, 0, 30, 0);
    append_one(cache, 1, 30, 40, 0), append_one(same, 1, 30, 40, 0);
    gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
    args.sequences = sequences, args.starts = starts, args.count = 3;
    args.k = gyre_cdense(keys, F32, 1, 4000, KV_HEADS, DIM), args.v = gyre_cdense(values, F32, 1, 4000, KV_HEADS, DIM);
    args.k.stride[1] = args.v.stride[1] = 0; /* more tokens than memory has */
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_ENOMEM);
    assert_same_caches(cache, same);
    args.sequences = twice;
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "sequences[2]: 0 is in the list before (gyre_cache_append_batch)");
    args.sequences = none;
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_EINVAL);
    args.sequences = sequences, args.starts = NULL;
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "k: 4000 tokens of 3 sequences, and no starts (gyre_cache_append_batch)");
    args.sequences = NULL;
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_cache_append_batch(NULL, &args, NULL, &err), GYRE_EINVAL);
    args.count = -1;
    assert_int_equal(gyre_cache_append_batch(cache, &args, NULL, &err), GYRE_EINVAL);
    args.count = 0;
    args.k.shape[1] = args.v.shape[1] = 0;
    assert_ok(gyre_cache_append_batch(cache, &args, NULL, &err));
    assert_same_caches(cache, same);
    args.sequences = sequences, args.count = 3; /* a refused list leaves no mark */
    args.k = rows_of(keys, 0, 3), args.v = rows_of(values, 0, 3);
    assert_ok(gyre_cache_append_batch(cache, &args, NULL, &err));
    gyre_cache_free(cache), gyre_cache_free(same);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_has_the_bits_of_its_sequences),
        cmocka_unit_test(a_batch_on_threads_has_the_bits_of_its_sequences),
        cmocka_unit_test(rows_on_threads_have_the_bits_of_one_thread),
        cmocka_unit_test(what_a_ragged_batch_refuses),
        cmocka_unit_test(a_batch_appends_what_calls_append),
        cmocka_unit_test(a_batch_is_appended_whole_or_not_at_all),
    };
    return cmocka_run_group_tests_name("test_ragged", tests, NULL, NULL);
}
