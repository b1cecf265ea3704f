/* gradient_tiles.c: the gradient of one item.  With p the softmax weights, recomputed from the scores and the log-sum-exp,
 *
 *     dv_n = sum_m p_mn dout_m            ds_mn = p_mn (dout_m . v_n - delta_m),   delta_m = dout_m . out_m - dlse_m
 *     dE(m)q_m = scale sum_n ds_mn E(n)k_n,   dE(n)k_n = scale sum_m ds_mn E(m)q_m
 *
 * and the adjoint of E leads back to the raw q and k.  With dropout, the two products with dout take the weights after it,
 * p'_mn = p_mn / (1 - rate) or 0: dv_n = sum_m p'_mn dout_m and ds_mn = p'_mn dout_m . v_n - p_mn delta_m, with the same
 * delta.  With a softcap, ds is multiplied by its slope.  Sink logits enter through the log-sum-exp alone.  Queries come in
 * one order, so every sum has one order. */
#include "attention/gradient/gradient_tiles.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/biases.h"
#include "attention/terms/dropout.h"
#include "attention/terms/factors.h"
#include "attention/terms/phases.h"
#include "attention/terms/softmax.h"
#include "attention/terms/table_buffers.h"
#include "attention/terms/tables.h"
#include "attention/terms/visibility.h"
#include "attention/tiles/rows.h"
#include "attention/tiles/scores.h"
#include "attention/tiles/tiles.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* x[0] = gradients of x, from gradients of E(m)x in each variant of the role. */
static void rotate_back(const gyre_attention_plan *plan, gyre_role role, const gyre_row_range *rows, float *const *x) {
    for (int variant = 0; variant < plan->rotation.variants[role]; variant++) {
        const gyre_attention_rotation how = {role, variant, 1};
        gyre_attention_rotate(plan, rows, &how, x[variant]);
        for (int64_t i = 0; variant > 0 && i < rows->count * plan->head_pad; i++)
            x[0][i] += x[variant][i];
    }
}

/* Adds the sink logit to row_max and row_sum of all rows. */
static void add_sink(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    const double sink = gyre_sink_logit(plan, q->head);
    for (int64_t i = 0; sink != -INFINITY && i < q->count; i++) {
        const double score = sink - q->bias[i], row_max = (double)q->row_max[i];
        if (score <= row_max)
            q->row_sum[i] += exp(score - row_max);
        else
            q->row_sum[i] = 1 + q->row_sum[i] * exp(row_max - score), q->row_max[i] = (float)score;
    }
}

/* row_max = log-sum-exp of the scores, relative to the row's bias as they are. */
static void recompute_lse(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q) {
    gyre_tiles_row_max(plan, keys, q);
    memset(q->row_sum, 0, sizeof q->row_sum);
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_tile_pair tile_pair;
        gyre_between(plan);
        if (!gyre_tile_pair_visible(plan, keys, q, t, &tile_pair)) continue;
        gyre_tile_pair_score(plan, keys, q, &tile_pair);
        for (int64_t i = 0; i < q->count; i++)
            q->row_sum[i] += (double)gyre_row_exp(plan, q, &tile_pair, i);
    }
    add_sink(plan, q);
    for (int64_t i = 0; i < q->count; i++)
        q->row_max[i] = (float)((double)q->row_max[i] + log(q->row_sum[i]));
}

/* The caller's lse is right to a float.  If a large bias that all keys of a row have in common is part of it, too few digits
 * are left for the weights.  Such a row is summed again without that bias. */
static void fill_lse(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_row_range *rows,
                     gyre_query_buffers *q) {
    const gyre_view *lse = &plan->args->lse;
    const int exact = lse->dtype == GYRE_DTYPE_F64; /* of all keys, though this call may have some of them */
    int biased = 0;
    for (int64_t i = 0; i < q->count; i++)
        biased |= q->bias[i] != 0;
    if (biased && !exact) recompute_lse(plan, keys, q);
    for (int64_t i = 0; i < q->count; i++) {
        const void *at = gyre_view_at(lse, rows->batch, rows->first + i, rows->head, 0);
        if (exact)
            q->row_max[i] = (float)(*(const double *)at - q->bias[i]);
        else if (q->bias[i] == 0)
            q->row_max[i] = *(const float *)at;
        if (q->row_max[i] == -INFINITY) q->row_max[i] = 0; /* no key is visible: any shift keeps the weights at 0 */
    }
}

/* delta -= dlse, but of rows without keys, which have the log-sum-exp -inf. */
static void subtract_dlse(const gyre_attention_call *call, const gyre_row_range *rows, float *delta) {
    const gyre_cview lse = gyre_const(call->plan->args->lse);
    for (int64_t i = 0; call->dlse->data && i < rows->count; i++)
        if (gyre_cview_real(&lse, rows->batch, rows->first + i, rows->head) != -INFINITY)
            delta[i] = (float)((double)delta[i] - gyre_cview_real(call->dlse, rows->batch, rows->first + i, rows->head));
}

static void fill_queries(const gyre_attention_call *call, const gyre_key_buffers *keys, const gyre_row_range *rows,
                         gyre_query_buffers *q) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_cview out = gyre_const(plan->args->out);
    gyre_query_gradient *to = q->gradient;
    gyre_query_buffers_fill(plan, keys, rows, q);
    fill_lse(plan, keys, rows, q);
    gyre_rows_read(plan, call->dout, rows, to->dout_rows, plan->value_pad);
    gyre_rows_read(plan, &out, rows, q->out_rows, plan->value_pad);
    to->q_finite = 1;
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++) {
        to->q_finite &= gyre_tile_finite(plan->kernels, q->q_rows[variant], q->count * plan->head_pad);
        memset(to->dq_rows[variant], 0, (size_t)(q->count * plan->head_pad) * sizeof(float));
    }
    to->dout_finite = gyre_tile_finite(plan->kernels, to->dout_rows, q->count * plan->value_pad);
    gyre_softmax_deltas(plan->kernels, to->dout_rows, q->out_rows, q->count, plan->value_pad, to->delta);
    subtract_dlse(call, rows, to->delta);
    if (plan->gated) gyre_gates_begin_queries(q);
    if (plan->uses_tables) {
        gyre_tables_bind_tile(plan, q);
        gyre_tables_begin_queries(plan, q);
    }
}

/* Row i: scores -> p (p' with dropout), dscores: dp -> ds. */
static void softmax_backward_row(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                                 int64_t i) {
    float *p = q->scores + i * KEY_TILE, *dp = q->gradient->dscores + i * KEY_TILE, *weights = p, undropped[KEY_TILE];
    gyre_softmax_weights(plan->kernels, p, tile_pair->columns, q->row_max[i]);
    if (plan->args->dropout > 0) {
        const gyre_dropout_rows drop = {i, 1, p, dp};
        memcpy(undropped, p, (size_t)tile_pair->columns * sizeof *p);
        weights = undropped;
        gyre_dropout_tile_pair(plan, q, tile_pair, &drop);
    }
    plan->kernels->softmax_gradient_row_f32(weights, dp, tile_pair->columns, q->gradient->delta[i]);
    const float *restrict slope = q->gradient->cap_slope ? q->gradient->cap_slope + i * KEY_TILE : NULL;
    for (int64_t j = 0; slope && j < tile_pair->columns; j++)
        dp[j] *= slope[j];
}

/* scores -> p, dscores -> ds. */
static void softmax_backward(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                             const gyre_tile_pair *tile_pair) {
    const gyre_matmul product = {.m = q->count,
                                 .n = tile_pair->columns,
                                 .k = plan->value_pad,
                                 .a = q->gradient->dout_rows,
                                 .a_row_stride = plan->value_pad,
                                 .a_col_stride = 1,
                                 .b = keys->v_columns + tile_pair->tile * KEY_TILE * plan->value_pad + tile_pair->first,
                                 .b_row_stride = KEY_TILE,
                                 .c = q->gradient->dscores,
                                 .c_row_stride = KEY_TILE};
    plan->kernels->matmul_f32(&product);
    if (plan->table.value) gyre_tables_dweights(plan, q, tile_pair);
    for (int64_t i = 0; i < q->count; i++)
        softmax_backward_row(plan, q, tile_pair, i);
}

/* Channels at .. at + channels - 1 of rows of `pad`. */
typedef struct query_rows {
    const float *rows;
    int64_t pad, at, channels;
    int finite;
} query_rows;

/* to[key] += sum over queries of weights[query][key] rows[query]. */
static void add_to_keys(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                        const float *weight, query_rows from, float *to) {
    const gyre_matmul product = {.m = tile_pair->count,
                                 .n = from.channels,
                                 .k = q->count,
                                 .a = weight,
                                 .a_row_stride = 1,
                                 .a_col_stride = KEY_TILE,
                                 .b = from.rows + from.at,
                                 .b_row_stride = from.pad,
                                 .c = to + (tile_pair->tile * KEY_TILE + tile_pair->first) * from.pad + from.at,
                                 .c_row_stride = from.pad,
                                 .accumulate = 1};
    gyre_weighted_product(plan->kernels, &product, from.finite);
}

/* dq += sum over keys of dscores[query][key] k[key]; with xPos, keys times the decay between the two tiles. */
static void add_to_queries(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *q,
                           const gyre_tile_pair *tile_pair, int variant, const gyre_channel_part *part,
                           const float *dscores) {
    const int xpos = plan->rotation.xpos;
    const float *k_rows = keys->k_rows[gyre_key_variant(plan, variant)] + part->at;
    const gyre_matmul product = {.m = q->count,
                                 .n = part->pad,
                                 .k = tile_pair->count,
                                 .a = dscores,
                                 .a_row_stride = KEY_TILE,
                                 .a_col_stride = 1,
                                 .b = k_rows + (tile_pair->tile * KEY_TILE + tile_pair->first) * plan->head_pad,
                                 .b_row_stride = plan->head_pad,
                                 .c = (xpos ? q->xpos.rows : q->gradient->dq_rows[variant]) + part->at,
                                 .c_row_stride = plan->head_pad,
                                 .accumulate = !xpos};
    gyre_weighted_product(plan->kernels, &product, tile_pair->keys->k_finite);
    float *dq = q->gradient->dq_rows[0];
    for (int64_t i = 0; xpos && i < q->count; i++)
        for (int64_t c = 0; c < plan->head_pad; c++)
            dq[i * plan->head_pad + c] += q->xpos.decay[c] * q->xpos.rows[i * plan->head_pad + c];
}

/* Adds to the gradients of the rotated keys and queries, the last variant first: the rest of dscores belongs to earlier
 * ones. */
static void add_dq_dk(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *q,
                      const gyre_tile_pair *tile_pair) {
    const int64_t *positions = keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first;
    for (int variant = tile_pair->last_variant; variant >= tile_pair->first_variant; variant--) {
        const int some = variant > tile_pair->first_variant;
        if (some) gyre_attention_split_variant(plan, positions, variant, q, tile_pair);
        for (int p = 0; p < plan->products; p++) {
            const gyre_channel_part *part = &plan->part[p];
            const query_rows rows = {variant ? q->q_rows[variant] : q->near_q_rows, plan->head_pad, part->at, part->pad,
                                     q->gradient->q_finite};
            const float *dscores = p > 0 ? q->phases.products : some ? q->variant_scores : q->gradient->dscores;
            add_to_keys(plan, q, tile_pair, dscores, rows, keys->dk_rows[gyre_key_variant(plan, variant)]);
            add_to_queries(plan, keys, q, tile_pair, variant, part, dscores);
        }
    }
}

static void tile_pair_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *q,
                               const gyre_tile_pair *tile_pair) {
    const query_rows to_values = {q->gradient->dout_rows, plan->value_pad, 0, plan->value_pad, q->gradient->dout_finite};
    if (plan->uses_tables) gyre_tables_bind_tile(plan, q);
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    softmax_backward(plan, keys, q, tile_pair);
    add_to_keys(plan, q, tile_pair, q->scores, to_values, keys->dv_rows);
    if (plan->gated) gyre_gates_backward(plan, keys, q, tile_pair);
    if (plan->uses_tables) gyre_tables_backward(plan, keys, q, tile_pair);
    if (plan->products > 1) gyre_phases_backward(plan, q, tile_pair);
    if (plan->table.factors)
        gyre_factors_backward(plan, keys, q, tile_pair);
    else
        add_dq_dk(plan, keys, q, tile_pair);
}

/* Writes rows.  before: NULL, or memory for as many rows: they are added to the floats there. */
static void write_rows(const gyre_attention_plan *plan, const gyre_view *view, const gyre_row_range *rows,
                       float *restrict from, int64_t pad, float *restrict before) {
    const gyre_cview left = gyre_const(*view);
    if (before) {
        gyre_rows_read(plan, &left, rows, before, pad);
        for (int64_t i = 0; i < rows->count * pad; i++)
            from[i] += before[i];
    }
    gyre_rows_write(plan, view, rows, from, pad);
}

/* Writes dq of a tile of queries, after its last key. */
static void finish_queries(const gyre_attention_call *call, const gyre_row_range *rows, gyre_query_buffers *q) {
    const gyre_attention_plan *plan = call->plan;
    float *const *dq = q->gradient->dq_rows;
    if (plan->uses_tables) {
        gyre_tables_bind_tile(plan, q);
        gyre_tables_end_queries(plan, q);
    }
    /* q_rows, and so dk, had the scale from the start */
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++)
        gyre_query_rows_scale(plan, q, dq[variant]);
    if (plan->gated) gyre_gates_end_queries(plan, q);
    rotate_back(plan, GYRE_ROLE_QUERY, rows, dq);
    gyre_rows_gather(plan, dq[0], rows->count);
    write_rows(plan, &call->dqkv[0], rows, dq[0], plan->head_pad, plan->args->accumulate ? q->key_rows : NULL);
}

/* -- an item -- */

/* Query biases have memory for one tile at a time. */
static int64_t tiles_at_once(const gyre_attention_plan *plan) {
    return plan->table.content || plan->table.position ? 1 : TILES_AT_ONCE;
}

size_t gyre_gradient_job_layout(const gyre_attention_plan *plan, char *memory, gyre_gradient_job *job) {
    gyre_arena a = {memory, 0};
    gyre_query_gradient gradient = {.delta = {0}};
    gyre_query_buffers shared = {.gradient = &gradient};
    gyre_query_scratch_layout(plan, &a, &shared, job ? &job->tables : NULL);
    for (int64_t i = 0; i < tiles_at_once(plan); i++) {
        gyre_query_rows_layout(plan, &a, &shared);
        if (!job) continue;
        job->gradient[i] = gradient;
        job->q[i] = shared;
        job->q[i].gradient = &job->gradient[i];
    }
    return a.used;
}

/* out = tile `index` of the query tiles of all heads of an item.  Table buffers hold one head, so with tables the tiles of a
 * head follow each other.  Otherwise the heads follow each other, because their tiles see the same keys. */
static gyre_row_range rows_of_tile(const gyre_attention_plan *plan, int64_t item, int64_t index) {
    const int64_t head = plan->uses_tables ? index / plan->query_tiles : index % plan->group;
    const int64_t tile = plan->uses_tables ? index % plan->query_tiles : index / plan->group;
    const int64_t first = tile * plan->tile_rows, left = plan->queries - first;
    return (gyre_row_range){item / plan->key_heads, item % plan->key_heads * plan->group + head, first,
                            left < plan->tile_rows ? left : plan->tile_rows};
}

/* rows = up to TILES_AT_ONCE tiles from `index` on, with tables of one head; out = how many. */
static int64_t take_tiles(const gyre_attention_plan *plan, int64_t item, int64_t index, gyre_row_range *rows) {
    const int64_t all = plan->group * plan->query_tiles, most = tiles_at_once(plan);
    int64_t count = 0;
    for (; count < most && index + count < all; count++) {
        rows[count] = rows_of_tile(plan, item, index + count);
        if (plan->uses_tables && rows[count].head != rows[0].head) break;
    }
    return count;
}

/* Computes tiles of queries from `index` on with all keys; out = how many. */
static int64_t query_tiles_backward(const gyre_attention_call *call, int64_t item, int64_t index, gyre_key_buffers *keys,
                                    gyre_gradient_job *job) {
    const gyre_attention_plan *plan = call->plan;
    gyre_row_range rows[TILES_AT_ONCE];
    const int64_t count = take_tiles(plan, item, index, rows);
    for (int64_t i = 0; i < count; i++)
        fill_queries(call, keys, &rows[i], &job->q[i]);
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_between(plan);
        for (int64_t i = 0; i < count; i++) {
            gyre_tile_pair tile_pair;
            if (gyre_tile_pair_visible(plan, keys, &job->q[i], t, &tile_pair))
                tile_pair_backward(plan, keys, &job->q[i], &tile_pair);
        }
    }
    for (int64_t i = 0; i < count; i++)
        finish_queries(call, &rows[i], &job->q[i]);
    return count;
}

/* 1: gradients of key tile t are to be written: the segment is the first with these keys, or some query sees them. */
static int tile_needed(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_visible_range visible,
                       int64_t t) {
    return !plan->segment->accumulate_dkv ||
           gyre_visible_range_overlaps(visible, keys->tiles[t].order_min, keys->tiles[t].order_max);
}

static void clear_keys(const gyre_attention_plan *plan, const gyre_key_buffers *keys, int64_t t) {
    const size_t head = (size_t)(KEY_TILE * plan->head_pad), value = (size_t)(KEY_TILE * plan->value_pad);
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++)
        memset(keys->dk_rows[variant] + (size_t)t * head, 0, head * sizeof(float));
    memset(keys->dv_rows + (size_t)t * value, 0, value * sizeof(float));
}

static void finish_keys(const gyre_attention_call *call, int64_t item, int64_t t, const gyre_key_buffers *keys,
                        float *work) {
    const gyre_attention_plan *plan = call->plan;
    const int64_t at = t * KEY_TILE, head = plan->head_pad, value = plan->value_pad;
    const gyre_row_range rows = {item / plan->key_heads, item % plan->key_heads, at, keys->tiles[t].count};
    float *dk[GYRE_MAX_KEY_VARIANTS] = {0};
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++)
        dk[variant] = keys->dk_rows[variant] + at * head;
    rotate_back(plan, GYRE_ROLE_KEY, &rows, dk);
    gyre_rows_gather(plan, dk[0], rows.count);
    if (!plan->segment->accumulate_dkv) work = NULL;
    write_rows(plan, &call->dqkv[1], &rows, dk[0], head, work);
    write_rows(plan, &call->dqkv[2], &rows, keys->dv_rows + at * value, value, work);
}

void gyre_gradient_of_item(const gyre_attention_call *call, int64_t item, gyre_key_buffers *keys, gyre_gradient_job *job) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_visible_range visible = gyre_visible_to_batch(plan, item / plan->key_heads);
    gyre_key_buffers_fill(plan, item, keys, &job->q[0]);
    if (plan->uses_tables) gyre_tables_clear(plan, &job->q[0]);
    if (plan->gated)
        memset(keys->dgate_sums, 0, (size_t)(plan->group * plan->key_tiles * KEY_TILE) * sizeof *keys->dgate_sums);
    for (int64_t t = 0; t < plan->key_tiles; t++)
        if (tile_needed(plan, keys, visible, t)) clear_keys(plan, keys, t);
    for (int64_t i = 0; i < plan->group * plan->query_tiles;)
        i += query_tiles_backward(call, item, i, keys, job);
    for (int64_t t = 0; t < plan->key_tiles; t++)
        if (tile_needed(plan, keys, visible, t)) finish_keys(call, item, t, keys, job->q[0].key_rows);
    if (plan->gated) gyre_gates_end_keys(plan, item, keys);
}
