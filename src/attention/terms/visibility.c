/* visibility.c: which keys a query sees. */
#include "attention/terms/visibility.h"
#include "attention/terms/mask.h"
#include "core/encoding.h"
#include "core/positions.h"

#include <math.h>
#include <stdlib.h>

/* out = the last key that stays visible outside the window for a query with order q; INT64_MIN: none.  By order the sinks
 * are the first keys after the padding, which are the first of the segment. */
static int64_t last_sink(const gyre_attention_plan *plan, int64_t q) {
    const int64_t first = plan->by_order && !plan->segment->indexed ? plan->segment->key_first : 0, most = INT64_MAX - first;
    const int64_t last = first + (plan->sinks < most ? plan->sinks : most) - 1;
    if (plan->sinks == 0 || (plan->window == 0 && plan->window_after == 0)) return INT64_MIN;
    return plan->args->causal && last > q ? q : last;
}

/* out = from the first key that a query with order `low` sees to the last that one with order `high` sees, with the sinks of
 * one with order `sinks`.  Where sinks and window touch they become one range. */
static gyre_visible_range make_visible_range(const gyre_attention_plan *plan, int64_t low, int64_t high, int64_t sinks) {
    gyre_visible_range visible = {INT64_MIN, INT64_MAX, last_sink(plan, sinks)};
    if (plan->window > 0) visible.low = low - plan->window + 1;
    if (plan->window_after > 0) visible.high = high + plan->window_after - 1;
    if (plan->args->causal) visible.high = high;
    if (visible.sinks == INT64_MIN || (plan->window > 0 && visible.sinks < visible.low - 1)) return visible;
    return (gyre_visible_range){INT64_MIN, visible.high > visible.sinks ? visible.high : visible.sinks, INT64_MIN};
}

gyre_visible_range gyre_visible_to_query(const gyre_attention_plan *plan, int64_t q) {
    return make_visible_range(plan, q, q, q);
}

gyre_visible_range gyre_visible_to_any(const gyre_attention_plan *plan, int64_t least, int64_t most) {
    return make_visible_range(plan, least, most, most);
}

/* 1: every query of the tile sees every key of the tile.  0: unknown. */
static int fully_visible(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_key_tile *k) {
    const gyre_visible_range all = make_visible_range(plan, q->order_max, q->order_min, q->order_min);
    return (k->order_min >= all.low && k->order_max <= all.high) || k->order_max <= all.sinks;
}

void gyre_min_max(const int64_t *positions, int64_t count, int64_t *least, int64_t *most) {
    for (int64_t i = 0; i < count; i++) {
        if (positions[i] < *least) *least = positions[i];
        if (positions[i] > *most) *most = positions[i];
    }
}

void gyre_order_read(const gyre_attention_plan *plan, gyre_role role, const gyre_row_range *rows, int64_t *order) {
    const int query = role == GYRE_ROLE_QUERY;
    const int64_t first = query ? plan->segment->query_order : plan->segment->key_first;
    if (!plan->by_order)
        gyre_positions_read(query ? &plan->args->q_pos : &plan->args->k_pos, rows->batch, rows->first, rows->count, order);
    else if (plan->segment->indexed)
        gyre_positions_read(query ? &plan->segment->q_index : &plan->segment->k_index, rows->batch, rows->first, rows->count,
                            order);
    else
        for (int64_t i = 0; i < rows->count; i++)
            order[i] = first + rows->first + i;
}

gyre_visible_range gyre_visible_to_batch(const gyre_attention_plan *plan, int64_t batch) {
    int64_t buffer[QUERY_TILE], least = INT64_MAX, most = INT64_MIN;
    if (!plan->args->causal && plan->window == 0 && plan->window_after == 0)
        return (gyre_visible_range){INT64_MIN, INT64_MAX, INT64_MIN};
    for (int64_t first = 0; first < plan->queries; first += QUERY_TILE) {
        const int64_t left = plan->queries - first;
        const gyre_row_range rows = {batch, 0, first, left < QUERY_TILE ? left : QUERY_TILE};
        gyre_order_read(plan, GYRE_ROLE_QUERY, &rows, buffer);
        gyre_min_max(buffer, rows.count, &least, &most);
    }
    return plan->queries > 0 ? gyre_visible_to_any(plan, least, most) : (gyre_visible_range){0, -1, INT64_MIN};
}

int gyre_keys_visible(const gyre_attention_plan *plan, const gyre_row_range *keys) {
    int64_t order[KEY_TILE], least = INT64_MAX, most = INT64_MIN;
    const gyre_visible_range visible = gyre_visible_to_batch(plan, keys->batch);
    gyre_order_read(plan, GYRE_ROLE_KEY, keys, order);
    gyre_min_max(order, keys->count, &least, &most);
    return gyre_visible_range_overlaps(visible, least, most);
}

/* The nearest pair is that of the lowest query and the highest key, and no pair is further apart than the highest query and
 * the lowest key. */
static void find_variants(const gyre_attention_plan *plan, const gyre_query_buffers *queries, gyre_tile_pair *tile_pair) {
    const gyre_key_tile *keys = tile_pair->keys;
    tile_pair->first_variant = tile_pair->last_variant = 0;
    for (int variant = 1; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++) {
        if (keys->high <= gyre_variant_last_key(&plan->encoding->config, variant, queries->low))
            tile_pair->first_variant = variant;
        if (keys->low <= gyre_variant_last_key(&plan->encoding->config, variant, queries->high))
            tile_pair->last_variant = variant;
    }
}

int gyre_tile_pair_visible(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                           int64_t tile, gyre_tile_pair *tile_pair) {
    const gyre_key_tile *info = &keys->tiles[tile];
    const int64_t *order = keys->order + tile * KEY_TILE;
    const gyre_visible_range any = gyre_visible_to_any(plan, queries->order_min, queries->order_max);
    if (!gyre_visible_range_overlaps(any, info->order_min, info->order_max)) return 0;
    int64_t first = 0, last = info->count;
    while (last > first && gyre_outside_visible_range(any, order[last - 1]))
        last--;
    while (first < last && gyre_outside_visible_range(any, order[first]))
        first++;
    if (first == last || gyre_mask_excludes_all(plan, queries, tile * KEY_TILE + first, last - first)) return 0;
    first -= first % 16;
    tile_pair->tile = tile;
    tile_pair->buffer_tile = tile - keys->first_buffer_tile;
    tile_pair->first = first;
    tile_pair->count = last - first;
    tile_pair->columns = (last - first + 15) / 16 * 16;
    tile_pair->masked = tile_pair->columns != tile_pair->count || !fully_visible(plan, queries, info);
    tile_pair->keys = info;
    find_variants(plan, queries, tile_pair);
    return 1;
}

int gyre_next_row_block(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair, gyre_row_block *block) {
    enum { BLOCKS = 4 };
    const int64_t *order = keys->order + tile_pair->tile * KEY_TILE + tile_pair->first;
    const int64_t first = block->first + block->rows, left = queries->count - first;
    const int64_t most = tile_pair->masked ? (plan->tile_rows + BLOCKS - 1) / BLOCKS : queries->count;
    *block = (gyre_row_block){first, left < most ? left : most, tile_pair->count};
    if (block->rows <= 0) return 0;
    int64_t low = queries->order[first], high = low;
    gyre_min_max(queries->order + first, block->rows, &low, &high);
    const gyre_visible_range any = gyre_visible_to_any(plan, low, high);
    while (tile_pair->masked && block->keys > 0 && gyre_outside_visible_range(any, order[block->keys - 1]))
        block->keys--;
    return 1;
}

/* out = distance from q to the nearest position in low .. high; INT64_MAX if the range is empty. */
static int64_t distance_to(int64_t low, int64_t high, int64_t q) {
    if (low > high) return INT64_MAX;
    return q < low ? low - q : q > high ? q - high : 0;
}

/* out = a lower bound of the distance from q to a visible key of the tile; INT64_MAX if none is visible. */
static int64_t distance_bound(const gyre_attention_plan *plan, const gyre_key_tile *tile, gyre_visible_range visible,
                              int64_t q) {
    const int64_t low = tile->low, high = tile->high;
    if (!gyre_visible_range_overlaps(visible, tile->order_min, tile->order_max)) return INT64_MAX;
    if (plan->by_order) return distance_to(low, high, q);
    const int64_t near = distance_to(low > visible.low ? low : visible.low, high < visible.high ? high : visible.high, q);
    const int64_t sink = distance_to(low, high < visible.sinks ? high : visible.sinks, q);
    return near < sink ? near : sink;
}

static int lies_in_direction(gyre_key_direction direction, int64_t q, int64_t low, int64_t high) {
    return direction == GYRE_KEY_ANYWHERE || (direction == GYRE_KEY_BEFORE ? low <= q : high >= q);
}

int gyre_key_at(const gyre_attention_plan *plan, const gyre_key_buffers *keys, int64_t position, gyre_near_key *key) {
    if (plan->by_order || plan->key_tiles == 0 || position < keys->tiles[0].low) return 0;
    const int64_t t = (position - keys->tiles[0].low) / KEY_TILE;
    if (t >= plan->key_tiles || !keys->tiles[t].consecutive) return 0;
    if (position < keys->tiles[t].low || position > keys->tiles[t].high) return 0;
    *key = (gyre_near_key){position, t * KEY_TILE + position - keys->tiles[t].low};
    return 1;
}

/* The most likely tile is searched first: its key mostly rules out all other tiles. */
int gyre_nearest_key(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_token *from,
                     gyre_key_direction direction, gyre_near_key *nearest) {
    const int64_t q = from->position;
    const gyre_visible_range visible = gyre_visible_to_query(plan, from->order);
    int64_t likely = 0, bound = INT64_MAX, distance = INT64_MAX;
    for (int64_t t = 0; t < plan->key_tiles && bound > 0; t++) {
        const gyre_key_tile *tile = &keys->tiles[t];
        const int64_t here =
            lies_in_direction(direction, q, tile->low, tile->high) ? distance_bound(plan, tile, visible, q) : INT64_MAX;
        if (here < bound) bound = here, likely = t;
    }
    for (int64_t i = -1; bound < INT64_MAX && i < plan->key_tiles && distance > bound; i++) {
        const int64_t t = i < 0 ? likely : i, *k = keys->positions + t * KEY_TILE, *at = keys->order + t * KEY_TILE;
        const gyre_key_tile *tile = &keys->tiles[t];
        if (!lies_in_direction(direction, q, tile->low, tile->high) || distance_bound(plan, tile, visible, q) >= distance)
            continue;
        for (int64_t j = 0; j < tile->count; j++) {
            if (gyre_outside_visible_range(visible, at[j]) || llabs(q - k[j]) >= distance ||
                !lies_in_direction(direction, q, k[j], k[j]))
                continue;
            if (gyre_mask_excludes(plan, from, t * KEY_TILE + j)) continue;
            distance = llabs(q - k[j]);
            *nearest = (gyre_near_key){k[j], t * KEY_TILE + j};
        }
    }
    return distance < INT64_MAX;
}

/* In sorted tiles the invisible keys are at both ends and between the sinks and the window. */
void gyre_visibility_mask_row(const gyre_attention_plan *plan, const gyre_tile_pair *tile_pair, const int64_t *k, int64_t q,
                              float *row) {
    const gyre_visible_range visible = gyre_visible_to_query(plan, q);
    int64_t first = 0, last = tile_pair->count;
    for (int64_t j = last; j < tile_pair->columns; j++)
        row[j] = -INFINITY;
    while (last > first && gyre_outside_visible_range(visible, k[last - 1]))
        row[--last] = -INFINITY;
    while (first < last && gyre_outside_visible_range(visible, k[first]))
        row[first++] = -INFINITY;
    if (first == last || (tile_pair->keys->sorted && (k[first] >= visible.low || k[last - 1] <= visible.sinks))) return;
    for (; first < last; first++)
        if (gyre_outside_visible_range(visible, k[first])) row[first] = -INFINITY;
}
