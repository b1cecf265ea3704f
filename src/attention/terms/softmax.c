/* softmax.c: the online softmax of rows of scores, and sums weighted by it. */
#include "attention/terms/softmax.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* A row that has seen no key: any shift keeps its weights at 0. */
static float shift_of(float row_max) {
    return row_max == -INFINITY ? 0 : row_max;
}

/* Clears by writing: an infinity times 0 would be a NaN.  (A NaN among the weights stays in their sum.) */
void gyre_row_rescale(const gyre_attention_plan *plan, float *row, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)plan->value_pad * sizeof *row);
    else
        plan->kernels->scale_row_f32(row, plan->value_pad, factor);
}

/* out = factor of what was summed before the largest score rose by -change; 0 where products would be subnormal. */
static float shrink_by(float change) {
    return change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
}

void gyre_online_softmax_update(const gyre_attention_plan *plan, const gyre_online_softmax *softmax) {
    for (int64_t i = 0; i < softmax->rows; i++) {
        float *row = softmax->scores + i * KEY_TILE, *so_far = &softmax->row_max[i], row_max, sum;
        plan->kernels->max_row_f32(row, softmax->columns, &row_max);
        if (row_max > *so_far) {
            const float shrink = shrink_by(*so_far - row_max);
            gyre_row_rescale(plan, softmax->out + i * plan->value_pad, shrink);
            softmax->row_sum[i] *= (double)shrink;
            *so_far = row_max;
        }
        plan->kernels->weights_row_f32(row, softmax->columns, shift_of(*so_far), &sum);
        softmax->row_sum[i] += (double)sum;
    }
}

void gyre_row_max_update(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        float row_max;
        plan->kernels->max_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, &row_max);
        if (row_max > q->row_max[i]) q->row_max[i] = row_max;
    }
}

float gyre_row_exp(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t i) {
    float sum;
    plan->kernels->weights_row_f32(q->scores + i * KEY_TILE, tile_pair->columns, shift_of(q->row_max[i]), &sum);
    return sum;
}

void gyre_row_add_nonfinite(float weight, const float *value, int64_t n, float *row) {
    for (int64_t c = 0; weight != 0 && c < n; c++)
        if (!isfinite(value[c])) row[c] += weight * value[c];
}

float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head) {
    const gyre_cview *sinks = &plan->args->sink_logits;
    return sinks->data ? *(const float *)gyre_cview_at(sinks, 0, 0, gyre_head_in_call(plan, head), 0) : -INFINITY;
}

gyre_row_normalizer gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state) {
    return gyre_row_normalize(state, (double)gyre_sink_logit(plan, head));
}

gyre_row_normalizer gyre_row_normalize(const gyre_row_state *state, double sink_logit) {
    const double row_max = (double)state->row_max, sink = sink_logit - state->bias;
    double most = row_max, sum = state->row_sum;
    if (sink != -INFINITY) { /* written so that a NaN reaches the result */
        most = sink <= row_max ? row_max : sink;
        sum = sum * exp(row_max - most) + exp(sink - most);
    }
    if (sum == 0) return (gyre_row_normalizer){0, (double)-INFINITY};
    return (gyre_row_normalizer){(float)(exp(row_max - most) / sum), state->bias + most + log(sum)};
}

void gyre_weighted_product(const gyre_kernels *kernels, const gyre_matmul *product, int finite) {
    const gyre_matmul *p = product;
    if (finite) {
        kernels->matmul_f32(p);
        return;
    }
    for (int64_t i = 0; i < p->m; i++) {
        float *c = p->c + i * p->c_row_stride;
        if (!p->accumulate) memset(c, 0, (size_t)p->n * sizeof *c);
        for (int64_t l = 0; l < p->k; l++) {
            const float weight = p->a[i * p->a_row_stride + l * p->a_col_stride];
            if (weight == 0) continue;
            for (int64_t j = 0; j < p->n; j++)
                c[j] += weight * p->b[l * p->b_row_stride + j];
        }
    }
}
