/* cached_call.h: a call over the sequences of a cache, one batch row after the other.  The keys of a row are those of
 * its sequence, so each row has its own number of keys, and is a call in the steps of call/call_steps.h. */
#ifndef GYRE_CACHE_CACHED_CALL_H
#define GYRE_CACHE_CACHED_CALL_H
#include "cache/cache.h"
#include "call/call_steps.h"

/* Of the arguments of a row: what every kind of call has. */
typedef struct gyre_cached_views {
    gyre_cview *q, *k, *v;
    gyre_view *out, *lse;
    const int64_t **k_first, **k_end;
} gyre_cached_views;
#define GYRE_CACHED_VIEWS(args)                                                                                             \
    { &(args)->q, &(args)->k, &(args)->v, &(args)->out, &(args)->lse, &(args)->k_first, &(args)->k_end }

/* A batch row, as a call in steps. */
typedef struct gyre_cached_rows {
    const gyre_call_steps *steps; /* of `row`: a batch row as a separate call; before the first, the batch */
    void *row, *call;             /* call: what the functions below get */
    gyre_cached_views views;
    /* row = batch row b.  positions: as in the scratch; NULL: those of shapes alone. */
    void (*take)(void *call, int64_t b, const int64_t *positions);
    /* 1: nothing of batch row b can be refused that the longest row and the checks of the batch let pass, so that row b is
     * not made for its check.  NULL = so it is for every row. */
    int (*is_alike)(const void *call, int64_t b);
    /* What is left after a row has run; NULL = nothing. */
    void (*end)(const void *call, int64_t b);
    /* The call for another thread: a copy in `size` bytes of memory, with its own pointers; out = its gyre_cached_call.
     * NULL = rows run one after the other. */
    struct gyre_cached_call *(*copy)(const void *call, void *memory);
    size_t size;
    /* What no row alone shows: rows run one after the other, so the output of one may not be an input of the next.  After
     * the rows are checked; NULL = nothing. */
    gyre_status (*check_batch)(const void *call, gyre_error *err);
} gyre_cached_rows;

typedef struct gyre_cached_call {
    const char *where; /* the function called, for messages */
    const gyre_cache *cache;
    const int64_t *sequences; /* [batch]; NULL: any sequences, as long as they may become, for scratch */
    /* A ragged batch: row b has queries q_starts[b] .. q_starts[b + 1] - 1 of views of one batch row; q_rows of them.
     * NULL = row b is batch row b of the views. */
    const int64_t *q_starts;
    int64_t q_rows;
    gyre_cached_rows rows;
    gyre_key_source source;       /* of the row */
    int64_t batch, queries;       /* queries: of a row, at most */
    int64_t longest, longest_row; /* tokens of the longest sequence, and a row that has it; ragged: of those with queries */
    /* At the front of the scratch: positions of one sequence, between one for each query before the first token and one
     * for each after the last: padding.  0: no row needs positions. */
    size_t position_bytes;
    int64_t lowest, highest; /* of the positions of padding */
} gyre_cached_call;

/* Reads the arguments, if they were not read, and counts rows, queries and tokens.  measures: 1 = for scratch alone.
 * Errors: EINVAL (cache NULL, sequences NULL without `measures`, no such sequence), ESHAPE. */
gyre_status gyre_cached_call_begin(gyre_cached_call *call, int measures, gyre_error *err);
/* call->position_bytes = those of a call whose rows need positions.  Errors: ESHAPE. */
gyre_status gyre_cached_call_take_positions(gyre_cached_call *call, gyre_error *err);
/* out = queries of a row. */
int64_t gyre_cached_call_queries(const gyre_cached_call *call, int64_t row);
/* A view of all queries = that of the queries of a row. */
void gyre_cached_call_take_queries(const gyre_cached_call *call, int64_t row, gyre_cview *view);
void gyre_cached_call_take_results(const gyre_cached_call *call, int64_t row, gyre_view *view);
/* out = positions of the queries of a row, as those of all queries say. */
gyre_positions gyre_cached_call_row_positions(const gyre_cached_call *call, int64_t row, const gyre_positions *positions);
/* out = tokens of the sequence of a batch row. */
int64_t gyre_cached_call_tokens(const gyre_cached_call *call, int64_t row);
/* The k and v of the arguments = the shapes of `batch` rows of `tokens` each, without memory.  F32: as what they are
 * read. */
void gyre_cached_call_shapes(const gyre_cached_call *call, int64_t batch, int64_t tokens);
/* The views of the arguments, which are those of the batch, and the source = those of a row. */
void gyre_cached_call_narrow(gyre_cached_call *call, int64_t row);
/* *k_pos, *q_pos = positions of the tokens of a row, and of its queries, the one past the last of which has the position
 * of token `end`.  positions: as in the scratch; NULL: none. */
void gyre_cached_call_positions(const gyre_cached_call *call, const int64_t *positions, int64_t end, gyre_positions *q_pos,
                                gyre_positions *k_pos);
/* out = 1 if the encoding takes all positions that a row has from the cache, at that context length. */
int gyre_cached_call_in_range(const gyre_cached_call *call, int64_t row, int64_t length);

/* EINVAL: starts of packed sequences, which a cache does not take.  EUNSUPPORTED (without_gates): a cache that keeps gate
 * sums. */
gyre_status gyre_cached_call_check_options(const gyre_cached_call *call, const int64_t *q_starts, const int64_t *k_starts,
                                           int64_t sequences, int without_gates, gyre_error *err);
/* EINVAL: keys k_first[row] .. k_end[row] - 1 that the sequence of a row does not have.  Either may be NULL. */
gyre_status gyre_cached_call_check_padding(const gyre_cached_call *call, const int64_t *k_first, const int64_t *k_end,
                                           gyre_error *err);

/* -- the rows -- */
/* *bytes = scratch. */
gyre_status gyre_cached_call_bytes(const gyre_cached_call *call, const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* Checks every row before it writes anything.  The longest row is checked last and runs first, so it is made once, and so is
 * a row that is alike.  Others are made for the check and again to run: the scratch has the positions of one row.
 * Rows that are large beside the batch, as queries times keys, run one after the other, with all threads.  The others are
 * dealt out to threads, which have the memory for one row each. */
gyre_status gyre_cached_call_perform(const gyre_cached_call *call, gyre_scratch scratch, const gyre_exec *exec,
                                     gyre_error *err);

#endif
