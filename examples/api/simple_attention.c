/* simple_attention.c: attention on dense buffers: a whole sequence, then its last token alone. */
#include "example.h"

enum { TOKENS = 48, HEADS = 8, KV_HEADS = 2, DIM = 64 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], last[HEADS][DIM];

/* With queries of zeros all that is left of a score is its bias: out = sum of exp(-slope d) v over sum of exp(-slope d). */
static double expected(int64_t m, int h, int channel) {
    const double slope = pow(2, -8.0 * (h + 1) / HEADS);
    double sum = 0, weights = 0;
    for (int64_t n = 0; n <= m; n++) {
        sum += exp(-slope * (double)(m - n)) * v[n][h / (HEADS / KV_HEADS)][channel];
        weights += exp(-slope * (double)(m - n));
    }
    return sum / weights;
}

int main(void) {
    fill(&k[0][0][0], TOKENS * KV_HEADS * DIM, 1);
    fill(&v[0][0][0], TOKENS * KV_HEADS * DIM, 2);

    /* [gyre_alibi_create] */
    gyre_encoding *alibi = NULL;
    check(gyre_alibi_create(&alibi, HEADS, &err)); /* slopes 1/2, 1/4, ... 1/256 for 8 heads */
    /* [end] */

    /* [gyre_attention_dense] */
    gyre_attention_dense_args args = GYRE_INIT(gyre_attention_dense_args); /* F32 */
    args.encoding = alibi;
    args.q = q, args.k = k, args.v = v, args.out = out;
    args.batch = 1;
    args.queries = args.keys = TOKENS;
    args.heads = HEADS, args.kv_heads = KV_HEADS, args.head_dim = DIM;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_attention_dense(&args, &err));

    args.queries = 1; /* the next token of a sequence of TOKENS */
    args.q = q[TOKENS - 1], args.out = last;
    check(gyre_attention_dense(&args, &err));
    expect(most_apart(&last[0][0], &out[TOKENS - 1][0][0], HEADS * DIM) < 1e-6);
    /* [end] */

    for (int h = 0; h < HEADS; h++)
        expect(near(out[TOKENS - 1][h][3], expected(TOKENS - 1, h, 3), 1e-6));
    gyre_encoding_free(alibi);
    return 0;
}
