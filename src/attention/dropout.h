/* dropout.h: which weights are dropped: a counter-based choice (Philox 4x32-10, Salmon 2011), so that the forward pass, the
 * gradient and any number of threads agree without keeping anything. */
#ifndef GYRE_ATTENTION_DROPOUT_H
#define GYRE_ATTENTION_DROPOUT_H
#include <stdint.h>

typedef struct gyre_dropout {
    double chance;
    uint64_t seed;
} gyre_dropout;

/* A block of weights: queries query .. query + rows - 1 of one head of one sequence, keys key .. key + count - 1. */
typedef struct gyre_dropout_block {
    int64_t sequence, head, query, rows, key, count;
} gyre_dropout_block;

/* x[i * ld + j] = 0 with that chance, else x / (1 - chance). */
void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, int64_t ld);

#endif
