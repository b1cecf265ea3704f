/* partials.h: partial results of rows of attention, each over one split of the keys, and their sum.
 *
 * Few queries give too few tasks for all threads, so their keys are split in parts of a fixed size.  The result then does
 * not depend on the number of threads.  Each split leaves for every row its largest score, the sum of exp(score - largest)
 * and the weighted sum of values.  Splits are added in their order.
 *
 *     scratch:  item 0: split 0, split 1, ..., item 1: split 0, ...; then a flag for each item (forward.c) */
#ifndef GYRE_ATTENTION_PARTIALS_H
#define GYRE_ATTENTION_PARTIALS_H
#include "attention/terms/softmax.h"

/* Rows: all query heads of one key head, head by head, the queries of each in order. */
typedef struct gyre_partial {
    float *row_max;  /* [rows]; -infinity: no key was visible */
    double *row_sum; /* [rows] */
    double *bias;    /* [rows]: what the scores are relative to; every split has the same */
    float *out;      /* [rows][value_pad] */
} gyre_partial;

/* *out (NULL = only count) = split `split` of an item, in the partials that begin at `memory`; out = bytes of one. */
size_t gyre_partials_layout(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t split, gyre_partial *out);
/* *state = row `row` of the first key_splits partials of an item, added up; state->out points to memory to write. */
void gyre_partials_combine(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t key_splits, int64_t row,
                           gyre_row_state *state);

#endif
