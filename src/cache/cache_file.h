/* cache_file.h: a cache in a file, all numbers little-endian.
 *
 *     "GYRECACH", u32 version
 *     i64 [GYRE_CACHE_HEADER_FIELDS] of the config and of what follows: gyre_cache_header
 *     f64 attention factor, f64 [dim / 2] frequencies       where the encoding turns
 *     u32 CRC-32C of all that
 *     i64 [sequences] stretches of each
 *     i64 [stretches][3 + GYRE_MAX_AXES] page, first, count, delta
 *     i64 [pages][2] page, fill                             rising
 *     for each page: i64 positions [fill][axes]; keys and values, head by head [fill][channel], then f32 scales [fill] if Q8
 *     u32 CRC-32C of all before it */
#ifndef GYRE_ATTENTION_CACHE_FILE_H
#define GYRE_ATTENTION_CACHE_FILE_H
#include "cache/cache.h"

enum { GYRE_CACHE_VERSION = 1, GYRE_CACHE_MAGIC_BYTES = 8 };

/* What a file says of its cache, in the order it stands there. */
typedef struct gyre_cache_header {
    int64_t keys, key_dtype, value_dtype, heads, head_dim, value_dim, sequences, max_tokens, page_tokens, length, axes;
    int64_t kind; /* of the encoding, -1 without */
    int64_t dim, first, layout, clockwise;
    int64_t ranges, pages, bytes; /* pages: in use; bytes: of the whole file */
} gyre_cache_header;
enum { GYRE_CACHE_HEADER_FIELDS = sizeof(gyre_cache_header) / sizeof(int64_t) };

/* The part about the encoding, at context `length`. */
void gyre_cache_header_encoding(gyre_cache_header *header, const gyre_encoding *encoding);
/* Bytes before the keys and values, and of a slot's. */
double gyre_cache_header_bytes(const gyre_cache_header *header);
double gyre_cache_slot_bytes(const gyre_cache *cache);

/* -- checksum (cache_checksum.c) -- */
typedef struct gyre_checksum {
    uint32_t sum, table[8][256];
} gyre_checksum;
void gyre_checksum_begin(gyre_checksum *c);
void gyre_checksum_add(gyre_checksum *c, const void *bytes, size_t count);
static inline uint32_t gyre_checksum_of(const gyre_checksum *c) {
    return ~c->sum;
}

/* Bytes of numbers the other way round, where this machine has them so. */
static inline void gyre_little_endian(void *bytes, size_t size, size_t count) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++, at += size)
        for (size_t j = 0; j < size / 2; j++) {
            const unsigned char first = at[j];
            at[j] = at[size - 1 - j];
            at[size - 1 - j] = first;
        }
#else
    (void)bytes;
    (void)size;
    (void)count;
#endif
}

#endif
