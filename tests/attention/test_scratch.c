/* test_scratch.c: the scratch for the most queries, keys and batch rows serves every call that has fewer of them. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KEY_HEADS = 2, DIM = 32, ROWS = 2, MAX_TOKENS = 1100 };

/* -- encodings -- */

static gyre_config plain(gyre_kind kind) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    config.head_dim = DIM;
    config.heads = HEADS;
    config.trained_length = 512;
    return config;
}

static gyre_config t5(void) {
    gyre_config config = plain(GYRE_KIND_T5);
    config.score.buckets = 32;
    return config;
}
static gyre_config shaw(void) {
    gyre_config config = plain(GYRE_KIND_SHAW);
    config.score.max_distance = 20;
    return config;
}
static gyre_config deberta(void) {
    gyre_config config = plain(GYRE_KIND_DEBERTA);
    config.score.max_distance = 64;
    return config;
}
static gyre_config rerope(void) {
    gyre_config config = plain(GYRE_KIND_ROPE);
    config.rope.far = GYRE_FAR_CLAMPED;
    config.rope.far_window = 50;
    return config;
}
static gyre_config chunks(void) {
    gyre_config config = plain(GYRE_KIND_ROPE);
    config.rope.far = GYRE_FAR_CHUNKED;
    config.rope.chunk.size = 200;
    config.rope.chunk.local = 50;
    return config;
}
static gyre_config xpos(void) {
    gyre_config config = plain(GYRE_KIND_ROPE);
    config.rope.xpos_base = 512;
    return config;
}
static gyre_config causal_length(void) {
    gyre_config config = plain(GYRE_KIND_ROPE);
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 2;
    config.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    return config;
}

enum { ENCODINGS = 10 };

/* NULL: without an encoding. */
static gyre_encoding *make_encoding(int which) {
    const gyre_config configs[ENCODINGS] = {plain(GYRE_KIND_NOPE),
                                            plain(GYRE_KIND_ROPE),
                                            plain(GYRE_KIND_ALIBI),
                                            t5(),
                                            shaw(),
                                            deberta(),
                                            rerope(),
                                            chunks(),
                                            xpos(),
                                            causal_length()};
    return which == 0 ? NULL : test_encoding(&configs[which]);
}

/* -- calls -- */

typedef struct memory {
    float *x, *gradient; /* read by all inputs; written by all outputs */
    gyre_tables tables;
    gyre_table_gradients gradients;
    gyre_order order; /* of its calls */
} memory;

static const size_t FLOATS = (size_t)ROWS * MAX_TOKENS * HEADS * DIM;

static memory make_memory(const gyre_encoding *encoding) {
    memory m = {.x = calloc(FLOATS, sizeof(float)), .gradient = calloc(5 * FLOATS, sizeof(float))};
    assert_true(m.x && m.gradient);
    gyre_cview *tables[] = {&m.tables.query, &m.tables.key, &m.tables.value, &m.tables.bias};
    gyre_view *gradients[] = {&m.gradients.query, &m.gradients.key, &m.gradients.value, &m.gradients.bias};
    for (int i = 0; encoding && i < 4; i++) {
        int64_t s[4];
        assert_ok(gyre_encoding_table_shape(encoding, (gyre_table)(GYRE_TABLE_QUERY + i), s));
        if (s[0] == 0) continue;
        *tables[i] = gyre_cdense(m.x, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
        *gradients[i] = gyre_dense(m.gradient + 4 * FLOATS, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
    }
    return m;
}

static void free_memory(memory *m) {
    free(m->x);
    free(m->gradient);
}

typedef struct sizes {
    int64_t rows, queries, keys;
} sizes;

static attention_setup make_args(const gyre_encoding *encoding, const memory *m, sizes s) {
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = encoding;
    args.tables = &m->tables;
    args.q = gyre_cdense(m->x, GYRE_DTYPE_F32, s.rows, s.queries, HEADS, DIM);
    args.k = args.v = gyre_cdense(m->x, GYRE_DTYPE_F32, s.rows, s.keys, KEY_HEADS, DIM);
    args.out = gyre_dense(m->gradient, GYRE_DTYPE_F32, s.rows, s.queries, HEADS, DIM);
    args.lse = gyre_dense(m->gradient + FLOATS, GYRE_DTYPE_F32, s.rows, s.queries, HEADS, 1);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = m->order;
    return args;
}

/* A call with more bytes than it needs succeeds; one byte past them is not written. */
static void call(const attention_setup *args, memory *m, int gradient, char *scratch, size_t bytes, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    gyre_status status;
    memset(scratch + bytes, 0x5A, 64);
    if (gradient) {
        const int64_t *q = args->q.shape, *k = args->k.shape;
        const gyre_cview dout = gyre_const(args->out);
        const gyre_view dqkv[3] = {
            gyre_dense(m->gradient + 2 * FLOATS, GYRE_DTYPE_F32, q[0], q[1], HEADS, DIM),
            gyre_dense(m->gradient + 3 * FLOATS, GYRE_DTYPE_F32, k[0], k[1], KEY_HEADS, DIM),
            gyre_dense(m->gradient + 3 * FLOATS + FLOATS / 2, GYRE_DTYPE_F32, k[0], k[1], KEY_HEADS, DIM)};
        status = run_attention_gradient(args,
                                        GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1],
                                                  .dv = dqkv[2], .tables = &m->gradients),
                                        (gyre_scratch){scratch, bytes}, exec, &err);
    } else {
        status = run_attention(args, (gyre_scratch){scratch, bytes}, exec, &err);
    }
    if (status) fail_msg("%s", err.text);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + (size_t)i], 0x5A);
}

static char *take(size_t bytes) {
    assert_true(bytes > 0);
    char *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    return scratch;
}

static const int64_t counts[] = {0, 1, 2, 7, 8, 9, 31, 33, 64, 127, 129};
enum { COUNTS = sizeof counts / sizeof *counts };

/* The one with the most serves the others, and asks for no less than they do. */
static void serves(int which, int gradient, gyre_order order, const gyre_exec *exec) {
    gyre_encoding *encoding = make_encoding(which);
    memory m = make_memory(encoding);
    m.order = order;
    for (int top = 0; top < 2; top++) {
        const sizes most = {ROWS, top ? 60 : 129, top ? 200 : 129};
        const attention_setup args = make_args(encoding, &m, most);
        const size_t bytes = attention_scratch(&args, gradient, exec);
        char *scratch = take(bytes);
        for (int i = 0; i < COUNTS * COUNTS * ROWS; i++) {
            const sizes s = {1 + i % ROWS, counts[i / ROWS % COUNTS], counts[i / ROWS / COUNTS]};
            if (s.queries > most.queries || s.keys > most.keys) continue;
            for (int at_end = 0; at_end < 2; at_end++) { /* queries at the front, or on the last keys */
                attention_setup less = make_args(encoding, &m, s);
                less.q_pos.base = at_end ? s.keys - s.queries : 0;
                assert_true(attention_scratch(&less, gradient, exec) <= bytes);
                if (at_end || i % 3 == 0) call(&less, &m, gradient, scratch, bytes, exec);
            }
        }
        free(scratch);
    }
    free_memory(&m);
    gyre_encoding_free(encoding);
}

static void serves_smaller_calls(void **state) {
    (void)state;
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec three = gyre_pool_exec(pool);
    for (int which = 0; which < ENCODINGS; which++)
        for (int gradient = 0; gradient < 2; gradient++) {
            serves(which, gradient, GYRE_ORDER_FAST, NULL);
            serves(which, gradient, gradient ? GYRE_ORDER_FAST : GYRE_ORDER_FIXED, &three);
            if (!gradient) serves(which, 0, GYRE_ORDER_FAST, &three);
        }
    gyre_pool_free(pool);
}

/* Decoding after a long prompt: the keys in several splits. */
static void serves_decoding(void **state) {
    (void)state;
    for (int i = 0; i < 2 * ENCODINGS; i++) {
        gyre_encoding *encoding = make_encoding(i / 2);
        memory m = make_memory(encoding);
        m.order = i % 2 ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
        const attention_setup args = make_args(encoding, &m, (sizes){1, MAX_TOKENS, MAX_TOKENS});
        const size_t bytes = attention_scratch(&args, 0, NULL);
        char *scratch = take(bytes);
        for (int64_t queries = 1; queries < 12; queries++) {
            attention_setup less = make_args(encoding, &m, (sizes){1, queries, MAX_TOKENS});
            less.q_pos.base = MAX_TOKENS - queries;
            call(&less, &m, 0, scratch, bytes, NULL);
        }
        free(scratch);
        free_memory(&m);
        gyre_encoding_free(encoding);
    }
}

/* Packed batches: fewer sequences, and other cuts of fewer tokens. */
static void serves_packed_batches(void **state) {
    (void)state;
    static const int64_t all[2] = {0, 200}, cuts[][5] = {{0, 50, 60, 61, 200}, {0, 0, 100, 190, 190}, {0, 1, 2, 3, 4}};
    for (int which = 0; which < ENCODINGS; which++)
        for (int gradient = 0; gradient < 2; gradient++) {
            gyre_encoding *encoding = make_encoding(which);
            memory m = make_memory(encoding);
            attention_setup args = make_args(encoding, &m, (sizes){1, 200, 200});
            args.q_starts = args.k_starts = all;
            args.sequences = 1;
            const size_t bytes = attention_scratch(&args, gradient, NULL);
            char *scratch = take(bytes);
            for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
                attention_setup less = make_args(encoding, &m, (sizes){1, cuts[i][4], cuts[i][4]});
                less.q_starts = less.k_starts = cuts[i];
                less.sequences = 4;
                assert_true(attention_scratch(&less, gradient, NULL) <= bytes);
                call(&less, &m, gradient, scratch, bytes, NULL);
            }
            free(scratch);
            free_memory(&m);
            gyre_encoding_free(encoding);
        }
}

/* Padding: fewer rows and tokens, and any starts and ends. */
static void serves_padded_batches(void **state) {
    (void)state;
    static const int64_t zeros[ROWS] = {0, 0}, full[ROWS] = {150, 150}, first[ROWS] = {3, 20}, end[ROWS] = {40, 41};
    for (int which = 0; which < ENCODINGS; which++)
        for (int gradient = 0; gradient < 2; gradient++) {
            gyre_encoding *encoding = make_encoding(which);
            memory m = make_memory(encoding);
            attention_setup args = make_args(encoding, &m, (sizes){ROWS, 150, 150});
            args.k_first = zeros;
            args.k_end = full;
            const size_t bytes = attention_scratch(&args, gradient, NULL);
            char *scratch = take(bytes);
            for (int64_t queries = 1; queries < 150; queries += 13) {
                attention_setup less = make_args(encoding, &m, (sizes){1 + queries % 2, queries, 41});
                less.k_first = first;
                less.k_end = end;
                call(&less, &m, gradient, scratch, bytes, NULL);
            }
            free(scratch);
            free_memory(&m);
            gyre_encoding_free(encoding);
        }
}

/* -- over a cache -- */

static void append(gyre_cache *cache, const memory *m, int64_t sequence, int64_t tokens) {
    const gyre_cview x = gyre_cdense(m->x, GYRE_DTYPE_F32, 1, tokens, KEY_HEADS, DIM);
    const gyre_positions at = {.base = gyre_cache_tokens(cache, sequence)};
    assert_ok(gyre_cache_append(
        cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = x, .v = x, .positions = &at), NULL, NULL));
}

static void serve_cache(int which, int64_t page_tokens, const gyre_exec *exec) {
    enum { TOKENS = 300 };
    static const int64_t sequences[ROWS] = {0, 1};
    gyre_encoding *encoding = make_encoding(which);
    memory m = make_memory(encoding);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.heads = KEY_HEADS;
    config.head_dim = DIM;
    config.sequences = ROWS;
    config.max_tokens = ROWS * TOKENS;
    config.page_tokens = page_tokens;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    const attention_setup args = make_args(encoding, &m, (sizes){ROWS, 100, 0});
    const size_t bytes = cache_attention_scratch(cache, NULL, &args, exec);
    char *scratch = take(bytes);
    for (int64_t tokens = 0; tokens < 220; tokens = gyre_cache_tokens(cache, 0)) {
        append(cache, &m, 0, 1 + tokens / 3);
        append(cache, &m, 1, 1 + tokens / 4);
        for (int64_t queries = 1; queries <= 100; queries += queries < 10 ? 1 : 45) {
            attention_setup less = make_args(encoding, &m, (sizes){1 + queries % ROWS, queries, 0});
            less.q_pos.base = gyre_cache_tokens(cache, 0) - queries;
            gyre_error err = {0, ""};
            assert_true(cache_attention_scratch(cache, sequences, &less, exec) <= bytes);
            memset(scratch + bytes, 0x5A, 64);
            if (run_cache_attention(cache, sequences, &less, (gyre_scratch){scratch, bytes}, exec, &err))
                fail_msg("%s", err.text);
            for (int i = 0; i < 64; i++)
                assert_int_equal(scratch[bytes + (size_t)i], 0x5A);
        }
    }
    free(scratch);
    gyre_cache_free(cache);
    free_memory(&m);
    gyre_encoding_free(encoding);
}

static void serves_calls_over_a_cache(void **state) {
    (void)state;
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec three = gyre_pool_exec(pool);
    for (int which = 0; which < ENCODINGS; which++) {
        serve_cache(which, 0, NULL);
        serve_cache(which, 16, &three);
    }
    gyre_pool_free(pool);
}

/* Queries past the stored angles compute theirs: the same bits as those that share the angles of the keys. */
static void many_queries_without_shared_angles(void **state) {
    (void)state;
    enum { N = 8192 + 100, HEAD = 16, FIRST = 12345 };
    gyre_config config = test_rope_config(HEAD, GYRE_LAYOUT_HALF);
    config.rope.table_positions = GYRE_NO_TABLE;
    gyre_encoding *encoding = test_encoding(&config);
    float *x = room(3 * N * HEAD, sizeof *x), *shared = room(N * HEAD, sizeof *x), *separate = room(N * HEAD, sizeof *x);
    int64_t *positions = room(N, sizeof *positions);
    test_random random = {9};
    test_fill(&random, x, 3 * N * HEAD);
    for (int64_t i = 0; i < N; i++)
        positions[i] = FIRST + i;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = encoding;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.window = 40;
    args.q = gyre_cdense(x, GYRE_DTYPE_F32, 1, N, 1, HEAD);
    args.k = gyre_cdense(x + N * HEAD, GYRE_DTYPE_F32, 1, N, 1, HEAD);
    args.v = gyre_cdense(x + 2 * N * HEAD, GYRE_DTYPE_F32, 1, N, 1, HEAD);
    args.q_pos.base = args.k_pos.base = FIRST;
    args.out = gyre_dense(shared, GYRE_DTYPE_F32, 1, N, 1, HEAD);
    attend(&args, NULL);
    args.q_pos = (gyre_positions){.data = positions, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
    args.out = gyre_dense(separate, GYRE_DTYPE_F32, 1, N, 1, HEAD);
    attend(&args, NULL);
    assert_memory_equal(shared, separate, N * HEAD * sizeof *shared);
    free(x), free(shared), free(separate), free(positions);
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_queries_without_shared_angles),
        cmocka_unit_test(serves_smaller_calls),
        cmocka_unit_test(serves_decoding),
        cmocka_unit_test(serves_packed_batches),
        cmocka_unit_test(serves_padded_batches),
        cmocka_unit_test(serves_calls_over_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
