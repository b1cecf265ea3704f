/* forget_fields.c: a field that is needed and forgotten is refused; docs/forgotten.md says what the others do. */
#include "example.h"
#include <gyre/gyre_cache.h>
#include <gyre/gyre_positions.h>

enum { TOKENS = 4, HEADS = 2, DIM = 8 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][HEADS][DIM], v[TOKENS][HEADS][DIM], out[TOKENS][HEADS][DIM];

static int refused(gyre_status status) {
    return status == GYRE_EINVAL || status == GYRE_ESHAPE || status == GYRE_EDTYPE;
}

static gyre_cview dense(const void *data) {
    return gyre_cdense(data, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
}

/* Begins with what is needed, then forgets it. */
#define FORGETTING(type, fill, call, forget)                                                                                \
    do {                                                                                                                    \
        type args = fill();                                                                                                 \
        check(call(&args));                                                                                                 \
        forget;                                                                                                             \
        expect(refused(call(&args)));                                                                                       \
    } while (0)

static gyre_attention_dense_args simple(void) {
    gyre_attention_dense_args args = GYRE_INIT(gyre_attention_dense_args);
    args.q = q, args.k = k, args.v = v, args.out = out;
    args.batch = 1, args.queries = args.keys = TOKENS, args.heads = HEADS, args.head_dim = DIM;
    return args;
}

static gyre_status attend(const gyre_attention_dense_args *args) {
    return gyre_attention_dense(args, &err);
}

static gyre_attention_args complete(void) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = dense(q), args.k = dense(k), args.v = dense(v);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    return args;
}

static gyre_status attend_views(const gyre_attention_args *args) {
    size_t bytes;
    const gyre_status status = gyre_attention_scratch(args, 0, NULL, &bytes, &err);
    if (status) return status;
    const gyre_scratch scratch = take_scratch(bytes);
    const gyre_status done = gyre_attention(args, scratch, NULL, &err);
    free(scratch.memory);
    return done;
}

static void forget_in_attention(void) {
    FORGETTING(gyre_attention_dense_args, simple, attend, args.size = 0);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.q = NULL);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.k = NULL);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.v = NULL);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.out = NULL);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.heads = 0);
    FORGETTING(gyre_attention_dense_args, simple, attend, args.head_dim = 0);

    const gyre_view none = {NULL, GYRE_DTYPE_F32, {0}, {0}};
    const int64_t starts[] = {0, 1, TOKENS}, positions[TOKENS] = {3, 4, 5, 6};
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    batch.q_starts = batch.k_starts = starts; /* and no number of sequences */
    FORGETTING(gyre_attention_args, complete, attend_views, args.size = 0);
    FORGETTING(gyre_attention_args, complete, attend_views, args.q = gyre_const(none));
    FORGETTING(gyre_attention_args, complete, attend_views, args.k = gyre_const(none));
    FORGETTING(gyre_attention_args, complete, attend_views, args.v = gyre_const(none));
    FORGETTING(gyre_attention_args, complete, attend_views, args.out = none);
    FORGETTING(gyre_attention_args, complete, attend_views, args.batch = &batch);
    FORGETTING(gyre_attention_args, complete, attend_views, args.q_pos.data = positions); /* without a type and a stride */
    FORGETTING(gyre_attention_args, complete, attend_views, args.q_pos.data = positions; args.q_pos.dtype = GYRE_DTYPE_I64);
}

static const gyre_encoding *rope;
static const gyre_positions from_zero;

static gyre_rotate_args rotation(void) {
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &from_zero;
    args.in = dense(q), args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    return args;
}

static gyre_status rotate(const gyre_rotate_args *args) {
    return gyre_rotate(rope, args, NULL, &err);
}

static void forget_in_rotation(void) {
    FORGETTING(gyre_rotate_args, rotation, rotate, args.size = 0);
    FORGETTING(gyre_rotate_args, rotation, rotate, args.positions = NULL);
    FORGETTING(gyre_rotate_args, rotation, rotate, args.in.data = NULL);
    FORGETTING(gyre_rotate_args, rotation, rotate, args.out.data = NULL);
}

static gyre_cache_config whole_cache(void) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = HEADS, config.head_dim = DIM, config.max_tokens = 64;
    return config;
}

static gyre_cache *cache;

static gyre_status create(const gyre_cache_config *config) {
    gyre_cache_free(cache);
    cache = NULL;
    return gyre_cache_create(&cache, config, NULL, &err);
}

static gyre_cache_append_args tokens(void) {
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.k = dense(k), args.v = dense(v), args.positions = &from_zero;
    return args;
}

static gyre_status append(const gyre_cache_append_args *args) {
    return gyre_cache_append(cache, args, NULL, &err);
}

static void forget_in_cache(void) {
    FORGETTING(gyre_cache_config, whole_cache, create, args.size = 0);
    FORGETTING(gyre_cache_config, whole_cache, create, args.heads = 0);
    FORGETTING(gyre_cache_config, whole_cache, create, args.head_dim = 0);
    FORGETTING(gyre_cache_config, whole_cache, create, args.max_tokens = 0);

    const gyre_cache_config config = whole_cache();
    check(create(&config));
    FORGETTING(gyre_cache_append_args, tokens, append, args.size = 0);
    FORGETTING(gyre_cache_append_args, tokens, append, args.k.data = NULL);
    FORGETTING(gyre_cache_append_args, tokens, append, args.v.data = NULL);
    FORGETTING(gyre_cache_append_args, tokens, append, args.positions = NULL);
    gyre_cache_free(cache);
}

/* What each kind needs: with it, and without. */
static gyre_config everything(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.head_dim = DIM, config.heads = HEADS, config.trained_length = 64;
    config.input.dim = DIM, config.input.positions = 64;
    config.score.buckets = 32, config.score.max_distance = 64, config.score.max_positions = 64;
    return config;
}

static gyre_status encode(const gyre_config *config) {
    gyre_encoding *encoding = NULL;
    const gyre_status status = gyre_encoding_create(&encoding, config, NULL, &err);
    gyre_encoding_free(encoding);
    return status;
}

#define FORGETTING_OF(of, forget)                                                                                           \
    do {                                                                                                                    \
        gyre_config config = everything();                                                                                  \
        config.kind = of;                                                                                                   \
        check(encode(&config));                                                                                             \
        forget;                                                                                                             \
        expect(refused(encode(&config)));                                                                                   \
    } while (0)

static void forget_in_config(void) {
    FORGETTING_OF(GYRE_KIND_NOPE, config.kind = 0); /* no scheme is chosen by forgetting it */
    FORGETTING_OF(GYRE_KIND_ROPE, config.size = 0);
    FORGETTING_OF(GYRE_KIND_ROPE, config.head_dim = 0);
    FORGETTING_OF(GYRE_KIND_ROPE, config.rope.axes = 2);
    FORGETTING_OF(GYRE_KIND_ROPE, config.rope.scaling = GYRE_SCALING_YARN; config.trained_length = 0);
    FORGETTING_OF(GYRE_KIND_ROPE, config.rope.scaling = GYRE_SCALING_LONGROPE);
    FORGETTING_OF(GYRE_KIND_ROPE, config.rope.far = GYRE_FAR_CLAMPED);
    FORGETTING_OF(GYRE_KIND_ROPE, config.rope.far = GYRE_FAR_CHUNKED);
    FORGETTING_OF(GYRE_KIND_LEARNED, config.input.dim = 0);
    FORGETTING_OF(GYRE_KIND_LEARNED, config.input.positions = 0);
    FORGETTING_OF(GYRE_KIND_SINUSOIDAL, config.input.dim = 0);
    FORGETTING_OF(GYRE_KIND_ALIBI, config.heads = 0);
    FORGETTING_OF(GYRE_KIND_T5, config.score.buckets = 0);
    FORGETTING_OF(GYRE_KIND_BERT, config.score.max_positions = 0);
    FORGETTING_OF(GYRE_KIND_SHAW, config.score.max_distance = 0);
}

/* A scheme that trains a table, and a call without it. */
static void forget_tables(void) {
    float scores[TOKENS][HEADS][TOKENS];
    gyre_encoding *t5 = NULL;
    gyre_config config = everything();
    config.kind = GYRE_KIND_T5;
    check(gyre_encoding_create(&t5, &config, NULL, &err));
    gyre_add_bias_args bias = GYRE_INIT(gyre_add_bias_args);
    bias.queries = bias.keys = &from_zero;
    bias.scores = gyre_dense(scores, GYRE_DTYPE_F32, 1, TOKENS, HEADS, TOKENS);
    expect(refused(gyre_add_bias(t5, &bias, NULL, &err)));
    FORGETTING(gyre_attention_args, complete, attend_views, args.encoding = t5);
    gyre_encoding_free(t5);
}

static void forget_in_batch(void) {
    gyre_batch *batch = NULL;
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    config.documents = 1; /* and no lengths */
    expect(refused(gyre_batch_create(&batch, &config, NULL, &err)));
    const int64_t length = TOKENS;
    config.lengths = &length;
    check(gyre_batch_create(&batch, &config, NULL, &err));
    gyre_shards *shards = NULL;
    const gyre_shard_config no_ranks = GYRE_INIT(gyre_shard_config);
    expect(refused(gyre_shards_create(&shards, batch, &no_ranks, NULL, &err)));
    gyre_batch_free(batch);
}

int main(void) {
    gyre_encoding *encoding = NULL;
    check(gyre_rope_create(&encoding, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    rope = encoding;
    forget_in_attention();
    forget_in_rotation();
    forget_in_cache();
    forget_in_config();
    forget_tables();
    forget_in_batch();
    gyre_encoding_free(encoding);
    return 0;
}
