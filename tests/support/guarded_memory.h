/* guarded_memory.h: memory that faults on access past its end. Include it before all other headers. */
#ifndef GYRE_TESTS_GUARDED_MEMORY_H
#define GYRE_TESTS_GUARDED_MEMORY_H
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

/* Memory whose last byte is followed by a page without access. */
static inline void *guarded(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), up = (bytes + page - 1) / page * page;
    char *memory = mmap(NULL, up + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + up, page, PROT_NONE), 0);
    return memory + (up - bytes);
}

static inline void unguard(void *at, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), up = (bytes + page - 1) / page * page;
    assert_int_equal(munmap((char *)at + bytes - up, up + page), 0);
}

#endif
