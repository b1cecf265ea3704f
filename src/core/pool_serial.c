/* pool_serial.c: the pool in builds without threads (pool.c is for those with): everything runs on the caller's thread. */
#include "core/exec.h"
#include "util/error.h"

#if !GYRE_HAS_THREADS
#include <stdlib.h>

struct gyre_pool {
    int unused;
};

gyre_status gyre_pool_create(gyre_pool **out, int threads, gyre_error *err) {
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (gyre_pool_create)");
    if (threads < 0) return gyre_fail(err, GYRE_EINVAL, "threads: %d is negative (gyre_pool_create)", threads);
    if (threads > 1)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "threads: %d, but this build has none (gyre_pool_create)", threads);
    gyre_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return gyre_fail(err, GYRE_ENOMEM, "memory: none for a pool (gyre_pool_create)");
    *out = pool;
    return GYRE_OK;
}

void gyre_pool_free(gyre_pool *pool) {
    free(pool);
}

gyre_exec gyre_pool_exec(gyre_pool *pool) {
    (void)pool;
    return (gyre_exec){NULL, NULL, 1};
}
#endif
