/* arena.c: the scratch of a call. */
#include "call/arena.h"
#include "util/error.h"

void *gyre_arena_alloc(gyre_arena *a, int64_t count, size_t size) {
    char *part = a->memory ? a->memory + a->used : NULL;
    a->used += gyre_arena_round_up((size_t)count * size);
    return part;
}

float *gyre_arena_floats(gyre_arena *a, int64_t rows, int64_t columns) {
    return gyre_arena_alloc(a, rows * columns, sizeof(float));
}

gyre_status gyre_scratch_check(const char *name, gyre_scratch scratch, size_t needed, gyre_error *err) {
    if (scratch.bytes < needed)
        return gyre_fail(err, GYRE_ENOMEM, "scratch: %zu bytes, but the call needs %zu (%s)", scratch.bytes, needed, name);
    if (!scratch.memory) return gyre_fail(err, GYRE_EINVAL, "scratch: is NULL (%s)", name);
    if ((uintptr_t)scratch.memory % ALIGNMENT != 0)
        return gyre_fail(err, GYRE_EINVAL, "scratch: %p is not aligned to 64 bytes (%s)", scratch.memory, name);
    return GYRE_OK;
}
