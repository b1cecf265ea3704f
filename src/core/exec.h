/* exec.h: parallel loops over the caller's gyre_exec. */
#ifndef GYRE_CORE_EXEC_H
#define GYRE_CORE_EXEC_H
#include "gyre/gyre.h"

/* WebAssembly has threads only in builds with -pthread. */
#if defined(__wasm__) && !defined(_REENTRANT)
#define GYRE_HAS_THREADS 0
#else
#define GYRE_HAS_THREADS 1
#endif

/* Calls fn(arg, i) for i in 0..n-1 through exec->run, or in a plain loop where exec is NULL. */
void gyre_parallel(const gyre_exec *exec, void (*fn)(void *arg, int64_t i), void *arg, int64_t n);
/* out = the most calls that exec may run at once, at least 1. */
int64_t gyre_exec_concurrency(const gyre_exec *exec);
/* Errors: EINVAL (an index outside 0 .. count - 1). */
gyre_status gyre_slice_check(gyre_slice slice, const char *where, gyre_error *err);

#endif
