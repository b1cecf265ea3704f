/* factors.h: scores that are a product of three vectors: of a query, of a key, and of the row of their distance in the query
 * table (gyre_encoding.query_factors).
 *
 *     score_ij = sum over c of (q_ic A[r]_c) k_jc          r = row(k_j - q_i), q scaled
 *
 *     dq_i += sum over j of ds_ij A[r] k_j      dk_j += sum over i of ds_ij A[r] q_i      dA[r] += sum of ds_ij q_i k_j
 *
 * Where all pairs of a tile pair have one row, as past the distance at which a scheme clips, these are products of matrices
 * with the queries times that row.  Both ways round alike, so that the fixed order may take either. */
#ifndef GYRE_ATTENTION_FACTORS_H
#define GYRE_ATTENTION_FACTORS_H
#include "attention/plan/buffers.h"

/* Entries of a line of gyre_table_buffers.factor_columns: the distances of a tile pair, and up to 15 past the last key. */
enum { FACTOR_COLUMNS = QUERY_TILE + KEY_TILE + 16 };

/* scores = the products.  Follows gyre_tables_list of the tile pair. */
void gyre_factors_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair);
/* Adds to dq, dk and the gradient of the table, from dscores.  Follows gyre_factors_score of the same tile pair. */
void gyre_factors_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *queries,
                           const gyre_tile_pair *tile_pair);

#endif
