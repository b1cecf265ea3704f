/* fnv1a_hash.h: the 64-bit FNV-1a hash. */
#ifndef GYRE_TOOLS_FNV1A_HASH_H
#define GYRE_TOOLS_FNV1A_HASH_H
#include <stddef.h>
#include <stdint.h>

#define FNV1A_INIT UINT64_C(0xcbf29ce484222325)

/* out = `hash` continued over bytes[0 .. n - 1].  Start with FNV1A_INIT. */
static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
