/* exec.c: the caller's parallel-for, or a plain loop. */
#include "core/exec.h"
#include "util/error.h"

#include <inttypes.h>

void gyre_parallel(const gyre_exec *exec, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    if (exec && exec->run && n > 1) {
        exec->run(exec->ctx, fn, arg, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        fn(arg, i);
}

int64_t gyre_exec_concurrency(const gyre_exec *exec) {
    return exec && exec->run && exec->concurrency > 1 ? exec->concurrency : 1;
}

gyre_status gyre_slice_check(gyre_slice slice, const char *where, gyre_error *err) {
    if (slice.count >= 1 && slice.index >= 0 && slice.index < slice.count && slice.count <= INT32_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "slice: %" PRId64 " of %" PRId64 " (%s)", slice.index, slice.count, where);
}
