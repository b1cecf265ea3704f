/* scores.c: the scores of one tile pair. */
#include "attention/tiles/scores.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/biases.h"
#include "attention/terms/factors.h"
#include "attention/terms/mask.h"
#include "attention/terms/phases.h"
#include "attention/terms/softmax.h"
#include "attention/terms/tables.h"
#include "attention/terms/visibility.h"
#include "attention/tiles/rows.h"
#include <math.h>

/* scores = queries . keys over the channels of a part, where a block of rows sees any of them. */
static void qk_scores(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *q,
                      const gyre_tile_pair *tile_pair, int variant, const gyre_channel_part *part, float *scores) {
    const float *queries = (variant ? q->q_rows[variant] : q->near_q_rows) + part->at;
    const float *columns = keys->k_columns[gyre_key_variant(plan, variant)] +
                           (tile_pair->buffer_tile * plan->head_pad + part->at) * KEY_TILE + tile_pair->first;
    for (gyre_row_block block = {0}; gyre_next_row_block(plan, keys, q, tile_pair, &block);) {
        const gyre_matmul product = {.m = block.rows,
                                     .n = (block.keys + 15) / 16 * 16,
                                     .k = part->pad,
                                     .a = queries + block.first * plan->head_pad,
                                     .a_row_stride = plan->head_pad,
                                     .a_col_stride = 1,
                                     .b = columns,
                                     .b_row_stride = KEY_TILE,
                                     .c = scores + block.first * KEY_TILE,
                                     .c_row_stride = KEY_TILE};
        (plan->bf16_keys ? plan->kernels->matmul_bf16 : plan->kernels->matmul_f32)(&product);
    }
}

static void scale_tile_scores(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_tile_pair *tile_pair,
                              int64_t count, float *scores) {
    for (int64_t i = 0; plan->key_scales_apart && i < count; i++)
        gyre_row_multiply(scores + i * KEY_TILE, keys->k_scale + tile_pair->first, tile_pair->columns);
}

/* Scores of every variant in the tile pair; each query-key pair takes the score of its variant. */
static void score_variants(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                           const gyre_tile_pair *tile_pair, const int64_t *positions) {
    if (tile_pair->first_variant == 0) gyre_attention_near_queries(plan, q, tile_pair);
    for (int variant = tile_pair->first_variant; variant <= tile_pair->last_variant; variant++) {
        float *scores = variant == tile_pair->first_variant ? q->scores : q->variant_scores;
        for (int p = 0; p < plan->products; p++) {
            float *products = p > 0 ? q->phases.products : scores;
            qk_scores(plan, keys, q, tile_pair, variant, &plan->part[p], products);
            scale_tile_scores(plan, keys, tile_pair, q->count, products);
        }
        if (variant > tile_pair->first_variant) gyre_attention_select_variant(plan, positions, variant, q, tile_pair);
    }
}

static void softcap_rows(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++)
        plan->kernels->softcap_row_f32(q->scores + i * KEY_TILE, q->gradient ? q->gradient->cap_slope + i * KEY_TILE : NULL,
                                       tile_pair->columns, plan->softcap);
}

/* The slope of a pair that is not visible is 0, even if its score was not finite: the gradient multiplies by it. */
static void zero_masked_slopes(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    float *slope = q->gradient->cap_slope;
    for (int64_t i = 0; i < q->count; i++)
        for (int64_t j = i * KEY_TILE; j < i * KEY_TILE + tile_pair->columns; j++)
            slope[j] = q->scores[j] == -INFINITY ? 0 : slope[j];
}

void gyre_tile_pair_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair) {
    const int64_t at = tile_pair->tile * KEY_TILE + tile_pair->first;
    const int64_t *positions = keys->positions + at;
    if (plan->uses_tables) gyre_tables_list(plan, keys, queries, tile_pair);
    if (plan->table.factors)
        gyre_factors_score(plan, keys, queries, tile_pair);
    else
        score_variants(plan, keys, queries, tile_pair, positions);
    if (plan->products > 1) {
        gyre_phase_turns turns;
        gyre_phases_list(plan, keys, queries, tile_pair, &turns);
        gyre_phases_apply(plan, keys, queries, tile_pair, &turns);
    }
    gyre_biases_add(plan, keys, queries, tile_pair);
    if (plan->uses_tables) gyre_tables_score(plan, keys, queries, tile_pair);
    gyre_tile_pair_mask(plan, keys, queries, tile_pair);
}

void gyre_tile_pair_mask(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                         const gyre_tile_pair *tile_pair) {
    const int64_t *order = keys->order + tile_pair->tile * KEY_TILE + tile_pair->first;
    if (plan->softcap > 0) softcap_rows(plan, queries, tile_pair);
    if (plan->args->mask.data) gyre_mask_add(plan, queries, tile_pair);
    for (int64_t i = 0; tile_pair->masked && i < queries->count; i++)
        gyre_visibility_mask_row(plan, tile_pair, order, queries->order[i], queries->scores + i * KEY_TILE);
    if (plan->softcap > 0 && queries->gradient) zero_masked_slopes(queries, tile_pair);
}

void gyre_tiles_row_max(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries) {
    for (int64_t i = 0; i < queries->count; i++)
        queries->row_max[i] = -INFINITY;
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_tile_pair tile_pair;
        if (!gyre_tile_pair_visible(plan, keys, queries, t, &tile_pair)) continue;
        gyre_tile_pair_score(plan, keys, queries, &tile_pair);
        gyre_row_max_update(plan, queries, &tile_pair);
    }
}
