/* tiles.c: tiles of rows in and out of the caller's memory. */
#include "attention/tiles.h"
#include "attention/sight.h"
#include "attention/tables.h"
#include "attention/turns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- rows ---------------------------------------------------------------------------------------------------------- */

void gyre_rows_read(const gyre_cview *view, const gyre_rows *rows, float *to, int64_t pad) {
    const int64_t channels = view->shape[3], step = view->stride[3];
    for (int64_t i = 0; i < rows->count; i++, to += pad) {
        const float *from = (const float *)view->data + rows->batch * view->stride[0] + (rows->first + i) * view->stride[1] +
                            rows->head * view->stride[2];
        if (step == 1)
            memcpy(to, from, (size_t)channels * sizeof *to);
        else
            for (int64_t c = 0; c < channels; c++)
                to[c] = from[c * step];
        for (int64_t c = channels; c < pad; c++)
            to[c] = 0;
    }
}

void gyre_rows_write(const gyre_view *view, const gyre_rows *rows, const float *from, int64_t pad) {
    const int64_t channels = view->shape[3], step = view->stride[3];
    for (int64_t i = 0; i < rows->count; i++, from += pad) {
        float *to = (float *)view->data + rows->batch * view->stride[0] + (rows->first + i) * view->stride[1] +
                    rows->head * view->stride[2];
        if (step == 1)
            memcpy(to, from, (size_t)channels * sizeof *to);
        else
            for (int64_t c = 0; c < channels; c++)
                to[c * step] = from[c];
    }
}

static int all_finite(const gyre_attention_plan *plan, const float *x, int64_t n) {
    int finite;
    plan->kernels->finite_row_f32(x, n, &finite);
    return finite;
}

/* -- filling the two sides ----------------------------------------------------------------------------------------- */

static void describe(const int64_t *positions, const int64_t *order, gyre_key_tile *tile) {
    tile->low = tile->high = positions[0];
    tile->least = tile->most = order[0];
    gyre_extremes(positions, tile->count, &tile->low, &tile->high);
    gyre_extremes(order, tile->count, &tile->least, &tile->most);
    tile->sorted = tile->steady = 1;
    for (int64_t i = 1; i < tile->count; i++) {
        tile->sorted &= order[i - 1] <= order[i];
        tile->steady &= positions[i - 1] + 1 == positions[i];
    }
}

/* What decides whether a query sees a key: positions, or where tokens stand, the last query beside the last key. */
static void read_order(const gyre_attention_plan *plan, gyre_role role, const gyre_rows *rows, int64_t *order) {
    const int64_t shift = role == GYRE_QUERY ? plan->keys - plan->queries : 0;
    if (!plan->by_order)
        gyre_positions_read(role == GYRE_QUERY ? &plan->args->q_pos : &plan->args->k_pos, rows->batch, rows->first,
                            rows->count, order);
    else
        for (int64_t i = 0; i < rows->count; i++)
            order[i] = rows->first + i + shift;
}

/* Rows that complete the last group of 16 are zeros: the transpose reads them. */
static void read_key_rows(const gyre_cview *view, const gyre_rows *rows, float *to, int64_t pad) {
    gyre_rows_read(view, rows, to, pad);
    const int64_t whole = (rows->count + 15) / 16 * 16;
    memset(to + rows->count * pad, 0, (size_t)((whole - rows->count) * pad) * sizeof *to);
}

static void into_columns(const gyre_attention_plan *plan, const float *rows, int64_t count, int64_t pad, float *columns) {
    const gyre_transpose job = {(count + 15) / 16 * 16, pad, rows, pad, columns, KEY_TILE};
    plan->kernels->transpose_f32(&job);
}

static void fill_keys(const gyre_attention_plan *plan, const gyre_rows *rows, gyre_key_side *side, gyre_query_side *work) {
    const int64_t pad = plan->head_pad, at = rows->first, n = rows->count;
    gyre_key_tile *tile = &side->tiles[at / KEY_TILE];
    tile->k_finite = 1;
    for (int far = 0; far <= plan->turn.far; far++) {
        const gyre_turned how = {.role = GYRE_KEY, .far = far};
        float *k = plan->gradient ? side->k_rows[far] + at * pad : work->key_rows;
        read_key_rows(&plan->args->k, rows, k, pad);
        gyre_turns_apply(plan, rows, &how, k);
        tile->k_finite &= all_finite(plan, k, n * pad);
        into_columns(plan, k, n, pad, side->k_columns[far] + at * pad);
    }
}

static void fill_values(const gyre_attention_plan *plan, const gyre_rows *rows, gyre_key_side *side, gyre_query_side *work) {
    const int64_t pad = plan->value_pad, at = rows->first, n = rows->count;
    float *v = plan->gradient ? work->key_rows : side->v_rows + at * pad;
    read_key_rows(&plan->args->v, rows, v, pad);
    side->tiles[at / KEY_TILE].v_finite = all_finite(plan, v, n * pad);
    if (plan->gradient) into_columns(plan, v, n, pad, side->v_columns + at * pad);
}

static gyre_span seen_by_batch(const gyre_attention_plan *plan, int64_t batch, int64_t *buffer) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    if (!plan->args->causal && plan->window == 0) return (gyre_span){INT64_MIN, INT64_MAX, INT64_MIN};
    for (int64_t first = 0; first < plan->queries; first += QUERY_TILE) {
        const int64_t left = plan->queries - first;
        const gyre_rows rows = {batch, 0, first, left < QUERY_TILE ? left : QUERY_TILE};
        read_order(plan, GYRE_QUERY, &rows, buffer);
        gyre_extremes(buffer, rows.count, &least, &most);
    }
    return plan->queries > 0 ? gyre_seen_by_any(plan, least, most) : (gyre_span){0, -1, INT64_MIN};
}

int gyre_tiles_seen(const gyre_attention_plan *plan, const gyre_rows *keys) {
    int64_t order[KEY_TILE], least = INT64_MAX, most = INT64_MIN;
    const gyre_span seen = seen_by_batch(plan, keys->batch, order);
    read_order(plan, GYRE_KEY, keys, order);
    gyre_extremes(order, keys->count, &least, &most);
    return gyre_span_meets(seen, least, most);
}

void gyre_key_side_fill(const gyre_attention_plan *plan, int64_t item, int64_t begin, int64_t end, gyre_key_side *side,
                        gyre_query_side *work) {
    gyre_rows rows = {item / plan->key_heads, item % plan->key_heads, 0, 0};
    const gyre_span seen = seen_by_batch(plan, rows.batch, work->positions);
    for (int64_t t = begin; t < end; t++) {
        rows.first = t * KEY_TILE;
        rows.count = plan->keys - rows.first < KEY_TILE ? plan->keys - rows.first : KEY_TILE;
        gyre_key_tile *tile = &side->tiles[t];
        tile->count = rows.count;
        gyre_positions_read(&plan->args->k_pos, rows.batch, rows.first, rows.count, side->positions + rows.first);
        if (plan->by_order) read_order(plan, GYRE_KEY, &rows, side->order + rows.first);
        describe(side->positions + rows.first, side->order + rows.first, tile);
        if (!gyre_span_meets(seen, tile->least, tile->most)) continue;
        fill_keys(plan, &rows, side, work);
        fill_values(plan, &rows, side, work);
    }
}

/* Scores of a row are relative to its largest bias: the nearest key's, or where that is not the query's own and biases may
 * fall at two rates, the larger of the nearest ones before and after it. */
static void find_bias(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q, int64_t i) {
    const int64_t position = q->positions[i];
    const gyre_onlooker from = {position, q->order[i], q->batch, q->first + i, q->head};
    int64_t nearest[2] = {position, position};
    double bias[2] = {0, 0};
    int found = gyre_nearest_key(plan, keys, &from, GYRE_ANYWHERE, &nearest[0]);
    if (found && nearest[0] != position) {
        found = gyre_nearest_key(plan, keys, &from, GYRE_BEFORE, &nearest[0]);
        found += gyre_nearest_key(plan, keys, &from, GYRE_AFTER, &nearest[found]);
    }
    const gyre_score_row row = {q->head, position, nearest, found > 1 ? 2 : 1};
    plan->encoding->scheme->score_row(plan->encoding, plan->args->tables, &row, bias);
    const int larger = found > 1 && bias[1] > bias[0];
    q->nearest[i] = nearest[larger];
    q->bias[i] = isfinite(bias[larger]) ? bias[larger] : 0; /* infinity - infinity is no score */
}

static void find_biases(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *side) {
    const int decays = plan->encoding && plan->encoding->scheme->decays;
    memset(side->bias, 0, sizeof side->bias);
    memcpy(side->nearest, side->positions, (size_t)side->count * sizeof *side->nearest); /* at no distance no bias is left */
    for (int64_t i = 0; decays && plan->softcap == 0 && i < side->count; i++)
        find_bias(plan, keys, side, i);
}

void gyre_query_side_fill(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_rows *rows,
                          gyre_query_side *side) {
    side->batch = rows->batch;
    side->head = rows->head;
    side->first = rows->first;
    side->count = rows->count;
    gyre_positions_read(&plan->args->q_pos, rows->batch, rows->first, rows->count, side->positions);
    read_order(plan, GYRE_QUERY, rows, side->order);
    side->low = side->high = side->positions[0];
    side->least = side->most = side->order[0];
    gyre_extremes(side->positions, rows->count, &side->low, &side->high);
    gyre_extremes(side->order, rows->count, &side->least, &side->most);
    find_biases(plan, keys, side);
    for (int far = 0; far <= plan->turn.far; far++) {
        const gyre_turned how = {.role = GYRE_QUERY, .far = far};
        gyre_rows_read(&plan->args->q, rows, side->q_rows[far], plan->head_pad);
        gyre_turns_apply(plan, rows, &how, side->q_rows[far]);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        side->scale[i] = plan->scale;
        if (plan->encoding) side->scale[i] *= (float)gyre_temperature_at(plan->encoding, side->positions[i]);
        for (int far = 0; far <= plan->turn.far; far++)
            plan->kernels->scale_row_f32(side->q_rows[far] + i * plan->head_pad, plan->head_pad, side->scale[i]);
    }
    if (plan->relative) gyre_tables_bias_queries(plan, side);
}
