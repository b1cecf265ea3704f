/* attend_latents.c: multi-head latent attention (DeepSeek-V2 and V3) in its absorbed form, over a cache that keeps each
 * latent once, equals plain attention over the keys and values that every head expands from it. */
#include "example.h"
#include <gyre/gyre_cache.h>

/* In DeepSeek-V3: 128 heads, 512, 64, 128 and 128. */
enum { TOKENS = 24, PROMPT = 20, HEADS = 8, RANK = 64, ROPE = 16, NOPE = 32, VALUE = 32, KEY = RANK + ROPE };

/* What a model has: weights of each head, a latent and a slice for each token, raw queries of each head. */
static float up_k[HEADS][NOPE][RANK], up_v[HEADS][VALUE][RANK];
static float latents[TOKENS][KEY], queries[TOKENS][HEADS][NOPE + ROPE];

static float absorbed[TOKENS][HEADS][KEY], mixed[TOKENS][HEADS][RANK], out[TOKENS][HEADS][VALUE];

/* The slice rotates, at the end of a key: in the plain form after NOPE channels, in the absorbed form after RANK. */
static gyre_config deepseek_rope(int64_t first_channel) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = first_channel + ROPE;
    config.trained_length = 4096;
    config.rope.first_channel = first_channel;
    config.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 40;
    config.rope.mscale = config.rope.mscale_all_dim = 1; /* cos and sin are not scaled: scores are, twice */
    return config;
}

/* 1 / sqrt(channels of a plain query), times the square of YaRN's factor: what `gyre explain` calls softmax multiplier. */
static double deepseek_scale(void) {
    const double mscale = 0.1 * log(40) + 1;
    return mscale * mscale / sqrt(NOPE + ROPE);
}

/* q . [up_k c, k_r] = [up_k^T q, q_r] . [c, k_r]: a product of each head's weights and queries. */
static void absorb(void) {
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++) {
            for (int r = 0; r < RANK; r++)
                for (int i = 0; i < NOPE; i++)
                    absorbed[t][h][r] += up_k[h][i][r] * queries[t][h][i];
            memcpy(&absorbed[t][h][RANK], &queries[t][h][NOPE], ROPE * sizeof(float));
        }
}

/* The sum of up_v c over tokens is up_v times the sum of c. */
static void expand(int t) {
    for (int h = 0; h < HEADS; h++)
        for (int v = 0; v < VALUE; v++) {
            out[t][h][v] = 0;
            for (int r = 0; r < RANK; r++)
                out[t][h][v] += up_v[h][v][r] * mixed[t][h][r];
        }
}

static gyre_cache *create(const gyre_encoding *rope) {
    /* [gyre_cache_token_bytes] */
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = rope; /* rotates the channels after the latent */
    config.key_dtype = GYRE_DTYPE_BF16;
    config.heads = 1; /* of keys, for all query heads */
    config.head_dim = KEY;
    config.values_in_keys = 1; /* the latent is the value: value_dim is RANK */
    config.max_tokens = TOKENS;
    const size_t latent_bytes = gyre_cache_token_bytes(&config);

    gyre_cache_config plain = config; /* keys and values of every head */
    plain.encoding = NULL;
    plain.heads = HEADS, plain.head_dim = NOPE + ROPE, plain.value_dim = VALUE;
    plain.values_in_keys = 0, plain.value_dtype = GYRE_DTYPE_BF16;
    const size_t plain_bytes = gyre_cache_token_bytes(&plain);
    expect(latent_bytes == 2 * KEY + 12); /* and a position and a count */
    expect(plain_bytes == 2 * HEADS * (NOPE + ROPE + VALUE) + 12);
    /* [end] */
    printf("a token takes %zu bytes instead of %zu\n", latent_bytes, plain_bytes);
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));
    return cache;
}

static gyre_attention_args attention_of(int first, int n) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(absorbed[first], GYRE_DTYPE_F32, 1, n, HEADS, KEY);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.scale = deepseek_scale();
    args.out = gyre_dense(mixed[first], GYRE_DTYPE_F32, 1, n, HEADS, RANK);
    return args;
}

static void read_tokens(gyre_cache *cache, int first, int n) {
    const int64_t sequence = 0;
    const gyre_cview keys = gyre_cdense(latents[first], GYRE_DTYPE_F32, 1, n, 1, KEY);
    const gyre_positions at = {.base = first};
    gyre_cache_append_args tokens = GYRE_INIT(gyre_cache_append_args); /* no values */
    tokens.sequence = sequence, tokens.k = keys, tokens.positions = &at;
    check(gyre_cache_append(cache, &tokens, NULL, &err));
    const gyre_attention_args args = attention_of(first, n);
    size_t bytes;
    check(gyre_cache_attention_scratch(cache, &sequence, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_cache_attention(cache, &sequence, &args, scratch, NULL, &err));
    free(scratch.memory);
    for (int t = first; t < first + n; t++)
        expand(t);
}

/* Without a cache v is a view of the memory of k. */
static void read_views(const gyre_encoding *rope) {
    gyre_attention_args args = attention_of(0, TOKENS);
    args.encoding = rope;
    args.k = gyre_cdense(latents, GYRE_DTYPE_F32, 1, TOKENS, 1, KEY);
    args.v = args.k;
    args.v.shape[3] = RANK;
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(&args, scratch, NULL, &err));
    free(scratch.memory);
    for (int t = 0; t < TOKENS; t++)
        expand(t);
}

/* The plain form: keys and values of every head. */
static void read_plain(const gyre_encoding *rope, float (*to)[HEADS][VALUE]) {
    static float k[TOKENS][HEADS][NOPE + ROPE], v[TOKENS][HEADS][VALUE];
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++) {
            for (int r = 0; r < RANK; r++) {
                for (int i = 0; i < NOPE; i++)
                    k[t][h][i] += up_k[h][i][r] * latents[t][r];
                for (int i = 0; i < VALUE; i++)
                    v[t][h][i] += up_v[h][i][r] * latents[t][r];
            }
            memcpy(&k[t][h][NOPE], &latents[t][RANK], ROPE * sizeof(float));
        }
    gyre_attention_args args = attention_of(0, TOKENS);
    args.encoding = rope;
    args.q = gyre_cdense(queries, GYRE_DTYPE_F32, 1, TOKENS, HEADS, NOPE + ROPE);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, HEADS, NOPE + ROPE);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE);
    args.out = gyre_dense(to, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE);
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(&args, scratch, NULL, &err));
    free(scratch.memory);
}

int main(void) {
    static float plain[TOKENS][HEADS][VALUE];
    gyre_encoding *plain_rope = NULL, *rope = NULL;
    fill(&up_k[0][0][0], HEADS * NOPE * RANK, 1);
    fill(&up_v[0][0][0], HEADS * VALUE * RANK, 2);
    fill(&latents[0][0], TOKENS * KEY, 3);
    fill(&queries[0][0][0], TOKENS * HEADS * (NOPE + ROPE), 4);
    for (int i = 0; i < HEADS * NOPE * RANK; i++)
        (&up_k[0][0][0])[i] /= 8;
    const gyre_config short_config = deepseek_rope(NOPE), long_config = deepseek_rope(RANK);
    check(gyre_encoding_create(&plain_rope, &short_config, NULL, &err));
    check(gyre_encoding_create(&rope, &long_config, NULL, &err));
    absorb();
    read_plain(plain_rope, plain);
    const size_t n = (size_t)TOKENS * HEADS * VALUE;

    read_views(rope);
    const double views = most_apart(&out[0][0][0], &plain[0][0][0], n);
    gyre_cache *cache = create(rope);
    read_tokens(cache, 0, PROMPT);
    for (int t = PROMPT; t < TOKENS; t++)
        read_tokens(cache, t, 1);
    const double cached = most_apart(&out[0][0][0], &plain[0][0][0], n);
    printf("absorbed and plain are %.1e apart over views, %.1e over a cache of bf16\n", views, cached);
    expect(views < 1e-4 && cached < 0.05 && cached > views);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
    gyre_encoding_free(plain_rope);
    return 0;
}
