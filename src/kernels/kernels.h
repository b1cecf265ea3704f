/* kernels.h: the table of hot loops.  Scalar C fills every slot; a tier overrides what it does better (dispatch.c). */
#ifndef GYRE_KERNELS_H
#define GYRE_KERNELS_H
#include <stdint.h>

/* Rows of pairs: (x[i], x[i + pairs]), the half layout, or (x[2i], x[2i + 1]).  in == out with equal strides, or no overlap;
 * in place and from one layout to the other, at most GYRE_ROTATE_MAX_PAIRS. */
enum { GYRE_ROTATE_MAX_PAIRS = 256 };
typedef struct gyre_rotate_job {
    const void *in;
    void *out;
    int64_t heads, pairs;
    int64_t in_head_stride, out_head_stride; /* elements from head to head */
    int from_half, to_half;                  /* layouts read and written */
    int negate_sine;                         /* 1: the other way, sin_i negated */
    const void *cosine, *sine;
    int exceeds_cache; /* 1: the whole call is more than a cache holds; changes no bit */
} gyre_rotate_job;

typedef struct gyre_rotate_rows_job {
    int64_t rows, pairs, stride;
    float *x;
    const float *angles;
    int half, negate_sine; /* as from_half and back above */
} gyre_rotate_rows_job;

/* For j < rows, i < pairs, with the step's cos and sin at [j * row + i]:
 *     cosine_out[j * out_row_stride + i] = factor (cosine[i] step_cosine - sine[i] step_sine),      rounded to float,
 *     sine_out[j * out_row_stride + i]   = sine_factor (sine[i] step_cosine + cosine[i] step_sine).
 * doubtful[j] = 1 where one of a row lies so near the middle between two floats that what is left out of doubles might have
 * rounded it to the other; else as it was. */
typedef struct gyre_angle_block {
    int64_t rows, pairs, step_row_stride, out_row_stride;
    double factor, sine_factor;
    const double *cosine, *sine, *step_cosine, *step_sine;
    float *cosine_out, *sine_out;
    unsigned char *doubtful;
} gyre_angle_block;

/* c[i * c_row_stride + j] (+)= sum over l < k of a[i * a_row_stride + l * a_col_stride] b[l * b_row_stride + j], i < m, j <
 * n; n a multiple of 16. One order of summation over l, whatever the split over i and j. */
typedef struct gyre_matmul {
    int64_t m, n, k;
    const float *a;
    int64_t a_row_stride, a_col_stride;
    const float *b;
    int64_t b_row_stride;
    float *c;
    int64_t c_row_stride;
    int accumulate;
} gyre_matmul;

typedef struct gyre_transpose {
    int64_t rows, columns;
    const float *in;
    int64_t in_row_stride;
    float *out;
    int64_t out_row_stride;
} gyre_transpose;

/* Entries of a block of products on their way to the scores that want them: for each line l and j < n
 *     to[l * to_row_stride + j] += from[l * from_row_stride + offset[l] + j]                    where row is NULL,
 *     to[l * to_row_stride + j] += from[l * from_row_stride + row[offset[l] + j] - base]        else, or with step not 0,
 *     to[l * to_row_stride + j] += from[(row[offset[l] + j] - base) * step + j].
 * steady: rows stay as they are or change by one from each to the next, one way throughout; then from may be read up to 15
 * entries past the last that is asked for. */
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
 * k_scale[j] where there are scales; r < rows, j < keys.  q has zeros from there to the next multiple of 16; k may not be
 * read past its channels. */
typedef struct gyre_key_scores {
    int64_t rows, keys, channels;
    const float *q;
    int64_t q_row_stride;
    const void *k;
    int64_t k_row_stride;
    const float *k_scale;
    float *scores;
    int64_t score_row_stride;
    int prefetched; /* 1: the caller has asked memory for them already */
} gyre_key_scores;

/* out[r * out_row_stride + c] += sum over j < keys, in order, of weights[r * weight_row_stride + j] v[j * v_row_stride + c],
 * c < channels.  The scales of Q8 are in the weights.  out has room up to the next multiple of 16, which may be written with
 * anything finite. */
typedef struct gyre_weighted_values {
    int64_t rows, keys, channels;
    const float *weights;
    int64_t weight_row_stride;
    const void *v;
    int64_t v_row_stride;
    float *out;
    int64_t out_row_stride;
    int prefetched; /* as there */
} gyre_weighted_values;

/* y[r * y_row_stride + o] = sum over i < in of x[r * x_row_stride + i] w[o * w_row_stride + i], r < rows, o < outs.  Nothing
 * is read past `in`. */
typedef struct gyre_projection {
    int64_t rows, outs, in;
    const float *x;
    int64_t x_row_stride;
    const void *w;
    int64_t w_row_stride;
    float *y;
    int64_t y_row_stride;
} gyre_projection;

enum { GYRE_PHILOX_NUMBERS = 128 };
typedef struct gyre_philox {
    uint32_t counter[4], key[2];
} gyre_philox;

/* What decides about a row of weights: those whose number is above `last` stay, times the factor. */
typedef struct gyre_dropout_row {
    const uint32_t *numbers;
    uint32_t last;
    float factor;
} gyre_dropout_row;

typedef struct gyre_kernels {
    const char *tier; /* its name in GYRE_TIERS (tiers.h) */
#define GYRE_KERNEL(name, parameters) void(*name) parameters;
#include "kernels/kernels.def"
#undef GYRE_KERNEL
} gyre_kernels;

/* The best table this processor runs; GYRE_CPU=<a tier> in the environment asks for a lower one. */
const gyre_kernels *gyre_kernels_select(void);
/* The table of one tier, or NULL where this processor (or this build) has none. */
const gyre_kernels *gyre_kernels_tier(const char *tier);

#endif
