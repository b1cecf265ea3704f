/* arena.h: the scratch of a call: its check, and its parts, handed out front to back, each aligned to 64 bytes. */
#ifndef GYRE_CALL_ARENA_H
#define GYRE_CALL_ARENA_H
#include "gyre/gyre.h"

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

/* EINVAL: scratch is NULL or not aligned to 64 bytes.  ENOMEM: its bytes are fewer than `needed`. */
gyre_status gyre_scratch_check(const char *name, gyre_scratch scratch, size_t needed, gyre_error *err);

#endif
