/* adaptive_tiles.h: a tile of queries of all heads, and its products, biases and scores with a tile of keys. */
#ifndef GYRE_ADAPTIVE_TILES_H
#define GYRE_ADAPTIVE_TILES_H
#include "adaptive/adaptive_plan.h"

/* Reads queries first .. first + ADAPTIVE_ROWS - 1 of a sequence, or those that there are. */
void gyre_adaptive_rows_begin(gyre_adaptive_buffers *b, int64_t sequence, int64_t first);
/* key_rows, or value_rows, = a tile of a key head. */
void gyre_adaptive_read_keys(gyre_adaptive_buffers *b, int64_t head, int64_t tile);
void gyre_adaptive_read_values(gyre_adaptive_buffers *b, int64_t head, int64_t tile);
/* out = keys that query `row` of the tile sees, the first ones of its sequence. */
int64_t gyre_adaptive_visible(const gyre_adaptive_buffers *b, int64_t row);
/* out = the key tiles that some row sees. */
int64_t gyre_adaptive_tiles_seen(const gyre_adaptive_buffers *b);
/* out = keys of the tile that a row sees, the first ones. */
int64_t gyre_adaptive_seen(const gyre_adaptive_buffers *b, int64_t row, int64_t tile);

/* x = [A, B], or A + B where the network reads that; 0 for pairs that do not see each other, whatever their value. */
void gyre_adaptive_inputs(gyre_adaptive_buffers *b, int64_t tile);

/* out = numbers from plane to plane. */
static inline int64_t gyre_adaptive_plane(const gyre_adaptive_buffers *b) {
    return b->rows * KEY_TILE + PLANE_GAP;
}

#endif
