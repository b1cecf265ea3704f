/* huge_pages.h: pages of 2 MiB for what is read far and wide: they spare a walk of the page tables for every row or two. */
#ifndef GYRE_CORE_HUGE_PAGES_H
#define GYRE_CORE_HUGE_PAGES_H
#include <stddef.h>

/* Asks for them where memory holds whole ones; what is in it stays.  Where the system has none, nothing happens. */
void gyre_huge_pages_advise(void *memory, size_t bytes);

#endif
