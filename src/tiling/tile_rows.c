/* tile_rows.c: rows of queries and tiles of keys as floats, and rows of an online softmax. */
#include "tiling/tile_rows.h"
#include "attention/terms/softmax.h"
#include "attention/tiles/rows.h"
#include "core/convert.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

/* -- rows in and out -- */

void gyre_tile_read_row(const gyre_kernels *kernels, const void *from, const gyre_cview *view, float *to, int64_t pad) {
    const int64_t n = view->shape[3];
    if (view->dtype == GYRE_DTYPE_F64)
        gyre_load_row(from, view->dtype, view->stride[3], n, to);
    else
        gyre_row_read(kernels, from, view->dtype, view->stride[3], n, to);
    gyre_row_clear_padding(to, n, pad);
}

/* Tokens first .. first + count - 1 of a source. */
static void read_source(const gyre_kernels *kernels, const gyre_tile_input *input, int64_t head, int64_t first,
                        int64_t count, float *to, int64_t pad) {
    const int64_t channels = input->view->shape[3];
    const gyre_dtype dtype = input->values ? input->source->v_dtype : input->source->k_dtype;
    gyre_key_run run;
    for (int64_t done = 0; done < count; done += run.count) {
        gyre_key_run_at(input->source, 0, head, first + done, count - done, &run);
        const char *from = input->values ? run.v : run.k;
        const float *scale = input->values ? run.v_scale : run.k_scale;
        const int64_t row = (input->values ? run.v_row_stride : run.k_row_stride) * (int64_t)gyre_dtype_size(dtype);
        for (int64_t i = 0; i < run.count; i++) {
            float *at = to + (done + i) * pad;
            gyre_row_read(kernels, from + i * row, dtype, input->values ? run.v_step : run.k_step, channels, at);
            gyre_row_clear_padding(at, channels, pad);
            if (scale) kernels->scale_row_f32(at, pad, scale[i]);
        }
    }
}

void gyre_tile_read_keys(const gyre_kernels *kernels, const gyre_tile_input *input, const gyre_call_sequence *s,
                         int64_t head, int64_t tile, float *to, int64_t pad) {
    const int64_t first = tile * KEY_TILE, left = s->keys - first, count = left < KEY_TILE ? left : KEY_TILE;
    if (input->source) read_source(kernels, input, head, s->key + first, count, to, pad);
    for (int64_t j = 0; j < count && !input->source; j++)
        gyre_tile_read_row(kernels, gyre_cview_at(input->view, s->batch, s->key + first + j, head, 0), input->view,
                           to + j * pad, pad);
    for (int64_t j = count; j < KEY_TILE; j++)
        gyre_row_clear_padding(to + j * pad, 0, pad);
}

void gyre_tile_transpose(const gyre_kernels *kernels, const float *rows, int64_t pad, float *columns) {
    const gyre_transpose job = {
        .rows = KEY_TILE, .columns = pad, .in = rows, .in_row_stride = pad, .out = columns, .out_row_stride = KEY_TILE};
    kernels->transpose_f32(&job);
}

int gyre_tile_finite(const gyre_kernels *kernels, const float *x, int64_t n) {
    int finite;
    kernels->finite_row_f32(x, n, &finite);
    return finite;
}

void gyre_tile_clear_view(const gyre_view *view) {
    const float zero[1] = {0};
    for (int64_t b = 0; view->data && b < view->shape[0]; b++)
        for (int64_t t = 0; t < view->shape[1]; t++)
            for (int64_t h = 0; h < view->shape[2]; h++)
                for (int64_t c = 0; c < view->shape[3]; c++)
                    gyre_store_row(zero, 1, gyre_view_at(view, b, t, h, c), view->dtype, 1);
}

/* -- the softmax of rows -- */

void gyre_tile_softmax_begin(const gyre_tile_softmax *softmax, int64_t rows) {
    memset(softmax->out, 0, (size_t)(rows * softmax->pad) * sizeof(float));
    for (int64_t r = 0; r < rows; r++)
        softmax->row_max[r] = -INFINITY, softmax->row_sum[r] = 0;
}

/* Clears by writing: an infinity times 0 would be a NaN. */
static void rescale(const gyre_tile_softmax *softmax, float *row, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)softmax->pad * sizeof *row);
    else
        softmax->kernels->scale_row_f32(row, softmax->pad, factor);
}

void gyre_tile_softmax_update(const gyre_tile_softmax *softmax, int64_t r, float *scores) {
    float *row_max = &softmax->row_max[r], largest, sum;
    softmax->kernels->max_row_f32(scores, KEY_TILE, &largest);
    if (largest > *row_max) {
        const float change = *row_max - largest, shrink = change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
        rescale(softmax, softmax->out + r * softmax->pad, shrink);
        softmax->row_sum[r] *= (double)shrink;
        *row_max = largest;
    }
    softmax->kernels->weights_row_f32(scores, KEY_TILE, *row_max == -INFINITY ? 0 : *row_max, &sum);
    softmax->row_sum[r] += (double)sum;
}

int gyre_tile_softmax_take_nonfinite(const gyre_tile_softmax *softmax, int64_t first, int64_t count, const float *weights,
                                     float *values) {
    const int64_t pad = softmax->pad;
    if (gyre_tile_finite(softmax->kernels, values, KEY_TILE * pad)) return 0;
    for (int64_t i = 0; i < KEY_TILE * pad; i++) {
        if (isfinite(values[i])) continue;
        for (int64_t r = 0; r < count; r++) {
            const float weight = weights[r * KEY_TILE + i / pad];
            if (weight != 0) softmax->out[(first + r) * pad + i % pad] += weight * values[i];
        }
        values[i] = 0;
    }
    return 1;
}

void gyre_tile_softmax_write(const gyre_tile_softmax *softmax, int64_t r, const gyre_tile_place *place, const gyre_view *out,
                             const gyre_view *lse) {
    float *row = softmax->out + r * softmax->pad;
    const gyre_row_state state = {softmax->row_max[r], softmax->row_sum[r], 0, row};
    const gyre_row_normalizer end = gyre_row_normalize(&state, (double)-INFINITY);
    rescale(softmax, row, end.out_scale);
    for (int64_t c = 0; c < out->shape[3]; c++)
        row[c] = gyre_canonical(row[c]);
    gyre_store_row(row, out->shape[3], gyre_view_at(out, place->batch, place->query, place->head, 0), out->dtype,
                   out->stride[3]);
    if (!lse->data) return;
    const double value = gyre_canonical_f64(end.lse);
    gyre_store_row_f64(&value, 1, gyre_view_at(lse, place->batch, place->query, place->head, 0), lse->dtype, 1);
}

/* -- its gradient -- */

void gyre_tile_softmax_backward(const gyre_kernels *kernels, float *p, float *dp, float lse, float delta) {
    float sum;
    if (isnan(lse))
        for (int64_t j = 0; j < KEY_TILE; j++)
            p[j] = p[j] == -INFINITY ? 0 : NAN;
    else
        kernels->weights_row_f32(p, KEY_TILE, lse, &sum);
    kernels->softmax_gradient_row_f32(p, dp, KEY_TILE, delta);
}
