/* matrix.h: products with weights that stay in the type they are stored in, for inference.
 *
 * Up to 16 rows (decoding) use kernels that read the weights as stored, each weight once.  More rows (prefill) go to
 * OpenBLAS, with the weights converted to float a tile at a time.  The work is cut into fixed blocks of outputs, so the
 * bits do not depend on the number of threads.
 *
 * A row among at most 16 has the bits it has alone.  OpenBLAS sums in another order, which may depend on the number of
 * rows. */
#ifndef GYRE_MODEL_MATRIX_H
#define GYRE_MODEL_MATRIX_H
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
