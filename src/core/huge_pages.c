/* huge_pages.c: asks for huge pages by madvise. */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include "core/huge_pages.h"

#include <stdint.h>

void gyre_huge_pages_advise(void *memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t page = (size_t)2 << 20, before = (page - (uintptr_t)memory % page) % page;
    const size_t whole = bytes > before ? (bytes - before) / page * page : 0;
    if (whole > 0) (void)madvise((char *)memory + before, whole, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}
