/* forget_with_gates.c: attention whose gates forget: running sums, the gradient to the gates, and decoding over a cache. */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { TOKENS = 24, HEADS = 4, KV_HEADS = 2, DIM = 16 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM], out[TOKENS][HEADS][DIM];
static float dout[TOKENS][HEADS][DIM], dq[TOKENS][HEADS][DIM], dk[TOKENS][KV_HEADS][DIM], dv[TOKENS][KV_HEADS][DIM];
static float logits[TOKENS][HEADS];
static double log_gates[TOKENS][HEADS], sums[TOKENS][HEADS], lse[TOKENS][HEADS];

/* [gyre_gate_sums] */
/* A model projects each token to one logit for each head, f = sigmoid(logit). */
static void sum_gates(void) {
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++)
            log_gates[t][h] = -log1p(exp(-(double)logits[t][h]));
    const gyre_cview in = gyre_cdense(log_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    const gyre_view c = gyre_dense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    check(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = c), NULL, &err));
}
/* [end] */

static gyre_attention_args gated(const gyre_attention_gates *gates) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.gates = gates;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    return args;
}

/* The loss whose gradient to out is dout. */
static double loss(const gyre_attention_args *args, gyre_scratch scratch) {
    sum_gates();
    check(gyre_attention(args, scratch, NULL, &err));
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (double)(&out[0][0][0])[i] * (double)(&dout[0][0][0])[i];
    return sum;
}

static void train(void) {
    /* [gyre_gate_sums] */
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gates.q = gates.k = gyre_cdense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1); /* gyre_attention_args.gates */
    /* [end] */
    const gyre_attention_args args = gated(&gates);
    size_t forward, backward;
    check(gyre_attention_scratch(&args, 0, NULL, &forward, &err));
    check(gyre_attention_scratch(&args, 1, NULL, &backward, &err));
    const gyre_scratch scratch = take_scratch(forward > backward ? forward : backward);
    loss(&args, scratch);

    /* [gyre_gate_sums_gradient] */
    static double dq_gates[TOKENS][HEADS], dk_gates[TOKENS][HEADS], dlog[TOKENS][HEADS];
    gyre_attention_gradients to = GYRE_INIT(gyre_attention_gradients);
    to.dout = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dq = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dk = gyre_dense(dk, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    to.dv = gyre_dense(dv, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    to.dq_gates = gyre_dense(dq_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    to.dk_gates = gyre_dense(dk_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    check(gyre_attention_gradient(&args, &to, scratch, NULL, &err));
    const gyre_cview both[2] = {gyre_const(to.dq_gates), gyre_const(to.dk_gates)};
    const gyre_view to_gates = gyre_dense(dlog, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    check(gyre_gate_sums_gradient(both, NULL, 0, &to_gates, NULL, &err));
    const double f = exp(log_gates[7][2]), dlogit = dlog[7][2] * (1 - f); /* d log sigmoid(x) / dx = 1 - f */
    /* [end] */

    const float at = logits[7][2], step = 1.0f / 64;
    logits[7][2] = at + step;
    const double above = loss(&args, scratch);
    logits[7][2] = at - step;
    const double below = loss(&args, scratch);
    logits[7][2] = at;
    sum_gates();
    expect(near(dlogit, (above - below) / (2 * (double)step), 1e-3));
    free(scratch.memory);
}

static void decode(float whole[TOKENS][HEADS][DIM]) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = KV_HEADS, config.head_dim = DIM;
    config.max_tokens = TOKENS;
    config.gate_heads = HEADS; /* query heads: each key keeps a sum for each of them */
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gates.q = gyre_cdense(sums, GYRE_DTYPE_F64, 1, 1, HEADS, 1); /* the keys' are in the cache */
    gyre_attention_args args = gated(&gates);
    args.q.shape[1] = args.out.shape[1] = 1;
    args.lse.data = NULL;
    size_t bytes;
    check(gyre_cache_attention_scratch(cache, NULL, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    for (int t = 0; t < TOKENS; t++) {
        /* [gyre_cache_append] */
        const int64_t sequence = 0;
        const gyre_positions at = {.base = t};
        gyre_cache_append_args token = GYRE_INIT(gyre_cache_append_args);
        token.sequence = sequence, token.positions = &at;
        token.k = gyre_cdense(k[t], GYRE_DTYPE_F32, 1, 1, KV_HEADS, DIM);
        token.v = gyre_cdense(v[t], GYRE_DTYPE_F32, 1, 1, KV_HEADS, DIM);
        token.gates = gyre_cdense(sums[t], GYRE_DTYPE_F64, 1, 1, HEADS, 1); /* of log gates from the first token on */
        check(gyre_cache_append(cache, &token, NULL, &err));

        args.q.data = q[t], args.out.data = out[t];
        gates.q.data = sums[t];
        check(gyre_cache_attention(cache, &sequence, &args, scratch, NULL, &err));
        /* [end] */
    }
    expect(most_apart(&out[0][0][0], &whole[0][0][0], TOKENS * HEADS * DIM) < 1e-5);
    free(scratch.memory);
    gyre_cache_free(cache);
}

int main(void) {
    static float whole[TOKENS][HEADS][DIM];
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 3);
    fill(&dout[0][0][0], TOKENS * HEADS * DIM, 4);
    fill(&logits[0][0], TOKENS * HEADS, 5);
    sum_gates();
    train();
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gates.q = gates.k = gyre_cdense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    const gyre_attention_args args = gated(&gates);
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(&args, scratch, NULL, &err));
    memcpy(whole, out, sizeof whole);
    free(scratch.memory);
    decode(whole);
    return 0;
}
