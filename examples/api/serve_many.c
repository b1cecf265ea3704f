/* serve_many.c: prompts and single tokens of many sequences of a cache in one call. */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { SEQUENCES = 3, TOKENS = 12, HEADS = 4, KV_HEADS = 2, DIM = 16 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], alone[TOKENS][HEADS][DIM];

int main(void) {
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = rope;
    config.heads = KV_HEADS, config.head_dim = DIM;
    config.sequences = SEQUENCES, config.max_tokens = 64, config.page_tokens = 4;
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));

    /* [gyre_cache_append_batch gyre_cache_attention] */
    const int64_t sequences[SEQUENCES] = {2, 0, 1}, starts[SEQUENCES + 1] = {0, 7, 8, TOKENS}; /* 7, 1 and 4 tokens */
    gyre_cache_append_batch_args tokens = GYRE_INIT(gyre_cache_append_batch_args);
    tokens.sequences = sequences, tokens.starts = starts, tokens.count = SEQUENCES;
    tokens.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    tokens.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    check(gyre_cache_append_batch(cache, &tokens, NULL, &err)); /* each sequence goes on at its next position */

    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    batch.q_starts = starts, batch.sequences = SEQUENCES;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.batch = &batch;
    size_t bytes;
    check(gyre_cache_attention_scratch(cache, sequences, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_cache_attention(cache, sequences, &args, scratch, NULL, &err));
    /* [end] */

    args.batch = NULL; /* the last four queries, as a call for their sequence */
    args.q = gyre_cdense(q[8], GYRE_DTYPE_F32, 1, 4, HEADS, DIM);
    args.out = gyre_dense(alone, GYRE_DTYPE_F32, 1, 4, HEADS, DIM);
    check(gyre_cache_attention(cache, &sequences[2], &args, scratch, NULL, &err));
    expect(most_apart(&out[8][0][0], &alone[0][0][0], 4 * HEADS * DIM) == 0);
    free(scratch.memory);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
    return 0;
}
