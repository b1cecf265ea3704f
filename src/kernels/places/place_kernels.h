/* place_kernels.h: the job structs of the kernels that act at the places of an encoding, and their table (place_kernels.def
 * lists them).  core and encodings call these alone, so that a program that only rotates is linked without the others. */
#ifndef GYRE_KERNELS_PLACE_KERNELS_H
#define GYRE_KERNELS_PLACE_KERNELS_H
#include <stdint.h>

/* Rows of pairs, for 3 pairs with members a and b:
 *
 *     half          a0 a1 a2 b0 b1 b2     (x[i], x[i + pairs])
 *     interleaved   a0 b0 a1 b1 a2 b2     (x[2i], x[2i + 1])
 *
 * in == out with equal strides, or no overlap.  In place from one layout to the other: at most GYRE_ROTATE_MAX_PAIRS. */
enum { GYRE_ROTATE_MAX_PAIRS = 256 };
typedef struct gyre_rotate_job {
    const void *in;
    void *out;
    int64_t heads, pairs;
    int64_t in_head_stride, out_head_stride; /* elements from head to head */
    int from_half, to_half;                  /* layouts read and written: 1 = half, 0 = interleaved */
    int negate_sine;                         /* 1: inverse rotation, with sine[i] negated */
    const void *cosine, *sine;               /* [pairs] */
    int exceeds_cache; /* 1: the data of the whole call does not fit a cache.  A hint for speed; changes no bit */
    int past_caches;   /* 1: `out` is larger than the caches, so it may be written past them.  Changes no bit either */
} gyre_rotate_job;

/* The same for several tokens, each with its own angles: rows[t] = [2][pairs], cos, then sin.  in, out, cosine and sine of
 * `one` are those of the first token; strides are in elements. */
typedef struct gyre_rotate_tokens_job {
    gyre_rotate_job one;
    const void *const *rows; /* [tokens] */
    int64_t tokens, in_token_stride, out_token_stride;
} gyre_rotate_tokens_job;

typedef struct gyre_rotate_rows_job {
    int64_t rows, pairs, stride;
    float *x;
    const float *angles;   /* [rows][2][pairs]: cos, then sin */
    int half, negate_sine; /* like from_half and negate_sine above */
} gyre_rotate_rows_job;

/* For j < rows, i < pairs, with step_cosine and step_sine at [j * step_row_stride + i]:
 *     cosine_out[j * out_row_stride + i] = factor (cosine[i] step_cosine - sine[i] step_sine),      rounded to float,
 *     sine_out[j * out_row_stride + i]   = sine_factor (sine[i] step_cosine + cosine[i] step_sine), rounded to float.
 * doubtful[j] = 1 if a value of row j is so close to the middle of two floats that the rounding errors of the doubles may
 * have changed the result; otherwise unchanged. */
typedef struct gyre_angle_block {
    int64_t rows, pairs, step_row_stride, out_row_stride;
    double factor, sine_factor;
    const double *cosine, *sine, *step_cosine, *step_sine;
    float *cosine_out, *sine_out;
    unsigned char *doubtful;
} gyre_angle_block;

typedef struct gyre_place_kernels {
    const char *tier; /* the name in GYRE_TIERS (tier_list.h) */
#define GYRE_KERNEL(name, parameters) void(*name) parameters;
#include "kernels/places/place_kernels.def"
#undef GYRE_KERNEL
} gyre_place_kernels;

/* out = the best table this processor can run; GYRE_CPU=<a tier> in the environment asks for a lower one. */
const gyre_place_kernels *gyre_place_kernels_select(void);
/* out = the table of one tier, or NULL if this processor or this build does not have it. */
const gyre_place_kernels *gyre_place_kernels_tier(const char *tier);

#endif
