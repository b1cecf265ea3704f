/* attention_weights.h: gyre_attention_args.weights: how much some queries look at each key, for pictures.  No weight is kept
 * on the way to out, so those that are wanted are computed once more: the tile's queries meet all keys for the sum of their
 * row, and again for each key's share of it. */
#ifndef GYRE_ATTENTION_ATTENTION_WEIGHTS_H
#define GYRE_ATTENTION_ATTENTION_WEIGHTS_H
#include "attention/tiles.h"

/* Zeros in all of args->weights: passes write where their queries see keys, and nowhere else. */
void gyre_weights_clear(const gyre_attention_args *args, const gyre_exec *exec);
/* out = how many tiles of queries the wanted ones lie in, from *first on; whole tiles, since turns of xPos count in them. */
int64_t gyre_weights_tiles(const gyre_attention_plan *plan, int64_t *first);

/* A meeting of queries whose top was -infinity and whose sum 0 before their first.  Adds to the rows' sums. */
void gyre_weights_sum(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                      const gyre_tile_pair *tile_pair);
/* After all of those, once more: writes the weights of the wanted among the queries. */
void gyre_weights_write(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair);

#endif
