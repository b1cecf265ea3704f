/* little_endian.h: integers as GGUF and safetensors store them. */
#ifndef GYRE_FILES_LITTLE_ENDIAN_H
#define GYRE_FILES_LITTLE_ENDIAN_H
#include <stddef.h>
#include <stdint.h>

/* out = the integer in `count` bytes, at most 8. */
static inline uint64_t gyre_load_le(const unsigned char *bytes, size_t count) {
    uint64_t x = 0;
    for (size_t i = 0; i < count; i++)
        x |= (uint64_t)bytes[i] << (8 * i);
    return x;
}

static inline void gyre_store_le(unsigned char *bytes, uint64_t x, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(x >> (8 * i));
}

#endif
