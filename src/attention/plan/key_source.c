/* key_source.c: keys and values in the caller's views. */
#include "attention/plan/key_source.h"
#include "core/view.h"

/* The stride of an axis of one element may be any number, which code that looks one row ahead would multiply. */
static int64_t stride_of(const gyre_cview *view, int axis) {
    return view->shape[axis] > 1 ? view->stride[axis] : 1;
}

static void run_of_views(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *run) {
    const gyre_attention_inputs *args = source->run_ctx;
    *run = (gyre_key_run){.k = gyre_cview_at(&args->k, batch, first, head, 0),
                          .v = gyre_cview_at(&args->v, batch, first, head, 0),
                          .count = args->k.shape[1] - first,
                          .k_row_stride = stride_of(&args->k, 1),
                          .v_row_stride = stride_of(&args->v, 1),
                          .k_step = stride_of(&args->k, 3),
                          .v_step = stride_of(&args->v, 3)};
}

static void gate_sums_of_views(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t count,
                               double *out) {
    const gyre_attention_inputs *args = source->run_ctx;
    const gyre_cview *view = &args->k_gate_sums;
    const int64_t step = stride_of(view, 1);
    const void *at = gyre_cview_at(view, batch, first, head, 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = view->dtype == GYRE_DTYPE_F64 ? ((const double *)at)[i * step] : (double)((const float *)at)[i * step];
}

static int heads_adjacent(const gyre_cview *view) {
    return view->stride[3] == 1 && view->stride[2] == view->shape[3] && view->stride[1] >= view->shape[2] * view->shape[3];
}

gyre_key_source gyre_key_source_of_views(const gyre_attention_inputs *args) {
    return (gyre_key_source){.run_ctx = args,
                             .k_dtype = args->k.dtype,
                             .v_dtype = args->v.dtype,
                             .run = run_of_views,
                             .gate_sums = args->k_gate_sums.data ? gate_sums_of_views : NULL,
                             .heads_together = heads_adjacent(&args->k) && heads_adjacent(&args->v) ? args->k.shape[2] : 1};
}
