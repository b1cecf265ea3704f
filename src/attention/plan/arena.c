/* arena.c: parts of one block of memory, handed out front to back. */
#include "attention/plan/arena.h"

void *gyre_arena_alloc(gyre_arena *a, int64_t count, size_t size) {
    char *part = a->memory ? a->memory + a->used : NULL;
    a->used += gyre_arena_round_up((size_t)count * size);
    return part;
}

float *gyre_arena_floats(gyre_arena *a, int64_t rows, int64_t columns) {
    return gyre_arena_alloc(a, rows * columns, sizeof(float));
}
