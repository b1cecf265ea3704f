/* key_source.c: keys and values in the caller's views. */
#include "call/key_source.h"
#include "core/view.h"

static void run_of_views(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *run) {
    const gyre_cview *k = source->k_view, *v = source->v_view;
    *run = (gyre_key_run){.k = gyre_cview_at(k, batch, first, head, 0),
                          .v = gyre_cview_at(v, batch, first, head, 0),
                          .count = k->shape[1] - first,
                          .k_row_stride = gyre_cview_step(k, 1),
                          .v_row_stride = gyre_cview_step(v, 1),
                          .k_step = gyre_cview_step(k, 3),
                          .v_step = gyre_cview_step(v, 3)};
}

static void gate_sums_of_views(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t count,
                               double *out) {
    const gyre_cview *view = source->g_view;
    const int64_t step = gyre_cview_step(view, 1);
    const void *at = gyre_cview_at(view, batch, first, head, 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = view->dtype == GYRE_DTYPE_F64 ? ((const double *)at)[i * step] : (double)((const float *)at)[i * step];
}

static int heads_adjacent(const gyre_cview *view) {
    return view->stride[3] == 1 && view->stride[2] == view->shape[3] && view->stride[1] >= view->shape[2] * view->shape[3];
}

gyre_key_source gyre_key_source_of_views(const gyre_cview *k, const gyre_cview *v, const gyre_cview *gate_sums) {
    return (gyre_key_source){.k_view = k,
                             .v_view = v,
                             .g_view = gate_sums,
                             .k_dtype = k->dtype,
                             .v_dtype = v->dtype,
                             .run = run_of_views,
                             .gate_sums = gate_sums && gate_sums->data ? gate_sums_of_views : NULL,
                             .heads_together = heads_adjacent(k) && heads_adjacent(v) ? k->shape[2] : 1};
}
