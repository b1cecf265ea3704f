/* dropout.h: which weights are dropped: a counter-based choice (Philox 4x32-10, Salmon 2011), so that the forward pass, the
 * gradient and any number of threads agree without keeping anything.
 *
 * The weight of a key is decided by number key % 4 of the four that the generator makes of the counter (key / 4, query,
 * head, sequence) and of the seed, its low half first.  It is dropped where that number is below 2^32 chance, rounded to a
 * whole number: chances are multiples of 2^-32. */
#ifndef GYRE_ATTENTION_DROPOUT_H
#define GYRE_ATTENTION_DROPOUT_H
#include "kernels/kernels.h"
#include <stddef.h>

typedef struct gyre_dropout {
    double rate; /* in [0, 1) */
    uint64_t seed;
    const gyre_kernels *kernels; /* any tier makes the same choice */
} gyre_dropout;

/* A block of weights: queries query .. query + rows - 1 of one head of one sequence, keys key .. key + count - 1. */
typedef struct gyre_dropout_block {
    int64_t sequence, head, query, rows, key, count;
} gyre_dropout_block;

/* x[i * ld + j] = 0 with that chance, else x / (1 - chance). */
void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, int64_t ld);
/* The same choice for two arrays of one shape. */
void gyre_dropout_apply_both(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, float *y, int64_t ld);

#endif
