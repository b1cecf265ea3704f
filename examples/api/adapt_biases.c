/* adapt_biases.c: attention whose KERPLE biases a network adapts to query and key (DAPE), the gradients to the network and
 * to the table, and the same attention token by token over a cache. */
#include "example.h"
#include <gyre/gyre_adaptive.h>

enum { TOKENS = 6, HEADS = 4, KEY_HEADS = 2, DIM = 8, WIDTH = 5 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KEY_HEADS][DIM], v[TOKENS][KEY_HEADS][DIM], w1[WIDTH][2 * HEADS], b1[WIDTH],
    w2[HEADS][WIDTH], b2[HEADS], table[2][HEADS], out[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][DIM];
static double lse[TOKENS][HEADS], dw1[WIDTH][2 * HEADS], dtable[2][HEADS];
static gyre_encoding *kerple;
static gyre_tables tables;

static gyre_adaptive_args arguments(void) {
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    args.network.hidden_weights = gyre_cdense(w1, GYRE_DTYPE_F32, 1, 1, WIDTH, 2 * HEADS);
    args.network.hidden_bias = gyre_cdense(b1, GYRE_DTYPE_F32, 1, 1, 1, WIDTH);
    args.network.output_weights = gyre_cdense(w2, GYRE_DTYPE_F32, 1, 1, HEADS, WIDTH);
    args.network.output_bias = gyre_cdense(b2, GYRE_DTYPE_F32, 1, 1, 1, HEADS);
    args.encoding = kerple;
    args.tables = &tables;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    return args;
}

static double loss(void) {
    const gyre_adaptive_args args = arguments();
    /* [gyre_adaptive_scratch] */
    size_t bytes;
    check(gyre_adaptive_scratch(&args, 0, NULL, &bytes, &err)); /* does not grow with n x n */
    const gyre_scratch scratch = take_scratch(bytes);
    /* [end] */
    /* [gyre_adaptive_attention] */
    check(gyre_adaptive_attention(&args, scratch, NULL, &err));
    /* [end] */
    free(scratch.memory);
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (double)(&out[0][0][0])[i] * (double)(&dout[0][0][0])[i];
    return sum;
}

static void train(void) {
    const gyre_adaptive_args args = arguments(); /* with the out and lse of the call before */
    size_t bytes;
    check(gyre_adaptive_scratch(&args, 1, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    /* [gyre_adaptive_gradient] */
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    gyre_adaptive_gradients to = GYRE_INIT(gyre_adaptive_gradients);              /* dq, dk and dv: not wanted here */
    to.dhidden_weights = gyre_dense(dw1, GYRE_DTYPE_F64, 1, 1, WIDTH, 2 * HEADS); /* zeros: they are added to */
    to.dtable = gyre_dense(dtable, GYRE_DTYPE_F64, 1, 1, 2, HEADS);
    check(gyre_adaptive_gradient(&args, &from, &to, scratch, NULL, &err));
    /* [end] */
    free(scratch.memory);
}

/* [gyre_cache_adaptive_scratch gyre_cache_adaptive_attention] */
static void decode(gyre_cache *cache, int t, float to[HEADS][DIM]) {
    const int64_t sequence = 0;
    const gyre_cview key = gyre_cdense(k[t], GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    const gyre_cview value = gyre_cdense(v[t], GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    const gyre_positions at = {.base = t};
    gyre_cache_append_args token = GYRE_INIT(gyre_cache_append_args);
    token.sequence = sequence, token.k = key, token.v = value, token.positions = &at;
    check(gyre_cache_append(cache, &token, NULL, &err)); /* first, so that the query sees itself */

    gyre_adaptive_args args = arguments(); /* network and table; k, v, their positions and the encoding are the cache's */
    args.q = gyre_cdense(q[t], GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.out = gyre_dense(to, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.lse.data = NULL;
    size_t bytes;
    check(gyre_cache_adaptive_scratch(cache, &sequence, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_cache_adaptive_attention(cache, &sequence, &args, scratch, NULL, &err));
    free(scratch.memory);
}
/* [end] */

/* Token by token over a cache, the bits are those of the whole call. */
static void decode_all(void) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = kerple;
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
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_KERPLE;
    config.heads = HEADS;
    check(gyre_encoding_create(&kerple, &config, NULL, &err));
    tables.bias = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, 2, HEADS);
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KEY_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KEY_HEADS * DIM, 5);
    fill(&dout[0][0][0], TOKENS * HEADS * DIM, 3);
    fill(&w1[0][0], WIDTH * 2 * HEADS, 7);
    fill(&w2[0][0], HEADS * WIDTH, 11);
    for (int h = 0; h < HEADS; h++)
        table[0][h] = table[1][h] = 0.5F;
    const double before = loss();
    decode_all();
    train();
    w1[1][2] += 0.01F; /* a step along one weight changes the loss as the gradient says */
    const double after = loss();
    expect(near(after - before, 0.01 * dw1[1][2], 5e-5));
    w1[1][2] -= 0.01F;
    table[1][3] += 0.01F;
    expect(near(loss() - before, 0.01 * dtable[1][3], 5e-5));
    gyre_encoding_free(kerple);
    return 0;
}
