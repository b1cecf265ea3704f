/* contextual.c: gyre_contextual_attention, gyre_contextual_gradient and their scratch. */
#include "contextual/contextual_plan.h"

const gyre_call_steps gyre_contextual_steps = GYRE_CALL_STEPS(contextual);

gyre_status gyre_contextual_scratch(const gyre_contextual_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                    gyre_error *err) {
    const gyre_contextual_gradients none = GYRE_INIT(gyre_contextual_gradients);
    const gyre_call_use use = gradient ? GYRE_CALL_GRADIENT : GYRE_CALL_FORWARD;
    gyre_contextual_call call = {.common = {"gyre_contextual_scratch", use, given, &none, NULL, NULL}};
    return gyre_call_bytes(&gyre_contextual_steps, &call, exec, bytes, err);
}

gyre_status gyre_contextual_attention(const gyre_contextual_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                      gyre_error *err) {
    gyre_contextual_call call = {.common = {"gyre_contextual_attention", GYRE_CALL_FORWARD, given, NULL, NULL, NULL}};
    return gyre_call_perform(&gyre_contextual_steps, &call, scratch, exec, err);
}

gyre_status gyre_contextual_gradient(const gyre_contextual_args *given, const gyre_cview *dout,
                                     const gyre_contextual_gradients *gradients, gyre_scratch scratch, const gyre_exec *exec,
                                     gyre_error *err) {
    gyre_contextual_call call = {.common = {"gyre_contextual_gradient", GYRE_CALL_GRADIENT, given, gradients, NULL, dout}};
    return gyre_call_perform(&gyre_contextual_steps, &call, scratch, exec, err);
}
