/* huge_pages.c: huge pages by madvise. */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include "core/huge_pages.h"

#include <stdint.h>

#if defined(__linux__) && defined(MADV_HUGEPAGE)
enum { HAS_HUGE_PAGES = 1, HUGE_PAGE = 2 << 20 };
#else
enum { HAS_HUGE_PAGES = 0, HUGE_PAGE = 2 << 20 };
#endif

void gyre_huge_pages_advise(void *memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t page = HUGE_PAGE, before = (page - (uintptr_t)memory % page) % page;
    const size_t whole = bytes > before ? (bytes - before) / page * page : 0;
    if (whole > 0) (void)madvise((char *)memory + before, whole, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

size_t gyre_huge_pages_alignment(size_t bytes, size_t align) {
    return HAS_HUGE_PAGES && bytes >= 2 * (size_t)HUGE_PAGE ? (size_t)HUGE_PAGE : align;
}
