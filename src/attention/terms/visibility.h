/* visibility.h: which keys a query sees: by position or by the order of tokens (gyre_attention_inputs.causal), inside the
 * window, and the first keys, which stay visible outside it (sinks).  terms/mask.h excludes more.
 *
 *     key order:   0 .. sinks      low ............ high
 *                  visible         visible: the window, cut at the query where causal */
#ifndef GYRE_ATTENTION_VISIBILITY_H
#define GYRE_ATTENTION_VISIBILITY_H
#include "attention/plan/buffers.h"

/* Positions (or order) low .. high, both included, and all up to `sinks`, which is below low - 1; INT64_MIN = no sinks. */
typedef struct gyre_visible_range {
    int64_t low, high, sinks;
} gyre_visible_range;

/* out = what a query with order q sees. */
gyre_visible_range gyre_visible_to_query(const gyre_attention_plan *plan, int64_t q);
/* out = a range that holds all that queries with order least .. most see. */
gyre_visible_range gyre_visible_to_any(const gyre_attention_plan *plan, int64_t least, int64_t most);
/* out = a range that holds all that the queries of a batch row see. */
gyre_visible_range gyre_visible_to_batch(const gyre_attention_plan *plan, int64_t batch);
static inline int gyre_outside_visible_range(gyre_visible_range visible, int64_t position) {
    return (position < visible.low || position > visible.high) && position > visible.sinks;
}
/* 1: some of the positions least .. most are visible. */
static inline int gyre_visible_range_overlaps(gyre_visible_range visible, int64_t least, int64_t most) {
    return (least <= visible.high && most >= visible.low) || least <= visible.sinks;
}

/* order[i] = what decides the visibility of row i: its position, or its index in the sequence (the last query is aligned
 * with the last key). */
void gyre_order_read(const gyre_attention_plan *plan, gyre_role role, const gyre_row_range *rows, int64_t *order);
/* Widens *least .. *most until it holds all positions. */
void gyre_min_max(const int64_t *positions, int64_t count, int64_t *least, int64_t *most);

/* 0: no query of the batch row sees any of these keys.  1: some query may. */
int gyre_keys_visible(const gyre_attention_plan *plan, const gyre_row_range *keys);
/* 0: no query of the tile sees any key of tile `tile`.  1: *tile_pair = the part of the tile that is visible. */
int gyre_tile_pair_visible(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                           int64_t tile, gyre_tile_pair *tile_pair);

/* Some rows of a tile of queries.  None of them sees a key of the tile pair from `keys` on. */
typedef struct gyre_row_block {
    int64_t first, rows, keys;
} gyre_row_block;
/* *block = the rows after it; begin with zeros.  out = 0 if there are none.  If all of the pair is visible, one block has
 * all rows.  So a product of each block leaves out most of what is masked. */
int gyre_next_row_block(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair, gyre_row_block *block);

/* A key: its position, and its index in the segment. */
typedef struct gyre_near_key {
    int64_t position, key;
} gyre_near_key;

typedef enum gyre_key_direction { GYRE_KEY_BEFORE = -1, GYRE_KEY_ANYWHERE, GYRE_KEY_AFTER } gyre_key_direction;
/* 1: *nearest = the nearest visible key in that direction.  0: there is none. */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_token *from,
                     gyre_key_direction direction, gyre_near_key *nearest);
/* 1: *key = a key at that position, which is visible to a query there unless a mask excludes it.  Finds it only in tiles of
 * consecutive positions, the usual case. */
int gyre_key_at(const gyre_attention_plan *plan, const gyre_key_buffers *keys, int64_t position, gyre_near_key *key);

/* row[j] = -infinity for keys that a query with order q does not see; k: the order of the keys of the tile pair. */
void gyre_visibility_mask_row(const gyre_attention_plan *plan, const gyre_tile_pair *tile_pair, const int64_t *k, int64_t q,
                              float *row);

#endif
