/* system_alloc.h: malloc as a gyre_alloc. */
#ifndef GYRE_CORE_SYSTEM_ALLOC_H
#define GYRE_CORE_SYSTEM_ALLOC_H
#include "gyre/gyre.h"

/* The allocator of calls whose `alloc` is NULL: aligned_alloc and free. */
extern const gyre_alloc gyre_system_alloc;

#endif
