/* merge_parts.c: the token that is decoded attends to keys that lie in three places, as pages of a cache on three machines.
 * ring_attention.c has the calls that do it over a network. */
#include "example.h"

enum { TOKENS = 24, HEADS = 4, KV_HEADS = 2, DIM = 16, PARTS = 3, PART = TOKENS / PARTS };

static float q[HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[HEADS][DIM], whole[HEADS][DIM];
static double lse[HEADS], state[PARTS][HEADS][2 + DIM];

static void run(const gyre_attention_args *args) {
    size_t bytes;
    check(gyre_attention_scratch(args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(args, scratch, NULL, &err));
    free(scratch.memory);
}

int main(void) {
    gyre_encoding *rope;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    fill(&q[0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = rope;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.q_pos.base = TOKENS - 1; /* the last token */
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.out = gyre_dense(whole, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    run(&args);

    /* [gyre_attention_merge] */
    gyre_cview states[PARTS];
    gyre_attention_part share = GYRE_INIT(gyre_attention_part);
    args.part = &share;
    args.out.data = NULL;                          /* the row is not complete yet */
    for (int64_t part = 0; part < PARTS; part++) { /* each could run on a machine of its own */
        args.k = gyre_cdense(k[part * PART], GYRE_DTYPE_F32, 1, PART, KV_HEADS, DIM);
        args.v = gyre_cdense(v[part * PART], GYRE_DTYPE_F32, 1, PART, KV_HEADS, DIM);
        args.k_pos.base = part * PART;                                               /* as in the whole */
        share.state = gyre_dense(state[part], GYRE_DTYPE_F64, 1, 1, HEADS, 2 + DIM); /* begins with zeros */
        run(&args);
        states[part] = gyre_const(share.state);
    }
    gyre_attention_merge_args merge = GYRE_INIT(gyre_attention_merge_args);
    merge.states = states; /* in the order of their keys, whichever came first: the bits then repeat */
    merge.parts = PARTS;
    merge.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    merge.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
    check(gyre_attention_merge(&merge, NULL, &err));
    /* [end] */
    expect(most_apart(&out[0][0], &whole[0][0], HEADS * DIM) < 1e-6);

    gyre_encoding_free(rope);
    return 0;
}
