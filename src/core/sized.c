/* sized.c: public structs that begin with `size` and may grow in a later version. */
#include "core/sized.h"
#include "util/error.h"

#include <string.h>

gyre_status gyre_sized_read(void *own, size_t own_size, const void *given, const char *name, gyre_error *err) {
    size_t size;
    if (!given) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", name, name);
    memcpy(&size, given, sizeof size);
    /* None of our structs is near 64 KiB.  Such a size comes from memory that was never set. */
    if (size < sizeof size || size >= 65536)
        return gyre_fail(err, GYRE_EINVAL, "size: %zu is not set; begin with GYRE_INIT(%s) (%s)", size, name, name);
    for (size_t i = own_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return gyre_fail(
                err, GYRE_EINVAL,
                "size: byte %zu is set, but the struct of gyre %s has %zu bytes; the caller's header is newer (%s)", i,
                gyre_version(), own_size, name);
    const size_t common = size < own_size ? size : own_size;
    memcpy(own, given, common);
    if (common < own_size) memset((unsigned char *)own + common, 0, own_size - common);
    memcpy(own, &own_size, sizeof own_size);
    return GYRE_OK;
}

void gyre_sized_write(void *given, const void *own) {
    size_t size, own_size;
    memcpy(&size, given, sizeof size);
    memcpy(&own_size, own, sizeof own_size);
    const size_t shared = size < own_size ? size : own_size;
    memcpy((char *)given + sizeof size, (const char *)own + sizeof size, shared - sizeof size);
}
