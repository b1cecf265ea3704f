/* system_alloc.h: malloc as a gyre_alloc. */
#ifndef GYRE_CORE_SYSTEM_ALLOC_H
#define GYRE_CORE_SYSTEM_ALLOC_H
#include "gyre/gyre.h"

/* The allocator of calls whose `alloc` is NULL: aligned_alloc and free. */
extern const gyre_alloc gyre_system_alloc;
/* *own = alloc, or that one where alloc is NULL.  Errors: EINVAL (one of its functions is NULL). */
gyre_status gyre_alloc_read(gyre_alloc *own, const gyre_alloc *alloc, const char *where, gyre_error *err);

#endif
