/* backward.c: gyre_attention_gradient: what it asks of the caller, and who does which item. */
#include "attention/backward.h"
#include "attention/attention_rotation.h"
#include "attention/tables.h"
#include "core/exec.h"
#include "core/view.h"
#include <string.h>

static void run_items(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_buffers keys;
    gyre_gradient_job work;
    gyre_key_buffers_layout(call->plan, gyre_key_buffers_memory(call, job), &keys);
    gyre_gradient_job_layout(call->plan, gyre_job_memory(call, job), &work);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;)
        gyre_gradient_of_item(call, item, &keys, &work);
}

/* One item a job, so that the parts of the tables' gradients lie side by side and can be added in the order of items. */
static void run_wave(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_buffers keys;
    gyre_gradient_job work;
    if (call->wave + job >= call->tasks) return;
    gyre_key_buffers_layout(call->plan, gyre_key_buffers_memory(call, job), &keys);
    gyre_gradient_job_layout(call->plan, gyre_job_memory(call, job), &work);
    gyre_gradient_of_item(call, call->wave + job, &keys, &work);
}

/* -- a pass -- */

/* Tokens token .. token + shape[1] - 1 of batch rows from `batch` on. */
static void narrow(gyre_view *view, int64_t batch, int64_t token, const int64_t shape[4]) {
    if (view->data) view->data = gyre_view_at(view, batch, token, 0, 0);
    view->shape[0] = shape[0];
    view->shape[1] = shape[1];
}

/* The part of dout, dq, dk and dv that is the pass's. */
typedef struct views {
    gyre_cview dout;
    gyre_view dqkv[3];
} views;

static views views_of(const gyre_attention_args *args, const gyre_segment *segment, const gyre_cview *dout,
                      const gyre_view dqkv[3]) {
    views out = {*dout, {dqkv[0], dqkv[1], dqkv[2]}};
    const int64_t batch = args->q_starts ? 0 : segment->sequence;
    const int64_t query = (args->q_starts ? args->q_starts[segment->sequence] : 0) + segment->query_first;
    const int64_t key = segment->packed_key_first + segment->key_first;
    if (dout->data) out.dout.data = gyre_cview_at(dout, batch, query, 0, 0);
    out.dout.shape[0] = segment->args.q.shape[0];
    out.dout.shape[1] = segment->args.q.shape[1];
    narrow(&out.dqkv[0], batch, query, segment->args.q.shape);
    narrow(&out.dqkv[1], batch, key, segment->args.k.shape);
    narrow(&out.dqkv[2], batch, key, segment->args.k.shape);
    return out;
}

static void run_segment(gyre_attention_call *call, const gyre_exec *exec) {
    const gyre_attention_plan *plan = call->plan;
    atomic_init(&call->next, 0);
    call->tasks = plan->items;
    if (!plan->uses_tables || !call->gradients) {
        gyre_parallel(exec, run_items, call, plan->jobs);
    } else {
        for (call->wave = 0; call->wave < call->tasks; call->wave += plan->jobs) {
            gyre_parallel(exec, run_wave, call, plan->jobs);
            gyre_tables_collect(call, exec);
        }
    }
    gyre_sink_gradient(call, exec);
}

/* -- a call -- */

static int is_one_of(gyre_dtype dtype, const gyre_dtype *all, int count) {
    for (int i = 0; i < count; i++)
        if (dtype == all[i]) return 1;
    return 0;
}

static gyre_status check_views(const gyre_attention_args *args, const gyre_cview *dout, const gyre_view dqkv[3]) {
    const gyre_dtype inputs[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    const gyre_cview *like[3] = {&args->q, &args->k, &args->v};
    if (!is_one_of(dout->dtype, inputs, 3)) return GYRE_EDTYPE;
    if (!gyre_same_shape(dout->shape, args->out.shape)) return GYRE_ESHAPE;
    gyre_status status = gyre_cview_check(dout, "dout", "gyre_attention_gradient", NULL);
    for (int i = 0; i < 3 && !status; i++) {
        const gyre_dtype outputs[] = {GYRE_DTYPE_F32, like[i]->dtype};
        if (!is_one_of(dqkv[i].dtype, outputs, 2)) return GYRE_EDTYPE;
        if (!gyre_same_shape(dqkv[i].shape, like[i]->shape)) return GYRE_ESHAPE;
        status = gyre_output_check(&dqkv[i], "dqkv", "gyre_attention_gradient", NULL);
    }
    return status ? status : gyre_attention_views_check(args, NULL);
}

/* What the memory of the call must be, and all that a pass asks for. */
static gyre_status check_segment(const gyre_attention_plan *plan, const gyre_view dqkv[3],
                                 const gyre_table_gradients *gradients, const void *scratch, size_t bytes) {
    gyre_status status = gyre_attention_plan_check(plan, scratch, bytes);
    if (!status) status = gyre_tables_gradient_check(plan, gradients);
    if (!status) status = gyre_sink_gradient_check(plan, gradients);
    if (status || !plan->segment->accumulate_dkv) return status;
    /* what is added to must not be rounded each time */
    return dqkv[1].dtype == GYRE_DTYPE_F32 && dqkv[2].dtype == GYRE_DTYPE_F32 ? GYRE_OK : GYRE_EDTYPE;
}

/* Keys that are not there get none. */
static void clear(const gyre_view *view) {
    const size_t size = gyre_dtype_size(view->dtype);
    const int64_t *shape = view->shape, dense = view->stride[3] == 1, run = dense ? shape[3] : 1;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++)
            for (int64_t h = 0; h < shape[2]; h++)
                for (int64_t c = 0; c < shape[3]; c += run)
                    memset(gyre_view_at(view, b, t, h, c), 0, (size_t)run * size);
}

static int is_empty(const gyre_attention_args *args) {
    return gyre_view_elements(args->q.shape) == 0 && gyre_view_elements(args->k.shape) == 0;
}

/* All of it, before anything is written. */
static gyre_status check_call(const gyre_attention_args *args, const gyre_cview *dout, const gyre_view dqkv[3],
                              const gyre_table_gradients *gradients, const void *scratch, size_t bytes,
                              const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_segments segments;
    gyre_segment segment;
    gyre_status status = check_views(args, dout, dqkv);
    if (!status && !is_empty(args)) status = gyre_segments_positions_check(args);
    gyre_segments_begin(&segments, args, NULL);
    while (!status && !is_empty(args) && gyre_segments_next(&segments, &segment)) {
        status = gyre_attention_plan_make(&plan, &segment, 1, exec);
        if (!status) status = check_segment(&plan, dqkv, gradients, scratch, bytes);
    }
    return status;
}

gyre_status gyre_attention_gradient(const gyre_attention_args *args, const gyre_cview *dout, const gyre_view dqkv[3],
                                    const gyre_table_gradients *gradients, void *scratch, size_t bytes,
                                    const gyre_exec *exec, gyre_error *err) {
    (void)err;
    gyre_attention_plan plan;
    gyre_segments segments;
    gyre_segment segment;
    gyre_status status = gyre_attention_args_check(args, NULL);
    if (status) return status;
    if (!dout || !dqkv) return GYRE_EINVAL;
    gyre_attention_args asked = *args;
    asked.weights.data = NULL; /* not looked at */
    status = check_call(&asked, dout, dqkv, gradients, scratch, bytes, exec);
    if (status || is_empty(&asked)) return status;
    for (int i = 1; i < 3 && (asked.k_first || asked.k_end); i++)
        clear(&dqkv[i]);
    gyre_segments_begin(&segments, &asked, NULL);
    while (gyre_segments_next(&segments, &segment)) {
        const views part = views_of(&asked, &segment, dout, dqkv);
        status = gyre_attention_plan_make(&plan, &segment, 1, exec);
        if (status) return status;
        gyre_attention_rotation_layout(&plan, scratch);
        gyre_attention_rotation_prepare(&plan, exec);
        gyre_attention_call call = {
            .plan = &plan, .scratch = scratch, .dout = &part.dout, .dqkv = part.dqkv, .gradients = gradients};
        run_segment(&call, exec);
    }
    return GYRE_OK;
}
