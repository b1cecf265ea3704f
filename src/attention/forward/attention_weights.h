/* attention_weights.h: gyre_attention_inputs.weights, the weights of some queries, for pictures.  They are not stored on the
 * way to out, so those that the caller wants are computed again: one pass over all keys for the sum of each row, and a
 * second one for the weights. */
#ifndef GYRE_ATTENTION_ATTENTION_WEIGHTS_H
#define GYRE_ATTENTION_ATTENTION_WEIGHTS_H
#include "attention/plan/buffers.h"

/* args->weights = zeros.  Segments then write only the keys that their queries see. */
void gyre_weights_clear(const gyre_attention_inputs *args, const gyre_exec *exec);
/* out = number of query tiles with wanted weights, from *first on.  Whole tiles, because xPos angles are relative to
 * them. */
int64_t gyre_weights_tiles(const gyre_attention_plan *plan, int64_t *first);

/* First pass: adds the tile pair to row_max and row_sum, which begin at -infinity and 0. */
void gyre_weights_sum(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                      const gyre_tile_pair *tile_pair);
/* Second pass: writes the weights of the wanted queries of the tile pair. */
void gyre_weights_write(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair);

#endif
