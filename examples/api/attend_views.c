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
    const size_t bytes = gyre_attention_scratch(&args, 0, NULL);
    void *scratch = scratch_memory(bytes); /* aligned_alloc(64, ...); serves every call that is not larger */
    check(gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err));
    free(scratch);
    expect(near(lse[0][3], dot(q[0][3], k[0][1]) / sqrt(DIM), 1e-6)); /* the first query sees one key: lse is its score */
    /* [end] */

    gyre_attention_shape shape = GYRE_INIT(gyre_attention_shape);
    shape.batch = 1;
    shape.queries = shape.keys = TOKENS;
    shape.heads = HEADS, shape.kv_heads = KV_HEADS, shape.head_dim = DIM;
    shape.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_attention_dense(rope, q, k, v, plain, &shape, &err));
    expect(most_apart(&out[0][0][0], &plain[0][0][0], TOKENS * HEADS * DIM) < 1e-6);
}

/* Two sequences of 15 and 25 tokens in one call: the second begins again at position 0 and does not see the first. */
static void packed(const gyre_encoding *rope) {
    gyre_attention_args args = causal(rope);

    /* [gyre_attention] */
    const int64_t starts[] = {0, 15, TOKENS}; /* a packed batch: two sequences of 15 and 25 tokens, no padding */
    args.q_starts = args.k_starts = starts;
    args.sequences = 2;
    const size_t bytes = gyre_attention_scratch(&args, 0, NULL);
    void *scratch = scratch_memory(bytes);
    check(gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err));
    free(scratch);
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
