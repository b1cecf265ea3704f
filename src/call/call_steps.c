/* call_steps.c: the steps of a call, one after the other. */
#include "call/call_steps.h"
#include "util/error.h"

gyre_status gyre_call_plan(const gyre_call_steps *steps, void *call, const char *where, const gyre_exec *exec, size_t *bytes,
                           gyre_error *err) {
    const gyre_status status = steps->plan(call, exec, bytes);
    return status ? gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", where) : GYRE_OK;
}

gyre_status gyre_call_bytes(const gyre_call_steps *steps, void *call, const char *where, const gyre_exec *exec,
                            size_t *bytes, gyre_error *err) {
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", where);
    size_t needed = 0;
    gyre_status status = steps->check_shapes(call, err);
    if (!status) status = gyre_call_plan(steps, call, where, exec, &needed, err);
    if (!status) *bytes = needed;
    return status;
}

gyre_status gyre_call_perform(const gyre_call_steps *steps, void *call, const char *where, gyre_scratch scratch,
                              const gyre_exec *exec, gyre_error *err) {
    size_t needed = 0;
    gyre_status status = steps->check(call, err);
    if (status || steps->is_empty(call)) return status;
    status = gyre_call_plan(steps, call, where, exec, &needed, err);
    if (!status) status = gyre_scratch_check(where, scratch, needed, err);
    if (!status) steps->run(call, scratch.memory, exec);
    return status;
}
