/* softmax.h: what the online softmax (call/online_softmax.h) takes from a call of attention: its tiles and sink logits. */
#ifndef GYRE_ATTENTION_SOFTMAX_H
#define GYRE_ATTENTION_SOFTMAX_H
#include "attention/plan/buffers.h"
#include "call/online_softmax.h"

/* row_max[i] = max(row_max[i], scores of row i). */
void gyre_row_max_update(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* scores of row i -> exp(score - row_max[i]); out = their sum. */
float gyre_row_exp(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair, int64_t i);
/* out: with the sink logit of the head, if it has one. */
gyre_row_normalizer gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state);

/* out = sink_logits of the call for a query head; -infinity if there are none.  It has no key and is not relative to
 * a row's bias: subtract the bias before comparing it with scores.  The log-sum-exp of a row includes it, so weights formed
 * from that need nothing more. */
double gyre_sink_logit(const gyre_attention_plan *plan, int64_t head);

#endif
