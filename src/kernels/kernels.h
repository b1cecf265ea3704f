/* kernels.h: the table of hot loops.  Scalar C fills every slot; a tier overrides what it does better (dispatch.c). */
#ifndef GYRE_KERNELS_H
#define GYRE_KERNELS_H
#include <stdint.h>

/* How the heads of one token lie in memory. */
typedef struct gyre_heads {
    int64_t count, pairs;
    int64_t in_stride, out_stride; /* elements from head to head */
} gyre_heads;

/* c[i * c_row + j] (+)= sum over l < k of a[i * a_row + l * a_col] b[l * b_row + j], i < m, j < n; n a multiple of 16.
 * One order of summation over l, whatever the split over i and j. */
typedef struct gyre_matmul {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    int accumulate;
} gyre_matmul;

typedef struct gyre_transpose {
    int64_t rows, columns;
    const float *in;
    int64_t in_row;
    float *out;
    int64_t out_row;
} gyre_transpose;

typedef struct gyre_kernels {
    const char *tier; /* "scalar", "avx2", "avx512" */
#define GYRE_KERNEL(name, parameters) void(*name) parameters;
#include "kernels/kernels.def"
#undef GYRE_KERNEL
} gyre_kernels;

/* The best table this processor runs; GYRE_CPU=scalar|avx2|avx512 in the environment asks for a lower one. */
const gyre_kernels *gyre_kernels_pick(void);
/* The table of one tier, or NULL where this processor (or this build) has none. */
const gyre_kernels *gyre_kernels_tier(const char *tier);

#endif
