/* kernels.h: the job structs of the kernels and the table of functions that every tier fills in (kernels.def lists them). */
#ifndef GYRE_KERNELS_H
#define GYRE_KERNELS_H
#include "kernels/tier_list.h"

/* c[i * c_row_stride + j] (+)= sum over l < k of a[i * a_row_stride + l * a_col_stride] b[l * b_row_stride + j], i < m,
 * j < n; n a multiple of 16.  The order of summation over l does not depend on i, j, m or n. */
typedef struct gyre_matmul {
    int64_t m, n, k;
    const float *a;
    int64_t a_row_stride, a_col_stride;
    const float *b;
    int64_t b_row_stride;
    float *c;
    int64_t c_row_stride;
    int accumulate;
    int prefetch_c; /* 1: c is not in a cache yet, a hint */
} gyre_matmul;

typedef struct gyre_transpose {
    int64_t rows, columns;
    const float *in;
    int64_t in_row_stride;
    float *out;
    int64_t out_row_stride;
} gyre_transpose;

/* Adds to each score the product with the table row of its distance.  For each line l and j < n, to[l * to_row_stride + j]
 * +=     from[l * from_row_stride + offset[l] + j]                               if row is NULL,     from[l *
 * from_row_stride + row[offset[l] + j] - base]                   if step is 0,     from[l * from_row_stride +
 * (row[offset[l] + j] - base) * step + j]      otherwise.
 * offset NULL = zeros.  steady 1: from one entry to the next, row stays or changes by one, always in the same direction;
 * `from` may then be read up to 15 entries past the last one needed. */
typedef struct gyre_gather_add {
    int64_t lines, n;
    float *to;
    int64_t to_row_stride;
    const float *from;
    int64_t from_row_stride;
    const int32_t *row;
    const int64_t *offset;
    int32_t base;
    int steady;
    int64_t step;
} gyre_gather_add;

/* scores[r * score_row_stride + j] = sum over c < channels of q[r * q_row_stride + c] k[j * k_row_stride + c], times
 * k_scale[j] if k_scale is not NULL; r < rows, j < keys.  q is padded with zeros to a multiple of 16 channels; k must not
 * be read past its channels.  score_rotated_* rotate pairs (c, pairs + c), c < pairs, of key j first, by
 * angles[j][2][pairs]: cos, then sin; pairs is a multiple of 16. */
typedef struct gyre_key_scores {
    int64_t rows, keys, channels;
    const float *q;
    int64_t q_row_stride;
    const void *k;
    int64_t k_row_stride;
    const float *k_scale;
    float *scores;
    int64_t score_row_stride;
    int prefetched;      /* 1: the caller has prefetched k already */
    const float *angles; /* score_rotated_* only, as is pairs */
    int64_t pairs;
} gyre_key_scores;

/* out[r * out_row_stride + c] += sum over j < keys, in order, of weights[r * weight_row_stride + j] v[j * v_row_stride + c],
 * c < channels.  For Q8, the weights include the scales.  out has room up to the next multiple of 16 channels, which may be
 * overwritten with any finite values. */
typedef struct gyre_weighted_values {
    int64_t rows, keys, channels;
    const float *weights;
    int64_t weight_row_stride;
    const void *v;
    int64_t v_row_stride;
    float *out;
    int64_t out_row_stride;
    int prefetched; /* 1: the caller has prefetched v already */
} gyre_weighted_values;

/* One query of each query head, and few keys: out of query head r = softmax over j < keys of (scale q . k[j]), times v[j];
 * key head r / group, in tiles of 128 keys.  The bits of score_rows, max_row, weights_row and weighted_sum one after the
 * other, then of x + 0 times the factor 1 / row_sum.  channels and value_channels: at most GYRE_MAX_QUERY_CHANNELS.
 * Channels are adjacent; strides are in elements.  angles, pairs: as in gyre_key_scores; NULL = keys are not rotated. */
enum { GYRE_MAX_QUERY_CHANNELS = 256 };
typedef struct gyre_query_attention {
    int64_t heads, group; /* key heads, and query heads of each */
    int64_t keys, channels, value_channels;
    const float *q;
    int64_t q_head_stride;
    float scale;
    const void *k, *v;
    int64_t k_row_stride, k_head_stride, v_row_stride, v_head_stride;
    const float *angles;
    int64_t pairs;
    float *out;
    int64_t out_head_stride;
    float *row_max;  /* [heads * group]: the largest score; NULL = not wanted */
    double *row_sum; /* [heads * group]: the sum of exp(score - row_max); NULL = not wanted */
} gyre_query_attention;

/* y[r * y_row_stride + o] = sum over i < in of x[r * x_row_stride + i] w[o * w_row_stride + i], r < rows, o < outs.  Nothing
 * is read past `in`.  w_row_stride is in elements, of blocks in bytes. */
typedef struct gyre_projection {
    int64_t rows, outs, in;
    const float *x;
    int64_t x_row_stride;
    const void *w;
    int64_t w_row_stride;
    float *y;
    int64_t y_row_stride;
} gyre_projection;

/* -- products of many rows: y = x w^T --
 *
 * Both operands are packed in tiles, so that a product reads two streams.  Missing channels and rows are 0.
 *
 *     f32: [ceil(n / lanes)][rows][lanes]        amx/amx_tier.h has the tiles of bf16 that AMX multiplies
 *
 * In f32 a sum runs over the channels of a block (GYRE_PRODUCT_BLOCK) in one vector, whose lanes are then added in a fixed
 * tree.  The sums of the blocks are added in order.  gyre_projection has the same order, so a row has the same bits whatever
 * the number of rows. */
enum { GYRE_PRODUCT_BLOCK = 768, GYRE_PRODUCT_OUTS = 384 }; /* _OUTS: the most outputs of gyre_product_tiles */
/* Channels of a tile of bf16, and the most that AMX packs at once. */
enum { GYRE_TILE_CHANNELS = 32, GYRE_TILE_BLOCK = 128 };

/* How the operands of a product are packed: outputs in groups of `tiles` tiles, channels in blocks of `block`. */
typedef struct gyre_product_tiling {
    int rows, outs; /* of x and of w in a tile */
    int tiles, block;
    int channels;         /* a tile's channels are a multiple of this */
    int x_bytes, w_bytes; /* of a number in a tile */
} gyre_product_tiling;

/* out = a tile of `rows` rows, rows <= tile_rows. */
typedef struct gyre_pack {
    int64_t rows, tile_rows, n;
    const void *in;
    int64_t in_row_stride; /* elements */
    void *out;             /* 64-byte aligned */
} gyre_pack;

/* A group of tiles of w times the tiles of x that hold `rows` rows, for one block of n channels.
 *     first: sums begin at 0, otherwise at those in partial
 *     last:  y[r * y_row_stride + o] = sum + bias[o] + (accumulate ? y : 0), r < rows, o < outs; otherwise sums go to
 *            partial, which has room for those of whole tiles and whose order is the kernel's */
typedef struct gyre_product_tiles {
    int64_t rows, outs, n;
    const void *x, *w;
    float *partial; /* NULL if first and last */
    int first, last, accumulate;
    const float *bias; /* or NULL */
    float *y;
    int64_t y_row_stride;
    const void *next; /* the rows of w that are packed next, or NULL: a hint to load them into the second-level cache */
    int64_t next_rows, next_bytes, next_row_stride; /* bytes of each row, and from row to row */
    const gyre_projection *in_place;                /* the rows and outputs of the call before packing, without y */
} gyre_product_tiles;

/* ln 2^-100: a weight of attention that is smaller, relative to the largest of its row, is 0. */
#define GYRE_SMALLEST_WEIGHT_LOG (-69.31472f)

enum { GYRE_PHILOX_NUMBERS = 128 };
typedef struct gyre_philox {
    uint32_t counter[4], key[2];
} gyre_philox;

/* Dropout of a row of weights: a weight whose number is above `last` is kept and multiplied by factor. */
typedef struct gyre_dropout_row {
    const uint32_t *numbers;
    uint32_t last;
    float factor;
} gyre_dropout_row;

/* Differences of one number and n others, which are floats in two parts, high + low.  Where the high parts are near each
 * other their difference is exact, so the sum has the relative precision of a float. */
typedef struct gyre_differences {
    const float *high, *low; /* [n] */
    float from_high, from_low;
} gyre_differences;

/* x[i] *= cos(2 pi t), t = turns[i] phase[i] rounded to a float, i < n, a multiple of 16.  With cosine not NULL,
 * cosine[i] = that cosine, and phase[i] becomes the derivative of the product by phase[i], -2 pi turns[i] x[i] sin(2 pi t).
 * The cosine and the sine of t have absolute errors below 2^-22 and the same bits on every tier; t = 0 gives 1 and 0.  An
 * infinite or NaN t gives NaNs. */
typedef struct gyre_phase_row {
    int64_t n;
    float *x, *phase;
    const float *turns;
    float *cosine;
} gyre_phase_row;

/* out[j] = sum over c < channels of (a[c] factors[c * factor_stride + j]) b[c * b_stride + j], j < n, a multiple of 16: the
 * bits of matmul_f32 with the products of a and the factors as a row. */
typedef struct gyre_factored_product {
    int64_t n, channels;
    const float *a, *factors;
    int64_t factor_stride;
    const float *b;
    int64_t b_stride;
    float *out;
} gyre_factored_product;

/* Its gradient, with lines of `channels`, a multiple of 16: for each j < n whose dout is not 0, with f = factors[row[j]],
 *     da += dout[j] f b[j],   db[j] += dout[j] f a,   dfactors[row[j]] += dout[j] a b[j]. */
typedef struct gyre_factored_gradient {
    int64_t n, channels;
    const float *dout;
    const int32_t *row;
    const float *a, *factors, *b;
    float *da, *dfactors, *db;
} gyre_factored_gradient;

typedef struct gyre_kernels {
    const char *tier;                       /* the name in GYRE_TIERS (tier_list.h) */
    int lanes;                              /* floats of a vector */
    gyre_product_tiling tiles_f32;          /* of pack_f32, pack_f16 and product_tiles_f32 */
    gyre_product_tiling tiles_bf16;         /* of pack_rows_bf16, pack_bf16 and product_tiles_bf16 */
    gyre_product_tiling tiles_rounded_bf16; /* of pack_rounded_rows_bf16, pack_bf16 and product_rounded_tiles_bf16 */
    int matmul_rows, matmul_columns;        /* of a block of matmul_f32; whole blocks are fastest */
#define GYRE_KERNEL(name, parameters) void(*name) parameters;
#include "kernels/kernels.def"
#undef GYRE_KERNEL
} gyre_kernels;

/* gyre_tier_<name>: NULL if this build lacks the tier. */
#define GYRE_TIER_DECLARE(prefix, name, text) extern const gyre_kernels *const prefix##name;
GYRE_TIERS(GYRE_TIER_DECLARE, gyre_tier_)
#undef GYRE_TIER_DECLARE

/* out = all kernels of the tier of `places`. */
const gyre_kernels *gyre_kernels_beside(const gyre_place_kernels *places);
/* The same choices as gyre_place_kernels_select and gyre_place_kernels_tier make. */
const gyre_kernels *gyre_kernels_select(void);
const gyre_kernels *gyre_kernels_tier(const char *tier);
/* out = the same kernels, but pack_rows_bf16, product_tiles_bf16 and project_bf16 round x to bf16 first, to nearest even.
 * The bits are those of the kernels on rounded numbers. */
gyre_kernels gyre_kernels_rounding(const gyre_kernels *kernels);

#endif
