/* partials.h: rows of attention over some of the keys, and their sum over all.
 *
 * With few queries the keys are dealt out in parts of a fixed size, so that all threads help one sequence and the result
 * does not depend on how many they are.  Each part leaves for every row its largest score, the sum of exp(score - largest)
 * and the weighted sum of values; parts are added in their order. */
#ifndef GYRE_ATTENTION_PARTIALS_H
#define GYRE_ATTENTION_PARTIALS_H
#include <stdint.h>

/* KEYS_PER_SPLIT: a multiple of KEY_TILE. */
enum { MAX_DECODE_QUERIES = 8, KEYS_PER_SPLIT = 1024 };

/* Rows of one item (all query heads of one key head, head by head, their queries in order) over one part. */
typedef struct gyre_partial {
    float *row_max;  /* [rows]; -infinity: nothing seen */
    double *row_sum; /* [rows] */
    double *bias;    /* [rows]: what the scores are relative to (gyre_query_buffers.bias); every part knows the same */
    float *out;      /* [rows][value_pad] */
} gyre_partial;

#endif
