/* cache_file.h: the file formats of a cache and of the caches of all layers.  All numbers are little-endian.
 *
 *     "GYRECACH", u32 version
 *     i64 [GYRE_CACHE_HEADER_FIELDS]             gyre_cache_header
 *     i64                                        gate heads, from version 2 on
 *     i64                                        1: values are in keys, from version 3 on
 *     f64 attention factor, f64 [dim / 2] frequencies       only if the encoding rotates
 *     u32 CRC-32C of all above
 *     i64 [sequences]                            ranges of each sequence
 *     i64 [ranges][3 + GYRE_MAX_AXES]            page, first, count, delta
 *     i64 [pages][2]                             page, fill; pages rise
 *     for each page:
 *         i64 [fill][axes]                       positions
 *         f64 [gate heads][fill]                 gate sums
 *         keys of each head [fill][channel], then f32 [fill] scales if Q8
 *         values of each head, as keys, unless they are in keys
 *     u32 CRC-32C of all above
 *
 * A cache is written in the oldest version that can describe it, which older programs read: 1 without gate heads, 2 with
 * them, 3 with values in keys.
 *
 * The caches of all layers:
 *
 *     "GYRELAYR", u32 version
 *     i64                                        layers
 *     u32 CRC-32C of all above
 *     for each layer:
 *         i64                                    bytes of its cache; 0 = none
 *         the cache, as above; its checksums cover only itself */
#ifndef GYRE_CACHE_CACHE_FILE_H
#define GYRE_CACHE_CACHE_FILE_H
#include "cache/cache.h"

#define GYRE_CACHES_MAGIC "GYRELAYR"
enum { GYRE_CACHES_VERSION = 1 };
enum { GYRE_CACHE_VERSION = 1, GYRE_CACHE_GATED_VERSION = 2, GYRE_CACHE_LATENT_VERSION = 3, GYRE_CACHE_MAGIC_BYTES = 8 };

/* The header fields, in the order of the file. */
typedef struct gyre_cache_header {
    int64_t keys, key_dtype, value_dtype, heads, head_dim, value_dim, sequences, max_tokens, page_tokens, length, axes;
    int64_t kind; /* of the encoding; -1 = none */
    int64_t dim, first, layout, clockwise;
    int64_t ranges, pages, bytes; /* pages: in use; bytes: of the file */
    int64_t gate_heads;           /* from version 2 on; else 0 */
    int64_t values_in_keys;       /* version 3; else 0 */
} gyre_cache_header;
/* Those of all versions. */
enum { GYRE_CACHE_HEADER_FIELDS = sizeof(gyre_cache_header) / sizeof(int64_t) - 2 };

static inline uint32_t gyre_cache_header_version(const gyre_cache_header *header) {
    return header->values_in_keys   ? GYRE_CACHE_LATENT_VERSION
           : header->gate_heads > 0 ? GYRE_CACHE_GATED_VERSION
                                    : GYRE_CACHE_VERSION;
}

/* Fills in the fields that describe the encoding. */
void gyre_cache_header_encoding(gyre_cache_header *header, const gyre_encoding *encoding);
/* out = bytes before the first page; bytes of one slot. */
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

/* Converts numbers between this machine and little-endian. */
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
