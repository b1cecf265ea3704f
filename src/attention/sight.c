/* sight.c: who sees whom. */
#include "attention/sight.h"
#include "attention/mask.h"
#include "core/view.h"

#include <math.h>
#include <stdlib.h>

/* The last of the keys that stay in sight, by what decides it, as a query at q has it; INT64_MIN: none.  By order they are
 * the first of those that are there: what pads a sequence is no token. */
static int64_t last_sink(const gyre_attention_plan *plan, int64_t q) {
    const int64_t first = plan->by_order ? plan->pass->key_first : 0, most = INT64_MAX - first;
    const int64_t last = first + (plan->sinks < most ? plan->sinks : most) - 1;
    if (plan->sinks == 0 || plan->window == 0) return INT64_MIN;
    return plan->args->causal && last > q ? q : last;
}

/* Keys from those that a query at `low` sees first to those that one at `high` sees last, and sinks as one at `sinks` has
 * them.  Where the two stretches touch they are one. */
static gyre_span span_of(const gyre_attention_plan *plan, int64_t low, int64_t high, int64_t sinks) {
    gyre_span seen = {INT64_MIN, INT64_MAX, last_sink(plan, sinks)};
    if (plan->window > 0) seen.low = low - plan->window + 1, seen.high = high + plan->window - 1;
    if (plan->args->causal) seen.high = high;
    if (seen.sinks == INT64_MIN || seen.sinks < seen.low - 1) return seen;
    return (gyre_span){INT64_MIN, seen.high > seen.sinks ? seen.high : seen.sinks, INT64_MIN};
}

gyre_span gyre_seen_from(const gyre_attention_plan *plan, int64_t q) {
    return span_of(plan, q, q, q);
}

gyre_span gyre_seen_by_any(const gyre_attention_plan *plan, int64_t least, int64_t most) {
    return span_of(plan, least, most, most);
}

/* 1: every query of the tile sees every key of the other.  (0 does not deny it.) */
static int seen_by_all(const gyre_attention_plan *plan, const gyre_query_side *q, const gyre_key_tile *k) {
    const gyre_span all = span_of(plan, q->most, q->least, q->least);
    return (k->least >= all.low && k->most <= all.high) || k->most <= all.sinks;
}

void gyre_extremes(const int64_t *positions, int64_t count, int64_t *least, int64_t *most) {
    for (int64_t i = 0; i < count; i++) {
        if (positions[i] < *least) *least = positions[i];
        if (positions[i] > *most) *most = positions[i];
    }
}

int gyre_tiles_meet(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_query_side *queries, int64_t tile,
                    gyre_meeting *meeting) {
    const gyre_key_tile *info = &keys->tiles[tile];
    const int64_t *order = keys->order + tile * KEY_TILE;
    const gyre_span any = gyre_seen_by_any(plan, queries->least, queries->most);
    if (!gyre_span_meets(any, info->least, info->most)) return 0;
    int64_t first = 0, last = info->count;
    while (last > first && gyre_outside(any, order[last - 1]))
        last--;
    while (first < last && gyre_outside(any, order[first]))
        first++;
    if (first == last || gyre_mask_hides_all(plan, queries, tile * KEY_TILE + first, last - first)) return 0;
    first -= first % 16;
    meeting->tile = tile;
    meeting->held = tile - keys->first_held;
    meeting->first = first;
    meeting->count = last - first;
    meeting->columns = (last - first + 15) / 16 * 16;
    meeting->masked = meeting->columns != meeting->count || !seen_by_all(plan, queries, info);
    meeting->keys = info;
    meeting->far = plan->turn.far && queries->high - info->low >= plan->turn.window;
    meeting->near = !plan->turn.far || queries->low - info->high < plan->turn.window;
    return 1;
}

/* No position from low to high is nearer to q; INT64_MAX where there is none. */
static int64_t distance_to(int64_t low, int64_t high, int64_t q) {
    if (low > high) return INT64_MAX;
    return q < low ? low - q : q > high ? q - high : 0;
}

/* No key of the tile that is seen from q is nearer; INT64_MAX where none is seen. */
static int64_t distance_bound(const gyre_attention_plan *plan, const gyre_key_tile *tile, gyre_span seen, int64_t q) {
    const int64_t low = tile->low, high = tile->high;
    if (!gyre_span_meets(seen, tile->least, tile->most)) return INT64_MAX;
    if (plan->by_order) return distance_to(low, high, q);
    const int64_t near = distance_to(low > seen.low ? low : seen.low, high < seen.high ? high : seen.high, q);
    const int64_t sink = distance_to(low, high < seen.sinks ? high : seen.sinks, q);
    return near < sink ? near : sink;
}

static int lies(gyre_side where, int64_t q, int64_t low, int64_t high) {
    return where == GYRE_ANYWHERE || (where == GYRE_BEFORE ? low <= q : high >= q);
}

/* The tile that may hold it comes first: it mostly rules out all others. */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_onlooker *from, gyre_side where,
                     int64_t *nearest) {
    const int64_t q = from->position;
    const gyre_span seen = gyre_seen_from(plan, from->order);
    int64_t likely = 0, bound = INT64_MAX, distance = INT64_MAX;
    for (int64_t t = 0; t < plan->key_tiles && bound > 0; t++) {
        const gyre_key_tile *tile = &keys->tiles[t];
        const int64_t here = lies(where, q, tile->low, tile->high) ? distance_bound(plan, tile, seen, q) : INT64_MAX;
        if (here < bound) bound = here, likely = t;
    }
    for (int64_t i = -1; bound < INT64_MAX && i < plan->key_tiles && distance > bound; i++) {
        const int64_t t = i < 0 ? likely : i, *k = keys->positions + t * KEY_TILE, *at = keys->order + t * KEY_TILE;
        const gyre_key_tile *tile = &keys->tiles[t];
        if (!lies(where, q, tile->low, tile->high) || distance_bound(plan, tile, seen, q) >= distance) continue;
        for (int64_t j = 0; j < tile->count; j++) {
            if (gyre_outside(seen, at[j]) || llabs(q - k[j]) >= distance || !lies(where, q, k[j], k[j])) continue;
            if (gyre_mask_hides(plan, from, t * KEY_TILE + j)) continue;
            distance = llabs(q - k[j]);
            *nearest = k[j];
        }
    }
    return distance < INT64_MAX;
}

/* In sorted tiles those are at the ends, and between the sinks and the window. */
void gyre_mask_row(const gyre_attention_plan *plan, const gyre_meeting *meeting, const int64_t *k, int64_t q, float *row) {
    const gyre_span seen = gyre_seen_from(plan, q);
    int64_t first = 0, last = meeting->count;
    for (int64_t j = last; j < meeting->columns; j++)
        row[j] = -INFINITY;
    while (last > first && gyre_outside(seen, k[last - 1]))
        row[--last] = -INFINITY;
    while (first < last && gyre_outside(seen, k[first]))
        row[first++] = -INFINITY;
    if (first == last || (meeting->keys->sorted && (k[first] >= seen.low || k[last - 1] <= seen.sinks))) return;
    for (; first < last; first++)
        if (gyre_outside(seen, k[first])) row[first] = -INFINITY;
}

float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head) {
    const gyre_cview *sinks = &plan->args->sink_logits;
    return sinks->data ? *(const float *)gyre_cview_at(sinks, 0, 0, head, 0) : -INFINITY;
}
