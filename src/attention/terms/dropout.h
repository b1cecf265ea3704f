/* dropout.h: which weights are dropped.  The choice is a counter-based random number (Philox 4x32-10, Salmon 2011), so the
 * forward pass, the gradient and any number of threads agree without storing anything.
 *
 * The generator makes four numbers from the counter (key / 4, query, head, sequence) and the seed, whose low half comes
 * first.  Number key % 4 decides about the weight of the key: it is dropped if the number is below 2^32 rate, rounded to a
 * whole number.  Rates are therefore multiples of 2^-32. */
#ifndef GYRE_ATTENTION_DROPOUT_H
#define GYRE_ATTENTION_DROPOUT_H
#include "attention/plan/buffers.h"

typedef struct gyre_dropout {
    double rate; /* in [0, 1) */
    uint64_t seed;
    const gyre_kernels *kernels; /* every tier makes the same choice */
} gyre_dropout;

/* Weights of queries query .. query + rows - 1 of one head of one sequence, for keys key .. key + count - 1. */
typedef struct gyre_dropout_block {
    int64_t sequence, head, query, rows, key, count;
} gyre_dropout_block;

/* x[i * ld + j] = 0 if it is dropped, else x / (1 - rate).  y: as x, the same choice; NULL = none. */
void gyre_dropout_apply(const gyre_dropout *dropout, const gyre_dropout_block *block, float *x, float *y, int64_t ld);

/* The same for one query (block->query; rows is 1) and block->count keys at keys[j] in their sequence, in any order;
 * fastest where they rise by little.  block->key is not read. */
void gyre_dropout_apply_indexed(const gyre_dropout *dropout, const gyre_dropout_block *block, const int64_t *keys, float *x,
                                float *y);

/* The same for rows first .. first + rows - 1 of a tile pair; x and y point to row `first`, KEY_TILE apart.  Nothing happens
 * without dropout. */
typedef struct gyre_dropout_rows {
    int64_t first, rows;
    float *x, *y;
} gyre_dropout_rows;
void gyre_dropout_tile_pair(const gyre_attention_plan *plan, const gyre_query_buffers *queries,
                            const gyre_tile_pair *tile_pair, const gyre_dropout_rows *rows);

#endif
