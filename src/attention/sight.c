/* sight.c: who sees whom. */
#include "attention/sight.h"
#include <math.h>
#include <stdlib.h>

gyre_span gyre_seen_from(const gyre_attention_plan *plan, int64_t q) {
    gyre_span seen = {INT64_MIN, INT64_MAX};
    if (plan->window > 0) seen.low = q - plan->window + 1, seen.high = q + plan->window - 1;
    if (plan->args->causal) seen.high = q;
    return seen;
}

/* What any of the queries from `least` to `most` sees. */
gyre_span gyre_seen_by_any(const gyre_attention_plan *plan, int64_t least, int64_t most) {
    return (gyre_span){gyre_seen_from(plan, least).low, gyre_seen_from(plan, most).high};
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
    if (info->least > any.high || info->most < any.low) return 0;
    int64_t first = 0, last = info->count;
    while (last > first && gyre_outside(any, order[last - 1]))
        last--;
    while (first < last && gyre_outside(any, order[first]))
        first++;
    if (first == last) return 0;
    first -= first % 16;
    const gyre_span all = {gyre_seen_from(plan, queries->most).low, gyre_seen_from(plan, queries->least).high};
    meeting->tile = tile;
    meeting->held = tile - keys->first_held;
    meeting->first = first;
    meeting->count = last - first;
    meeting->columns = (last - first + 15) / 16 * 16;
    meeting->masked = meeting->columns != meeting->count || gyre_outside(all, info->least) || gyre_outside(all, info->most);
    meeting->keys = info;
    meeting->far = plan->turn.far && queries->high - info->low >= plan->turn.window;
    meeting->near = !plan->turn.far || queries->low - info->high < plan->turn.window;
    return 1;
}

/* No key of the tile that is seen from q is nearer; INT64_MAX where none is seen. */
static int64_t distance_bound(const gyre_attention_plan *plan, const gyre_key_tile *tile, gyre_span seen, int64_t q) {
    int64_t low = tile->low, high = tile->high;
    if (tile->least > seen.high || tile->most < seen.low) return INT64_MAX;
    if (!plan->by_order) {
        low = low > seen.low ? low : seen.low;
        high = high < seen.high ? high : seen.high;
    }
    return q < low ? low - q : q > high ? q - high : 0;
}

static int lies(gyre_side where, int64_t q, int64_t low, int64_t high) {
    return where == GYRE_ANYWHERE || (where == GYRE_BEFORE ? low <= q : high >= q);
}

/* 1 and *nearest, or 0 where none is seen.  The tile that may hold it comes first: it mostly rules out all others. */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_side *keys, int64_t q, int64_t order, gyre_side where,
                     int64_t *nearest) {
    const gyre_span seen = gyre_seen_from(plan, order);
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
            distance = llabs(q - k[j]);
            *nearest = k[j];
        }
    }
    return distance < INT64_MAX;
}

/* -infinity for the keys that a query at q does not see, both by what decides it.  In sorted tiles those are at the ends. */
void gyre_mask_row(const gyre_attention_plan *plan, const gyre_meeting *meeting, const int64_t *k, int64_t q, float *row) {
    const gyre_span seen = gyre_seen_from(plan, q);
    int64_t first = 0, last = meeting->count;
    for (int64_t j = last; j < meeting->columns; j++)
        row[j] = -INFINITY;
    while (last > first && gyre_outside(seen, k[last - 1]))
        row[--last] = -INFINITY;
    while (first < last && gyre_outside(seen, k[first]))
        row[first++] = -INFINITY;
    if (meeting->keys->sorted) return;
    for (; first < last; first++)
        if (gyre_outside(seen, k[first])) row[first] = -INFINITY;
}
