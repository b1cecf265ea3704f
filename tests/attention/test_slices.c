/* test_slices.c: slices of rotation, attention and appending together are the whole call, bit for bit. */
#include "gyre/gyre_attention.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, TOKENS = 50, HEADS = 6, KV_HEADS = 3, DIM = 32, MOST_SLICES = 17 };

static float q[BATCH][TOKENS][HEADS][DIM], k[BATCH][TOKENS][KV_HEADS][DIM], v[BATCH][TOKENS][KV_HEADS][DIM];
static float out[BATCH][TOKENS][HEADS][DIM], want[BATCH][TOKENS][HEADS][DIM], mask[BATCH][TOKENS][TOKENS],
    slopes[BATCH][HEADS], sinks[HEADS];
static double lse[BATCH][TOKENS][HEADS], want_lse[BATCH][TOKENS][HEADS];

static void fill_all(void) {
    test_random random = {31};
    test_fill(&random, &q[0][0][0][0], sizeof q / sizeof(float));
    test_fill(&random, &k[0][0][0][0], sizeof k / sizeof(float));
    test_fill(&random, &v[0][0][0][0], sizeof v / sizeof(float));
    test_fill(&random, &mask[0][0][0], sizeof mask / sizeof(float));
    test_fill(&random, &slopes[0][0], sizeof slopes / sizeof(float));
    test_fill(&random, sinks, HEADS);
}

/* -- attention -- */

typedef struct slice_case {
    const char *name;
    int kind; /* 0 = none */
    int64_t queries;
    int has_mask, has_slopes, has_sinks, has_padding, is_packed;
} slice_case;
static const slice_case cases[] = {
    {"no positions", 0, TOKENS, 0, 0, 0, 0, 0},         {"rope", GYRE_KIND_ROPE, TOKENS, 0, 0, 0, 0, 0},
    {"alibi", GYRE_KIND_ALIBI, TOKENS, 0, 0, 0, 0, 0},  {"slopes", GYRE_KIND_ALIBI, 1, 0, 1, 0, 0, 0},
    {"a mask", GYRE_KIND_ROPE, TOKENS, 1, 0, 0, 0, 0},  {"sink logits", GYRE_KIND_ROPE, 1, 0, 0, 1, 0, 0},
    {"padding", GYRE_KIND_ROPE, TOKENS, 0, 0, 1, 1, 0}, {"packed", GYRE_KIND_ALIBI, TOKENS, 0, 0, 1, 0, 1}};

static void check_case(const slice_case *c) {
    static const int64_t k_first[BATCH] = {3, 0, 10}, k_end[BATCH] = {50, 41, 30}, starts[] = {0, 11, TOKENS};
    const int64_t batch = c->is_packed ? 1 : BATCH;
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    size_t bytes;
    if (c->kind == GYRE_KIND_ROPE) assert_ok(gyre_rope_create(&encoding, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    if (c->kind == GYRE_KIND_ALIBI) assert_ok(gyre_alibi_create(&encoding, HEADS, NULL));
    gyre_attention_batch options = GYRE_INIT(gyre_attention_batch);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = encoding;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, batch, c->queries, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, batch, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, batch, TOKENS, KV_HEADS, DIM);
    args.out = gyre_dense(want, GYRE_DTYPE_F32, batch, c->queries, HEADS, DIM);
    args.lse = gyre_dense(want_lse, GYRE_DTYPE_F64, batch, c->queries, HEADS, 1);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q_pos.base = TOKENS - c->queries;
    if (c->has_mask) {
        args.mask = gyre_cdense(mask, GYRE_DTYPE_F32, batch, c->queries, HEADS, TOKENS);
        args.mask.stride[0] = TOKENS * TOKENS, args.mask.stride[1] = TOKENS, args.mask.stride[2] = 0;
    }
    if (c->has_sinks) args.sink_logits = gyre_cdense(sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
    if (c->has_slopes) options.slopes = gyre_cdense(slopes, GYRE_DTYPE_F32, batch, 1, HEADS, 1);
    if (c->has_padding) options.k_first = k_first, options.k_end = k_end;
    if (c->is_packed) options.q_starts = options.k_starts = starts, options.sequences = 2;
    args.batch = &options;
    assert_ok(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    assert_ok(gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err));
    args.out.data = out, args.lse.data = lse;
    for (int64_t count = 1; count <= MOST_SLICES; count += 2) {
        memset(out, 0xff, sizeof out), memset(lse, 0xff, sizeof lse);
        for (int64_t i = count - 1; i >= 0; i--)
            if (gyre_attention_slice(&args, (gyre_slice){i, count}, (gyre_scratch){scratch, bytes}, &err))
                fail_msg("%s: %s", c->name, err.text);
        const size_t rows = (size_t)(batch * c->queries * HEADS);
        if (memcmp(out, want, rows * DIM * sizeof(float)) != 0) fail_msg("%s, %d slices: out", c->name, (int)count);
        if (memcmp(lse, want_lse, rows * sizeof(double)) != 0) fail_msg("%s, %d slices: lse", c->name, (int)count);
    }
    free(scratch);
    gyre_encoding_free(encoding);
}

static void slices_of_attention_are_the_call(void **state) {
    (void)state;
    fill_all();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

static void a_slice_refuses_what_the_call_refuses(void **state) {
    (void)state;
    static _Alignas(64) char scratch[1 << 20];
    gyre_error err = {0, ""};
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    gyre_attention_dropout dropout = GYRE_INIT(gyre_attention_dropout);
    const gyre_scratch memory = {scratch, sizeof scratch};
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 4, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, 4, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, 4, KV_HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 4, HEADS, DIM);
    assert_int_equal(gyre_attention_slice(&args, (gyre_slice){2, 2}, memory, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "slice: 2 of 2 (gyre_attention_slice)");
    assert_int_equal(gyre_attention_slice(&args, (gyre_slice){0, 0}, memory, &err), GYRE_EINVAL);
    dropout.rate = 0.5;
    args.dropout = &dropout;
    assert_int_equal(gyre_attention_slice(&args, (gyre_slice){0, 2}, memory, &err), GYRE_EUNSUPPORTED);
    args.dropout = NULL;
    args.q_pos.base = (int64_t)1 << 40; /* every slice, also one without work */
    for (int64_t i = 0; i < 8; i++)
        assert_int_equal(gyre_attention_slice(&args, (gyre_slice){i, 8}, memory, &err), GYRE_ERANGE);
    args.q_pos.base = 0;
    assert_int_equal(gyre_attention_slice(&args, (gyre_slice){0, 2}, (gyre_scratch){scratch, 64}, &err), GYRE_ENOMEM);
}

/* -- rotation -- */

static void slices_of_rotation_are_the_call(void **state) {
    (void)state;
    int64_t at[BATCH][TOKENS];
    const int64_t shapes[][2] = {{BATCH, TOKENS}, {1, 1}, {BATCH, 2}};
    gyre_encoding *rope = NULL;
    fill_all();
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_INTERLEAVED, NULL));
    for (int64_t i = 0; i < (int64_t)BATCH * TOKENS; i++)
        at[i / TOKENS][i % TOKENS] = 17 * i % 1000;
    for (int s = 0; s < 3; s++)
        for (int with_data = 0; with_data < 2; with_data++) {
            const gyre_positions positions =
                with_data ? (gyre_positions){.data = at, .dtype = GYRE_DTYPE_I64, .stride_batch = TOKENS, .stride_token = 1}
                          : (gyre_positions){.base = 900};
            gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
            args.positions = &positions;
            args.in = gyre_cdense(q, GYRE_DTYPE_F32, shapes[s][0], shapes[s][1], HEADS, DIM);
            args.out = gyre_dense(want, GYRE_DTYPE_F32, shapes[s][0], shapes[s][1], HEADS, DIM);
            assert_ok(gyre_rotate(rope, &args, NULL, NULL));
            args.out.data = out;
            for (int64_t count = 1; count <= MOST_SLICES; count++) {
                memset(out, 0xff, sizeof out);
                for (int64_t i = count - 1; i >= 0; i--)
                    assert_ok(gyre_rotate_slice(rope, &args, (gyre_slice){i, count}, NULL));
                assert_memory_equal(out, want, (size_t)(shapes[s][0] * shapes[s][1] * HEADS * DIM) * sizeof(float));
            }
            assert_int_equal(gyre_rotate_slice(rope, &args, (gyre_slice){-1, 2}, NULL), GYRE_EINVAL);
            assert_int_equal(gyre_rotate_slice(NULL, &args, (gyre_slice){0, 2}, NULL), GYRE_EINVAL);
        }
    gyre_encoding_free(rope);
}

/* -- appending -- */

static void slices_of_an_append_are_the_call(void **state) {
    (void)state;
    const int64_t sequences[] = {1, 0, 2}, starts[] = {0, 1, 34, TOKENS};
    gyre_encoding *rope = NULL;
    gyre_error err = {0, ""};
    fill_all();
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    for (int64_t count = 1; count <= MOST_SLICES; count += 4) {
        gyre_cache *caches[2];
        gyre_cache_config config = GYRE_INIT(gyre_cache_config);
        config.encoding = rope;
        config.key_dtype = config.value_dtype = GYRE_DTYPE_BF16;
        config.heads = KV_HEADS, config.head_dim = DIM, config.sequences = 3, config.max_tokens = 200,
        config.page_tokens = 8;
        gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
        args.sequences = sequences, args.starts = starts, args.count = 3;
        args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
        args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
        for (int i = 0; i < 2; i++)
            assert_ok(gyre_cache_create(&caches[i], &config, NULL, NULL));
        assert_int_equal(gyre_cache_append_slice(caches[1], &args, (gyre_slice){0, count}, &err), GYRE_EINVAL);
        assert_string_equal(err.text, "sequences[0]: has 0 tokens, and 1 are to be stored (gyre_cache_append_slice)");
        assert_ok(gyre_cache_append_batch(caches[0], &args, NULL, NULL));
        assert_ok(gyre_cache_append_reserve(caches[1], &args, NULL));
        for (int64_t i = count - 1; i >= 0; i--)
            assert_ok(gyre_cache_append_slice(caches[1], &args, (gyre_slice){i, count}, NULL));
        assert_int_equal(gyre_cache_append_slice(caches[1], &args, (gyre_slice){count, count}, NULL), GYRE_EINVAL);
        for (int i = 0; i < 2; i++) {
            gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
            gyre_attention_args look = GYRE_INIT(gyre_attention_args);
            size_t bytes;
            batch.q_starts = starts, batch.sequences = 3;
            look.batch = &batch;
            look.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
            look.out = gyre_dense(i ? out : want, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
            look.causal = GYRE_CAUSAL_BY_POSITION;
            assert_ok(gyre_cache_attention_scratch(caches[i], sequences, &look, NULL, &bytes, NULL));
            void *scratch = aligned_alloc(64, bytes);
            assert_ok(gyre_cache_attention(caches[i], sequences, &look, (gyre_scratch){scratch, bytes}, NULL, NULL));
            free(scratch);
            gyre_cache_free(caches[i]);
        }
        assert_memory_equal(out, want, TOKENS * HEADS * DIM * sizeof(float));
    }
    gyre_encoding_free(rope);
}

/* The arguments are those of the reserve; others are refused as by a batch. */
static void a_slice_of_an_append_refuses_what_a_batch_refuses(void **state) {
    (void)state;
    const int64_t sequences[] = {0, 1}, starts[] = {0, 3, 5};
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.key_dtype = config.value_dtype = GYRE_DTYPE_F32;
    config.heads = KV_HEADS, config.head_dim = DIM, config.sequences = 2, config.max_tokens = 20;
    config.gate_heads = HEADS;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
    args.sequences = sequences, args.starts = starts, args.count = 2;
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, 5, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, 5, KV_HEADS, DIM);
    args.gates = gyre_cdense(q, GYRE_DTYPE_F32, 1, 5, HEADS, 1);
    assert_ok(gyre_cache_append_reserve(cache, &args, &err));
    const gyre_cache_append_batch_args right = args;
    const gyre_slice all = {0, 1};
    args.sequences = NULL;
    assert_int_equal(gyre_cache_append_slice(cache, &args, all, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "sequences: is NULL (gyre_cache_append_slice)");
    args = right;
    args.count = -1;
    assert_int_equal(gyre_cache_append_slice(cache, &args, all, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "count: -1 is below 0 (gyre_cache_append_slice)");
    args = right;
    args.starts = NULL;
    assert_int_equal(gyre_cache_append_slice(cache, &args, all, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "k: 5 tokens of 2 sequences, and no starts (gyre_cache_append_slice)");
    args = right;
    args.gates.data = NULL;
    assert_int_equal(gyre_cache_append_slice(cache, &args, all, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gates: missing; the cache keeps gate sums (gyre_cache_append_slice)");
    assert_ok(gyre_cache_append_slice(cache, &right, all, &err));
    gyre_cache_free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_attention_are_the_call),
        cmocka_unit_test(a_slice_refuses_what_the_call_refuses),
        cmocka_unit_test(slices_of_rotation_are_the_call),
        cmocka_unit_test(slices_of_an_append_are_the_call),
        cmocka_unit_test(a_slice_of_an_append_refuses_what_a_batch_refuses),
    };
    return cmocka_run_group_tests_name("test_slices", tests, NULL, NULL);
}
