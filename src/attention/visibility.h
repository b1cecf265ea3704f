/* visibility.h: who sees whom: by positions, or by the order of tokens (gyre_attention_args.causal), within the window and
 * among the first keys that stay in sight whatever the window (sinks).  What an additive mask hides is mask.h's to say. */
#ifndef GYRE_ATTENTION_VISIBILITY_H
#define GYRE_ATTENTION_VISIBILITY_H
#include "attention/tiles.h"

/* The positions, or places in order, from low to high, both included, and all those up to `sinks`, which lie before low - 1;
 * INT64_MIN: there are none but from low to high. */
typedef struct gyre_visible_range {
    int64_t low, high, sinks;
} gyre_visible_range;

/* What a query at q sees, and what any of the queries from `least` to `most` may see. */
gyre_visible_range gyre_visible_to_query(const gyre_attention_plan *plan, int64_t q);
gyre_visible_range gyre_visible_to_any(const gyre_attention_plan *plan, int64_t least, int64_t most);
static inline int gyre_outside_visible_range(gyre_visible_range visible, int64_t position) {
    return (position < visible.low || position > visible.high) && position > visible.sinks;
}
/* 1: some of the positions from least to most lie in it. */
static inline int gyre_visible_range_overlaps(gyre_visible_range visible, int64_t least, int64_t most) {
    return (least <= visible.high && most >= visible.low) || least <= visible.sinks;
}
/* What the queries of a batch row see, all of them together (tiles.c). */
gyre_visible_range gyre_visible_to_batch(const gyre_attention_plan *plan, int64_t batch);
/* *least and *most widened to hold all of positions. */
void gyre_min_max(const int64_t *positions, int64_t count, int64_t *least, int64_t *most);

/* A query: where it is, what decides whom it sees, and its place in the views. */
typedef struct gyre_query_token {
    int64_t position, order;
    int64_t batch, query, head;
} gyre_query_token;
/* Keys on both sides of the query, or on one. */
typedef enum gyre_key_direction { GYRE_KEY_BEFORE = -1, GYRE_KEY_ANYWHERE, GYRE_KEY_AFTER } gyre_key_direction;
/* 1 and *nearest = the position of the nearest key that the query sees; 0 where there is none. */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_token *from,
                     gyre_key_direction direction, int64_t *nearest);

/* -infinity for the keys that a query at q does not see, both by what decides it. */
void gyre_visibility_mask_row(const gyre_attention_plan *plan, const gyre_tile_pair *tile_pair, const int64_t *k, int64_t q,
                              float *row);

/* gyre_attention_args.sink_logits: the score that no key has, of a query head; -infinity where there is none.  It is whole:
 * what joins scores that are relative to a row's bias is this less that bias.  A row's log-sum-exp has it in it, so weights
 * formed from that ask for no more, and exp(sink - lse) is what goes to no key. */
float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head);

#endif
