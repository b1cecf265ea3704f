/* phases.c: scores that are a product times the cosine of another. */
#include "attention/terms/phases.h"
#include "core/scheme.h"

#include <string.h>

static const int64_t *positions_of(const gyre_key_buffers *keys, const gyre_tile_pair *tile_pair) {
    return keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first;
}

static void round_turns(const double *wide, int64_t count, float *turns) {
    for (int64_t j = 0; j < count; j++)
        turns[j] = (float)wide[j];
}

void gyre_phases_list(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *q,
                      const gyre_tile_pair *tile_pair, gyre_phase_turns *turns) {
    const int64_t *k = positions_of(keys, tile_pair);
    int64_t distance[QUERY_TILE + KEY_TILE];
    double wide[QUERY_TILE + KEY_TILE];
    const int64_t entries = tile_pair->count + q->high - q->low;
    turns->low = k[0] - q->high;
    turns->distinct = tile_pair->keys->consecutive && entries <= QUERY_TILE + KEY_TILE;
    if (!turns->distinct || entries < 1) return;
    for (int64_t e = 0; e < entries; e++)
        distance[e] = turns->low + e;
    plan->encoding->scheme->phase_row(plan->encoding, 0, distance, entries, wide);
    round_turns(wide, entries, turns->turns);
    memset(turns->turns + entries, 0, 16 * sizeof *turns->turns); /* columns past the last key */
}

void gyre_phases_apply(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                       const gyre_tile_pair *tile_pair, const gyre_phase_turns *turns) {
    const int64_t *k = positions_of(keys, tile_pair);
    float own[KEY_TILE] = {0};
    double wide[KEY_TILE];
    for (int64_t i = 0; i < q->count; i++) {
        gyre_phase_row row = {.n = tile_pair->columns,
                              .x = q->scores + i * KEY_TILE,
                              .phase = q->phases.products + i * KEY_TILE,
                              .turns = own,
                              .cosine = q->phases.cosines ? q->phases.cosines + i * KEY_TILE : NULL};
        if (turns->distinct) {
            row.turns = turns->turns + (k[0] - q->positions[i] - turns->low);
        } else {
            plan->encoding->scheme->phase_row(plan->encoding, q->positions[i], k, tile_pair->count, wide);
            round_turns(wide, tile_pair->count, own);
        }
        plan->kernels->phase_row_f32(&row);
    }
}

void gyre_phases_backward(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++)
        plan->kernels->phase_gradient_row_f32(q->gradient->dscores + i * KEY_TILE, q->phases.products + i * KEY_TILE,
                                              q->phases.cosines + i * KEY_TILE, tile_pair->columns);
}
