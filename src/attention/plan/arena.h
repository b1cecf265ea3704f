/* arena.h: parts of one block of memory, handed out front to back, each aligned to 64 bytes. */
#ifndef GYRE_ATTENTION_ARENA_H
#define GYRE_ATTENTION_ARENA_H
#include <stddef.h>
#include <stdint.h>

enum { ALIGNMENT = 64 };

typedef struct gyre_arena {
    char *memory; /* NULL: only count */
    size_t used;
} gyre_arena;

/* out = `count` elements of `size` bytes; NULL while counting. */
void *gyre_arena_alloc(gyre_arena *a, int64_t count, size_t size);
float *gyre_arena_floats(gyre_arena *a, int64_t rows, int64_t columns);

/* out = bytes rounded up to the alignment. */
static inline size_t gyre_arena_round_up(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

#endif
