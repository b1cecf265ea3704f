/* batch.h: the struct behind gyre_batch. */
#ifndef GYRE_POSITIONS_BATCH_H
#define GYRE_POSITIONS_BATCH_H
#include "gyre/gyre_positions.h"

enum { GYRE_BATCH_MAX_AXES = 3 };

/* out = positions in memory of a batch: I64, token beside token. */
static inline gyre_positions gyre_kept_positions(const int64_t *data, int64_t stride_batch, int64_t stride_axis) {
    return (gyre_positions){
        .data = data, .dtype = GYRE_DTYPE_I64, .stride_batch = stride_batch, .stride_token = 1, .stride_axis = stride_axis};
}

struct gyre_batch {
    gyre_alloc alloc;
    gyre_batch_form form;
    int64_t rows, tokens, axes, documents, sequences, keys; /* tokens: of a row; keys: cached and new, of all documents */
    int padded;                                             /* 1: some token belongs to no document */
    /* Parts of one block of memory, from `lengths` on. */
    int64_t *lengths, *cached, *first_positions, *next_positions; /* [documents] */
    int64_t *q_starts, *k_starts;                                 /* [sequences + 1]; used if packed */
    int64_t *k_first, *k_end, *context_lengths;                   /* [sequences] */
    int64_t *document_of, *order;                                 /* [rows * tokens] */
    int64_t *positions;                                           /* [axes][rows * tokens] */
    int64_t *k_positions;                                         /* [axes][keys]; NULL: no cached tokens, or not packed */
};

/* out = the next `count` numbers of a block of memory that begins at *used; block NULL: only counts. */
static inline int64_t *gyre_take_numbers(int64_t *block, size_t *used, int64_t count) {
    int64_t *out = block ? block + *used : NULL;
    *used += (size_t)count;
    return out;
}

#endif
