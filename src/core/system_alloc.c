/* system_alloc.c: malloc as a gyre_alloc. */
#include "core/system_alloc.h"
#include "util/error.h"

#include <stdlib.h>

static void *allocate(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    if (bytes > SIZE_MAX - align) return NULL;
#if __STDC_VERSION__ >= 201112L
    return aligned_alloc(align, (bytes + align - 1) / align * align);
#else
    void *memory;
    return posix_memalign(&memory, align < sizeof memory ? sizeof memory : align, bytes) ? NULL : memory;
#endif
}

static void release(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

const gyre_alloc gyre_system_alloc = {allocate, release, NULL};

gyre_status gyre_alloc_read(gyre_alloc *own, const gyre_alloc *alloc, const char *where, gyre_error *err) {
    *own = alloc ? *alloc : gyre_system_alloc;
    if (own->alloc && own->free) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "alloc.%s: is NULL (%s)", own->alloc ? "free" : "alloc", where);
}
