/* contextual.c: gyre_contextual_attention, gyre_contextual_gradient and their scratch. */
#include "attention/attention.h"
#include "contextual/contextual_check.h"
#include "contextual/contextual_run.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

size_t gyre_contextual_scratch(const gyre_contextual_args *given, int gradient, const gyre_exec *exec) {
    gyre_contextual_args args;
    gyre_contextual_plan plan;
    if (gyre_contextual_args_read(&args, given, NULL) ||
        gyre_contextual_check_shapes(&args, "gyre_contextual_scratch", NULL) ||
        gyre_contextual_plan_make(&plan, &args, gradient, exec))
        return 0;
    return plan.bytes;
}

static const char forward_name[] = "gyre_contextual_attention", gradient_name[] = "gyre_contextual_gradient";

static gyre_status plan_call(gyre_contextual_plan *plan, const gyre_contextual_args *args, int gradient, const void *scratch,
                             size_t bytes, const gyre_exec *exec, gyre_error *err) {
    const char *where = gradient ? gradient_name : forward_name;
    const gyre_status status = gyre_contextual_plan_make(plan, args, gradient, exec);
    if (status) return gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", where);
    return gyre_attention_scratch_check(where, scratch, bytes, plan->bytes, err);
}

gyre_status gyre_contextual_attention(const gyre_contextual_args *given, void *scratch, size_t bytes, const gyre_exec *exec,
                                      gyre_error *err) {
    gyre_contextual_args args;
    gyre_contextual_plan plan;
    gyre_status status = gyre_contextual_args_read(&args, given, err);
    if (!status) status = gyre_contextual_check(&args, GYRE_CONTEXTUAL_FORWARD, forward_name, err);
    if (status || gyre_view_elements(args.out.shape) == 0) return status;
    status = plan_call(&plan, &args, 0, scratch, bytes, exec, err);
    if (!status) gyre_contextual_forward_run(&plan, scratch, exec);
    return status;
}

gyre_status gyre_contextual_gradient(const gyre_contextual_args *given, const gyre_cview *dout,
                                     const gyre_contextual_gradients *given_gradients, void *scratch, size_t bytes,
                                     const gyre_exec *exec, gyre_error *err) {
    gyre_contextual_args args;
    gyre_contextual_gradients gradients;
    gyre_contextual_plan plan;
    gyre_status status = gyre_contextual_args_read(&args, given, err);
    if (!status) status = gyre_sized_read(&gradients, sizeof gradients, given_gradients, "gyre_contextual_gradients", err);
    if (!status) status = gyre_contextual_check(&args, GYRE_CONTEXTUAL_GRADIENT, gradient_name, err);
    if (!status) status = gyre_contextual_check_gradient(&args, dout, &gradients, gradient_name, err);
    const gyre_call_batch batch = gyre_contextual_batch(&args);
    if (status || gyre_call_sequences(&batch) == 0) return status;
    status = plan_call(&plan, &args, 1, scratch, bytes, exec, err);
    if (status) return status;
    plan.dout = dout;
    plan.gradients = &gradients;
    gyre_contextual_gradient_run(&plan, scratch, exec);
    return GYRE_OK;
}
