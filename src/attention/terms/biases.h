/* biases.h: numbers that are added to scores: the bias b(head, m, n) of a scheme, and the difference c[m] - c[n] of gate
 * sums (gyre_attention_inputs.q_gate_sums).  ALiBi is the difference of c = -slope x position.
 *
 * Both fall without bound, so that a float cannot distinguish the biases of far keys.  The scores of a row are therefore
 * relative to its bias at one key, the nearest visible one, which has the largest bias of a row that falls:
 *
 *     score = scale q.k + (b(m, n) - b(m, nearest)) + (c[nearest] - c[n])
 *     bias  = b(m, nearest) + (c[m] - c[nearest])           added to the log-sum-exp, and to partial rows and states
 *
 * Each difference is formed before it is rounded.  All of it is 0 for a query that is among its keys, where c[nearest] is
 * c[m]. */
#ifndef GYRE_ATTENTION_BIASES_H
#define GYRE_ATTENTION_BIASES_H
#include "attention/plan/buffers.h"

/* Finds the key that each row of a tile of queries is relative to: nearest, gate_sum and bias. */
void gyre_biases_begin(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries);
/* scores += the biases of a tile pair, relative to those of the rows.  (Schemes without bias_tile: terms/tables.h.) */
void gyre_biases_add(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                     const gyre_tile_pair *tile_pair);

/* -- the gradient to gate sums -- */
/* queries->gradient->dgate_sums = 0. */
void gyre_gates_begin_queries(gyre_query_buffers *queries);
/* dgate_sums of queries += the sums of their rows of dscores; those of keys -= the sums of their columns. */
void gyre_gates_backward(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                         const gyre_tile_pair *tile_pair);
/* Writes them to the caller's memory, or adds to it. */
void gyre_gates_end_queries(const gyre_attention_plan *plan, const gyre_query_buffers *queries);
void gyre_gates_end_keys(const gyre_attention_plan *plan, int64_t item, const gyre_key_buffers *keys);

#endif
