/* tiles.c: tiles of keys and queries, read from the caller's memory and prepared for products. */
#include "attention/tiles/tiles.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/biases.h"
#include "attention/terms/tables.h"
#include "attention/terms/visibility.h"
#include "attention/tiles/rows.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/scheme.h"
#include <math.h>
#include <string.h>

/* -- key info -- */

static void measure_key_tile(const gyre_attention_plan *plan, const int64_t *positions, const int64_t *order,
                             gyre_key_tile *tile) {
    tile->sorted = tile->consecutive = 1;
    for (int64_t i = 1; i < tile->count; i++) {
        tile->sorted &= order[i - 1] <= order[i];
        tile->consecutive &= positions[i - 1] + 1 == positions[i];
    }
    tile->low = positions[0];
    tile->high = positions[tile->consecutive ? tile->count - 1 : 0];
    if (!tile->consecutive) gyre_min_max(positions, tile->count, &tile->low, &tile->high);
    tile->center = gyre_xpos_key_center(plan, positions, tile->count);
    tile->order_min = order[0];
    tile->order_max = order[tile->sorted ? tile->count - 1 : 0];
    if (!tile->sorted) gyre_min_max(order, tile->count, &tile->order_min, &tile->order_max);
}

static gyre_row_range rows_of_tile(const gyre_attention_plan *plan, int64_t batch, int64_t head, int64_t t) {
    const int64_t first = t * KEY_TILE, left = plan->keys - first;
    return (gyre_row_range){batch, head, first, left < KEY_TILE ? left : KEY_TILE};
}

void gyre_key_info_fill(const gyre_attention_plan *plan, int64_t batch, int64_t t, gyre_key_buffers *buffers) {
    const gyre_row_range rows = rows_of_tile(plan, batch, 0, t);
    gyre_key_tile *tile = &buffers->tiles[t];
    *tile = (gyre_key_tile){.count = rows.count};
    gyre_positions_read(&plan->args->k_pos, batch, rows.first, rows.count, buffers->positions + rows.first);
    if (plan->by_order) gyre_order_read(plan, GYRE_ROLE_KEY, &rows, buffers->order + rows.first);
    measure_key_tile(plan, buffers->positions + rows.first, buffers->order + rows.first, tile);
}

/* -- keys and values -- */

/* to = rows of a tile.  Zero rows complete the last group of 16, because the transpose reads them. */
static void read_tile(const gyre_attention_plan *plan, const gyre_row_range *rows, gyre_key_side side, float *to,
                      int64_t pad) {
    const int keys = side == GYRE_KEYS;
    const gyre_key_reader reader = {plan->kernels, plan->source,
                                    side,          keys ? plan->key_dim : plan->value_dim,
                                    pad,           keys ? plan->key_scales_apart : plan->value_scales_apart};
    gyre_key_run run;
    for (int64_t done = 0; done < rows->count; done += run.count) {
        gyre_key_run_at(plan->source, rows->batch, rows->head, rows->first + done, rows->count - done, &run);
        float *first = to + done * pad;
        gyre_key_run_read(&reader, &run, first);
        if (keys && run.shift) gyre_attention_rotate_shift(plan, run.shift, run.count, first);
    }
    const int64_t complete = (rows->count + 15) / 16 * 16;
    memset(to + rows->count * pad, 0, (size_t)((complete - rows->count) * pad) * sizeof *to);
}

static void transpose_rows(const gyre_attention_plan *plan, const float *rows, int64_t count, int64_t pad, float *columns) {
    const gyre_transpose job = {(count + 15) / 16 * 16, pad, rows, pad, columns, KEY_TILE};
    plan->kernels->transpose_f32(&job);
}

/* to[KEY_TILE] = the scales of the rows, then zeros. */
static void read_scales(const gyre_attention_plan *plan, const gyre_row_range *rows, gyre_key_side side, float *to) {
    gyre_key_run run;
    memset(to, 0, KEY_TILE * sizeof *to);
    for (int64_t done = 0; done < rows->count; done += run.count) {
        gyre_key_run_at(plan->source, rows->batch, rows->head, rows->first + done, rows->count - done, &run);
        memcpy(to + done, side == GYRE_KEYS ? run.k_scale : run.v_scale, (size_t)run.count * sizeof *to);
    }
}

void gyre_key_rows_read(const gyre_attention_plan *plan, const gyre_row_range *rows, int variant, float *to) {
    const gyre_attention_rotation how = {.role = GYRE_ROLE_KEY, .variant = variant};
    read_tile(plan, rows, GYRE_KEYS, to, plan->head_pad);
    gyre_rows_spread(plan, to, rows->count);
    if (!plan->source->rotated) gyre_attention_rotate(plan, rows, &how, to);
}

void gyre_value_rows_read(const gyre_attention_plan *plan, const gyre_row_range *rows, float *to) {
    read_tile(plan, rows, GYRE_VALUES, to, plan->value_pad);
}

static void fill_keys(const gyre_attention_plan *plan, const gyre_row_range *rows, int64_t at, gyre_key_buffers *buffers,
                      float *key_rows) {
    const int64_t pad = plan->head_pad, n = rows->count;
    gyre_key_tile *tile = &buffers->tiles[rows->first / KEY_TILE];
    int finite = 1;
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++) {
        float *k = plan->gradient ? buffers->k_rows[variant] + at * pad : key_rows;
        gyre_key_rows_read(plan, rows, variant, k);
        if (plan->gradient) finite &= gyre_tile_finite(plan->kernels, k, n * pad);
        transpose_rows(plan, k, n, pad, buffers->k_columns[variant] + at * pad);
    }
    if (plan->gradient) tile->k_finite = finite;
}

void gyre_key_tile_fill(const gyre_attention_plan *plan, int64_t item, int64_t t, gyre_key_buffers *buffers,
                        float *key_rows) {
    const gyre_row_range rows = rows_of_tile(plan, item / plan->key_heads, item % plan->key_heads, t);
    const int64_t at = (t - buffers->first_buffer_tile) * KEY_TILE, pad = plan->value_pad;
    fill_keys(plan, &rows, at, buffers, key_rows);
    float *v = plan->gradient ? key_rows : buffers->v_rows + at * pad;
    gyre_value_rows_read(plan, &rows, v);
    buffers->v_finite = gyre_tile_finite(plan->kernels, v, rows.count * pad);
    if (!buffers->v_finite && buffers->zero_nonfinite) gyre_row_zero_nonfinite(v, rows.count * pad);
    if (plan->key_scales_apart) read_scales(plan, &rows, GYRE_KEYS, buffers->k_scale);
    if (plan->value_scales_apart) read_scales(plan, &rows, GYRE_VALUES, buffers->v_scale);
    if (!plan->gradient) return;
    buffers->tiles[t].v_finite = buffers->v_finite;
    transpose_rows(plan, v, rows.count, pad, buffers->v_columns + at * pad);
}

void gyre_key_buffers_fill(const gyre_attention_plan *plan, int64_t item, gyre_key_buffers *buffers,
                           gyre_query_buffers *work) {
    const int64_t batch = item / plan->key_heads;
    const gyre_visible_range visible = gyre_visible_to_batch(plan, batch);
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_key_info_fill(plan, batch, t, buffers);
        if (!gyre_visible_range_overlaps(visible, buffers->tiles[t].order_min, buffers->tiles[t].order_max)) continue;
        gyre_key_tile_fill(plan, item, t, buffers, work->key_rows);
    }
}

/* -- queries -- */

void gyre_query_rows_scale(const gyre_attention_plan *plan, const gyre_query_buffers *q, float *rows) {
    const gyre_channel_part *of_table = plan->parts > plan->products ? &plan->part[1] : NULL;
    for (int64_t i = 0; i < q->count; i++, rows += plan->head_pad) {
        plan->kernels->scale_row_f32(rows, plan->part[0].pad, q->scale[i]);
        if (of_table) plan->kernels->scale_row_f32(rows + of_table->at, of_table->pad, q->temperature[i]);
    }
}

void gyre_query_buffers_fill(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_row_range *rows,
                             gyre_query_buffers *buffers) {
    buffers->batch = rows->batch;
    buffers->head = rows->head;
    buffers->first = rows->first;
    buffers->count = rows->count;
    gyre_positions_read(&plan->args->q_pos, rows->batch, rows->first, rows->count, buffers->positions);
    gyre_order_read(plan, GYRE_ROLE_QUERY, rows, buffers->order);
    buffers->low = buffers->high = buffers->positions[0];
    buffers->order_min = buffers->order_max = buffers->order[0];
    gyre_min_max(buffers->positions, rows->count, &buffers->low, &buffers->high);
    gyre_min_max(buffers->order, rows->count, &buffers->order_min, &buffers->order_max);
    gyre_biases_begin(plan, keys, buffers);
    const int variants = plan->rotation.variants[GYRE_ROLE_QUERY];
    for (int variant = 0; variant < variants; variant++) {
        const gyre_attention_rotation how = {.role = GYRE_ROLE_QUERY, .variant = variant};
        gyre_rows_read(plan, &plan->args->q, rows, buffers->q_rows[variant], plan->head_pad);
        gyre_rows_spread(plan, buffers->q_rows[variant], rows->count);
        gyre_attention_rotate(plan, rows, &how, buffers->q_rows[variant]);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        buffers->temperature[i] = plan->encoding ? (float)gyre_temperature_at(plan->encoding, buffers->positions[i]) : 1;
        buffers->scale[i] = plan->scale * buffers->temperature[i];
    }
    for (int variant = 0; variant < variants; variant++)
        gyre_query_rows_scale(plan, buffers, buffers->q_rows[variant]);
    if (plan->uses_tables) gyre_tables_bias_queries(plan, buffers);
}
