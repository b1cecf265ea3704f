/* contextual_tiles.h: rows of queries and tiles of keys as floats, gates, positions and scores. */
#ifndef GYRE_CONTEXTUAL_TILES_H
#define GYRE_CONTEXTUAL_TILES_H
#include "contextual/contextual_plan.h"

/* Fills the embeddings of a call, in parallel. */
void gyre_contextual_embeddings_fill(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec);

/* Reads up to QUERY_TILE rows of an item from first_row on, and q . e of the positions that they reach. */
void gyre_contextual_rows_begin(gyre_contextual_buffers *b, int64_t item, int64_t first_row);
/* out = rows of a sequence's item. */
static inline int64_t gyre_contextual_row_count(const gyre_contextual_plan *plan, const gyre_call_sequence *s) {
    return s->queries * plan->group;
}
/* out = the key tiles that some row sees. */
int64_t gyre_contextual_tiles_seen(const gyre_contextual_buffers *b);
/* out = the first row that sees a key of the tile; rows after it do too. */
int64_t gyre_contextual_first_row(const gyre_contextual_buffers *b, int64_t tile);
/* out = keys of the tile that a row sees, the first ones. */
int64_t gyre_contextual_seen(const gyre_contextual_buffers *b, int64_t row, int64_t tile);

/* out = 1 if some row from first_row on has not counted to the last position yet. */
int gyre_contextual_counts(const gyre_contextual_buffers *b, int64_t first_row);
/* Reads keys of a tile, unless they were; scores = products of rows from first_row on.  gate_logits too, unless no row
 * counts any more; the gradient reads gate keys anyway. */
void gyre_contextual_products(const gyre_contextual_buffers *b, int64_t tile, int64_t first_row);
/* Reads the values of a tile, unless they were. */
void gyre_contextual_values(const gyre_contextual_buffers *b, int64_t tile);

/* A row in a tile of keys. */
typedef struct gyre_contextual_row {
    int ended; /* the row had counted to the last position before: nothing below is set */
    float gate[KEY_TILE];
    int32_t at[KEY_TILE]; /* the position of key j is at[j] + part[j] */
    float part[KEY_TILE]; /* in [0, 1) */
} gyre_contextual_row;
/* Counts from key seen - 1 down to key 0; out = where the row has counted to. */
double gyre_contextual_count(const gyre_contextual_plan *plan, const float *gate_logits, int64_t seen, double position,
                             gyre_contextual_row *row);
/* scores: products -> scores of the first `seen` keys, -infinity for the others. */
void gyre_contextual_score(const gyre_contextual_plan *plan, const gyre_contextual_row *row, const float *z, int64_t seen,
                           float *scores);

#endif
