/* scores.c: one tile of queries against one tile of keys. */
#include "attention/mask.h"
#include "attention/sight.h"
#include "attention/tables.h"
#include "attention/tiles.h"
#include "attention/turns.h"
#include <math.h>
#include <string.h>

/* scores = queries . keys */
static void multiply(const gyre_attention_plan *plan, const gyre_meeting *meeting, const float *queries, int64_t count,
                     const float *columns, float *scores) {
    const gyre_matmul product = {.m = count,
                                 .n = meeting->columns,
                                 .k = plan->head_pad,
                                 .a = queries,
                                 .a_row = plan->head_pad,
                                 .a_col = 1,
                                 .b = columns + meeting->held * KEY_TILE * plan->head_pad + meeting->first,
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

static void cap(const gyre_attention_plan *plan, gyre_query_side *q, const gyre_meeting *meeting) {
    for (int64_t i = 0; i < q->count; i++)
        plan->kernels->softcap_row_f32(q->scores + i * KEY_TILE, q->cap_slope ? q->cap_slope + i * KEY_TILE : NULL,
                                       meeting->columns, plan->softcap);
}

/* Where nothing is seen the slope is 0, whatever was hidden there: the gradient multiplies by it. */
static void flatten(gyre_query_side *q, const gyre_meeting *meeting) {
    for (int64_t i = 0; i < q->count; i++)
        for (int64_t j = i * KEY_TILE; j < i * KEY_TILE + meeting->columns; j++)
            q->cap_slope[j] = q->scores[j] == -INFINITY ? 0 : q->cap_slope[j];
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
    gyre_tiles_hide(plan, keys, queries, meeting);
}

void gyre_tiles_hide(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *queries,
                     const gyre_meeting *meeting) {
    const int64_t *order = keys->order + meeting->tile * KEY_TILE + meeting->first;
    if (plan->softcap > 0) cap(plan, queries, meeting);
    if (plan->args->mask.data) gyre_mask_add(plan, queries, meeting);
    for (int64_t i = 0; meeting->masked && i < queries->count; i++)
        gyre_mask_row(plan, meeting, order, queries->order[i], queries->scores + i * KEY_TILE);
    if (plan->softcap > 0 && queries->cap_slope) flatten(queries, meeting);
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

/* Cleared by a factor of 0, which an infinity would survive as a NaN.  (A NaN among the weights lives on in their sum.) */
void gyre_row_shrink(const gyre_attention_plan *plan, float *row, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)plan->value_pad * sizeof *row);
    else
        plan->kernels->scale_row_f32(row, plan->value_pad, factor);
}

void gyre_softmax_meet(const gyre_attention_plan *plan, const gyre_softmax *softmax) {
    for (int64_t i = 0; i < softmax->rows; i++) {
        float *row = softmax->scores + i * KEY_TILE, *so_far = &softmax->top[i], top, sum;
        plan->kernels->max_row_f32(row, softmax->columns, &top);
        if (top > *so_far) {
            const float shrink = expf(*so_far - top);
            gyre_row_shrink(plan, softmax->out + i * plan->value_pad, shrink);
            softmax->sum[i] *= (double)shrink;
            *so_far = top;
        }
        /* a row that has seen nothing yet: any shift keeps its weights at 0 */
        plan->kernels->exp_row_f32(row, softmax->columns, *so_far == -INFINITY ? 0 : *so_far, &sum);
        softmax->sum[i] += (double)sum;
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
