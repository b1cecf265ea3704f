/* fuzz_bytes.h: takes choices from the bytes of an input, for targets whose input is no file but a plan of calls. */
#ifndef GYRE_FUZZ_BYTES_H
#define GYRE_FUZZ_BYTES_H
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;

/* out = the next byte; 0 past the end. */
static inline unsigned fuzz_byte(fuzz_bytes *b) {
    if (b->left == 0) return 0;
    b->left--;
    return *b->at++;
}

/* out = one of 0 .. n - 1, n <= 256. */
static inline int fuzz_choice(fuzz_bytes *b, int n) {
    return (int)(fuzz_byte(b) % (unsigned)n);
}

/* out = low .. high, which are at most 2^31 apart. */
static inline int64_t fuzz_between(fuzz_bytes *b, int64_t low, int64_t high) {
    uint64_t value = fuzz_byte(b);
    for (uint64_t reach = 256; reach <= (uint64_t)(high - low); reach *= 256)
        value = value * 256 + fuzz_byte(b);
    return low + (int64_t)(value % (uint64_t)(high - low + 1));
}

#endif
