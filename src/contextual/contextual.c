/* contextual.c: gyre_contextual_attention, gyre_contextual_gradient and their scratch. */
#include "contextual/contextual_check.h"
#include "contextual/contextual_run.h"
#include "core/sized.h"

const gyre_call_steps gyre_contextual_steps = {gyre_contextual_check_shapes, gyre_contextual_check, gyre_contextual_is_empty,
                                               gyre_contextual_plan_make, gyre_contextual_run};

gyre_status gyre_contextual_scratch(const gyre_contextual_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                    gyre_error *err) {
    gyre_contextual_call call = {
        .common = {.where = "gyre_contextual_scratch", .use = gradient ? GYRE_CALL_GRADIENT : GYRE_CALL_FORWARD}};
    const gyre_status status = gyre_contextual_args_read(&call.args, given, err);
    return status ? status : gyre_call_bytes(&gyre_contextual_steps, &call, call.common.where, exec, bytes, err);
}

gyre_status gyre_contextual_attention(const gyre_contextual_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                      gyre_error *err) {
    gyre_contextual_call call = {.common = {.where = "gyre_contextual_attention", .use = GYRE_CALL_FORWARD}};
    const gyre_status status = gyre_contextual_args_read(&call.args, given, err);
    return status ? status : gyre_call_perform(&gyre_contextual_steps, &call, call.common.where, scratch, exec, err);
}

gyre_status gyre_contextual_gradient(const gyre_contextual_args *given, const gyre_cview *dout,
                                     const gyre_contextual_gradients *gradients, gyre_scratch scratch, const gyre_exec *exec,
                                     gyre_error *err) {
    gyre_contextual_call call = {.common = {.where = "gyre_contextual_gradient", .use = GYRE_CALL_GRADIENT, .dout = dout}};
    gyre_status status = gyre_contextual_args_read(&call.args, given, err);
    if (!status)
        status = gyre_sized_read(&call.gradients, sizeof call.gradients, gradients, "gyre_contextual_gradients", err);
    return status ? status : gyre_call_perform(&gyre_contextual_steps, &call, call.common.where, scratch, exec, err);
}
