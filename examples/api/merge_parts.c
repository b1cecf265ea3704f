/* merge_parts.c: attention whose keys are split in parts that do not know of each other, as on several machines. */
#include "example.h"

#include <gyre/gyre_positions.h>

enum { TOKENS = 24, HEADS = 4, KV_HEADS = 2, DIM = 16, RANKS = 3 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], whole[TOKENS][HEADS][DIM];
static float part_k[TOKENS][KV_HEADS][DIM], part_v[TOKENS][KV_HEADS][DIM];
static double lse[TOKENS][HEADS], state[RANKS][TOKENS][HEADS][2 + DIM];

static void run(const gyre_attention_args *args) {
    const size_t bytes = gyre_attention_scratch(args, 0, NULL);
    void *scratch = scratch_memory(bytes);
    check(gyre_attention(args, scratch, bytes, NULL, &err));
    free(scratch);
}

int main(void) {
    const int64_t length = TOKENS;
    gyre_encoding *rope;
    gyre_batch *batch;
    gyre_shards *shards;
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config shard_config = GYRE_INIT(gyre_shard_config);
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    fill(&q[0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    config.documents = 1, config.lengths = &length;
    shard_config.layout = GYRE_SHARD_ZIGZAG, shard_config.ranks = RANKS;
    check(gyre_batch_create(&batch, &config, NULL, &err));
    check(gyre_shards_create(&shards, batch, &shard_config, NULL, &err));

    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = rope;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    args.out = gyre_dense(whole, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    run(&args);

    /* [gyre_attention_merge] */
    gyre_cview states[RANKS];
    for (int64_t rank = 0; rank < RANKS; rank++) { /* each with the keys that it has */
        gyre_shard_info shard = GYRE_INIT(gyre_shard_info);
        check(gyre_shards_get(shards, rank, &shard));
        const gyre_cview all[2] = {gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM),
                                   gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM)};
        const gyre_view mine[2] = {gyre_dense(part_k, GYRE_DTYPE_F32, 1, shard.tokens, KV_HEADS, DIM),
                                   gyre_dense(part_v, GYRE_DTYPE_F32, 1, shard.tokens, KV_HEADS, DIM)};
        check(gyre_shards_take(shards, rank, &all[0], &mine[0], &err));
        check(gyre_shards_take(shards, rank, &all[1], &mine[1], &err));
        args.k = gyre_const(mine[0]);
        args.v = gyre_const(mine[1]);
        args.k_pos = shard.positions;                                                    /* those of the whole */
        args.out.data = NULL;                                                            /* no row is complete yet */
        args.state = gyre_dense(state[rank], GYRE_DTYPE_F64, 1, TOKENS, HEADS, 2 + DIM); /* begins with zeros */
        run(&args);
        states[rank] = gyre_const(args.state);
    }
    gyre_attention_merge_args merge = GYRE_INIT(gyre_attention_merge_args);
    merge.states = states; /* in the order of ranks, whichever came first */
    merge.parts = RANKS;
    merge.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    merge.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1); /* F64, as gradients of parts need it */
    check(gyre_attention_merge(&merge, NULL, &err));
    /* [end] */
    expect(most_apart(&out[0][0][0], &whole[0][0][0], TOKENS * HEADS * DIM) < 1e-6);

    gyre_shards_free(shards);
    gyre_batch_free(batch);
    gyre_encoding_free(rope);
    return 0;
}
