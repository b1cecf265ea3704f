/* tables.h: what an encoding adds by distance: a number on each score, and vectors beside queries, keys and values.
 *
 * A tile of queries and a tile of keys have few distances, so few rows of a table matter to them: products with those rows
 * make a small block, and each score takes its entry from it.  The gradient goes the same way back: the tile's entries are
 * summed by row, and the sums multiply what the rows did. */
#ifndef GYRE_ATTENTION_TABLES_H
#define GYRE_ATTENTION_TABLES_H
#include "attention/tiles.h"

/* A tile of consecutive positions has QUERY_TILE + KEY_TILE - 1 distances, which fit one block.  A few keys meet only
 * QUERY_TILE and as many more of them (KEY_BLOCK_ROWS), so the key side goes by few keys at a time. */
enum { ROW_BLOCK = 192, KEY_BLOCK = 16, KEY_BLOCK_ROWS = 80, QUERY_BLOCK = 16 };

/* -- before any work -- */
gyre_status gyre_tables_shape_check(const gyre_attention_args *args);
void gyre_tables_measure(gyre_attention_plan *plan);
gyre_status gyre_tables_check(const gyre_attention_plan *plan);
gyre_status gyre_tables_gradient_check(const gyre_attention_plan *plan, const gyre_table_gradients *gradients);
void gyre_tables_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers);

/* -- a tile of queries -- */
/* The queries are read: adds the biases to those that the keys and those that the query table meet. */
void gyre_tables_bias_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* Gradient: what follows is about this tile, of several under way. */
void gyre_tables_bind_tile(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* Gradient: before the first meeting of the tile, and after the last, when dq_rows are still unscaled. */
void gyre_tables_begin_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);
void gyre_tables_end_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);

/* -- a meeting -- */
/* scores += the numbers, relative to the rows' biases, and scale (q . A[r] + k . B[r]). */
void gyre_tables_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                       const gyre_tile_pair *tile_pair);
/* 1: V has no infinite and no NaN entry.  Any time after the queries are read. */
int gyre_tables_values_finite(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* out_rows += sum of weights V[r]; after gyre_tables_score of the same meeting, as all below. */
void gyre_tables_add_values(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* dscores += dout . V[r]. */
void gyre_tables_dweights(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* dq, dk and the gradients of the tables, from weights and dscores. */
void gyre_tables_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair);

/* -- gradients of tables -- */
/* An item begins. */
void gyre_tables_clear(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* Adds what the items of a wave left, in their order, to the caller's memory. */
void gyre_tables_collect(gyre_attention_call *call, const gyre_exec *exec);

#endif
