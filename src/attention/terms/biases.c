/* biases.c: numbers that are added to scores. */
#include "attention/terms/biases.h"
#include "attention/terms/visibility.h"
#include "core/convert.h"
#include "core/scheme.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* -- gate sums -- */

static double query_gate_sum(const gyre_attention_plan *plan, const gyre_query_token *query) {
    return gyre_cview_real(&plan->args->q_gate_sums, query->batch, query->query, query->head);
}

/* out[i] = those of keys first .. first + count - 1 of a query head. */
static void read_key_gate_sums(const gyre_attention_plan *plan, const gyre_row_range *rows, double *out) {
    const gyre_key_source *source = plan->source;
    source->gate_sums(source, source->batch_first + rows->batch, plan->segment->view_head + rows->head,
                      source->key_first + rows->first, rows->count, out);
}

/* -- what a row is relative to -- */

/* A key, and the bias of the row there. */
typedef struct candidate {
    gyre_near_key key;
    double gate_sum, scheme_bias, bias;
} candidate;

static int falls(const gyre_attention_plan *plan) {
    return plan->encoding && plan->encoding->scheme->decays;
}

/* A row that continues from call to call is relative to itself, because a call may not have that key: here 1. */
static void measure_candidate(const gyre_attention_plan *plan, const gyre_query_token *from, int here, candidate *c) {
    c->scheme_bias = c->gate_sum = c->bias = 0;
    if (falls(plan)) {
        const gyre_bias_row row = {gyre_head_in_call(plan, from->head),
                                   from->position,
                                   &c->key.position,
                                   1,
                                   gyre_slope_of_call(plan, from->batch, from->head),
                                   plan->args->q_pos.context_length};
        plan->encoding->scheme->bias_row(plan->encoding, plan->args->tables, &row, &c->scheme_bias);
        if (!isfinite(c->scheme_bias)) c->scheme_bias = 0; /* infinity - infinity is no score */
    }
    c->bias = c->scheme_bias;
    if (!plan->gated) return;
    const double own = query_gate_sum(plan, from);
    c->gate_sum = own;
    if (here) return;
    const gyre_row_range row = {from->batch, from->head, c->key.key, 1};
    read_key_gate_sums(plan, &row, &c->gate_sum);
    if (isfinite(own - c->gate_sum))
        c->bias += own - c->gate_sum;
    else
        c->gate_sum = own;
}

/* Biases before and after the query may fall at two rates, so without a key at the query's own position it is the larger
 * bias of the nearest keys on both sides. */
static void find_bias(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q, int64_t i) {
    const int64_t position = q->positions[i];
    const gyre_query_token from = {position, q->order[i], q->batch, q->first + i, q->head};
    candidate at[2] = {{.key = {position, 0}}, {.key = {position, 0}}};
    /* A mask may exclude it.  A row that continues from call to call keeps one reference, whichever keys a call has. */
    int found = plan->continues;
    if (!found && !plan->args->mask.data) found = gyre_key_at(plan, keys, position, &at[0].key);
    if (!found) found = gyre_nearest_key(plan, keys, &from, GYRE_KEY_ANYWHERE, &at[0].key);
    if (found && at[0].key.position != position) {
        found = gyre_nearest_key(plan, keys, &from, GYRE_KEY_BEFORE, &at[0].key);
        found += gyre_nearest_key(plan, keys, &from, GYRE_KEY_AFTER, &at[found].key);
    }
    for (int n = 0; n < (found > 1 ? 2 : 1); n++)
        measure_candidate(plan, &from, plan->continues || !found, &at[n]);
    const candidate *c = &at[found > 1 && at[1].bias > at[0].bias];
    q->nearest[i] = c->key.position;
    q->gate_sum[i] = c->gate_sum;
    q->scheme_bias[i] = c->scheme_bias;
    q->bias[i] = c->bias;
}

/* A softcap needs the whole score. */
void gyre_biases_begin(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q) {
    memset(q->bias, 0, (size_t)q->count * sizeof *q->bias);
    memset(q->scheme_bias, 0, (size_t)q->count * sizeof *q->scheme_bias);
    memcpy(q->nearest, q->positions, (size_t)q->count * sizeof *q->nearest);
    for (int64_t i = 0; i < q->count && plan->softcap > 0 && plan->gated; i++) {
        const gyre_query_token own = {q->positions[i], q->order[i], q->batch, q->first + i, q->head};
        q->gate_sum[i] = query_gate_sum(plan, &own);
    }
    for (int64_t i = 0; i < q->count && !(plan->softcap > 0) && (plan->gated || falls(plan)); i++)
        find_bias(plan, keys, q, i);
}

/* -- a tile pair -- */

static void split(double x, float *high, float *low) {
    *high = (float)x;
    *low = (float)(x - (double)*high);
}

/* Gate sums of keys, relative to one of them, as floats in two parts.  The base is the first of the tile that is finite: a
 * masked key may have any bits, and in the fixed order nothing may depend on which part of the tile is visible. */
static double split_key_gate_sums(const gyre_attention_plan *plan, const gyre_query_buffers *q,
                                  const gyre_tile_pair *tile_pair, float *high, float *low) {
    double sums[KEY_TILE], base = 0;
    const int64_t first = tile_pair->first, end = first + tile_pair->count;
    const gyre_row_range rows = {q->batch, q->head, tile_pair->tile * KEY_TILE, end};
    read_key_gate_sums(plan, &rows, sums);
    for (int64_t j = 0; j < end; j++)
        if (isfinite(sums[j])) {
            base = sums[j];
            break;
        }
    for (int64_t j = end; j < first + tile_pair->columns; j++)
        sums[j] = base;
    plan->kernels->split_row_f64(sums + first, base, tile_pair->columns, high, low);
    return base;
}

static void add_gates(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    float high[KEY_TILE], low[KEY_TILE];
    const double base = split_key_gate_sums(plan, q, tile_pair, high, low);
    for (int64_t i = 0; i < q->count; i++) {
        gyre_differences by = {.high = high, .low = low};
        split(q->gate_sum[i] - base, &by.from_high, &by.from_low);
        plan->kernels->difference_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, &by);
    }
}

void gyre_biases_add(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                     const gyre_tile_pair *tile_pair) {
    if (plan->encoding && plan->encoding->scheme->bias_tile) {
        const gyre_bias_tile tile = {.q = q->positions,
                                     .k = keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first,
                                     .nearest = q->nearest,
                                     .queries = q->count,
                                     .keys = tile_pair->count,
                                     .ld = KEY_TILE,
                                     .scores = q->scores,
                                     .slope = gyre_slope_of_call(plan, q->batch, q->head),
                                     .length = plan->args->q_pos.context_length};
        plan->encoding->scheme->bias_tile(plan->encoding, plan->args->tables, gyre_head_in_call(plan, q->head), &tile);
    }
    if (plan->gated) add_gates(plan, q, tile_pair);
}

/* -- the gradient to gate sums -- */

void gyre_gates_begin_queries(gyre_query_buffers *q) {
    memset(q->gradient->dgate_sums, 0, sizeof q->gradient->dgate_sums);
}

void gyre_gates_backward(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                         const gyre_tile_pair *tile_pair) {
    float ones[KEY_TILE], columns[KEY_TILE], sum;
    for (int64_t j = 0; j < KEY_TILE; j++)
        ones[j] = 1;
    for (int64_t i = 0; i < q->count; i++) {
        plan->kernels->dot_row_f32(q->gradient->dscores + i * KEY_TILE, ones, tile_pair->columns, &sum);
        q->gradient->dgate_sums[i] += (double)sum;
    }
    const gyre_matmul product = {.m = 1,
                                 .n = tile_pair->columns,
                                 .k = q->count,
                                 .a = ones,
                                 .a_row_stride = KEY_TILE,
                                 .a_col_stride = 1,
                                 .b = q->gradient->dscores,
                                 .b_row_stride = KEY_TILE,
                                 .c = columns,
                                 .c_row_stride = KEY_TILE};
    plan->kernels->matmul_f32(&product);
    double *restrict to = keys->dgate_sums + q->head % plan->group * plan->key_tiles * KEY_TILE +
                          tile_pair->tile * KEY_TILE + tile_pair->first;
    for (int64_t j = 0; j < tile_pair->count; j++)
        to[j] -= (double)columns[j];
}

/* Stores a number, or adds it to the stored one. */
static void write_number(const gyre_view *view, const gyre_row_range *at, int add, double x) {
    void *to = gyre_view_at(view, at->batch, at->first, at->head, 0);
    double before = 0;
    if (add) gyre_load_row_f64(to, view->dtype, 1, 1, &before);
    x += before;
    gyre_store_row_f64(&x, 1, to, view->dtype, 1);
}

void gyre_gates_end_queries(const gyre_attention_plan *plan, const gyre_query_buffers *q) {
    const gyre_view *view = &plan->args->dq_gate_sums;
    for (int64_t i = 0; view->data && i < q->count; i++) {
        const gyre_row_range at = {q->batch, q->head, q->first + i, 1};
        write_number(view, &at, plan->args->accumulate, q->gradient->dgate_sums[i]);
    }
}

void gyre_gates_end_keys(const gyre_attention_plan *plan, int64_t item, const gyre_key_buffers *keys) {
    const gyre_view *view = &plan->args->dk_gate_sums;
    const int64_t head = item % plan->key_heads * plan->group;
    for (int64_t h = 0; view->data && h < plan->group; h++)
        for (int64_t n = 0; n < plan->keys; n++) {
            const gyre_row_range at = {item / plan->key_heads, head + h, n, 1};
            write_number(view, &at, plan->segment->accumulate_gates, keys->dgate_sums[h * plan->key_tiles * KEY_TILE + n]);
        }
}
