/* rows.c: rows between the caller's strided views and dense floats. */
#include "attention/tiles/rows.h"
#include "core/convert.h"
#include "core/view.h"
#include <string.h>

static void write_row(const gyre_kernels *kernels, const float *from, int64_t n, void *to, gyre_dtype dtype, int64_t step) {
    if (step != 1)
        gyre_store_row(from, n, to, dtype, step);
    else if (dtype == GYRE_DTYPE_F16)
        kernels->narrow_f16(from, to, n);
    else if (dtype == GYRE_DTYPE_BF16)
        kernels->narrow_bf16(from, to, n);
    else
        memcpy(to, from, (size_t)n * sizeof *from);
}

void gyre_rows_read(const gyre_attention_plan *plan, const gyre_cview *view, const gyre_row_range *rows, float *to,
                    int64_t pad) {
    const int64_t size = (int64_t)gyre_dtype_size(view->dtype), step = gyre_cview_step(view, 1) * size;
    for (int64_t i = 0; i < rows->count; i++, to += pad) {
        const char *from = gyre_cview_at(view, rows->batch, rows->first + i, rows->head, 0);
        gyre_row_prefetch((uintptr_t)from + (uintptr_t)(ROWS_AHEAD * step), view->shape[3] * size);
        gyre_tile_read_row(plan->kernels, from, view, to, pad);
    }
}

void gyre_rows_spread(const gyre_attention_plan *plan, float *x, int64_t count) {
    for (int64_t i = 0; plan->parts > 1 && i < count; i++, x += plan->head_pad)
        for (int p = plan->parts - 1; p >= 0; p--) {
            const gyre_channel_part *part = &plan->part[p];
            memmove(x + part->at, x + part->first, (size_t)part->count * sizeof *x);
            gyre_row_clear_padding(x + part->at, part->count, part->pad);
        }
}

void gyre_rows_gather(const gyre_attention_plan *plan, float *x, int64_t count) {
    for (int64_t i = 0; plan->parts > 1 && i < count; i++, x += plan->head_pad)
        for (int p = 0; p < plan->parts; p++)
            memmove(x + plan->part[p].first, x + plan->part[p].at, (size_t)plan->part[p].count * sizeof *x);
}

void gyre_rows_write(const gyre_attention_plan *plan, const gyre_view *view, const gyre_row_range *rows, const float *from,
                     int64_t pad) {
    const gyre_cview written = gyre_const(*view);
    const int64_t size = (int64_t)gyre_dtype_size(view->dtype), step = gyre_cview_step(&written, 1) * size;
    for (int64_t i = 0; i < rows->count; i++, from += pad) {
        void *to = gyre_view_at(view, rows->batch, rows->first + i, rows->head, 0);
        gyre_row_prefetch((uintptr_t)to + (uintptr_t)(ROWS_AHEAD * step), view->shape[3] * size);
        write_row(plan->kernels, from, view->shape[3], to, view->dtype, view->stride[3]);
    }
}
