/* tile_rows.c: rows of queries and tiles of keys as floats. */
#include "call/tile_rows.h"
#include "core/convert.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

/* -- rows in and out -- */

void gyre_row_read(const gyre_kernels *kernels, const void *from, gyre_dtype dtype, int64_t step, int64_t n, float *to) {
    if (step == 1 && dtype == GYRE_DTYPE_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (step == 1 && dtype == GYRE_DTYPE_F16)
        kernels->widen_f16(from, to, n);
    else if (step == 1 && dtype == GYRE_DTYPE_BF16)
        kernels->widen_bf16(from, to, n);
    else if (step == 1 && dtype == GYRE_DTYPE_Q8)
        kernels->widen_q8(from, to, n);
    else if (dtype == GYRE_DTYPE_Q8_0)
        kernels->dequantize_q8_0(from, to, n);
    else if (dtype == GYRE_DTYPE_Q4_0)
        kernels->dequantize_q4_0(from, to, n);
    else if (dtype == GYRE_DTYPE_Q8)
        for (int64_t c = 0; c < n; c++)
            to[c] = ((const int8_t *)from)[c * step];
    else
        gyre_load_row(from, dtype, step, n, to);
}

void gyre_tile_read_row(const gyre_kernels *kernels, const void *from, const gyre_cview *view, float *to, int64_t pad) {
    gyre_row_read(kernels, from, view->dtype, view->stride[3], view->shape[3], to);
    gyre_row_clear_padding(to, view->shape[3], pad);
}

/* -- tiles of queries -- */

typedef struct row_place {
    int64_t query, head;
} row_place;

static row_place place_of(const gyre_query_rows *rows, int64_t r) {
    const int64_t n = rows->first + r;
    return rows->heads > 0 ? (row_place){rows->query + n / rows->heads, rows->head + n % rows->heads}
                           : (row_place){rows->query + n % rows->queries, rows->head + n / rows->queries};
}

void gyre_query_rows_read(const gyre_kernels *kernels, const gyre_query_rows *rows, const gyre_cview *view, float *to,
                          int64_t pad) {
    for (int64_t r = 0; r < rows->count; r++) {
        const row_place at = place_of(rows, r);
        gyre_tile_read_row(kernels, gyre_cview_at(view, rows->batch, at.query, at.head, 0), view, to + r * pad, pad);
    }
}

static void *row_at(const gyre_query_rows *rows, int64_t r, const gyre_view *view) {
    const row_place at = place_of(rows, r);
    return gyre_view_at(view, rows->batch, at.query, at.head, 0);
}

void gyre_query_rows_write(const gyre_query_rows *rows, const float *from, int64_t pad, const gyre_view *view) {
    for (int64_t r = 0; view->data && r < rows->count; r++)
        gyre_store_row(from + r * pad, view->shape[3], row_at(rows, r, view), view->dtype, view->stride[3]);
}

void gyre_query_rows_write_f64(const gyre_query_rows *rows, const double *from, const gyre_view *view) {
    for (int64_t r = 0; view->data && r < rows->count; r++)
        gyre_store_row_f64(from + r, 1, row_at(rows, r, view), view->dtype, 1);
}

/* -- finite and not -- */

void gyre_row_zero_nonfinite(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = isfinite(x[i]) ? x[i] : 0;
}

int gyre_tile_finite(const gyre_kernels *kernels, const float *x, int64_t n) {
    int finite;
    kernels->finite_row_f32(x, n, &finite);
    return finite;
}

/* -- keys and values -- */

void gyre_key_run_read(const gyre_key_reader *reader, const gyre_key_run *run, float *to) {
    const int keys = reader->side == GYRE_KEYS;
    const gyre_dtype dtype = keys ? reader->source->k_dtype : reader->source->v_dtype;
    const char *from = keys ? run->k : run->v;
    const float *scale = reader->scales_apart ? NULL : keys ? run->k_scale : run->v_scale;
    const int64_t row = gyre_dtype_bytes(dtype, keys ? run->k_row_stride : run->v_row_stride);
    const int64_t bytes = gyre_dtype_bytes(dtype, reader->channels), step = keys ? run->k_step : run->v_step;
    const int dense = step == 1 && row == bytes && reader->channels == reader->pad && !gyre_is_block(dtype);
    if (dense) gyre_row_read(reader->kernels, from, dtype, 1, run->count * reader->channels, to);
    for (int64_t i = 0; i < run->count && (!dense || scale); i++, to += reader->pad) {
        if (!dense) {
            if (row > bytes) gyre_row_prefetch((uintptr_t)from + (uintptr_t)((i + ROWS_AHEAD) * row), bytes);
            gyre_row_read(reader->kernels, from + i * row, dtype, step, reader->channels, to);
            gyre_row_clear_padding(to, reader->channels, reader->pad);
        }
        if (scale) reader->kernels->scale_row_f32(to, reader->pad, scale[i]);
    }
}

void gyre_tile_read_keys(const gyre_key_reader *reader, const gyre_call_sequence *s, int64_t head, int64_t tile, float *to) {
    const int64_t first = tile * KEY_TILE, left = s->keys - first, count = left < KEY_TILE ? left : KEY_TILE;
    gyre_key_run run;
    for (int64_t done = 0; done < count; done += run.count) {
        gyre_key_run_at(reader->source, s->batch, head, s->key + first + done, count - done, &run);
        gyre_key_run_read(reader, &run, to + done * reader->pad);
    }
    memset(to + count * reader->pad, 0, (size_t)((KEY_TILE - count) * reader->pad) * sizeof *to);
}

void gyre_tile_transpose(const gyre_kernels *kernels, const float *rows, int64_t pad, float *columns) {
    const gyre_transpose job = {
        .rows = KEY_TILE, .columns = pad, .in = rows, .in_row_stride = pad, .out = columns, .out_row_stride = KEY_TILE};
    kernels->transpose_f32(&job);
}

void gyre_tile_products(const gyre_kernels *kernels, const float *rows, int64_t count, int64_t pad, int64_t channels,
                        const float *columns, float *to) {
    const gyre_matmul product = {.m = count,
                                 .n = KEY_TILE,
                                 .k = channels,
                                 .a = rows,
                                 .a_row_stride = pad,
                                 .a_col_stride = 1,
                                 .b = columns,
                                 .b_row_stride = KEY_TILE,
                                 .c = to,
                                 .c_row_stride = KEY_TILE};
    kernels->matmul_f32(&product);
}

/* -- views -- */

void gyre_view_clear(const gyre_view *view) {
    const size_t size = gyre_dtype_size(view->dtype);
    const int64_t *shape = view->shape, run = view->stride[3] == 1 ? shape[3] : 1;
    for (int64_t b = 0; view->data && b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++)
            for (int64_t h = 0; h < shape[2]; h++)
                for (int64_t c = 0; c < shape[3]; c += run)
                    memset(gyre_view_at(view, b, t, h, c), 0, (size_t)run * size);
}

void gyre_view_add(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c, double x) {
    void *at = gyre_view_at(view, b, t, h, c);
    double sum;
    gyre_load_row_f64(at, view->dtype, 1, 1, &sum);
    sum += x;
    gyre_store_row_f64(&sum, 1, at, view->dtype, 1);
}
