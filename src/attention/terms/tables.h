/* tables.h: what an encoding adds by distance: a bias on each score, and vectors added to queries, keys and values.
 *
 * A tile of queries and a tile of keys have few distances, so they use few rows of a table.  Products with these rows
 * make a small block, and each score takes its entry from the block.  The gradient reverses this: the entries of a tile
 * are summed by row, and the sums are multiplied with what the rows were multiplied with.
 *
 *     queries x table rows            scores
 *     [tile_rows][ROW_BLOCK]   ->     [tile_rows][KEY_TILE]      score (i, j) takes column row(distance of i and j) */
#ifndef GYRE_ATTENTION_TABLES_H
#define GYRE_ATTENTION_TABLES_H
#include "attention/plan/buffers.h"

/* A tile of consecutive positions has QUERY_TILE + KEY_TILE - 1 distances, which fit one block.  KEY_BLOCK keys have
 * only QUERY_TILE + KEY_BLOCK - 1 distances (KEY_BLOCK_ROWS), so the key term takes few keys at a time. */
enum { ROW_BLOCK = 192, KEY_BLOCK = 16, KEY_BLOCK_ROWS = 80, QUERY_BLOCK = 16 };

/* -- a tile of queries -- */
/* Once the queries are read: adds the query biases to q_rows[0] and to table_rows. */
void gyre_tables_bias_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* Gradient: makes the table buffers, which all tiles of a job share, those of this tile. */
void gyre_tables_bind_tile(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* Gradient: before the first tile pair of the queries; after the last, while dq_rows are still unscaled. */
void gyre_tables_begin_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);
void gyre_tables_end_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries);

/* -- a tile pair -- */
/* The distances of the pairs and their rows, which the functions below read. */
void gyre_tables_list(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                      const gyre_tile_pair *tile_pair);
/* scores += the biases, relative to the rows' biases, and scale (q . A[r] + k . B[r]). */
void gyre_tables_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                       const gyre_tile_pair *tile_pair);
/* 1: V has no infinite and no NaN entry.  At any time after the queries are read. */
int gyre_tables_values_finite(const gyre_attention_plan *plan, gyre_query_buffers *queries);
/* The functions below follow gyre_tables_score of the same tile pair. */
/* out_rows += sum of weights V[r]. */
void gyre_tables_add_values(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* Fixed order: out_rows += weights times the infinite and NaN entries of V, which the function above takes for zeros. */
void gyre_tables_add_nonfinite_values(const gyre_attention_plan *plan, gyre_query_buffers *queries,
                                      const gyre_tile_pair *tile_pair);
/* dscores += dout . V[r]. */
void gyre_tables_dweights(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* Adds to dq, dk and the gradients of the tables, from weights and dscores. */
void gyre_tables_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair);

#endif
