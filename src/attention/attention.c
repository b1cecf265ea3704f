/* attention.c: gyre_attention, gyre_attention_gradient and their scratch.  Each checks its arguments once, plans each
 * segment once, and computes the segments one after the other. */
#include "attention/attention.h"
#include "attention/attention_planner.h"
#include "attention/forward/attention_weights.h"
#include "attention/forward/forward.h"
#include "attention/segments.h"
#include "core/sized.h"

/* The largest segment, which needs the most scratch. */
static gyre_status plan(void *call, const gyre_exec *exec, size_t *bytes) {
    gyre_attention_run *run = call;
    const gyre_attention_request *request = run->request;
    run->split = gyre_segments_largest(request->args, request->source, &run->segment);
    run->segment.head_first += request->head_first;
    const gyre_status status = gyre_attention_plan_make(&run->plan, &run->segment, request->gradient != NULL, exec);
    *bytes = run->plan.bytes > 0 ? run->plan.bytes : ALIGNMENT;
    return status;
}

static void run_segment(const gyre_attention_request *request, gyre_attention_plan *plan, char *scratch,
                        const gyre_exec *exec) {
    plan->between = request->between;
    if (request->gradient)
        gyre_gradient_run(plan, request->args, request->gradient, scratch, exec);
    else if (plan->queries > 0)
        gyre_forward_run(plan, scratch, exec);
}

static void execute(void *call, char *scratch, const gyre_exec *exec) {
    gyre_attention_run *run = call;
    const gyre_attention_request *request = run->request;
    const gyre_attention_inputs *args = request->args;
    gyre_segments segments;
    if (!request->gradient && args->weights.data) gyre_weights_clear(args, exec);
    if (request->gradient && !args->accumulate && (args->k_first || args->k_end))
        gyre_gradient_clear_padding(args, request->gradient);
    if (!run->split) { /* the largest segment is the call */
        run_segment(request, &run->plan, scratch, exec);
        return;
    }
    gyre_segments_begin(&segments, args, request->source, request->head_first);
    while (gyre_segments_next(&segments, &run->segment)) {
        /* Cannot fail: the plan of the largest segment did not. */
        const gyre_status status = gyre_attention_plan_make(&run->plan, &run->segment, request->gradient != NULL, exec);
        if (!status) run_segment(request, &run->plan, scratch, exec);
    }
}

/* -- the calls -- */

gyre_status gyre_attention_args_read(gyre_attention_inputs *args, const gyre_attention_args *given, gyre_error *err) {
    const gyre_status status = gyre_attention_inputs_read(args, given, err);
    if (status || !args->state.data || args->out.data) return status;
    const int64_t *q = args->q.shape;
    args->out = (gyre_view){.shape = {q[0], q[1], q[2], args->v.shape[3]}};
    return GYRE_OK;
}

static gyre_status check_shapes(const void *run, gyre_error *err) {
    return gyre_attention_check_shapes(((const gyre_attention_run *)run)->request, err);
}

static gyre_status check(const void *run, gyre_error *err) {
    return gyre_attention_check(((const gyre_attention_run *)run)->request, err);
}

static int is_empty(const void *run) {
    return gyre_attention_is_empty(((const gyre_attention_run *)run)->request);
}

const gyre_call_steps gyre_attention_steps = {
    .check_shapes = check_shapes, .check = check, .is_empty = is_empty, .plan = plan, .run = execute};

gyre_status gyre_attention_perform(const gyre_attention_request *request, gyre_scratch scratch, const gyre_exec *exec,
                                   gyre_error *err) {
    gyre_attention_run run;
    run.common = (gyre_call){.where = request->name};
    run.request = request;
    return gyre_call_perform(&gyre_attention_steps, &run, scratch, exec, err);
}

gyre_status gyre_attention_request_bytes(const gyre_attention_request *request, const gyre_exec *exec, size_t *bytes,
                                         gyre_error *err) {
    gyre_attention_run run;
    run.common = (gyre_call){.where = request->name};
    run.request = request;
    return gyre_call_bytes(&gyre_attention_steps, &run, exec, bytes, err);
}

gyre_status gyre_attention_scratch(const gyre_attention_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                   gyre_error *err) {
    static const gyre_gradient_views no_views = {.dout = NULL};
    static const char name[] = "gyre_attention_scratch";
    gyre_attention_inputs args;
    const gyre_status status = gyre_attention_args_read(&args, given, err);
    if (status) return status;
    if (gradient) args.weights.data = args.state.data = NULL; /* not looked at */
    const gyre_attention_request request = {name, &args, NULL, gradient ? &no_views : NULL, 0, 0, NULL};
    return gyre_attention_request_bytes(&request, exec, bytes, err);
}

gyre_status gyre_attention(const gyre_attention_args *given, gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    gyre_attention_inputs args;
    const gyre_status status = gyre_attention_args_read(&args, given, err);
    if (status) return status;
    const gyre_attention_request request = {"gyre_attention", &args, NULL, NULL, 0, 0, NULL};
    return gyre_attention_perform(&request, scratch, exec, err);
}

gyre_status gyre_gradients_read(gyre_gradients *own, gyre_attention_inputs *args, const gyre_attention_gradients *given,
                                gyre_error *err) {
    gyre_attention_gradients g;
    const gyre_status status = gyre_sized_read(&g, sizeof g, given, "gyre_attention_gradients", err);
    if (status) return status;
    *own = (gyre_gradients){.dout = g.dout, .dlse = g.dlse, .dqkv = {g.dq, g.dk, g.dv}};
    own->views = (gyre_gradient_views){&own->dout, own->dqkv, g.tables, &own->dlse};
    args->dq_gate_sums = g.dq_gates;
    args->dk_gate_sums = g.dk_gates;
    args->accumulate = g.accumulate;
    args->weights.data = args->state.data = NULL; /* not looked at */
    return GYRE_OK;
}

gyre_status gyre_attention_gradient(const gyre_attention_args *given, const gyre_attention_gradients *gradients,
                                    gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    gyre_gradients own;
    gyre_attention_inputs args;
    gyre_status status = gyre_attention_inputs_read(&args, given, err);
    if (!status) status = gyre_gradients_read(&own, &args, gradients, err);
    if (status) return status;
    const gyre_attention_request request = {"gyre_attention_gradient", &args, NULL, &own.views, 0, 0, NULL};
    return gyre_attention_perform(&request, scratch, exec, err);
}
