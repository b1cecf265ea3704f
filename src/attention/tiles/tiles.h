/* tiles.h: tiles of keys and queries, read from the caller's memory and prepared for products. */
#ifndef GYRE_ATTENTION_TILES_H
#define GYRE_ATTENTION_TILES_H
#include "attention/plan/buffers.h"

/* Fills in positions, order and extent of key tile t of a batch row. */
void gyre_key_info_fill(const gyre_attention_plan *plan, int64_t batch, int64_t t, gyre_key_buffers *buffers);
/* Reads the keys and values of tile t, whose info is filled in, rotates and transposes them as the pass needs them.
 * key_rows: [KEY_TILE][max(head_pad, value_pad)], working memory. */
void gyre_key_tile_fill(const gyre_attention_plan *plan, int64_t item, int64_t t, gyre_key_buffers *buffers,
                        float *key_rows);
/* to = rows of keys, rotated by the angles of a variant, or of values, with zero rows up to the next multiple of 16. */
void gyre_key_rows_read(const gyre_attention_plan *plan, const gyre_row_range *rows, int variant, float *to);
void gyre_value_rows_read(const gyre_attention_plan *plan, const gyre_row_range *rows, float *to);
/* Gradient: all key tiles of an item that some query sees. */
void gyre_key_buffers_fill(const gyre_attention_plan *plan, int64_t item, gyre_key_buffers *buffers,
                           gyre_query_buffers *work);
/* Reads, rotates and scales a tile of queries, and finds what their biases are relative to. */
void gyre_query_buffers_fill(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_row_range *rows,
                             gyre_query_buffers *buffers);
/* Multiplies rows of the queries by their scales; what the query table is multiplied with, by the temperature alone. */
void gyre_query_rows_scale(const gyre_attention_plan *plan, const gyre_query_buffers *queries, float *rows);

#endif
