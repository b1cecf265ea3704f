/* scores.h: the scores of one tile pair. */
#ifndef GYRE_ATTENTION_SCORES_H
#define GYRE_ATTENTION_SCORES_H
#include "attention/plan/buffers.h"

/* scores = scale (E(m)q . E(n)k + q . A[r] + k . B[r]) + b - the row's bias, then softcap, mask, and -infinity where the
 * key is not visible.  With phases: the first product is of amplitudes, times the cosine. */
void gyre_tile_pair_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair);
/* The last steps of that, for whole scores: softcap, mask, visibility. */
void gyre_tile_pair_mask(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                         const gyre_tile_pair *tile_pair);
/* row_max = the largest score of each row over all key tiles, -infinity without any.  Overwrites the scores. */
void gyre_tiles_row_max(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries);

#endif
