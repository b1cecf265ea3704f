/* attention_weights.c: attention weights written for the caller. */
#include "attention/forward/attention_weights.h"
#include "attention/terms/softmax.h"
#include "attention/tiles/scores.h"
#include "core/exec.h"
#include "core/view.h"

#include <math.h>

/* -- a call -- */

static void clear_query(void *arg, int64_t index) {
    const gyre_attention_inputs *args = arg;
    const gyre_view *view = &args->weights;
    const int64_t keys = view->shape[3], step = view->stride[3];
    const float nothing = args->weights_are_scores ? -INFINITY : 0;
    for (int64_t h = 0; h < view->shape[2]; h++) {
        float *row = gyre_view_at(view, index / view->shape[1], index % view->shape[1], h, 0);
        for (int64_t j = 0; j < keys; j++)
            row[j * step] = nothing;
    }
}

void gyre_weights_clear(const gyre_attention_inputs *args, const gyre_exec *exec) {
    gyre_attention_inputs cleared = *args;
    if (args->weights.data) gyre_parallel(exec, clear_query, &cleared, args->weights.shape[0] * args->weights.shape[1]);
}

int64_t gyre_weights_tiles(const gyre_attention_plan *plan, int64_t *first) {
    const gyre_attention_inputs *args = plan->args;
    *first = 0;
    if (!args->weights.data || args->weights.shape[1] == 0) return 0;
    *first = args->weights_first / plan->tile_rows;
    return (args->weights_first + args->weights.shape[1] - 1) / plan->tile_rows - *first + 1;
}

/* -- a tile pair -- */

void gyre_weights_sum(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                      const gyre_tile_pair *tile_pair) {
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    for (int64_t i = 0; i < q->count; i++) {
        float row_max;
        plan->kernels->max_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, &row_max);
        if (row_max > q->row_max[i]) {
            q->row_sum[i] *= exp((double)q->row_max[i] - (double)row_max);
            q->row_max[i] = row_max;
        }
        q->row_sum[i] += (double)gyre_row_exp(plan, q, tile_pair, i);
    }
}

/* Writes row i of the tile pair as it is, in full and not relative to the row's bias. */
static void write_scores_row(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t i, const gyre_view *view,
                             int64_t query) {
    const float *row = q->scores + i * KEY_TILE;
    float *to = gyre_view_at(view, q->batch, query, q->head, tile_pair->tile * KEY_TILE + tile_pair->first);
    for (int64_t j = 0; j < tile_pair->count; j++)
        to[j * view->stride[3]] = (float)((double)row[j] + q->bias[i]);
}

/* Writes row i of the tile pair times out_scale.  0 stays 0, even in a row whose sum is a NaN. */
static void write_weights_row(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t i, float out_scale,
                              const gyre_view *view, int64_t query) {
    const float *row = q->scores + i * KEY_TILE;
    float *to = gyre_view_at(view, q->batch, query, q->head, tile_pair->tile * KEY_TILE + tile_pair->first);
    for (int64_t j = 0; j < tile_pair->count; j++)
        to[j * view->stride[3]] = row[j] == 0 ? 0 : row[j] * out_scale;
}

void gyre_weights_write(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                        const gyre_tile_pair *tile_pair) {
    const gyre_attention_inputs *args = plan->args;
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t query = q->first + i - args->weights_first;
        if (query < 0 || query >= args->weights.shape[1]) continue;
        if (args->weights_are_scores) {
            write_scores_row(q, tile_pair, i, &args->weights, query);
            continue;
        }
        const gyre_row_state state = {q->row_max[i], q->row_sum[i], q->bias[i], NULL};
        gyre_row_exp(plan, q, tile_pair, i);
        write_weights_row(q, tile_pair, i, gyre_row_finish(plan, q->head, &state).out_scale, &args->weights, query);
    }
}
