/* decode_with_cache.c: reads a prompt, then one token at a time, with a cache: one layer with grouped-query heads. */
#include <gyre/gyre_cache.h>

#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8, KEY_HEADS = 2, DIM = 64, PROMPT = 24, TOKENS = 40 };

/* Outputs of a model's projections; random numbers here. */
static float q[TOKENS][HEADS][DIM], k[TOKENS][KEY_HEADS][DIM], v[TOKENS][KEY_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], whole[TOKENS][HEADS][DIM];

static void fill(float *x, int n, int by) {
    for (int i = 0; i < n; i++)
        x[i] = (float)((long)i * by % 2001) / 1000 - 1;
}

/* Attention of queries first .. first + n - 1.  Over a cache they are its last tokens; without one they begin at 0. */
static gyre_attention_args queries(int first, int n, float (*to)[HEADS][DIM]) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q[first], GYRE_DTYPE_F32, 1, n, HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(to[first], GYRE_DTYPE_F32, 1, n, HEADS, DIM);
    return args;
}

/* Append first: a query also sees its own key. */
static gyre_status read_tokens(gyre_cache *cache, int first, int n, gyre_scratch scratch) {
    const int64_t sequence = 0;
    const gyre_positions at = {.base = first};
    const gyre_cview key = gyre_cdense(k[first], GYRE_DTYPE_F32, 1, n, KEY_HEADS, DIM);
    const gyre_cview value = gyre_cdense(v[first], GYRE_DTYPE_F32, 1, n, KEY_HEADS, DIM);
    const gyre_attention_args args = queries(first, n, out);
    gyre_cache_append_args tokens = GYRE_INIT(gyre_cache_append_args);
    tokens.sequence = sequence, tokens.k = key, tokens.v = value, tokens.positions = &at;
    gyre_status status = gyre_cache_append(cache, &tokens, NULL, NULL);
    if (!status) status = gyre_cache_attention(cache, &sequence, &args, scratch, NULL, NULL);
    return status;
}

static gyre_status take(gyre_scratch *scratch) {
    scratch->memory = aligned_alloc(64, (scratch->bytes + 63) / 64 * 64);
    return scratch->memory ? GYRE_OK : GYRE_ENOMEM;
}

/* The same computation without a cache, all tokens at once. */
static gyre_status read_whole(const gyre_encoding *rope) {
    gyre_attention_args args = queries(0, TOKENS, whole);
    args.encoding = rope;
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    gyre_scratch scratch = {NULL, 0};
    gyre_status status = gyre_attention_scratch(&args, 0, NULL, &scratch.bytes, NULL);
    if (!status) status = take(&scratch);
    if (!status) status = gyre_attention(&args, scratch, NULL, NULL);
    free(scratch.memory);
    return status;
}

static gyre_status compare(const gyre_encoding *rope, gyre_cache *cache) {
    /* Allocated once: enough for the prompt and for fewer queries, however long the sequence becomes. */
    const gyre_attention_args prompt = queries(0, PROMPT, out);
    gyre_scratch scratch = {NULL, 0};
    gyre_status status = gyre_cache_attention_scratch(cache, NULL, &prompt, NULL, &scratch.bytes, NULL);
    if (!status) status = take(&scratch);
    if (!status) status = read_tokens(cache, 0, PROMPT, scratch);
    for (int token = PROMPT; token < TOKENS && !status; token++)
        status = read_tokens(cache, token, 1, scratch);
    free(scratch.memory);
    return status ? status : read_whole(rope);
}

int main(void) {
    gyre_error err = {0, ""};
    gyre_encoding *rope = NULL;
    gyre_cache *cache = NULL;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    gyre_cache_config keep = GYRE_INIT(gyre_cache_config); /* a model has one for each layer */
    keep.key_dtype = keep.value_dtype = GYRE_DTYPE_F16;
    keep.heads = KEY_HEADS;
    keep.head_dim = DIM;
    keep.max_tokens = TOKENS;
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 7919);
    fill(&k[0][0][0], TOKENS * KEY_HEADS * DIM, 6367);
    fill(&v[0][0][0], TOKENS * KEY_HEADS * DIM, 4421);
    gyre_status status = gyre_encoding_create(&rope, &config, NULL, &err);
    keep.encoding = rope; /* must outlive the cache */
    if (!status) status = gyre_cache_create(&cache, &keep, NULL, &err);
    if (!status) status = compare(rope, cache);
    double most = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
        const double by = (double)(&out[0][0][0])[i] - (double)(&whole[0][0][0])[i];
        most = by > most ? by : -by > most ? -by : most;
    }
    printf("%s: %d tokens over a cache of f16 and all at once without one are at most %.1e apart\n",
           gyre_status_text(status), (int)TOKENS, most);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
    return status || most > 1e-3;
}
