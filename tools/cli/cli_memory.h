/* cli_memory.h: memory for results.  Without memory a command has none, so it ends (cli_end_without_memory): no call here
 * fails. */
#ifndef GYRE_TOOLS_CLI_MEMORY_H
#define GYRE_TOOLS_CLI_MEMORY_H
#include "tools/cli/cli_signals.h"
#include <stdint.h>
#include <stdlib.h>

/* out = zeroed memory for count elements, for free(). */
static inline void *cli_alloc(int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) cli_end_without_memory();
    return memory;
}

/* out = the array of count elements with room for one more, which may have moved; NULL is an array of none.  Callers add
 * one element after each call. */
static inline void *cli_grow(void *array, int64_t count, size_t size) {
    if (count & (count - 1)) return array; /* the room is a power of two */
    void *memory = realloc(array, (count ? 2 * (size_t)count : 1) * size);
    if (!memory) cli_end_without_memory();
    return memory;
}

#endif
