/* tiles.c: tiles of rows in and out of the caller's memory, who sees whom, and the scores of a tile. */
#include "attention/tiles.h"
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

/* -- who sees whom ------------------------------------------------------------------------------------------------- */

/* The positions, or places in order, from low to high, both included. */
typedef struct span {
    int64_t low, high;
} span;

static span seen_from(const gyre_attention_plan *plan, int64_t q) {
    span seen = {INT64_MIN, INT64_MAX};
    if (plan->window > 0) seen.low = q - plan->window + 1, seen.high = q + plan->window - 1;
    if (plan->args->causal) seen.high = q;
    return seen;
}

static int outside(span seen, int64_t position) {
    return position < seen.low || position > seen.high;
}

/* What any of the queries from `least` to `most` sees. */
static span seen_by_any(const gyre_attention_plan *plan, int64_t least, int64_t most) {
    return (span){seen_from(plan, least).low, seen_from(plan, most).high};
}

static void extremes(const int64_t *positions, int64_t count, int64_t *least, int64_t *most) {
    for (int64_t i = 0; i < count; i++) {
        if (positions[i] < *least) *least = positions[i];
        if (positions[i] > *most) *most = positions[i];
    }
}

int gyre_tiles_meet(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_query_side *queries, int64_t tile,
                    gyre_meeting *meeting) {
    const gyre_key_tile *info = &keys->tiles[tile];
    const int64_t *order = keys->order + tile * KEY_TILE;
    const span any = seen_by_any(plan, queries->least, queries->most);
    if (info->least > any.high || info->most < any.low) return 0;
    int64_t first = 0, last = info->count;
    while (last > first && outside(any, order[last - 1]))
        last--;
    while (first < last && outside(any, order[first]))
        first++;
    if (first == last) return 0;
    first -= first % 16;
    const span all = {seen_from(plan, queries->most).low, seen_from(plan, queries->least).high};
    meeting->tile = tile;
    meeting->first = first;
    meeting->count = last - first;
    meeting->columns = (last - first + 15) / 16 * 16;
    meeting->masked = meeting->columns != meeting->count || outside(all, info->least) || outside(all, info->most);
    meeting->keys = info;
    meeting->far = plan->turn.far && queries->high - info->low >= plan->turn.window;
    meeting->near = !plan->turn.far || queries->low - info->high < plan->turn.window;
    return 1;
}

/* No key of the tile that is seen from q is nearer; INT64_MAX where none is seen. */
static int64_t distance_bound(const gyre_attention_plan *plan, const gyre_key_tile *tile, span seen, int64_t q) {
    int64_t low = tile->low, high = tile->high;
    if (tile->least > seen.high || tile->most < seen.low) return INT64_MAX;
    if (!plan->by_order) {
        low = low > seen.low ? low : seen.low;
        high = high < seen.high ? high : seen.high;
    }
    return q < low ? low - q : q > high ? q - high : 0;
}

/* Keys on both sides of the query, or on one. */
typedef enum direction { BEFORE = -1, ANYWHERE, AFTER } direction;

static int lies(direction where, int64_t q, int64_t low, int64_t high) {
    return where == ANYWHERE || (where == BEFORE ? low <= q : high >= q);
}

/* 1 and *nearest, or 0 where none is seen.  The tile that may hold it comes first: it mostly rules out all others. */
static int nearest_key(const gyre_attention_plan *plan, const gyre_key_side *keys, int64_t q, int64_t order, direction where,
                       int64_t *nearest) {
    const span seen = seen_from(plan, order);
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
            if (outside(seen, at[j]) || llabs(q - k[j]) >= distance || !lies(where, q, k[j], k[j])) continue;
            distance = llabs(q - k[j]);
            *nearest = k[j];
        }
    }
    return distance < INT64_MAX;
}

/* -infinity for the keys that a query at q does not see, both by what decides it.  In sorted tiles those are at the ends. */
static void mask_row(const gyre_attention_plan *plan, const gyre_meeting *meeting, const int64_t *k, int64_t q, float *row) {
    const span seen = seen_from(plan, q);
    int64_t first = 0, last = meeting->count;
    for (int64_t j = last; j < meeting->columns; j++)
        row[j] = -INFINITY;
    while (last > first && outside(seen, k[last - 1]))
        row[--last] = -INFINITY;
    while (first < last && outside(seen, k[first]))
        row[first++] = -INFINITY;
    if (meeting->keys->sorted) return;
    for (; first < last; first++)
        if (outside(seen, k[first])) row[first] = -INFINITY;
}

/* -- filling the two sides ----------------------------------------------------------------------------------------- */

static void describe(const int64_t *positions, const int64_t *order, gyre_key_tile *tile) {
    tile->low = tile->high = positions[0];
    tile->least = tile->most = order[0];
    extremes(positions, tile->count, &tile->low, &tile->high);
    extremes(order, tile->count, &tile->least, &tile->most);
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

static span seen_by_batch(const gyre_attention_plan *plan, int64_t batch, int64_t *buffer) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    if (!plan->args->causal && plan->window == 0) return (span){INT64_MIN, INT64_MAX};
    for (int64_t first = 0; first < plan->queries; first += QUERY_TILE) {
        const int64_t left = plan->queries - first;
        const gyre_rows rows = {batch, 0, first, left < QUERY_TILE ? left : QUERY_TILE};
        read_order(plan, GYRE_QUERY, &rows, buffer);
        extremes(buffer, rows.count, &least, &most);
    }
    return plan->queries > 0 ? seen_by_any(plan, least, most) : (span){0, -1};
}

int gyre_tiles_seen(const gyre_attention_plan *plan, const gyre_rows *keys) {
    int64_t order[KEY_TILE], least = INT64_MAX, most = INT64_MIN;
    const span seen = seen_by_batch(plan, keys->batch, order);
    read_order(plan, GYRE_KEY, keys, order);
    extremes(order, keys->count, &least, &most);
    return least <= seen.high && most >= seen.low;
}

void gyre_key_side_fill(const gyre_attention_plan *plan, int64_t item, int64_t begin, int64_t end, gyre_key_side *side,
                        gyre_query_side *work) {
    gyre_rows rows = {item / plan->key_heads, item % plan->key_heads, 0, 0};
    const span seen = seen_by_batch(plan, rows.batch, work->positions);
    for (int64_t t = begin; t < end; t++) {
        rows.first = t * KEY_TILE;
        rows.count = plan->keys - rows.first < KEY_TILE ? plan->keys - rows.first : KEY_TILE;
        gyre_key_tile *tile = &side->tiles[t];
        tile->count = rows.count;
        gyre_positions_read(&plan->args->k_pos, rows.batch, rows.first, rows.count, side->positions + rows.first);
        if (plan->by_order) read_order(plan, GYRE_KEY, &rows, side->order + rows.first);
        describe(side->positions + rows.first, side->order + rows.first, tile);
        if (tile->least > seen.high || tile->most < seen.low) continue;
        fill_keys(plan, &rows, side, work);
        fill_values(plan, &rows, side, work);
    }
}

/* Scores of a row are relative to its largest bias: the nearest key's, or where that is not the query's own and biases may
 * fall at two rates, the larger of the nearest ones before and after it. */
static void find_bias(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q, int64_t i) {
    const int64_t position = q->positions[i], order = q->order[i];
    int64_t nearest[2] = {position, position};
    double bias[2] = {0, 0};
    int found = nearest_key(plan, keys, position, order, ANYWHERE, &nearest[0]);
    if (found && nearest[0] != position) {
        found = nearest_key(plan, keys, position, order, BEFORE, &nearest[0]);
        found += nearest_key(plan, keys, position, order, AFTER, &nearest[found]);
    }
    const gyre_score_row row = {q->head, position, nearest, found > 1 ? 2 : 1};
    plan->encoding->scheme->score_row(plan->encoding, plan->args->tables, &row, bias);
    const int larger = found > 1 && bias[1] > bias[0];
    q->nearest[i] = nearest[larger];
    q->bias[i] = isfinite(bias[larger]) ? bias[larger] : 0; /* infinity - infinity is no score */
}

static void find_biases(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *side) {
    memset(side->bias, 0, sizeof side->bias);
    for (int64_t i = 0; plan->encoding && plan->encoding->scheme->decays && i < side->count; i++)
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
    extremes(side->positions, rows->count, &side->low, &side->high);
    extremes(side->order, rows->count, &side->least, &side->most);
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

/* -- scores and weighted sums -------------------------------------------------------------------------------------- */

/* scores = queries . keys */
static void multiply(const gyre_attention_plan *plan, const gyre_meeting *meeting, const float *queries, int64_t count,
                     const float *columns, float *scores) {
    const gyre_matmul product = {.m = count,
                                 .n = meeting->columns,
                                 .k = plan->head_pad,
                                 .a = queries,
                                 .a_row = plan->head_pad,
                                 .a_col = 1,
                                 .b = columns + meeting->tile * KEY_TILE * plan->head_pad + meeting->first,
                                 .b_row = KEY_TILE,
                                 .c = scores,
                                 .c_row = KEY_TILE};
    plan->kernels->matmul_f32(&product);
}

static void score_pairs(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                        const gyre_meeting *meeting, const int64_t *positions) {
    if (meeting->near) {
        gyre_turns_meet(plan, q, meeting);
        multiply(plan, meeting, q->seen_rows, q->count, keys->k_columns[0], q->scores);
    }
    if (!meeting->far) return;
    multiply(plan, meeting, q->q_rows[1], q->count, keys->k_columns[1], meeting->near ? q->far_scores : q->scores);
    if (meeting->near) gyre_turns_choose(plan, positions, q, meeting);
}

void gyre_tiles_score(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *queries,
                      const gyre_meeting *meeting) {
    const int64_t at = meeting->tile * KEY_TILE + meeting->first;
    const int64_t *positions = keys->positions + at;
    score_pairs(plan, keys, queries, meeting, positions);
    if (plan->encoding && plan->encoding->scheme->score_tile) {
        const gyre_tile tile = {.q = queries->positions,
                                .k = positions,
                                .nearest = queries->nearest,
                                .queries = queries->count,
                                .keys = meeting->count,
                                .ld = KEY_TILE,
                                .scores = queries->scores};
        plan->encoding->scheme->score_tile(plan->encoding, plan->args->tables, queries->head, &tile);
    }
    if (plan->relative) gyre_tables_score(plan, keys, queries, meeting);
    if (!meeting->masked) return;
    for (int64_t i = 0; i < queries->count; i++)
        mask_row(plan, meeting, keys->order + at, queries->order[i], queries->scores + i * KEY_TILE);
}

void gyre_tiles_largest(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *queries) {
    for (int64_t i = 0; i < queries->count; i++)
        queries->top[i] = -INFINITY;
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_meeting meeting;
        if (!gyre_tiles_meet(plan, keys, queries, t, &meeting)) continue;
        gyre_tiles_score(plan, keys, queries, &meeting);
        for (int64_t i = 0; i < queries->count; i++) {
            float top;
            plan->kernels->max_row_f32(queries->scores + i * KEY_TILE, meeting.columns, &top);
            if (top > queries->top[i]) queries->top[i] = top;
        }
    }
}

void gyre_tiles_weigh(const gyre_attention_plan *plan, const gyre_matmul *product, int finite) {
    const gyre_matmul *p = product;
    if (finite) {
        plan->kernels->matmul_f32(p);
        return;
    }
    for (int64_t i = 0; i < p->m; i++) {
        float *c = p->c + i * p->c_row;
        if (!p->accumulate) memset(c, 0, (size_t)p->n * sizeof *c);
        for (int64_t l = 0; l < p->k; l++) {
            const float weight = p->a[i * p->a_row + l * p->a_col];
            if (weight == 0) continue;
            for (int64_t j = 0; j < p->n; j++)
                c[j] += weight * p->b[l * p->b_row + j];
        }
    }
}
