/* test_scratch_errors.c: calls that say how much scratch another call needs.  They refuse what that call refuses in shapes
 * and numbers, with its message, leave *bytes alone then, and do not look at memory. */
#include "attention_memory.h"
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_contextual.h"
#include "gyre/gyre_ring.h"
#include "support.h"

#include <string.h>

enum { TOKENS = 6, HEADS = 4, KEY_HEADS = 2, DIM = 8, UNTOUCHED = 12345 };

static size_t bytes;
static gyre_error err;

static void says(gyre_status status, gyre_status want, const char *text) {
    if (status != want || !strstr(err.text, text))
        fail_msg("%d, \"%s\"; wanted %d, \"%s\"", (int)status, err.text, want, text);
    assert_int_equal(bytes, UNTOUCHED);
}

/* The call, with an error and without. */
#define SAYS(want, text, call)                                                                                              \
    do {                                                                                                                    \
        gyre_error *e = &err;                                                                                               \
        bytes = UNTOUCHED;                                                                                                  \
        memset(&err, 0, sizeof err);                                                                                        \
        says(call, want, text);                                                                                             \
        e = NULL;                                                                                                           \
        assert_int_equal(call, want);                                                                                       \
        assert_int_equal(bytes, UNTOUCHED);                                                                                 \
    } while (0)
#define TELLS(call)                                                                                                         \
    do {                                                                                                                    \
        gyre_error *e = &err;                                                                                               \
        bytes = 0;                                                                                                          \
        if (call) fail_msg("%s", err.text);                                                                                 \
        assert_true(bytes > 0);                                                                                             \
    } while (0)

/* Shapes without memory. */
static gyre_cview shaped(int64_t heads, int64_t channels) {
    return gyre_cdense(NULL, GYRE_DTYPE_F32, 1, TOKENS, heads, channels);
}

static gyre_attention_args plain(void) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = shaped(HEADS, DIM);
    args.k = args.v = shaped(KEY_HEADS, DIM);
    args.out = gyre_dense(NULL, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    return args;
}

static void attention(void **state) {
    (void)state;
    gyre_attention_args args = plain();
    for (int gradient = 0; gradient < 2; gradient++) {
        args = plain();
        TELLS(gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        args.q_pos.base = (int64_t)1 << 40; /* nor at positions */
        TELLS(gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "gyre_attention_args: is NULL", gyre_attention_scratch(NULL, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_attention_scratch(&args, gradient, NULL, NULL, e));
        args.k.shape[3] = DIM - 1;
        SAYS(GYRE_ESHAPE, "k: 7 channels, but q has 8", gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        args = plain(), args.q.dtype = GYRE_DTYPE_I64;
        SAYS(GYRE_EDTYPE, "q: element type I64", gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        args = plain(), args.window = -1;
        SAYS(GYRE_EINVAL, "window: -1 is below 0", gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        args = plain(), args.size = 0;
        SAYS(GYRE_EINVAL, "size: 0 is not set", gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
        args = plain(), args.dropout = &(gyre_attention_dropout){.size = sizeof(gyre_attention_dropout), .rate = 1};
        SAYS(GYRE_EINVAL, "dropout: 1 is not in [0, 1)", gyre_attention_scratch(&args, gradient, NULL, &bytes, e));
    }
    args = plain();
    TELLS(gyre_attention_scratch(&args, 0, NULL, &bytes, e));
    const size_t forward = bytes;
    TELLS(gyre_attention_scratch(&args, 1, NULL, &bytes, e));
    assert_true(bytes > forward);
}

static void caches(void **state) {
    (void)state;
    static const int64_t own[] = {0}, wrong[] = {3};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.heads = KEY_HEADS, config.head_dim = DIM, config.max_tokens = 64;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    gyre_attention_args args = plain();
    TELLS(gyre_cache_attention_scratch(cache, NULL, &args, NULL, &bytes, e));
    TELLS(gyre_cache_attention_scratch(cache, own, &args, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "cache: is NULL", gyre_cache_attention_scratch(NULL, own, &args, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_cache_attention_scratch(cache, own, &args, NULL, NULL, e));
    SAYS(GYRE_EINVAL, "gyre_attention_args: is NULL", gyre_cache_attention_scratch(cache, own, NULL, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "sequences[0]: 3 is not in 0 .. 0",
         gyre_cache_attention_scratch(cache, wrong, &args, NULL, &bytes, e));
    args.q.shape[3] = DIM + 1;
    SAYS(GYRE_ESHAPE, "but q has 9", gyre_cache_attention_scratch(cache, own, &args, NULL, &bytes, e));
    args = plain(), args.q.shape[1] = -1;
    SAYS(GYRE_ESHAPE, "q: ", gyre_cache_attention_scratch(cache, own, &args, NULL, &bytes, e));
    args = plain(), args.q.shape[1] = INT64_MAX;
    SAYS(GYRE_ESHAPE, "q: ", gyre_cache_attention_scratch(cache, own, &args, NULL, &bytes, e));
    args = plain(), args.softcap = -1;
    SAYS(GYRE_EINVAL, "softcap: -1", gyre_cache_attention_scratch(cache, own, &args, NULL, &bytes, e));
    gyre_cache_free(cache);
}

static void adaptive(void **state) {
    (void)state;
    static const int64_t own[] = {0}, wrong[] = {-1};
    float weights[2 * HEADS * HEADS] = {0};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.heads = KEY_HEADS, config.head_dim = DIM, config.max_tokens = 64;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    gyre_adaptive_args good = GYRE_INIT(gyre_adaptive_args), args;
    good.q = shaped(HEADS, DIM), good.k = good.v = shaped(KEY_HEADS, DIM);
    good.network.hidden_weights = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, HEADS, 2 * HEADS);
    good.network.output_weights = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, HEADS, HEADS);
    good.out = gyre_dense(NULL, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    for (int gradient = 0; gradient < 2; gradient++) {
        args = good;
        if (gradient) args.lse = gyre_dense(NULL, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1);
        TELLS(gyre_adaptive_scratch(&args, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "gyre_adaptive_args: is NULL", gyre_adaptive_scratch(NULL, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_adaptive_scratch(&args, gradient, NULL, NULL, e));
        args.k.shape[3]--;
        SAYS(GYRE_ESHAPE, "k: ", gyre_adaptive_scratch(&args, gradient, NULL, &bytes, e));
    }
    TELLS(gyre_cache_adaptive_scratch(cache, own, &good, NULL, &bytes, e));
    TELLS(gyre_cache_adaptive_scratch(cache, NULL, &good, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "cache: is NULL", gyre_cache_adaptive_scratch(NULL, own, &good, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_cache_adaptive_scratch(cache, own, &good, NULL, NULL, e));
    SAYS(GYRE_EINVAL, "sequences[0]: -1", gyre_cache_adaptive_scratch(cache, wrong, &good, NULL, &bytes, e));
    args = good, args.q.shape[3]--;
    SAYS(GYRE_ESHAPE, "k: ", gyre_cache_adaptive_scratch(cache, own, &args, NULL, &bytes, e));
    gyre_cache_free(cache);
}

static void contextual(void **state) {
    (void)state;
    static const int64_t own[] = {0}, wrong[] = {-1};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.heads = KEY_HEADS, config.head_dim = DIM, config.max_tokens = 64;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    gyre_contextual_args good = GYRE_INIT(gyre_contextual_args), args;
    good.q = shaped(HEADS, DIM), good.k = good.v = shaped(KEY_HEADS, DIM);
    good.embeddings = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 5, 1, DIM);
    good.out = gyre_dense(NULL, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    for (int gradient = 0; gradient < 2; gradient++) {
        args = good;
        if (gradient) args.lse = gyre_dense(NULL, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1);
        TELLS(gyre_contextual_scratch(&args, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "gyre_contextual_args: is NULL", gyre_contextual_scratch(NULL, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_contextual_scratch(&args, gradient, NULL, NULL, e));
        args.embeddings.shape[3]--;
        SAYS(GYRE_ESHAPE, "embeddings: ", gyre_contextual_scratch(&args, gradient, NULL, &bytes, e));
    }
    TELLS(gyre_cache_contextual_scratch(cache, own, &good, NULL, &bytes, e));
    TELLS(gyre_cache_contextual_scratch(cache, NULL, &good, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "cache: is NULL", gyre_cache_contextual_scratch(NULL, own, &good, NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_cache_contextual_scratch(cache, own, &good, NULL, NULL, e));
    SAYS(GYRE_EINVAL, "sequences[0]: -1", gyre_cache_contextual_scratch(cache, wrong, &good, NULL, &bytes, e));
    args = good, args.q.shape[3]--;
    SAYS(GYRE_ESHAPE, "k: ", gyre_cache_contextual_scratch(cache, own, &args, NULL, &bytes, e));
    gyre_cache_free(cache);
}

static gyre_status no_exchange(void *ctx, int channel, const gyre_exchange *exchange) {
    (void)ctx, (void)channel, (void)exchange;
    return GYRE_EIO;
}

static gyre_status no_wait(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_EIO;
}

static void rings(void **state) {
    (void)state;
    const int64_t length = TOKENS;
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config dealt = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch = NULL;
    gyre_shards *shards = NULL;
    config.documents = 1, config.lengths = &length;
    dealt.ranks = 1;
    assert_ok(gyre_batch_create(&batch, &config, NULL, NULL));
    assert_ok(gyre_shards_create(&shards, batch, &dealt, NULL, NULL));
    gyre_transport transport = GYRE_INIT(gyre_transport);
    transport.ranks = 1, transport.begin = no_exchange, transport.wait = no_wait;
    static float anywhere[TOKENS * HEADS * DIM];
    gyre_attention_args args = plain();
    args.q.data = args.k.data = args.v.data = anywhere;
    args.out.data = anywhere;
    args.lse = gyre_dense(NULL, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport, ring.shards = shards, ring.attention = &args;
    for (int gradient = 0; gradient < 2; gradient++) {
        TELLS(gyre_ring_scratch(&ring, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "gyre_ring_args: is NULL", gyre_ring_scratch(NULL, gradient, NULL, &bytes, e));
        SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_ring_scratch(&ring, gradient, NULL, NULL, e));
        args.softcap = -1;
        SAYS(GYRE_EINVAL, "softcap: -1", gyre_ring_scratch(&ring, gradient, NULL, &bytes, e));
        args.softcap = 0, args.q.shape[1]++;
        SAYS(GYRE_ESHAPE, "q: ", gyre_ring_scratch(&ring, gradient, NULL, &bytes, e));
        args.q.shape[1]--, ring.shards = NULL;
        SAYS(GYRE_EINVAL, "shards: is NULL", gyre_ring_scratch(&ring, gradient, NULL, &bytes, e));
        ring.shards = shards, ring.attention = NULL;
        SAYS(GYRE_EINVAL, "NULL", gyre_ring_scratch(&ring, gradient, NULL, &bytes, e));
        ring.attention = &args;
    }
    gyre_ring_merge_args merge = GYRE_INIT(gyre_ring_merge_args);
    merge.transport = &transport;
    static double rows[TOKENS * HEADS * (DIM + 2)];
    merge.state = gyre_cdense(rows, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM + 2);
    TELLS(gyre_ring_merge_scratch(&merge, &bytes, e));
    SAYS(GYRE_EINVAL, "gyre_ring_merge_args: is NULL", gyre_ring_merge_scratch(NULL, &bytes, e));
    SAYS(GYRE_EINVAL, "bytes: is NULL", gyre_ring_merge_scratch(&merge, NULL, e));
    merge.state.dtype = GYRE_DTYPE_F32;
    SAYS(GYRE_EDTYPE, "state: F32 is not F64", gyre_ring_merge_scratch(&merge, &bytes, e));
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(caches), cmocka_unit_test(adaptive),
                                       cmocka_unit_test(contextual), cmocka_unit_test(rings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
