/* phases.h: scores that are a product times the cosine of another (TAPA).  Channels of q and k have two parts, amplitudes A
 * and phases P:
 *
 *     score = scale (q_A . k_A) cos(2 pi t),      t = turns(|m - n|) (q_P . k_P)
 *
 *     dA = dscore cos(2 pi t)                     d(q_P . k_P) = -dscore scale (q_A . k_A) 2 pi turns sin(2 pi t)
 *
 * Each product has its own tiles.  All later terms, from biases to sinks, are as elsewhere. */
#ifndef GYRE_ATTENTION_PHASES_H
#define GYRE_ATTENTION_PHASES_H
#include "attention/plan/buffers.h"

/* The revolutions of a tile pair by distance: those of query i begin at entry k[0] - positions[i] - low.  distinct 0:
 * its positions are not close enough for one list, and rows are computed when they are needed. */
typedef struct gyre_phase_turns {
    int distinct;
    int64_t low;
    float turns[QUERY_TILE + KEY_TILE + 16];
} gyre_phase_turns;

void gyre_phases_list(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                      const gyre_tile_pair *tile_pair, gyre_phase_turns *turns);
/* scores *= cos(2 pi turns phases).  In a gradient phases and cosines then have what gyre_phases_backward needs. */
void gyre_phases_apply(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                       const gyre_tile_pair *tile_pair, const gyre_phase_turns *turns);
/* dscores and phases = gradients to the two products, from dscores. */
void gyre_phases_backward(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);

#endif
