/* call_steps.c: the steps of a call, one after the other. */
#include "call/call_steps.h"
#include "core/sized.h"
#include "util/error.h"

static gyre_status read_struct(void *call, const gyre_call_struct *as, const void *given, gyre_error *err) {
    return as->name ? gyre_sized_read((char *)call + as->at, as->size, given, as->name, err) : GYRE_OK;
}

gyre_status gyre_call_read(const gyre_call_steps *steps, void *call, gyre_error *err) {
    const gyre_call *common = call;
    gyre_status status = read_struct(call, &steps->args, common->given, err);
    if (!status && common->use == GYRE_CALL_GRADIENT)
        status = read_struct(call, &steps->gradients, common->given_gradients, err);
    if (!status && steps->set_defaults) steps->set_defaults(call);
    return status;
}

gyre_status gyre_call_plan(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    const gyre_call *common = call;
    const gyre_status status = steps->plan(call, exec, bytes);
    return status ? gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", common->where) : GYRE_OK;
}

gyre_status gyre_call_bytes(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes,
                            gyre_error *err) {
    const gyre_call *common = call;
    size_t needed = 0;
    gyre_status status = gyre_call_read(steps, call, err);
    if (!status && !bytes) status = gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", common->where);
    if (!status) status = steps->check_shapes(call, err);
    if (!status) status = gyre_call_plan(steps, call, exec, &needed, err);
    if (!status) *bytes = needed;
    return status;
}

gyre_status gyre_call_prepare(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes,
                              gyre_error *err) {
    *bytes = 0;
    gyre_status status = gyre_call_read(steps, call, err);
    if (!status) status = steps->check(call, err);
    return status || steps->is_empty(call) ? status : gyre_call_plan(steps, call, exec, bytes, err);
}

gyre_status gyre_call_perform(const gyre_call_steps *steps, void *call, gyre_scratch scratch, const gyre_exec *exec,
                              gyre_error *err) {
    const gyre_call *common = call;
    const int gradient = common->use == GYRE_CALL_GRADIENT && steps->run_gradient;
    size_t needed = 0;
    gyre_status status = gyre_call_prepare(steps, call, exec, &needed, err);
    if (status || needed == 0) return status;
    status = gyre_scratch_check(common->where, scratch, needed, err);
    if (!status) (gradient ? steps->run_gradient : steps->run)(call, scratch.memory, exec);
    return status;
}
