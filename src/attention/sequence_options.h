/* sequence_options.h: the options of one sequence of a call whose sequences have keys of their own: in a cache, or in pages
 * of the caller. */
#ifndef GYRE_ATTENTION_SEQUENCE_OPTIONS_H
#define GYRE_ATTENTION_SEQUENCE_OPTIONS_H
#include "attention/plan/attention_inputs.h"

/* What the indices of a row point to. */
typedef struct gyre_sequence_indices {
    gyre_positions q, k;
} gyre_sequence_indices;

/* *row, which has the options of the batch = a call with those of sequence s, which has `tokens` keys: mask, slopes, gate
 * sums and state, its context length, its last query and the indices of its tokens. */
void gyre_sequence_options_take(gyre_attention_inputs *row, int64_t s, int64_t tokens, gyre_sequence_indices *indices);

#endif
