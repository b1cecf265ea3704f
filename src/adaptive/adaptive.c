/* adaptive.c: gyre_adaptive_attention, gyre_adaptive_gradient and their scratch. */
#include "adaptive/adaptive_check.h"
#include "adaptive/adaptive_run.h"
#include "attention/attention.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

static gyre_status plan_bytes(gyre_adaptive_plan *plan, const gyre_adaptive_args *args, int gradient, const char *where,
                              const gyre_exec *exec, gyre_error *err) {
    const gyre_status status = gyre_adaptive_plan_make(plan, args, gradient, exec);
    return status ? gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", where) : GYRE_OK;
}

gyre_status gyre_adaptive_scratch(const gyre_adaptive_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                  gyre_error *err) {
    static const char name[] = "gyre_adaptive_scratch";
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", name);
    gyre_status status = gyre_adaptive_args_read(&args, given, err);
    if (!status) status = gyre_adaptive_check_shapes(&args, name, err);
    if (!status) status = plan_bytes(&plan, &args, gradient, name, exec, err);
    if (!status) *bytes = plan.bytes;
    return status;
}

static const char forward_name[] = "gyre_adaptive_attention", gradient_name[] = "gyre_adaptive_gradient";

static gyre_status plan_call(gyre_adaptive_plan *plan, const gyre_adaptive_args *args, int gradient, gyre_scratch scratch,
                             const gyre_exec *exec, gyre_error *err) {
    const char *where = gradient ? gradient_name : forward_name;
    const gyre_status status = plan_bytes(plan, args, gradient, where, exec, err);
    return status ? status : gyre_scratch_check(where, scratch, plan->bytes, err);
}

gyre_status gyre_adaptive_attention(const gyre_adaptive_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                    gyre_error *err) {
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    gyre_status status = gyre_adaptive_args_read(&args, given, err);
    if (!status) status = gyre_adaptive_check(&args, GYRE_ADAPTIVE_FORWARD, forward_name, err);
    if (status || gyre_view_elements(args.out.shape) == 0) return status;
    status = plan_call(&plan, &args, 0, scratch, exec, err);
    if (!status) gyre_adaptive_forward_run(&plan, scratch.memory, exec);
    return status;
}

gyre_status gyre_adaptive_gradient(const gyre_adaptive_args *given, const gyre_cview *dout,
                                   const gyre_adaptive_gradients *given_gradients, gyre_scratch scratch,
                                   const gyre_exec *exec, gyre_error *err) {
    gyre_adaptive_args args;
    gyre_adaptive_gradients gradients;
    gyre_adaptive_plan plan;
    gyre_status status = gyre_adaptive_args_read(&args, given, err);
    if (!status) status = gyre_sized_read(&gradients, sizeof gradients, given_gradients, "gyre_adaptive_gradients", err);
    if (!status) status = gyre_adaptive_check(&args, GYRE_ADAPTIVE_GRADIENT, gradient_name, err);
    if (!status) status = gyre_adaptive_check_gradient(&args, dout, &gradients, gradient_name, err);
    if (status) return status;
    status = plan_call(&plan, &args, 1, scratch, exec, err);
    if (status) return status;
    plan.dout = dout;
    plan.gradients = &gradients;
    gyre_adaptive_gradient_run(&plan, scratch.memory, exec);
    return GYRE_OK;
}
