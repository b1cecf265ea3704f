/* adaptive.c: gyre_adaptive_attention, gyre_adaptive_gradient and their scratch. */
#include "adaptive/adaptive_check.h"
#include "adaptive/adaptive_run.h"
#include "attention/attention.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

size_t gyre_adaptive_scratch(const gyre_adaptive_args *given, int gradient, const gyre_exec *exec) {
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    if (gyre_adaptive_args_read(&args, given, NULL) || gyre_adaptive_check_shapes(&args, "gyre_adaptive_scratch", NULL) ||
        gyre_adaptive_plan_make(&plan, &args, gradient, exec))
        return 0;
    return plan.bytes;
}

static const char forward_name[] = "gyre_adaptive_attention", gradient_name[] = "gyre_adaptive_gradient";

static gyre_status plan_call(gyre_adaptive_plan *plan, const gyre_adaptive_args *args, int gradient, const void *scratch,
                             size_t bytes, const gyre_exec *exec, gyre_error *err) {
    const char *where = gradient ? gradient_name : forward_name;
    const gyre_status status = gyre_adaptive_plan_make(plan, args, gradient, exec);
    if (status) return gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", where);
    return gyre_attention_scratch_check(where, scratch, bytes, plan->bytes, err);
}

gyre_status gyre_adaptive_attention(const gyre_adaptive_args *given, void *scratch, size_t bytes, const gyre_exec *exec,
                                    gyre_error *err) {
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    gyre_status status = gyre_adaptive_args_read(&args, given, err);
    if (!status) status = gyre_adaptive_check(&args, GYRE_ADAPTIVE_FORWARD, forward_name, err);
    if (status || gyre_view_elements(args.out.shape) == 0) return status;
    status = plan_call(&plan, &args, 0, scratch, bytes, exec, err);
    if (!status) gyre_adaptive_forward_run(&plan, scratch, exec);
    return status;
}

gyre_status gyre_adaptive_gradient(const gyre_adaptive_args *given, const gyre_cview *dout,
                                   const gyre_adaptive_gradients *given_gradients, void *scratch, size_t bytes,
                                   const gyre_exec *exec, gyre_error *err) {
    gyre_adaptive_args args;
    gyre_adaptive_gradients gradients;
    gyre_adaptive_plan plan;
    gyre_status status = gyre_adaptive_args_read(&args, given, err);
    if (!status) status = gyre_sized_read(&gradients, sizeof gradients, given_gradients, "gyre_adaptive_gradients", err);
    if (!status) status = gyre_adaptive_check(&args, GYRE_ADAPTIVE_GRADIENT, gradient_name, err);
    if (!status) status = gyre_adaptive_check_gradient(&args, dout, &gradients, gradient_name, err);
    if (status) return status;
    status = plan_call(&plan, &args, 1, scratch, bytes, exec, err);
    if (status) return status;
    plan.dout = dout;
    plan.gradients = &gradients;
    gyre_adaptive_gradient_run(&plan, scratch, exec);
    return GYRE_OK;
}
