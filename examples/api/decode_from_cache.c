/* decode_from_cache.c: a prompt, then token by token over a cache, equals attention over the whole sequence. */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { PROMPT = 20, TOKENS = 32, HEADS = 4, KV_HEADS = 2, DIM = 32 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], whole[TOKENS][HEADS][DIM];

/* [gyre_cache_create gyre_cache_get_config] */
static gyre_cache *create(const gyre_encoding *rope) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config); /* one layer; a model has one cache for each */
    config.encoding = rope;                                  /* must outlive the cache */
    config.key_dtype = config.value_dtype = GYRE_DTYPE_F16;
    config.heads = KV_HEADS, config.head_dim = DIM;
    config.max_tokens = TOKENS;
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));
    expect(gyre_cache_get_config(cache)->value_dim == DIM);                /* the defaults, filled in */
    expect(gyre_cache_get_config(cache)->keys == GYRE_CACHE_KEYS_ROTATED); /* RoPE allows it */
    return cache;
}
/* [end] */

static gyre_attention_args queries(int first, int n) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q[first], GYRE_DTYPE_F32, 1, n, HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out[first], GYRE_DTYPE_F32, 1, n, HEADS, DIM);
    return args;
}

/* [gyre_cache_append gyre_cache_attention] */
static void read_tokens(gyre_cache *cache, int first, int n, gyre_scratch scratch) {
    const int64_t sequence = 0;
    const gyre_cview keys = gyre_cdense(k[first], GYRE_DTYPE_F32, 1, n, KV_HEADS, DIM);
    const gyre_cview values = gyre_cdense(v[first], GYRE_DTYPE_F32, 1, n, KV_HEADS, DIM);
    const gyre_positions at = {.base = first};
    gyre_cache_append_args tokens = GYRE_INIT(gyre_cache_append_args);
    tokens.sequence = sequence, tokens.k = keys, tokens.v = values, tokens.positions = &at;
    check(gyre_cache_append(cache, &tokens, NULL, &err)); /* first, so that a query sees itself */

    const gyre_attention_args args = queries(first, n); /* q, causal and out; k, v and positions are the cache's */
    check(gyre_cache_attention(cache, &sequence, &args, scratch, NULL, &err));
}
/* [end] */

static void look(const gyre_cache *cache) {
    /* [gyre_cache_tokens gyre_cache_positions] */
    int64_t last;
    const int64_t tokens = gyre_cache_tokens(cache, 0);
    check(gyre_cache_positions(cache, (gyre_cache_range){0, tokens - 1, 1}, 0, &last, &err)); /* one position, on axis 0 */
    expect(tokens == TOKENS && last == TOKENS - 1);
    /* [end] */

    /* [gyre_cache_get_usage] */
    gyre_cache_usage usage = GYRE_INIT(gyre_cache_usage);
    check(gyre_cache_get_usage(cache, &usage));
    printf("%d tokens, %zu of %zu bytes in use\n", (int)usage.tokens, usage.used, usage.bytes);
    expect(usage.tokens == TOKENS && usage.used >= (size_t)TOKENS * 2 * KV_HEADS * DIM * gyre_dtype_size(GYRE_DTYPE_F16));
    /* [end] */
}

int main(void) {
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    gyre_cache *cache = create(rope);

    /* [gyre_cache_attention_scratch] */
    /* Taken once, before there are tokens: the larger of what the prompt and what one token needs. */
    const gyre_attention_args prompt = queries(0, PROMPT), token = queries(0, 1);
    size_t many, one;
    check(gyre_cache_attention_scratch(cache, NULL, &prompt, NULL, &many, &err));
    check(gyre_cache_attention_scratch(cache, NULL, &token, NULL, &one, &err));
    const gyre_scratch scratch = take_scratch(many > one ? many : one);
    /* [end] */
    read_tokens(cache, 0, PROMPT, scratch);
    for (int t = PROMPT; t < TOKENS; t++)
        read_tokens(cache, t, 1, scratch);
    free(scratch.memory);
    look(cache);

    gyre_attention_dense_args all = GYRE_INIT(gyre_attention_dense_args);
    all.encoding = rope;
    all.q = q, all.k = k, all.v = v, all.out = whole;
    all.batch = 1;
    all.queries = all.keys = TOKENS;
    all.heads = HEADS, all.kv_heads = KV_HEADS, all.head_dim = DIM;
    all.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_attention_dense(&all, &err));
    expect(most_apart(&out[0][0][0], &whole[0][0][0], TOKENS * HEADS * DIM) < 1e-3); /* keys and values are f16 */

    /* [gyre_cache_free] */
    gyre_cache_free(cache);
    gyre_encoding_free(rope); /* after the caches that borrow it */
    /* [end] */
    return 0;
}
