/* slice_calls.c: each operation on all threads of an engine, as slice index of count.  Here one thread plays all of them. */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { TOKENS = 12, HEADS = 4, KV_HEADS = 2, DIM = 16, THREADS = 3 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], want[TOKENS][HEADS][DIM];

int main(void) {
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));

    /* [gyre_rotate_slice] */
    const gyre_positions at = {.base = 7};
    const gyre_view x = gyre_dense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    for (int thread = 0; thread < THREADS; thread++) /* at once in an engine */
        check(gyre_rotate_slice(rope, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = gyre_const(x), .out = x),
                                (gyre_slice){thread, THREADS}, &err));
    /* [end] */

    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_const(x);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);

    /* [gyre_attention_slice] */
    size_t bytes; /* of each thread */
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    for (int thread = 0; thread < THREADS; thread++)
        check(gyre_attention_slice(&args, (gyre_slice){thread, THREADS}, scratch, &err));
    /* [end] */
    args.out.data = want;
    check(gyre_attention(&args, scratch, NULL, &err));
    expect(most_apart(&out[0][0][0], &want[0][0][0], TOKENS * HEADS * DIM) == 0);
    free(scratch.memory);

    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = KV_HEADS, config.head_dim = DIM, config.max_tokens = 64;
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));

    /* [gyre_cache_append_reserve gyre_cache_append_slice] */
    const int64_t sequence = 0, starts[] = {0, TOKENS};
    gyre_cache_append_batch_args tokens = GYRE_INIT(gyre_cache_append_batch_args);
    tokens.sequences = &sequence, tokens.starts = starts, tokens.count = 1;
    tokens.k = args.k, tokens.v = args.v;
    check(gyre_cache_append_reserve(cache, &tokens, &err)); /* one thread; the others wait */
    for (int thread = 0; thread < THREADS; thread++)
        check(gyre_cache_append_slice(cache, &tokens, (gyre_slice){thread, THREADS}, &err));
    /* [end] */
    expect(gyre_cache_tokens(cache, 0) == TOKENS);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
    return 0;
}
