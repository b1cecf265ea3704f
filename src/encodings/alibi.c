/* alibi.c: ALiBi: a penalty on each score that grows linearly with distance, with one slope per head. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "core/rotation/frequency.h"
#include "encodings/schemes.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A larger slope is a mistake; one outside the range of float would give 0 x infinity at distance 0. */
static const double MAX_SLOPE = 0x1p64;

/* The paper's slopes: 2^(-max_exponent k / c), k = 1..c, for the largest power of two c <= heads.  The remaining heads take
 * the odd places of the sequence for 2 c. */
static void paper_slopes(int64_t heads, double max_exponent, double *slopes) {
    int64_t c = 1;
    while (2 * c <= heads)
        c *= 2;
    for (int64_t h = 0; h < heads; h++)
        slopes[h] = h < c ? exp2(-max_exponent * (double)(h + 1) / (double)c)
                          : exp2(-max_exponent * (double)(2 * (h - c) + 1) / (double)(2 * c));
}

/* *own = a copy of the config's slopes, if it has them. */
static gyre_status copy_slopes(const gyre_encoding *encoding, const double *given, const char *name, double **own,
                               gyre_error *err) {
    const int64_t heads = encoding->config.heads;
    if (!given) return GYRE_OK;
    for (int64_t h = 0; h < heads; h++)
        if (!(fabs(given[h]) <= MAX_SLOPE))
            return gyre_fail(err, GYRE_EINVAL, "score.%s[%" PRId64 "]: %g is not within 2^64 of 0 (gyre_config)", name, h,
                             given[h]);
    *own = gyre_encoding_allocate(encoding, heads, sizeof **own, err);
    if (!*own) return GYRE_ENOMEM;
    memcpy(*own, given, (size_t)heads * sizeof **own);
    return GYRE_OK;
}

/* -- slopes past the trained length -- */

static gyre_status check_scaling(const gyre_config *config, gyre_error *err) {
    const struct gyre_score_config *score = &config->score;
    if (score->slope_scaling == GYRE_SLOPE_SCALING_NONE) return GYRE_OK;
    if (score->slope_factor == 0 && config->trained_length == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "trained_length: missing; score.slope_scaling without a factor needs it (gyre_config)");
    if (score->slope_scaling != GYRE_SLOPE_SCALING_LINEAR && config->heads < 2)
        return gyre_fail(err, GYRE_EINVAL, "heads: 1; NTK scales the slopes between two heads (gyre_config)");
    return GYRE_OK;
}

static gyre_status fill_ntk_exponents(const gyre_encoding *encoding, gyre_error *err) {
    const double *slopes = encoding->slopes;
    double least = slopes[0], most = slopes[0];
    for (int64_t h = 1; h < encoding->config.heads; h++) {
        least = fmin(least, slopes[h]);
        most = fmax(most, slopes[h]);
    }
    if (!(least > 0) || least == most)
        return gyre_fail(err, GYRE_EINVAL, "score.slopes: from %g to %g; NTK needs slopes above 0 that differ (gyre_config)",
                         least, most);
    for (int64_t h = 0; h < encoding->config.heads; h++)
        encoding->slope_exponents[h] = log(most / slopes[h]) / log(most / least);
    return GYRE_OK;
}

static gyre_status fill_exponents(gyre_encoding *encoding, gyre_error *err) {
    const gyre_slope_scaling scaling = encoding->config.score.slope_scaling;
    const int64_t heads = encoding->config.heads;
    int64_t first = 1; /* the heads whose slopes the released code interpolates */
    if (scaling == GYRE_SLOPE_SCALING_NONE) return GYRE_OK;
    if (encoding->config.length_block == 0) encoding->config.length_block = 64;
    encoding->slope_exponents = gyre_encoding_allocate(encoding, heads, sizeof *encoding->slope_exponents, err);
    if (!encoding->slope_exponents) return GYRE_ENOMEM;
    if (scaling == GYRE_SLOPE_SCALING_NTK) return fill_ntk_exponents(encoding, err);
    while (2 * first <= heads)
        first *= 2;
    for (int64_t h = 0; h < heads; h++)
        encoding->slope_exponents[h] = scaling == GYRE_SLOPE_SCALING_LINEAR ? 1
                                       : h < first                          ? (double)h / (double)(heads - 1)
                                                                            : 0;
    return GYRE_OK;
}

static int same_at(const gyre_config *config, int64_t length, int64_t other) {
    return config->score.slope_scaling == GYRE_SLOPE_SCALING_NONE || config->score.slope_factor > 0 ||
           gyre_extension_ratio(config, length) == gyre_extension_ratio(config, other);
}

/* -- creation -- */

static gyre_status check(const gyre_encoding *encoding, gyre_error *err) {
    const struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; ALiBi has a slope for each (gyre_config)");
    if (score->before_scale && encoding->config.head_dim == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "head_dim: missing; a bias before the scale is divided by its root (gyre_config)");
    const gyre_status status = check_scaling(&encoding->config, err);
    return status ? status : gyre_terms_check(encoding, 0, err);
}

/* The arrays hold the slopes as given, so that the completed config describes the same encoding.  slope_divisor is applied
 * on use. */
static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    const int64_t heads = encoding->config.heads;
    gyre_status status = check(encoding, err);
    if (!status) status = copy_slopes(encoding, score->slopes, "slopes", &encoding->slopes, err);
    if (!status) status = copy_slopes(encoding, score->slopes_after, "slopes_after", &encoding->slopes_after, err);
    if (status) return status;
    encoding->slope_divisor = score->before_scale ? sqrt((double)encoding->config.head_dim) : 1;
    if (!encoding->slopes) {
        encoding->slopes = gyre_encoding_allocate(encoding, heads, sizeof *encoding->slopes, err);
        if (!encoding->slopes) return GYRE_ENOMEM;
        paper_slopes(heads, score->max_bias, encoding->slopes);
    }
    return fill_exponents(encoding, err);
}

/* Slopes of a head, for keys up to the query and for keys after it. */
typedef struct slope_pair {
    double before, after;
} slope_pair;

/* given: the slope of the call, or NULL.  length: the context length in use. */
static slope_pair slopes_of(const gyre_encoding *encoding, int64_t head, const float *given, int64_t length) {
    if (given) return (slope_pair){(double)*given, (double)*given};
    const double *after = encoding->slopes_after ? encoding->slopes_after : encoding->slopes;
    const double divisor = gyre_slope_divisor(encoding, head, length);
    return (slope_pair){encoding->slopes[head] / divisor, after[head] / divisor};
}

static double slope_for(slope_pair slopes, int64_t q, int64_t k) {
    return k > q ? slopes.after : slopes.before;
}

static void bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out) {
    const slope_pair slopes = slopes_of(encoding, row->head, row->slope, row->length);
    (void)tables;
    for (int64_t j = 0; j < row->n; j++)
        out[j] = -slope_for(slopes, row->q, row->k[j]) * (double)llabs(row->q - row->k[j]);
}

/* Properties of a tile's positions. */
typedef struct tile_shape {
    int fits_int32;  /* every distance fits 32 bits, which vector units can convert; mostly they cannot convert 64 bits */
    int consecutive; /* keys are consecutive and distances exact in float: the kernel derives them from the first */
} tile_shape;

/* 1 if k[j] = k[0] + j.  No early exit, so that the loop vectorizes. */
static int are_consecutive(const int64_t *k, int64_t n) {
    uint64_t off = 0;
    for (int64_t j = 0; j < n; j++)
        off |= ((uint64_t)k[j] - (uint64_t)k[0]) ^ (uint64_t)j;
    return off == 0;
}

static void extend_range(const int64_t *positions, int64_t n, int64_t *low, int64_t *high) {
    for (int64_t i = 0; i < n; i++) {
        *low = positions[i] < *low ? positions[i] : *low;
        *high = positions[i] > *high ? positions[i] : *high;
    }
}

static tile_shape shape_of(const gyre_bias_tile *tile) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    if (tile->queries == 0 || tile->keys == 0) return (tile_shape){0, 0};
    const int consecutive = are_consecutive(tile->k, tile->keys);
    extend_range(tile->q, tile->queries, &low, &high);
    extend_range(tile->k, consecutive ? 1 : tile->keys, &low, &high);
    extend_range(tile->k + tile->keys - 1, 1, &low, &high);
    return (tile_shape){high - low <= INT32_MAX, consecutive && high - low < 1 << 23};
}

/* One row of a tile.  The kernel and the loops round the distance to float, then the product, so they give the same bits.
 * The nearest key is usually the query itself (self-attention), so that nearest_distance is 0. */
static void add_one_slope(const gyre_place_kernels *kernels, const gyre_bias_tile *tile, int64_t i, float slope,
                          tile_shape shape) {
    float *restrict row = tile->scores + i * tile->ld;
    const int64_t *restrict k = tile->k;
    const int64_t q = tile->q[i], nearest_distance = llabs(q - tile->nearest[i]);
    const int64_t whole = shape.consecutive && nearest_distance == 0 ? tile->keys / 16 * 16 : 0;
    if (whole > 0) kernels->alibi_row_f32(row, whole, slope, (float)(q - k[0]));
    if (shape.fits_int32 && nearest_distance == 0)
        for (int64_t j = whole; j < tile->keys; j++)
            row[j] -= slope * fabsf((float)(int32_t)(q - k[j]));
    else
        for (int64_t j = 0; j < tile->keys; j++)
            row[j] -= slope * (float)(llabs(q - k[j]) - nearest_distance);
}

/* For a key on the nearest key's side of the query, the difference of the biases is the slope times the difference of the
 * distances.  Otherwise it is a difference of two products, formed in double. */
static void add_two_slopes(const gyre_bias_tile *tile, int64_t i, slope_pair slopes, tile_shape shape) {
    float *restrict row = tile->scores + i * tile->ld;
    const int64_t *restrict k = tile->k;
    const int64_t q = tile->q[i], nearest_distance = llabs(q - tile->nearest[i]);
    const float before = (float)slopes.before, after = (float)slopes.after;
    if (shape.fits_int32 && nearest_distance == 0) {
        for (int64_t j = 0; j < tile->keys; j++) {
            const float ahead = (float)(int32_t)(k[j] - q);
            row[j] -= (ahead > 0 ? after : -before) * ahead;
        }
        return;
    }
    const double nearest_penalty = slope_for(slopes, q, tile->nearest[i]) * (double)nearest_distance;
    for (int64_t j = 0; j < tile->keys; j++) {
        const int64_t distance = llabs(q - k[j]);
        if (nearest_distance == 0 || (k[j] > q) == (tile->nearest[i] > q))
            row[j] -= (k[j] > q ? after : before) * (float)(distance - nearest_distance);
        else
            row[j] -= (float)(slope_for(slopes, q, k[j]) * (double)distance - nearest_penalty);
    }
}

static void bias_tile(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_bias_tile *tile) {
    const slope_pair slopes = slopes_of(encoding, head, tile->slope, tile->length);
    const tile_shape shape = shape_of(tile);
    (void)tables;
    for (int64_t i = 0; i < tile->queries; i++)
        if (encoding->slopes_after && !tile->slope)
            add_two_slopes(tile, i, slopes, shape);
        else
            add_one_slope(encoding->kernels, tile, i, (float)slopes.before, shape);
}

const gyre_scheme gyre_scheme_alibi = {.kind = GYRE_KIND_ALIBI,
                                       .places = GYRE_PLACE_SCORE,
                                       .traits = GYRE_TRAIT_SLOPES,
                                       .init = init,
                                       .decays = 1,
                                       .same_at = same_at,
                                       .bias_row = bias_row,
                                       .bias_tile = bias_tile};

/* -- the simple layer -- */

gyre_status gyre_alibi_create(gyre_encoding **out, int64_t heads, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = heads;
    return gyre_encoding_make(out, &gyre_scheme_alibi, &config, NULL, err);
}
