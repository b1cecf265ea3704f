/* product.h: y = x w^T for many rows, from weights in the type they are stored in, on one thread.
 *
 *     for 48 to 192 rows of x, for each block of 768 channels:
 *         pack the rows of x                            second-level cache
 *         for each tile of 4 to 6 rows of w:
 *             widen and pack it                         first-level cache
 *             multiply it with all packed rows of x
 *
 * AMX takes weights of bf16 in blocks of 128 channels, and packs all rows of w before it multiplies them (amx_tier.h).
 *
 * The sum of an output has one order, that of gyre_projection (kernels.h), whatever the rows and outputs of the call. */
#ifndef GYRE_MODEL_PRODUCT_H
#define GYRE_MODEL_PRODUCT_H
#include "files/tensors/tensor_store.h"

typedef struct gyre_matrix {
    gyre_stored_type type;
    const void *data; /* [out] rows of row_bytes bytes, each of `in` numbers; aligned for its type */
    int64_t out, in;  /* out 0 = no matrix */
    int64_t row_bytes;
} gyre_matrix;

/* y[r][o] = sum over i of x[r][i] w[o][i] + bias[o] + (accumulate ? y[r][o] : 0), r < rows.  x and y must not overlap. */
typedef struct gyre_gemm {
    const gyre_matrix *w;
    const float *bias; /* [out], or NULL */
    const float *x;    /* rows are x_row_stride floats apart */
    float *y;          /* rows are y_row_stride floats apart */
    int64_t rows, x_row_stride, y_row_stride;
    int accumulate;
} gyre_gemm;

/* out = how products with weights of `type` are packed. */
const gyre_product_tiling *gyre_product_tiling_of(const gyre_kernels *kernels, gyre_stored_type type);
/* out = floats of scratch for products of weights of `type` with up to `rows` rows and `in` channels; a multiple of 16. */
int64_t gyre_product_scratch(gyre_stored_type type, int64_t rows, int64_t in);
/* Outputs first .. first + n - 1, n <= GYRE_PRODUCT_OUTS.  scratch: gyre_product_scratch floats, 64-byte aligned. */
void gyre_product_run(const gyre_gemm *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch);

#endif
