/* sight.h: who sees whom: by positions, or by the order of tokens (gyre_attention_args.causal), within the window. */
#ifndef GYRE_ATTENTION_SIGHT_H
#define GYRE_ATTENTION_SIGHT_H
#include "attention/tiles.h"

/* The positions, or places in order, from low to high, both included. */
typedef struct gyre_span {
    int64_t low, high;
} gyre_span;

/* What a query at q sees, and what any of the queries from `least` to `most` does. */
gyre_span gyre_seen_from(const gyre_attention_plan *plan, int64_t q);
gyre_span gyre_seen_by_any(const gyre_attention_plan *plan, int64_t least, int64_t most);
static inline int gyre_outside(gyre_span seen, int64_t position) {
    return position < seen.low || position > seen.high;
}
/* What the queries of a batch row see, all of them together (tiles.c). */
gyre_span gyre_seen_by_batch(const gyre_attention_plan *plan, int64_t batch);
/* *least and *most widened to hold all of positions. */
void gyre_extremes(const int64_t *positions, int64_t count, int64_t *least, int64_t *most);

/* Keys on both sides of the query, or on one. */
typedef enum gyre_side { GYRE_BEFORE = -1, GYRE_ANYWHERE, GYRE_AFTER } gyre_side;
/* 1 and *nearest = the position of the nearest key that a query at q, `order` in what decides, sees; 0 where there is none.
 */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_side *keys, int64_t q, int64_t order, gyre_side where,
                     int64_t *nearest);

/* -infinity for the keys that a query at q does not see, both by what decides it. */
void gyre_mask_row(const gyre_attention_plan *plan, const gyre_meeting *meeting, const int64_t *k, int64_t q, float *row);

#endif
