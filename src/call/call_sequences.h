/* call_sequences.h: which queries and keys of a call belong together: batch rows, packed sequences, padding. */
#ifndef GYRE_CALL_CALL_SEQUENCES_H
#define GYRE_CALL_CALL_SEQUENCES_H
#include "gyre/gyre.h"

/* What the arguments of a call say about it (gyre_attention_args has the meaning of each). */
typedef struct gyre_call_batch {
    const gyre_cview *q, *k;
    const int64_t *q_starts, *k_starts; /* NULL: one sequence per batch row */
    int64_t sequences;
    const int64_t *k_first, *k_end; /* NULL: no padding */
} gyre_call_batch;
/* out = the batch of a struct of arguments; valid as long as they. */
#define GYRE_CALL_BATCH(args)                                                                                               \
    ((gyre_call_batch){&(args)->q, &(args)->k, (args)->q_starts, (args)->k_starts, (args)->sequences, (args)->k_first,      \
                       (args)->k_end})

/* Queries and keys that belong together, as places in the views. */
typedef struct gyre_call_sequence {
    int64_t batch, query, queries;
    int64_t key, keys;        /* without padding.  The last query has the position of the last key */
    int64_t k_start, k_count; /* with padding */
} gyre_call_sequence;

/* out = batch rows, or the sequences of a packed batch. */
int64_t gyre_call_sequences(const gyre_call_batch *batch);
gyre_call_sequence gyre_call_sequence_at(const gyre_call_batch *batch, int64_t sequence);
/* out = tokens of the longest sequence; starts NULL: one of `tokens`. */
int64_t gyre_call_longest(const int64_t *starts, int64_t sequences, int64_t tokens);

/* Of a batch with one row for each sequence (q_starts NULL), or with the queries of all in one row: the queries of
 * sequence s. */
int64_t gyre_call_queries(const gyre_cview *q, const int64_t *q_starts, int64_t s);
void gyre_call_take_queries(gyre_cview *view, const int64_t *q_starts, int64_t s);
void gyre_call_take_results(gyre_view *view, const int64_t *q_starts, int64_t s);
gyre_positions gyre_call_query_positions(const gyre_positions *positions, const int64_t *q_starts, int64_t s);

/* Starts of sequences that together have `tokens` tokens.  Errors: EINVAL. */
gyre_status gyre_call_check_starts(const int64_t *starts, int64_t sequences, int64_t tokens, const char *name,
                                   const char *where, gyre_error *err);
/* Starts and their number.  Errors: EINVAL, ESHAPE. */
gyre_status gyre_call_check_packing(const gyre_call_batch *batch, const char *where, gyre_error *err);
/* First and last keys.  Errors: EINVAL. */
gyre_status gyre_call_check_padding(const gyre_call_batch *batch, const char *where, gyre_error *err);

#endif
