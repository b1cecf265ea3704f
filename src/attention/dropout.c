/* dropout.c: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), many
 * counters at a time. */
#include "attention/dropout.h"

/* NUMBERS: of one call of the generator, for 4 COUNTERS keys in a row. */
enum { ROUNDS = 10, COUNTERS = 32, NUMBERS = 4 * COUNTERS };

/* x[w][i] = number w of counter i; counters side by side, so that compilers make vectors of them. */
static void ten_rounds(uint32_t (*restrict x)[COUNTERS], int counters, const uint32_t key[2]) {
    uint32_t low = key[0], high = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < counters; i++) {
            const uint64_t first = (uint64_t)0xD2511F53u * x[0][i], second = (uint64_t)0xCD9E8D57u * x[2][i];
            x[0][i] = (uint32_t)(second >> 32) ^ x[1][i] ^ low;
            x[1][i] = (uint32_t)second;
            x[2][i] = (uint32_t)(first >> 32) ^ x[3][i] ^ high;
            x[3][i] = (uint32_t)first;
        }
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
}

void gyre_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t x[4][COUNTERS] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
    ten_rounds(x, 1, key);
    for (int w = 0; w < 4; w++)
        out[w] = x[w][0];
}

/* A number below `under` drops its weight.  2^32, which a chance next to 1 comes to, needs all 64 bits. */
typedef struct choice {
    uint64_t under;
    float factor;
} choice;

static choice choice_of(const gyre_dropout *dropout) {
    return (choice){(uint64_t)(dropout->chance * 0x1p32 + 0.5), (float)(1 / (1 - dropout->chance))};
}

/* kept[j] = all ones where key 4 group + j of a query stays, else 0. */
static void choose(const gyre_dropout *dropout, const gyre_dropout_block *block, int64_t query, int64_t group,
                   uint32_t kept[NUMBERS]) {
    const uint32_t key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    const uint32_t last = (uint32_t)(choice_of(dropout).under - 1); /* 32 bits: nothing comes here where under is 0 */
    uint32_t x[4][COUNTERS];
    for (uint32_t i = 0; i < COUNTERS; i++) {
        x[0][i] = (uint32_t)group + i;
        x[1][i] = (uint32_t)query;
        x[2][i] = (uint32_t)block->head;
        x[3][i] = (uint32_t)block->sequence;
    }
    ten_rounds(x, COUNTERS, key);
    for (int i = 0; i < COUNTERS; i++)
        for (int w = 0; w < 4; w++)
            kept[4 * i + w] = x[w][i] > last ? UINT32_MAX : 0;
}

/* What is dropped is 0 whatever it was, an infinity or a NaN too. */
static void multiply(const uint32_t *restrict kept, float factor, float *restrict x, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        const float product = x[j] * factor;
        x[j] = kept[j] ? product : 0;
    }
}

void gyre_dropout_apply_both(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, float *y, int64_t ld) {
    const int64_t first = block->key / 4, end = block->key + block->count;
    const choice drop = choice_of(dropout);
    if (drop.under == 0) return;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t group = first; 4 * group < end; group += COUNTERS) {
            uint32_t kept[NUMBERS];
            const int64_t from = group == first ? block->key : 4 * group;
            const int64_t left = end - 4 * group, to = 4 * group + (left < NUMBERS ? left : NUMBERS);
            choose(dropout, block, block->query + i, group, kept);
            multiply(kept + (from - 4 * group), drop.factor, x + i * ld + (from - block->key), to - from);
            if (y) multiply(kept + (from - 4 * group), drop.factor, y + i * ld + (from - block->key), to - from);
        }
}

void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, int64_t ld) {
    gyre_dropout_apply_both(dropout, block, x, 0, ld);
}
