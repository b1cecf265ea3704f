/* adaptive.c: gyre_adaptive_attention, gyre_adaptive_gradient and their scratch. */
#include "adaptive/adaptive_plan.h"

const gyre_call_steps gyre_adaptive_steps = GYRE_CALL_STEPS(adaptive);

gyre_status gyre_adaptive_scratch(const gyre_adaptive_args *given, int gradient, const gyre_exec *exec, size_t *bytes,
                                  gyre_error *err) {
    const gyre_adaptive_gradients none = GYRE_INIT(gyre_adaptive_gradients);
    const gyre_call_use use = gradient ? GYRE_CALL_GRADIENT : GYRE_CALL_FORWARD;
    gyre_adaptive_call call = {.common = {"gyre_adaptive_scratch", use, given, &none, NULL, NULL}};
    return gyre_call_bytes(&gyre_adaptive_steps, &call, exec, bytes, err);
}

gyre_status gyre_adaptive_attention(const gyre_adaptive_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                    gyre_error *err) {
    gyre_adaptive_call call = {.common = {"gyre_adaptive_attention", GYRE_CALL_FORWARD, given, NULL, NULL, NULL}};
    return gyre_call_perform(&gyre_adaptive_steps, &call, scratch, exec, err);
}

gyre_status gyre_adaptive_gradient(const gyre_adaptive_args *given, const gyre_cview *dout,
                                   const gyre_adaptive_gradients *gradients, gyre_scratch scratch, const gyre_exec *exec,
                                   gyre_error *err) {
    gyre_adaptive_call call = {.common = {"gyre_adaptive_gradient", GYRE_CALL_GRADIENT, given, gradients, NULL, dout}};
    return gyre_call_perform(&gyre_adaptive_steps, &call, scratch, exec, err);
}
