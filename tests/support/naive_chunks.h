/* naive_chunks.h: Dual Chunk Attention by the lists of positions that the paper (arXiv 2402.17463) and its released code
 * give to queries and keys. */
#ifndef GYRE_TESTS_NAIVE_CHUNKS_H
#define GYRE_TESTS_NAIVE_CHUNKS_H
#include "gyre/gyre.h"

#include <math.h>

/* out = the distance by which a query at m and a key at n rotate, under FAR_CHUNKED or FAR_CHUNKED_PAPER. */
static inline double naive_chunk_distance(const gyre_config *config, int64_t m, int64_t n) {
    const double c = (double)config->rope.chunk.size, w = (double)config->rope.chunk.local, s = c - w;
    const double chunk_m = floor((double)m / s), chunk_n = floor((double)n / s);
    const double i = (double)m - s * chunk_m, key = (double)n - s * chunk_n;
    const int paper = config->rope.far == GYRE_FAR_CHUNKED_PAPER;
    double query = i;
    if (chunk_m == chunk_n + 1 && paper) /* [s, s + 1, ..., s + w - 1, c - 1, ..., c - 1] */
        query = i < w ? s + i : c - 1;
    else if (chunk_m == chunk_n + 1) /* (arange(s) + s).clamp(max = c) */
        query = s + i > c ? c : s + i;
    else if (chunk_m > chunk_n) /* the paper's constant, and the last of the code's list */
        query = paper ? c - 1 : 2 * s - 1 > c ? c : 2 * s - 1;
    return query - key;
}

static inline int naive_is_chunked(const gyre_config *config) {
    return config->rope.far == GYRE_FAR_CHUNKED || config->rope.far == GYRE_FAR_CHUNKED_PAPER;
}

#endif
