/* gradient.c: the gradient of attention, one segment at a time. */
#include "attention/gradient/gradient.h"
#include "attention/double/double_attention.h"
#include "attention/gradient/gradient_sinks.h"
#include "attention/gradient/gradient_tables.h"
#include "attention/gradient/gradient_tiles.h"
#include "attention/terms/attention_rotation.h"
#include "core/exec.h"
#include "core/view.h"

/* -- items -- */

static void run_items(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_buffers keys;
    gyre_gradient_job work;
    gyre_key_buffers_layout(call->plan, gyre_key_buffers_memory(call, job), &keys);
    gyre_gradient_job_layout(call->plan, gyre_job_memory(call, job), &work);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;)
        gyre_gradient_of_item(call, item, &keys, &work);
}

/* One item for each job: then their parts of the table gradients are adjacent and can be added in the order of items. */
static void run_wave(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_buffers keys;
    gyre_gradient_job work;
    if (call->wave + job >= call->tasks) return;
    gyre_key_buffers_layout(call->plan, gyre_key_buffers_memory(call, job), &keys);
    gyre_gradient_job_layout(call->plan, gyre_job_memory(call, job), &work);
    gyre_gradient_of_item(call, call->wave + job, &keys, &work);
}

/* -- a segment -- */

/* Narrows a view to tokens token .. token + shape[1] - 1 and heads head .. head + shape[2] - 1 of shape[0] batch rows from
 * `batch` on. */
static void narrow(gyre_view *view, int64_t batch, int64_t token, int64_t head, const int64_t shape[4]) {
    gyre_view_narrow(view, 0, batch, shape[0]);
    gyre_view_narrow(view, 1, token, shape[1]);
    gyre_view_narrow(view, 2, head, shape[2]);
}

/* dout, dlse, dq, dk and dv of a segment. */
typedef struct segment_views {
    gyre_cview dout, dlse;
    gyre_view dqkv[3];
} segment_views;

static segment_views narrow_views(const gyre_attention_inputs *args, const gyre_segment *segment,
                                  const gyre_gradient_views *views) {
    const gyre_cview *dout = views->dout;
    segment_views out = {.dout = *dout, .dqkv = {views->dqkv[0], views->dqkv[1], views->dqkv[2]}};
    const int64_t batch = args->q_starts ? 0 : segment->sequence;
    const int64_t query = (args->q_starts ? args->q_starts[segment->sequence] : 0) + segment->query_first;
    const int64_t key = segment->packed_key_first + segment->key_first;
    const int64_t head = segment->view_head, key_head = segment->source.head_first;
    if (dout->data) out.dout.data = gyre_cview_at(dout, batch, query, head, 0);
    for (int i = 0; i < 3; i++)
        out.dout.shape[i] = segment->args.q.shape[i];
    if (views->dlse && views->dlse->data) {
        out.dlse = *views->dlse;
        out.dlse.data = gyre_cview_at(views->dlse, batch, query, head, 0);
    }
    narrow(&out.dqkv[0], batch, query, head, segment->args.q.shape);
    narrow(&out.dqkv[1], batch, key, key_head, segment->args.k.shape);
    narrow(&out.dqkv[2], batch, key, key_head, segment->args.k.shape);
    return out;
}

static void run_call(gyre_attention_call *call, const gyre_exec *exec) {
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

void gyre_gradient_run(gyre_attention_plan *plan, const gyre_attention_inputs *args, const gyre_gradient_views *views,
                       char *scratch, const gyre_exec *exec) {
    const segment_views own = narrow_views(args, plan->segment, views);
    gyre_attention_call call = {.plan = plan,
                                .scratch = scratch,
                                .dout = &own.dout,
                                .dlse = &own.dlse,
                                .dqkv = own.dqkv,
                                .gradients = views->gradients};
    if (plan->is_double) {
        gyre_double_run(&call, exec);
        return;
    }
    gyre_attention_rotation_layout(plan, scratch);
    gyre_attention_rotation_prepare(plan, exec);
    run_call(&call, exec);
}

/* -- padding -- */

void gyre_gradient_clear_padding(const gyre_attention_inputs *args, const gyre_gradient_views *views) {
    gyre_view_clear(&views->dqkv[1]);
    gyre_view_clear(&views->dqkv[2]);
    gyre_view_clear(&args->dk_gate_sums);
}
