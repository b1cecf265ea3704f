/* count_positions.c: attention whose positions each query counts by gates (CoPE), the gradient to its embeddings, and the
 * same attention token by token over a cache. */
#include "example.h"
#include <gyre/gyre_contextual.h>

enum { TOKENS = 6, HEADS = 4, KEY_HEADS = 2, DIM = 8, POSITIONS = 4 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KEY_HEADS][DIM], v[TOKENS][KEY_HEADS][DIM], embeddings[POSITIONS][DIM];
static float out[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][DIM], dq[TOKENS][HEADS][DIM];
static double lse[TOKENS][HEADS], dembeddings[POSITIONS][DIM];

static gyre_contextual_args arguments(void) {
    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    args.embeddings = gyre_cdense(embeddings, GYRE_DTYPE_F32, 1, POSITIONS, 1, DIM); /* all heads share them */
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    return args;
}

static double loss(void) {
    const gyre_contextual_args args = arguments();
    /* [gyre_contextual_scratch] */
    size_t bytes;
    check(gyre_contextual_scratch(&args, 0, NULL, &bytes, &err)); /* does not grow with n x n */
    const gyre_scratch scratch = take_scratch(bytes);
    /* [end] */
    /* [gyre_contextual_attention] */
    check(gyre_contextual_attention(&args, scratch, NULL, &err));
    /* [end] */
    free(scratch.memory);
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (double)(&out[0][0][0])[i] * (double)(&dout[0][0][0])[i];
    return sum;
}

static void train(void) {
    const gyre_contextual_args args = arguments(); /* with the out and lse of the call before */
    size_t bytes;
    check(gyre_contextual_scratch(&args, 1, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    /* [gyre_contextual_gradient] */
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients); /* dk and dv: not wanted here */
    to.dq = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dembeddings = gyre_dense(dembeddings, GYRE_DTYPE_F64, 1, POSITIONS, 1, DIM); /* zeros: it is added to */
    check(gyre_contextual_gradient(&args, &from, &to, scratch, NULL, &err));
    /* [end] */
    free(scratch.memory);
}

/* [gyre_cache_contextual_scratch gyre_cache_contextual_attention] */
static void decode(gyre_cache *cache, int t, float to[HEADS][DIM]) {
    const int64_t sequence = 0;
    const gyre_cview key = gyre_cdense(k[t], GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    const gyre_cview value = gyre_cdense(v[t], GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    const gyre_positions at = {.base = t};
    gyre_cache_append_args token = GYRE_INIT(gyre_cache_append_args);
    token.sequence = sequence, token.k = key, token.v = value, token.positions = &at;
    check(gyre_cache_append(cache, &token, NULL, &err)); /* first, so that the query sees itself */

    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args); /* k and v are the cache's */
    args.q = gyre_cdense(q[t], GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.embeddings = gyre_cdense(embeddings, GYRE_DTYPE_F32, 1, POSITIONS, 1, DIM);
    args.out = gyre_dense(to, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    size_t bytes;
    check(gyre_cache_contextual_scratch(cache, &sequence, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_cache_contextual_attention(cache, &sequence, &args, scratch, NULL, &err));
    free(scratch.memory);
}
/* [end] */

/* Token by token over a cache without an encoding, the bits are those of the whole call. */
static void decode_all(void) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = KEY_HEADS, config.head_dim = DIM, config.max_tokens = TOKENS;
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));
    for (int t = 0; t < TOKENS; t++) {
        float row[HEADS][DIM];
        decode(cache, t, row);
        expect(memcmp(row, out[t], sizeof row) == 0);
    }
    gyre_cache_free(cache);
}

int main(void) {
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
        (&q[0][0][0])[i] = (float)sin(i);
        (&dout[0][0][0])[i] = (float)cos(3 * i);
    }
    for (int i = 0; i < TOKENS * KEY_HEADS * DIM; i++) {
        (&k[0][0][0])[i] = (float)sin(2 * i + 1);
        (&v[0][0][0])[i] = (float)cos(5 * i);
    }
    for (int i = 0; i < POSITIONS * DIM; i++)
        (&embeddings[0][0])[i] = (float)sin(7 * i);
    const double before = loss();
    decode_all();
    train();
    embeddings[1][2] += 0.01F; /* a step along one embedding changes the loss as the gradient says */
    expect(near(loss() - before, 0.01 * dembeddings[1][2], 2e-5));
    return 0;
}
