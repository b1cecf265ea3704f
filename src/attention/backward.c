/* backward.c: gyre_attention_gradient: what it asks of the caller, and who does which item. */
#include "attention/backward.h"
#include "attention/tables.h"
#include "attention/turns.h"
#include "core/view.h"

static void run_items(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_side keys;
    gyre_gradient_job work;
    gyre_key_side_place(call->plan, gyre_side_memory(call, job), &keys);
    gyre_gradient_job_place(call->plan, gyre_job_memory(call, job), &work);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;)
        gyre_gradient_of_item(call, item, &keys, &work);
}

/* One item a job, so that the parts of the tables' gradients lie side by side and can be added in the order of items. */
static void run_wave(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_side keys;
    gyre_gradient_job work;
    if (call->wave + job >= call->tasks) return;
    gyre_key_side_place(call->plan, gyre_side_memory(call, job), &keys);
    gyre_gradient_job_place(call->plan, gyre_job_memory(call, job), &work);
    gyre_gradient_of_item(call, call->wave + job, &keys, &work);
}

gyre_status gyre_attention_gradient(const gyre_attention_args *args, const gyre_cview *dout, const gyre_view dqkv[3],
                                    const gyre_table_gradients *gradients, void *scratch, size_t bytes,
                                    const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_status status = gyre_attention_plan_make(&plan, args, 1, exec);
    if (status) return status;
    if (!dout || !dqkv) return GYRE_EINVAL;
    const gyre_cview out = gyre_const(args->out), *inputs[3] = {&args->q, &args->k, &args->v};
    int64_t elements = 0;
    status = gyre_attention_same_shape(dout, &out);
    for (int i = 0; i < 3 && !status; i++) {
        const gyre_cview gradient = gyre_const(dqkv[i]);
        status = gyre_attention_same_shape(&gradient, inputs[i]);
        if (!status) status = gyre_output_check(&dqkv[i]);
        elements |= gyre_view_elements(gradient.shape);
    }
    if (status || elements == 0) return status;
    status = gyre_attention_plan_check(&plan, scratch, bytes);
    if (!status) status = gyre_tables_gradient_check(&plan, gradients);
    if (status) return status;
    gyre_turns_place(&plan, scratch);
    gyre_turns_prepare(&plan, exec);
    gyre_attention_call call = {.plan = &plan, .scratch = scratch, .dout = dout, .dqkv = dqkv, .gradients = gradients};
    atomic_init(&call.next, 0);
    call.tasks = plan.items;
    if (!plan.relative || !gradients) {
        gyre_parallel(exec, run_items, &call, plan.jobs);
        return GYRE_OK;
    }
    for (; call.wave < call.tasks; call.wave += plan.jobs) {
        gyre_parallel(exec, run_wave, &call, plan.jobs);
        gyre_tables_collect(&call, exec);
    }
    return GYRE_OK;
}
