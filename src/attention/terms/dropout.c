/* dropout.c: which weights are dropped.  One call of the generator makes GYRE_PHILOX_NUMBERS numbers. */
#include "attention/terms/dropout.h"
#include "core/positions.h"

/* A number below the threshold drops its weight.  A rate next to 1 gives 2^32, which needs more than 32 bits. */
static uint64_t drop_threshold(const gyre_dropout *dropout) {
    return (uint64_t)(dropout->rate * 0x1p32 + 0.5);
}

void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, float *y, int64_t ld) {
    const int64_t first = block->key / 4, end = block->key + block->count;
    const uint64_t threshold = drop_threshold(dropout);
    if (threshold == 0) return;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t group = first; 4 * group < end; group += GYRE_PHILOX_NUMBERS / 4) {
            const gyre_philox job = {
                {(uint32_t)group, (uint32_t)(block->query + i), (uint32_t)block->head, (uint32_t)block->sequence},
                {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)}};
            const int64_t from = group == first ? block->key : 4 * group, at = i * ld + (from - block->key);
            const int64_t left = end - from, most = 4 * group + GYRE_PHILOX_NUMBERS - from, n = left < most ? left : most;
            uint32_t numbers[GYRE_PHILOX_NUMBERS];
            const gyre_dropout_row drop = {numbers + (from - 4 * group), (uint32_t)(threshold - 1),
                                           (float)(1 / (1 - dropout->rate))};
            dropout->kernels->philox(&job, numbers);
            dropout->kernels->dropout_row_f32(&drop, x + at, n);
            if (y) dropout->kernels->dropout_row_f32(&drop, y + at, n);
        }
}

void gyre_dropout_apply_indexed(const gyre_dropout *dropout, const gyre_dropout_block *block, const int64_t *keys, float *x,
                                float *y) {
    const uint64_t threshold = drop_threshold(dropout);
    int64_t n = 0;
    if (threshold == 0) return;
    for (int64_t j = 0; j < block->count; j += n) {
        const int64_t group = (keys[j] - (keys[j] & 3)) / 4;
        const gyre_philox job = {{(uint32_t)group, (uint32_t)block->query, (uint32_t)block->head, (uint32_t)block->sequence},
                                 {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)}};
        uint32_t numbers[GYRE_PHILOX_NUMBERS], chosen[GYRE_PHILOX_NUMBERS];
        dropout->kernels->philox(&job, numbers);
        for (n = 0; n < GYRE_PHILOX_NUMBERS && j + n < block->count; n++) {
            const int64_t at = keys[j + n] - 4 * group;
            if (at < 0 || at >= GYRE_PHILOX_NUMBERS) break;
            chosen[n] = numbers[at];
        }
        const gyre_dropout_row drop = {chosen, (uint32_t)(threshold - 1), (float)(1 / (1 - dropout->rate))};
        dropout->kernels->dropout_row_f32(&drop, x + j, n);
        if (y) dropout->kernels->dropout_row_f32(&drop, y + j, n);
    }
}

/* Tokens with an index of their own: row by row. */
static void drop_indexed(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                         const gyre_dropout_rows *rows) {
    const gyre_segment *segment = plan->segment;
    const gyre_dropout dropout = {plan->args->dropout, plan->args->seed, plan->kernels};
    int64_t keys[KEY_TILE], query;
    gyre_positions_read(&segment->k_index, q->batch, tile_pair->tile * KEY_TILE + tile_pair->first, tile_pair->count, keys);
    for (int64_t i = 0; i < rows->rows; i++) {
        gyre_positions_read(&segment->q_index, q->batch, q->first + rows->first + i, 1, &query);
        const gyre_dropout_block block = {.sequence = segment->sequence + q->batch,
                                          .head = gyre_head_in_call(plan, q->head),
                                          .query = query,
                                          .rows = 1,
                                          .count = tile_pair->count};
        gyre_dropout_apply_indexed(&dropout, &block, keys, rows->x + i * KEY_TILE, rows->y ? rows->y + i * KEY_TILE : NULL);
    }
}

void gyre_dropout_tile_pair(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                            const gyre_dropout_rows *rows) {
    const gyre_segment *segment = plan->segment;
    const gyre_dropout dropout = {plan->args->dropout, plan->args->seed, plan->kernels};
    const gyre_dropout_block block = {.sequence = segment->sequence + q->batch,
                                      .head = gyre_head_in_call(plan, q->head),
                                      .query = segment->query_first + q->first + rows->first,
                                      .rows = rows->rows,
                                      .key = segment->key_first + tile_pair->tile * KEY_TILE + tile_pair->first,
                                      .count = tile_pair->count};
    if (dropout.rate > 0 && segment->indexed)
        drop_indexed(plan, q, tile_pair, rows);
    else if (dropout.rate > 0)
        gyre_dropout_apply(&dropout, &block, rows->x, rows->y, KEY_TILE);
}
