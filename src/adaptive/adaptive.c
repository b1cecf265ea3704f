/* adaptive.c: gyre_adaptive_attention, gyre_adaptive_gradient and their scratch. */
#include "adaptive/adaptive_check.h"
#include "adaptive/adaptive_run.h"
#include "core/sized.h"

const gyre_call_steps gyre_adaptive_steps = {gyre_adaptive_check_shapes, gyre_adaptive_check, gyre_adaptive_is_empty,
                                             gyre_adaptive_plan_make, gyre_adaptive_run};

gyre_status gyre_adaptive_scratch(const gyre_adaptive_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                  gyre_error *err) {
    gyre_adaptive_call call = {
        .common = {.where = "gyre_adaptive_scratch", .use = gradient ? GYRE_CALL_GRADIENT : GYRE_CALL_FORWARD}};
    const gyre_status status = gyre_adaptive_args_read(&call.args, given, err);
    return status ? status : gyre_call_bytes(&gyre_adaptive_steps, &call, call.common.where, exec, bytes, err);
}

gyre_status gyre_adaptive_attention(const gyre_adaptive_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                    gyre_error *err) {
    gyre_adaptive_call call = {.common = {.where = "gyre_adaptive_attention", .use = GYRE_CALL_FORWARD}};
    const gyre_status status = gyre_adaptive_args_read(&call.args, given, err);
    return status ? status : gyre_call_perform(&gyre_adaptive_steps, &call, call.common.where, scratch, exec, err);
}

gyre_status gyre_adaptive_gradient(const gyre_adaptive_args *given, const gyre_cview *dout,
                                   const gyre_adaptive_gradients *gradients, gyre_scratch scratch, const gyre_exec *exec,
                                   gyre_error *err) {
    gyre_adaptive_call call = {.common = {.where = "gyre_adaptive_gradient", .use = GYRE_CALL_GRADIENT, .dout = dout}};
    gyre_status status = gyre_adaptive_args_read(&call.args, given, err);
    if (!status) status = gyre_sized_read(&call.gradients, sizeof call.gradients, gradients, "gyre_adaptive_gradients", err);
    return status ? status : gyre_call_perform(&gyre_adaptive_steps, &call, call.common.where, scratch, exec, err);
}
