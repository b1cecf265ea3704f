/* online_softmax.c: the online softmax of rows of scores, and sums weighted by it. */
#include "call/online_softmax.h"
#include "core/convert.h"
#include "core/view.h"

#include <string.h>

/* -- rows -- */

void gyre_softmax_begin(const gyre_online_softmax *softmax, int64_t rows) {
    memset(softmax->out, 0, (size_t)(rows * softmax->pad) * sizeof(float));
    for (int64_t r = 0; r < rows; r++)
        softmax->row_max[r] = -INFINITY, softmax->row_sum[r] = 0;
}

/* Clears by writing: an infinity times 0 would be a NaN.  (A NaN among the weights stays in their sum.) */
void gyre_row_rescale(const gyre_kernels *kernels, float *row, int64_t n, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)n * sizeof *row);
    else
        kernels->scale_row_f32(row, n, factor);
}

/* out = factor of what was summed before the largest score rose by -change; 0 where products would be subnormal. */
static float shrink_by(float change) {
    return change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
}

/* Row r, whose largest score of this tile is row_max. */
static void update_row(const gyre_online_softmax *softmax, int64_t r, int64_t columns, float row_max, float *scores) {
    const gyre_kernels *kernels = softmax->kernels;
    float *so_far = &softmax->row_max[r], sum;
    if (row_max > *so_far) {
        const float shrink = shrink_by(*so_far - row_max);
        gyre_row_rescale(kernels, softmax->out + r * softmax->pad, softmax->pad, shrink);
        softmax->row_sum[r] *= (double)shrink;
        *so_far = row_max;
    }
    kernels->weights_row_f32(scores, columns, gyre_softmax_shift(*so_far), &sum);
    softmax->row_sum[r] += (double)sum;
}

/* The largest scores of some rows first: the exponentials of a row wait for its own, which takes as long as half of them. */
void gyre_softmax_update(const gyre_online_softmax *softmax, int64_t first, int64_t count, int64_t columns, float *scores) {
    enum { TOGETHER = 4 };
    for (int64_t done = 0; done < count; done += TOGETHER) {
        const int64_t some = count - done < TOGETHER ? count - done : TOGETHER;
        float row_max[TOGETHER], *rows = scores + done * KEY_TILE;
        for (int64_t r = 0; r < some; r++)
            softmax->kernels->max_row_f32(rows + r * KEY_TILE, columns, &row_max[r]);
        for (int64_t r = 0; r < some; r++)
            update_row(softmax, first + done + r, columns, row_max[r], rows + r * KEY_TILE);
    }
}

void gyre_row_add_nonfinite(float weight, const float *value, int64_t n, float *row) {
    for (int64_t c = 0; weight != 0 && c < n; c++)
        if (!isfinite(value[c])) row[c] += weight * value[c];
}

/* -- products with weights -- */

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

/* Rows of `pad` floats, whose weights are at those strides. */
static void add_weighted(const gyre_kernels *kernels, gyre_matmul product, const float *rows, int64_t pad, int finite,
                         float *to) {
    product.n = product.b_row_stride = product.c_row_stride = pad;
    product.b = rows;
    product.c = to;
    product.accumulate = 1;
    gyre_weighted_product(kernels, &product, finite);
}

void gyre_weighted_to_keys(const gyre_kernels *kernels, const gyre_tile_weights *w, float *to) {
    const gyre_matmul product = {.m = KEY_TILE, .k = w->count, .a = w->weights, .a_row_stride = 1, .a_col_stride = KEY_TILE};
    add_weighted(kernels, product, w->rows, w->pad, w->finite, to);
}

static void add_to_queries(const gyre_kernels *kernels, const float *weights, int64_t count, const float *keys, int64_t pad,
                           int finite, float *to) {
    const gyre_matmul product = {.m = count, .k = KEY_TILE, .a = weights, .a_row_stride = KEY_TILE, .a_col_stride = 1};
    add_weighted(kernels, product, keys, pad, finite, to);
}

void gyre_weighted_to_queries(const gyre_kernels *kernels, const gyre_tile_weights *w, const float *keys, float *to) {
    add_to_queries(kernels, w->weights, w->count, keys, w->pad, gyre_tile_finite(kernels, keys, KEY_TILE * w->pad), to);
}

static int take_nonfinite(const gyre_online_softmax *softmax, int64_t first, int64_t count, const float *weights,
                          float *values) {
    const int64_t pad = softmax->pad;
    if (gyre_tile_finite(softmax->kernels, values, KEY_TILE * pad)) return 0;
    for (int64_t j = 0; j < KEY_TILE; j++) {
        float *value = values + j * pad;
        for (int64_t r = 0; r < count; r++)
            gyre_row_add_nonfinite(weights[r * KEY_TILE + j], value, pad, softmax->out + (first + r) * pad);
        gyre_row_zero_nonfinite(value, pad);
    }
    return 1;
}

int gyre_softmax_add_values(const gyre_online_softmax *softmax, int64_t first, int64_t count, const float *weights,
                            float *values) {
    const int spoiled = take_nonfinite(softmax, first, count, weights, values);
    add_to_queries(softmax->kernels, weights, count, values, softmax->pad, 1, softmax->out + first * softmax->pad);
    return spoiled;
}

/* -- a row after its last key -- */

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

void gyre_softmax_write(const gyre_online_softmax *softmax, const gyre_query_rows *rows, const gyre_view *out,
                        const gyre_view *lse) {
    for (int64_t r = 0; r < rows->count; r++) {
        float *row = softmax->out + r * softmax->pad;
        const gyre_row_state state = {softmax->row_max[r], softmax->row_sum[r], 0, row};
        const gyre_row_normalizer end = gyre_row_normalize(&state, (double)-INFINITY);
        gyre_row_rescale(softmax->kernels, row, softmax->pad, end.out_scale);
        for (int64_t c = 0; c < out->shape[3]; c++)
            row[c] = gyre_canonical(row[c]);
        softmax->row_sum[r] = gyre_canonical_f64(end.lse);
    }
    gyre_query_rows_write(rows, softmax->out, softmax->pad, out);
    gyre_query_rows_write_f64(rows, softmax->row_sum, lse);
}

/* -- the gradient -- */

void gyre_softmax_deltas(const gyre_kernels *kernels, const float *dout, const float *out, int64_t count, int64_t pad,
                         float *delta) {
    for (int64_t r = 0; r < count; r++)
        kernels->dot_row_f32(dout + r * pad, out + r * pad, pad, &delta[r]);
}

void gyre_gradient_rows_begin(const gyre_kernels *kernels, const gyre_query_rows *rows, const gyre_cview *dout,
                              const gyre_view *out, const gyre_view *lse, const gyre_gradient_rows *to) {
    const gyre_cview outs = gyre_const(*out), sums = gyre_const(*lse);
    gyre_query_rows_read(kernels, rows, dout, to->dout, to->value_pad);
    gyre_query_rows_read(kernels, rows, &outs, to->out, to->value_pad);
    gyre_query_rows_read(kernels, rows, &sums, to->lse, 1);
    gyre_softmax_deltas(kernels, to->dout, to->out, rows->count, to->value_pad, to->delta);
    for (int64_t r = 0; r < rows->count; r++)
        to->lse[r] = gyre_softmax_shift(to->lse[r]);
    memset(to->dq, 0, (size_t)(rows->count * to->head_pad) * sizeof *to->dq);
}

void gyre_softmax_weights(const gyre_kernels *kernels, float *scores, int64_t n, float lse) {
    float sum;
    if (isnan(lse))
        for (int64_t j = 0; j < n; j++)
            scores[j] = scores[j] == -INFINITY ? 0 : NAN;
    else
        kernels->weights_row_f32(scores, n, lse, &sum);
}

void gyre_softmax_backward(const gyre_kernels *kernels, float *p, float *dp, float lse, float delta) {
    gyre_softmax_weights(kernels, p, KEY_TILE, lse);
    kernels->softmax_gradient_row_f32(p, dp, KEY_TILE, delta);
}
