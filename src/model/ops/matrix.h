/* matrix.h: products with weights that stay in the type they are stored in, on several threads, for inference.
 *
 * A few rows (decoding) use kernels that read the weights as stored, each weight once.  More rows (prefill) use packed
 * tiles (product.h).  Both sum in the same order, so a row of y has the same bits whatever the number of rows and of
 * threads. */
#ifndef GYRE_MODEL_MATRIX_H
#define GYRE_MODEL_MATRIX_H
#include "model/ops/product.h"

/* y = w x + bias. */
typedef struct gyre_affine {
    gyre_matrix w;
    const float *bias; /* NULL = none */
} gyre_affine;

/* out = floats of scratch for products of w with up to `rows` rows.  concurrency: that of the exec which will run them. */
int64_t gyre_gemm_scratch(const gyre_matrix *w, int64_t rows, int concurrency);
/* scratch: gyre_gemm_scratch floats, 64-byte aligned. */
void gyre_gemm_run(const gyre_gemm *gemm, const gyre_kernels *kernels, float *scratch, const gyre_exec *exec);
/* Runs several independent products (query, key and value; gate and up) and wakes the threads once for all of them.
 * scratch: the largest gyre_gemm_scratch among them. */
void gyre_gemm_run_many(const gyre_gemm *gemms, int count, const gyre_kernels *kernels, float *scratch,
                        const gyre_exec *exec);
/* out[0 .. in - 1] = row `row` of w as floats. */
void gyre_matrix_row(const gyre_matrix *w, const gyre_kernels *kernels, int64_t row, float *out);

#endif
