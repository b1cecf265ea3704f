/* fnv1a.h: FNV-1a, 64 bits.  Identifies texts and files.  Not safe against an adversary. */
#ifndef GYRE_UTIL_FNV1A_H
#define GYRE_UTIL_FNV1A_H
#include <stddef.h>
#include <stdint.h>

#define GYRE_FNV1A_OFFSET_BASIS 0xcbf29ce484222325u
#define GYRE_FNV1A_PRIME        0x100000001b3u

/* out = `hash`, continued over these n bytes. */
static inline uint64_t gyre_fnv1a(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * GYRE_FNV1A_PRIME;
    return hash;
}

#endif
