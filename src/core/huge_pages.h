/* huge_pages.h: pages of 2 MiB for large tables with scattered reads: they save a page walk for every row or two. */
#ifndef GYRE_CORE_HUGE_PAGES_H
#define GYRE_CORE_HUGE_PAGES_H
#include <stddef.h>

/* Asks for huge pages for the whole 2 MiB pages inside [memory, memory + bytes).  Contents stay.  Does nothing on a system
 * without them. */
void gyre_huge_pages_advise(void *memory, size_t bytes);
/* out = how to align `bytes` bytes so that all but their end can be in huge pages; `align` where they fill less than two. */
size_t gyre_huge_pages_alignment(size_t bytes, size_t align);

#endif
