/* system_alloc.c: malloc as a gyre_alloc. */
#include "core/system_alloc.h"

#include <stdlib.h>

static void *allocate(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    if (bytes > SIZE_MAX - align) return NULL;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void release(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

const gyre_alloc gyre_system_alloc = {allocate, release, NULL};
