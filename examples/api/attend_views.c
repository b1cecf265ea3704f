/* attend_views.c: attention over memory of the caller, with scratch memory of the caller. */
#include "example.h"

enum { TOKENS = 40, HEADS = 4, KV_HEADS = 2, DIM = 16 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], lse[TOKENS][HEADS], plain[TOKENS][HEADS][DIM];

static gyre_attention_args causal(const gyre_encoding *encoding) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = encoding;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    return args;
}

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int i = 0; i < DIM; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Equals the simple call. */
static void whole(const gyre_encoding *rope) {
    gyre_attention_args args = causal(rope);

    /* [gyre_attention_scratch gyre_attention] */
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1); /* wanted for the gradient */
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes); /* serves every call that is not larger */
    check(gyre_attention(&args, scratch, NULL, &err));
    free(scratch.memory);
    expect(near(lse[0][3], dot(q[0][3], k[0][1]) / sqrt(DIM), 1e-6)); /* the first query sees one key: lse is its score */
    /* [end] */

    gyre_attention_dense_args dense = GYRE_INIT(gyre_attention_dense_args);
    dense.encoding = rope;
    dense.q = q, dense.k = k, dense.v = v, dense.out = plain;
    dense.batch = 1;
    dense.queries = dense.keys = TOKENS;
    dense.heads = HEADS, dense.kv_heads = KV_HEADS, dense.head_dim = DIM;
    dense.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_attention_dense(&dense, &err));
    expect(most_apart(&out[0][0][0], &plain[0][0][0], TOKENS * HEADS * DIM) < 1e-6);
}

/* Two sequences of 15 and 25 tokens in one call: the second begins again at position 0 and does not see the first. */
static void packed(const gyre_encoding *rope) {
    gyre_attention_args args = causal(rope);

    /* [gyre_attention] */
    const int64_t starts[] = {0, 15, TOKENS}; /* a packed batch: two sequences of 15 and 25 tokens, no padding */
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    batch.q_starts = batch.k_starts = starts;
    batch.sequences = 2;
    args.batch = &batch;
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(&args, scratch, NULL, &err));
    free(scratch.memory);
    expect(most_apart(&out[15][1][0], &v[15][0][0], DIM) < 1e-6); /* the first token of a sequence sees itself alone */
    /* [end] */
    expect(most_apart(&out[0][0][0], &plain[0][0][0], 15 * HEADS * DIM) < 1e-6);
}

int main(void) {
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    whole(rope);
    packed(rope);
    gyre_encoding_free(rope);
    return 0;
}
