/* mask.h: gyre_attention_args.mask: numbers added to the scores, of which -infinity hides a key from a query. */
#ifndef GYRE_ATTENTION_MASK_H
#define GYRE_ATTENTION_MASK_H
#include "attention/visibility.h"

/* 1: the mask, if there is one, hides the key (counted in the pass) from the query. */
int gyre_mask_excludes(const gyre_attention_plan *plan, const gyre_query_token *query, int64_t key);
/* 1: it hides keys first .. first + count - 1 from every query of the tile. */
int gyre_mask_excludes_all(const gyre_attention_plan *plan, const gyre_query_buffers *queries, int64_t first, int64_t count);
/* scores += mask; -infinity where that is, even of a score that is infinite or a NaN. */
void gyre_mask_add(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);

#endif
