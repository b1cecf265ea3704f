/* ring_attention.c: one rank's part of attention over a group, its gradient, and decoding over a cache that is dealt out.
 * Here the group has one rank; docs/sharding.md has the same over MPI. */
#include "example.h"

#include <gyre/gyre_ring.h>

enum { TOKENS = 20, HEADS = 4, KV_HEADS = 2, DIM = 16 };

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static float out[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][DIM];
static float dq[TOKENS][HEADS][DIM], dk[TOKENS][KV_HEADS][DIM], dv[TOKENS][KV_HEADS][DIM];
static double lse[TOKENS][HEADS];

/* A group of one sends nothing.  Over MPI: gyre_mpi.h. */
static gyre_status begin(void *ctx, int channel, const gyre_exchange *exchange) {
    (void)ctx, (void)channel, (void)exchange;
    return GYRE_EIO;
}
static gyre_status wait_for(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_EIO;
}

int main(void) {
    const int64_t length = TOKENS;
    gyre_encoding *rope;
    gyre_batch *batch;
    gyre_shards *shards;
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config shard_config = GYRE_INIT(gyre_shard_config);
    gyre_transport transport = GYRE_INIT(gyre_transport);
    transport.ranks = 1, transport.begin = begin, transport.wait = wait_for;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    fill(&q[0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    fill(&dout[0][0][0], sizeof dout / sizeof(float), 4);
    config.documents = 1, config.lengths = &length;
    shard_config.layout = GYRE_SHARD_ZIGZAG, shard_config.ranks = 1;
    check(gyre_batch_create(&batch, &config, NULL, &err));
    check(gyre_shards_create(&shards, batch, &shard_config, NULL, &err));

    /* [gyre_ring_scratch gyre_ring_attention gyre_ring_get_plan] */
    gyre_attention_args attention = GYRE_INIT(gyre_attention_args); /* of this rank's tokens; no positions */
    attention.encoding = rope;
    attention.causal = GYRE_CAUSAL_BY_POSITION;
    attention.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    attention.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    attention.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    attention.out = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    attention.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport;
    ring.shards = shards;
    ring.attention = &attention;
    ring.pass = GYRE_RING_FEWEST; /* keys or queries go around, whichever sends fewer bytes */
    gyre_ring_plan plan = GYRE_INIT(gyre_ring_plan);
    check(gyre_ring_get_plan(&ring, 0, NULL, &plan, &err)); /* asks nobody */
    expect(plan.pass == GYRE_RING_KEYS && plan.sent == 0);
    gyre_ring_timeline times = GYRE_INIT(gyre_ring_timeline);
    ring.timeline = &times;
    size_t bytes;
    check(gyre_ring_scratch(&ring, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_ring_attention(&ring, scratch, NULL, &err));        /* every rank makes this call */
    expect(times.computing <= times.seconds && times.hidden >= 1); /* nothing was waited for */
    /* [end] */
    free(scratch.memory);

    /* [gyre_ring_attention_gradient] */
    gyre_attention_gradients to = GYRE_INIT(gyre_attention_gradients); /* of this rank's tokens */
    to.dout = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dq = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dk = gyre_dense(dk, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    to.dv = gyre_dense(dv, GYRE_DTYPE_F32, 1, TOKENS, KV_HEADS, DIM);
    size_t more;
    check(gyre_ring_scratch(&ring, 1, NULL, &more, &err));
    const gyre_scratch room = take_scratch(more);
    check(gyre_ring_attention_gradient(&ring, &to, room, NULL, &err));
    /* [end] */
    free(room.memory);

    /* [gyre_ring_merge_scratch gyre_ring_merge] */
    static double rows[HEADS][2 + DIM]; /* of the last token, over the keys that this rank has */
    static float last[HEADS][DIM];
    gyre_attention_args decode = GYRE_INIT(gyre_attention_args);
    decode.encoding = rope;
    decode.q = gyre_cdense(q[TOKENS - 1], GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    decode.q_pos.base = TOKENS - 1;
    decode.k = attention.k; /* or gyre_cache_attention, over a cache of this rank */
    decode.v = attention.v;
    gyre_attention_part some_keys = GYRE_INIT(gyre_attention_part);
    some_keys.state = gyre_dense(rows, GYRE_DTYPE_F64, 1, 1, HEADS, 2 + DIM); /* begins with zeros */
    decode.part = &some_keys;
    size_t part_bytes;
    check(gyre_attention_scratch(&decode, 0, NULL, &part_bytes, &err));
    const gyre_scratch part = take_scratch(part_bytes);
    check(gyre_attention(&decode, part, NULL, &err));
    gyre_ring_merge_args merge = GYRE_INIT(gyre_ring_merge_args);
    merge.transport = &transport;
    merge.state = gyre_const(some_keys.state);
    merge.out = gyre_dense(last, GYRE_DTYPE_F32, 1, 1, HEADS, DIM); /* the same bits on every rank */
    size_t state_bytes;
    check(gyre_ring_merge_scratch(&merge, &state_bytes, &err));
    const gyre_scratch states = take_scratch(state_bytes);
    check(gyre_ring_merge(&merge, states, NULL, &err));
    /* [end] */
    free(part.memory);
    free(states.memory);
    expect(most_apart(&last[0][0], &out[TOKENS - 1][0][0], HEADS * DIM) < 1e-6);
    expect(near(dq[0][0][0], 0, 1e-6)); /* the first query has one key: its weight is 1 whatever q is */
    expect(fabs((double)dk[3][0][0]) > 0);

    gyre_shards_free(shards);
    gyre_batch_free(batch);
    gyre_encoding_free(rope);
    return 0;
}
