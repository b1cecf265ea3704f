/* softmax.c: rows of scores of a tile pair, and the sink logits of a call. */
#include "attention/terms/softmax.h"
#include "core/view.h"

void gyre_row_max_update(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        float row_max;
        plan->kernels->max_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, &row_max);
        if (row_max > q->row_max[i]) q->row_max[i] = row_max;
    }
}

float gyre_row_exp(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t i) {
    float sum;
    plan->kernels->weights_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, gyre_softmax_shift(q->row_max[i]), &sum);
    return sum;
}

double gyre_sink_logit(const gyre_attention_plan *plan, int64_t head) {
    const gyre_cview *sinks = &plan->args->sink_logits;
    return sinks->data ? gyre_cview_real(sinks, 0, 0, gyre_head_in_call(plan, head)) : -INFINITY;
}

gyre_row_normalizer gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state) {
    return gyre_row_normalize(state, gyre_sink_logit(plan, head));
}
