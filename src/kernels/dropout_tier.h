/* dropout_tier.h: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), many
 * counters at a time, and the dropout of weights by its numbers. */
#ifndef GYRE_KERNELS_DROPOUT_TIER_H
#define GYRE_KERNELS_DROPOUT_TIER_H
#include "kernels/kernel_names.h"

/* PHILOX_UNROLL: vectors of counters processed together, to hide the latency of the products.  PHILOX_UNROLL LANES must not
 * exceed PHILOX_COUNTERS. */
enum { PHILOX_ROUNDS = 10, PHILOX_COUNTERS = GYRE_PHILOX_NUMBERS / 4, PHILOX_UNROLL = 2 };

/* One round of Philox; low and high are the round keys. */
static inline void philox_round(vecu x[4], vecu low, vecu high) {
    vecu upper[2];
    const vecu first = vecu_mul(x[0], vecu_set1(0xD2511F53u), &upper[0]);
    const vecu second = vecu_mul(x[2], vecu_set1(0xCD9E8D57u), &upper[1]);
    x[0] = vecu_xor(upper[1], x[1], low);
    x[1] = second;
    x[2] = vecu_xor(upper[0], x[3], high);
    x[3] = first;
}

KERNEL(philox)(const gyre_philox *job, uint32_t numbers[GYRE_PHILOX_NUMBERS]) {
    uint32_t count[PHILOX_COUNTERS], out[4][PHILOX_COUNTERS];
    for (uint32_t i = 0; i < PHILOX_COUNTERS; i++)
        count[i] = job->counter[0] + i;
    for (int i = 0; i < PHILOX_COUNTERS; i += PHILOX_UNROLL * LANES) {
        vecu x[PHILOX_UNROLL][4];
        uint32_t low = job->key[0], high = job->key[1];
        for (int a = 0; a < PHILOX_UNROLL; a++) {
            x[a][0] = vecu_load(count + i + a * LANES);
            for (int w = 1; w < 4; w++)
                x[a][w] = vecu_set1(job->counter[w]);
        }
        for (int round = 0; round < PHILOX_ROUNDS; round++, low += 0x9E3779B9u, high += 0xBB67AE85u)
            for (int a = 0; a < PHILOX_UNROLL; a++)
                philox_round(x[a], vecu_set1(low), vecu_set1(high));
        for (int a = 0; a < PHILOX_UNROLL; a++)
            for (int w = 0; w < 4; w++)
                vecu_store(out[w] + i + a * LANES, x[a][w]);
    }
    for (int i = 0; i < PHILOX_COUNTERS; i++)
        for (int w = 0; w < 4; w++)
            numbers[4 * i + w] = out[w][i];
}

/* Vectorized by the compiler with the tier's options.  There is one product and no sum, so all tiers give the same bits. */
KERNEL(dropout_row_f32)(const gyre_dropout_row *drop, float *x, int64_t n) {
    const uint32_t *restrict numbers = drop->numbers;
    const uint32_t last = drop->last;
    const float factor = drop->factor;
    for (int64_t j = 0; j < n; j++) {
        const float product = x[j] * factor;
        x[j] = numbers[j] > last ? product : 0;
    }
}

#endif
