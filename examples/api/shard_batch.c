/* shard_batch.c: positions of a packed batch with an image, what each of two ranks holds of it, and random positions. */
#include "example.h"

#include <gyre/gyre_positions.h>

enum { TOKENS = 16, RANKS = 2 };

static gyre_batch *batch;
static gyre_shards *shards;

static void create(void) {
    /* [gyre_batch_create gyre_batch_get] */
    /* Two documents: 2 tokens, an image of 2 x 3 and 2 tokens; and 5 tokens.  One token of padding. */
    const gyre_span spans[] = {{.tokens = 2}, {.frames = 1, .rows = 2, .columns = 3}, {.tokens = 2}, {.tokens = 5}};
    const int64_t span_starts[] = {0, 3, 4};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    config.documents = 2;
    config.spans = spans;
    config.span_starts = span_starts;
    config.axes = 3; /* time, row, column: M-RoPE */
    config.row_tokens = TOKENS;
    check(gyre_batch_create(&batch, &config, NULL, &err));

    gyre_batch_info info = GYRE_INIT(gyre_batch_info);
    check(gyre_batch_get(batch, &info));
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q_pos = args.k_pos = info.positions;
    gyre_attention_batch sequences = GYRE_INIT(gyre_attention_batch);
    sequences.q_starts = info.q_starts; /* 0, 10, 15, 16: the padding is a sequence without keys */
    sequences.k_starts = info.k_starts;
    sequences.sequences = info.sequences;
    sequences.k_first = info.k_first;
    sequences.k_end = info.k_end;
    args.batch = &sequences;
    /* [end] */
    const int64_t *column = (const int64_t *)info.positions.data + 2 * info.positions.stride_axis;
    expect(args.batch->sequences == 3 && sequences.q_starts[1] == 10 && sequences.k_end[2] == 0);
    expect(column[1] == 1 && column[2] == 2 && column[4] == 4 && column[8] == 5 && column[10] == 0);
}

static void deal(void) {
    /* [gyre_shards_create gyre_shards_get gyre_shards_imbalance] */
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    config.layout = GYRE_SHARD_ZIGZAG;
    config.ranks = RANKS;
    config.causal = GYRE_CAUSAL_BY_ORDER; /* what is counted as work */
    check(gyre_shards_create(&shards, batch, &config, NULL, &err));

    gyre_shard_info mine = GYRE_INIT(gyre_shard_info);
    check(gyre_shards_get(shards, 0, &mine));
    printf("rank 0: %lld tokens, %lld pairs\n", (long long)mine.tokens, (long long)mine.pairs);
    printf("most work / mean: %.2f\n", gyre_shards_imbalance(shards)); /* 1.37: short documents are uneven */
    /* [end] */
    expect(mine.tokens == 8 && mine.index[0] == 0 && mine.index[4] == 12);
    expect(mine.pairs == 10 + 3 + 4 + 5 && near(gyre_shards_imbalance(shards), 48.0 / 35, 1e-12));
}

static void draw(void) {
    /* [gyre_draw_positions gyre_position_draw_name] */
    enum { ROWS = 2, LENGTH = 8, RANGE = 4096 };
    int64_t drawn[ROWS][LENGTH];
    uint64_t state = 1;
    for (int row = 0; row < ROWS; row++) /* a model trained so meets distances up to 4095 */
        check(gyre_draw_positions(GYRE_POSITION_DRAW_RANDOMIZED, RANGE, &state, LENGTH, drawn[row], &err));
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q_pos = args.k_pos =
        (gyre_positions){.data = drawn, .dtype = GYRE_DTYPE_I64, .stride_batch = LENGTH, .stride_token = 1};
    printf("%s: %lld to %lld\n", gyre_position_draw_name(GYRE_POSITION_DRAW_RANDOMIZED), (long long)drawn[0][0],
           (long long)drawn[0][LENGTH - 1]);
    /* [end] */
    expect(args.k_pos.data == drawn && drawn[0][0] < drawn[0][1] && drawn[1][LENGTH - 1] < RANGE);
}

static void data(void) {
    int32_t ids[TOKENS], labels[TOKENS], mine[TOKENS], back[TOKENS];
    for (int32_t t = 0; t < TOKENS; t++)
        ids[t] = 100 + t;

    /* [gyre_batch_shift_labels gyre_shards_take gyre_shards_put] */
    const gyre_cview tokens = gyre_cdense(ids, GYRE_DTYPE_I32, 1, TOKENS, 1, 1);
    const gyre_view next = gyre_dense(labels, GYRE_DTYPE_I32, 1, TOKENS, 1, 1);
    check(gyre_batch_shift_labels(batch, &tokens, -100, &next, &err)); /* before they are dealt out */

    for (int64_t rank = 0; rank < RANKS; rank++) {
        gyre_shard_info shard = GYRE_INIT(gyre_shard_info);
        check(gyre_shards_get(shards, rank, &shard));
        const gyre_view part = gyre_dense(mine, GYRE_DTYPE_I32, 1, shard.tokens, 1, 1);
        const gyre_cview whole = gyre_const(next), sent = gyre_const(part);
        const gyre_view all = gyre_dense(back, GYRE_DTYPE_I32, 1, TOKENS, 1, 1);
        check(gyre_shards_take(shards, rank, &whole, &part, &err)); /* the labels of a rank */
        check(gyre_shards_put(shards, rank, &sent, &all, &err));    /* and back */
    }
    /* [end] */
    expect(labels[0] == 101 && labels[9] == -100 && labels[14] == -100 && memcmp(labels, back, sizeof back) == 0);
}

int main(void) {
    create();
    deal();
    draw();
    data();
    /* [gyre_batch_free gyre_shards_free] */
    gyre_shards_free(shards); /* before the batch, which it reads */
    gyre_batch_free(batch);
    /* [end] */
    return 0;
}
