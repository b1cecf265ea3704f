/* alibi.c: a penalty on each score that grows with distance, at a slope of its own for each head. */
#include "encodings/schemes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A slope past it is a mistake, and one that float cannot hold would make 0 x infinity of distance 0. */
static const double MOST_SLOPE = 0x1p64;

/* 2^(-8 k / c), k = 1..c, for the largest power of two c <= heads; heads past it take the odd places of the sequence
 * for 2 c. */
static void paper_slopes(int64_t heads, double *slopes) {
    int64_t c = 1;
    while (2 * c <= heads)
        c *= 2;
    for (int64_t h = 0; h < heads; h++)
        slopes[h] = h < c ? exp2(-8.0 * (double)(h + 1) / (double)c) : exp2(-4.0 * (double)(2 * (h - c) + 1) / (double)c);
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const int64_t heads = encoding->config.heads;
    const double *given = encoding->config.score.slopes;
    if (heads == 0) return gyre_fail(err, GYRE_EINVAL, "heads: missing; ALiBi has a slope for each (gyre_config)");
    for (int64_t h = 0; given && h < heads; h++)
        if (!(fabs(given[h]) <= MOST_SLOPE))
            return gyre_fail(err, GYRE_EINVAL, "score.slopes[%" PRId64 "]: %g is no number within 2^64 of 0 (gyre_config)",
                             h, given[h]);
    encoding->slopes = gyre_encoding_allocate(encoding, heads, sizeof *encoding->slopes, err);
    if (!encoding->slopes) return GYRE_ENOMEM;
    paper_slopes(heads, encoding->slopes);
    for (int64_t h = 0; given && h < heads; h++)
        encoding->slopes[h] = given[h];
    return GYRE_OK;
}

static void score_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_score_row *row, double *out) {
    const double slope = encoding->slopes[row->head];
    (void)tables;
    for (int64_t j = 0; j < row->n; j++)
        out[j] = -slope * (double)llabs(row->q - row->k[j]);
}

/* 1 if every distance in the tile fits 32 bits, which vector units convert and 64 they mostly do not. */
static int near(const gyre_tile *tile) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < tile->queries; i++) {
        low = tile->q[i] < low ? tile->q[i] : low;
        high = tile->q[i] > high ? tile->q[i] : high;
    }
    for (int64_t j = 0; j < tile->keys; j++) {
        low = tile->k[j] < low ? tile->k[j] : low;
        high = tile->k[j] > high ? tile->k[j] : high;
    }
    return tile->queries > 0 && tile->keys > 0 && high - low <= INT32_MAX;
}

/* Both loops round the distance to float, then the product: the same bits.  Where the nearest key is the query's own, as in
 * every self-attention, distances count from 0. */
static void score_tile(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_tile *tile) {
    const float slope = (float)encoding->slopes[head];
    const int narrow = near(tile);
    (void)tables;
    for (int64_t i = 0; i < tile->queries; i++) {
        float *restrict row = tile->scores + i * tile->ld;
        const int64_t *restrict k = tile->k;
        const int64_t q = tile->q[i], least = llabs(q - tile->nearest[i]);
        if (narrow && least == 0)
            for (int64_t j = 0; j < tile->keys; j++)
                row[j] -= slope * fabsf((float)(int32_t)(q - k[j]));
        else
            for (int64_t j = 0; j < tile->keys; j++)
                row[j] -= slope * (float)(llabs(q - k[j]) - least);
    }
}

const gyre_scheme gyre_scheme_alibi = {.kind = GYRE_ALIBI,
                                       .name = "alibi",
                                       .places = GYRE_AT_SCORE,
                                       .init = init,
                                       .decays = 1,
                                       .score_row = score_row,
                                       .score_tile = score_tile};
