/* sized.h: public structs that begin with `size` and may grow in a later version. */
#ifndef GYRE_CORE_SIZED_H
#define GYRE_CORE_SIZED_H
#include "gyre/gyre.h"

/* *own = the struct at `given`, whose first member is its size in bytes.  Fields that a smaller (older) struct lacks are
 * zero.  A larger (newer) one is refused if a byte beyond own_size is set, since this library would ignore it.
 * own->size = own_size.  name: the type, for the message.
 * Errors: EINVAL (given is NULL, its size is unset or too large). */
gyre_status gyre_sized_read(void *own, size_t own_size, const void *given, const char *name, gyre_error *err);

/* Copies the fields that both sizes include back to `given`, without its size. */
void gyre_sized_write(void *given, const void *own);

#endif
