/* dropout.c: the choice for blocks of weights, as many numbers at a time as one call of the generator makes. */
#include "attention/dropout.h"

/* A number below `under` drops its weight.  2^32, which a chance next to 1 comes to, needs all 64 bits. */
static uint64_t drop_threshold(const gyre_dropout *dropout) {
    return (uint64_t)(dropout->rate * 0x1p32 + 0.5);
}

void gyre_dropout_apply_both(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, float *y, int64_t ld) {
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

void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, int64_t ld) {
    gyre_dropout_apply_both(dropout, block, x, NULL, ld);
}
