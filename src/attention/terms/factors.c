/* factors.c: scores that are a product of three vectors. */
#include "attention/terms/factors.h"
#include "attention/terms/softmax.h"
#include "attention/terms/visibility.h"

#include <string.h>

/* out = 1 if all pairs have the same row. */
static int one_row(const gyre_table_buffers *t) {
    int one = t->row[0] == t->row[t->entries - 1];
    for (int64_t e = 1; one && !t->row_steps && e < t->entries; e++)
        one = t->row[e] == t->row[0];
    return one;
}

/* factored_rows[i] = queries[i] times the row of the table, channel by channel. */
static void multiply_queries(const gyre_attention_plan *plan, const gyre_query_buffers *q) {
    const gyre_table_buffers *t = q->tables;
    const float *restrict by = t->query.rows + t->row[0] * plan->head_pad;
    for (int64_t i = 0; i < q->count; i++) {
        const float *restrict from = q->q_rows[0] + i * plan->head_pad;
        float *restrict to = t->factored_rows + i * plan->head_pad;
        for (int64_t c = 0; c < plan->head_pad; c++)
            to[c] = from[c] * by[c];
    }
}

static void score_one_row(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                          const gyre_tile_pair *tile_pair) {
    multiply_queries(plan, q);
    for (gyre_row_block block = {0}; gyre_next_row_block(plan, keys, q, tile_pair, &block);) {
        const gyre_matmul product = {.m = block.rows,
                                     .n = (block.keys + 15) / 16 * 16,
                                     .k = plan->head_pad,
                                     .a = q->tables->factored_rows + block.first * plan->head_pad,
                                     .a_row_stride = plan->head_pad,
                                     .a_col_stride = 1,
                                     .b = keys->k_columns[0] + tile_pair->buffer_tile * plan->head_pad * KEY_TILE +
                                          tile_pair->first,
                                     .b_row_stride = KEY_TILE,
                                     .c = q->scores + block.first * KEY_TILE,
                                     .c_row_stride = KEY_TILE};
        plan->kernels->matmul_f32(&product);
    }
}

/* factor_columns[c][e] = channel c of the row of entry first + e, e < n; zeros for the 16 entries after those. */
static void list_factors(const gyre_attention_plan *plan, const gyre_table_buffers *t, int64_t first, int64_t n) {
    const int32_t *restrict row = t->row + first;
    for (int64_t c = 0; c < plan->head_pad; c++) {
        const float *restrict from = t->query.columns + c * plan->table.row_pad;
        float *restrict to = t->factor_columns + c * FACTOR_COLUMNS;
        for (int64_t e = 0; e < n; e++)
            to[e] = from[row[e]];
        memset(to + n, 0, 16 * sizeof *to);
    }
}

void gyre_factors_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                        const gyre_tile_pair *tile_pair) {
    const gyre_table_buffers *t = queries->tables;
    const int shared = t->distinct && t->entries <= QUERY_TILE + KEY_TILE; /* queries share the list */
    if (one_row(t)) {
        score_one_row(plan, keys, queries, tile_pair);
        return;
    }
    if (shared) list_factors(plan, t, 0, t->entries);
    for (int64_t i = 0; i < queries->count; i++) {
        if (!shared) list_factors(plan, t, t->offset[i], tile_pair->count);
        const gyre_factored_product product = {.n = tile_pair->columns,
                                               .channels = plan->head_pad,
                                               .a = queries->q_rows[0] + i * plan->head_pad,
                                               .factors = t->factor_columns + (shared ? t->offset[i] : 0),
                                               .factor_stride = FACTOR_COLUMNS,
                                               .b = keys->k_columns[0] + tile_pair->buffer_tile * plan->head_pad * KEY_TILE +
                                                    tile_pair->first,
                                               .b_stride = KEY_TILE,
                                               .out = queries->scores + i * KEY_TILE};
        plan->kernels->factored_product_f32(&product);
    }
}

/* -- gradients -- */

/* out = the gradient of the table of the queries' head. */
static float *table_gradient(const gyre_attention_plan *plan, const gyre_query_buffers *q) {
    const gyre_packed_table *packed = &q->tables->query;
    return packed->gradient + (packed->shared ? 0 : q->head % plan->group) * plan->table.rows * plan->head_pad;
}

/* With S = dscores . keys: dq_i += A S_i and dA += sum over i of q_i S_i. */
static void one_row_to_queries(const gyre_attention_plan *plan, const gyre_query_buffers *q) {
    const gyre_table_buffers *t = q->tables;
    const int64_t pad = plan->head_pad;
    const float *restrict by = t->query.rows + t->row[0] * pad, *restrict sum = t->factored_rows;
    const float *restrict query = q->q_rows[0];
    float *restrict gradient = table_gradient(plan, q) + t->row[0] * pad, *restrict dq = q->gradient->dq_rows[0];
    for (int64_t c = 0; c < pad; c++) {
        double total = 0; /* most pairs of a long text have one of two rows */
        for (int64_t i = 0; i < q->count; i++) {
            dq[i * pad + c] += by[c] * sum[i * pad + c];
            total += (double)query[i * pad + c] * (double)sum[i * pad + c];
        }
        gradient[c] += (float)total;
    }
}

static void one_row_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *q,
                             const gyre_tile_pair *tile_pair) {
    const int64_t at = (tile_pair->tile * KEY_TILE + tile_pair->first) * plan->head_pad;
    gyre_matmul product = {.m = tile_pair->count,
                           .n = plan->head_pad,
                           .k = q->count,
                           .a = q->gradient->dscores,
                           .a_row_stride = 1,
                           .a_col_stride = KEY_TILE,
                           .b = q->tables->factored_rows,
                           .b_row_stride = plan->head_pad,
                           .c = keys->dk_rows[0] + at,
                           .c_row_stride = plan->head_pad,
                           .accumulate = 1};
    plan->kernels->matmul_f32(&product);
    product.m = q->count;
    product.k = tile_pair->count;
    product.a_row_stride = KEY_TILE;
    product.a_col_stride = 1;
    product.b = keys->k_rows[0] + at;
    product.c = q->tables->factored_rows; /* the products with the row are used up */
    product.accumulate = 0;
    plan->kernels->matmul_f32(&product);
    one_row_to_queries(plan, q);
}

void gyre_factors_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *queries,
                           const gyre_tile_pair *tile_pair) {
    const gyre_table_buffers *t = queries->tables;
    const int64_t pad = plan->head_pad, at = (tile_pair->tile * KEY_TILE + tile_pair->first) * pad;
    if (one_row(t) && t->query.finite && queries->gradient->q_finite && tile_pair->keys->k_finite) {
        one_row_backward(plan, keys, queries, tile_pair);
        return;
    }
    for (int64_t i = 0; i < queries->count; i++) {
        const gyre_factored_gradient job = {.n = tile_pair->count,
                                            .channels = pad,
                                            .dout = queries->gradient->dscores + i * KEY_TILE,
                                            .row = t->row + t->offset[i],
                                            .a = queries->q_rows[0] + i * pad,
                                            .factors = t->query.rows,
                                            .b = keys->k_rows[0] + at,
                                            .da = queries->gradient->dq_rows[0] + i * pad,
                                            .dfactors = table_gradient(plan, queries),
                                            .db = keys->dk_rows[0] + at};
        plan->kernels->factored_gradient_f32(&job);
    }
}
