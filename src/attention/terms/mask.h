/* mask.h: gyre_attention_inputs.mask, added to the scores.  -infinity makes a key invisible to a query. */
#ifndef GYRE_ATTENTION_MASK_H
#define GYRE_ATTENTION_MASK_H
#include "attention/plan/buffers.h"

/* 1: there is a mask and it excludes the key (counted in the segment) for the query. */
int gyre_mask_excludes(const gyre_attention_plan *plan, const gyre_query_token *query, int64_t key);
/* 1: it excludes keys first .. first + count - 1 for every query of the tile. */
int gyre_mask_excludes_all(const gyre_attention_plan *plan, const gyre_query_buffers *queries, int64_t first, int64_t count);
/* scores += mask.  Where the mask is -infinity the score becomes -infinity, even an infinite or NaN score. */
void gyre_mask_add(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);

#endif
