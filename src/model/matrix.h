/* matrix.h: products with weights that stay in the type they are stored in.
 *
 * Few rows (up to 16) are multiplied as the weights lie, each read once from memory; many go to OpenBLAS, weights widened to
 * float a tile at a time.  Work is cut in fixed blocks of the outputs, so the bits do not depend on threads.  A row among
 * few has the bits that it has alone; among many, OpenBLAS sums in another order, which may depend on how many they are. */
#ifndef GYRE_MODEL_MATRIX_H
#define GYRE_MODEL_MATRIX_H
#include "files/tensor_store.h"

typedef struct gyre_matrix {
    gyre_stored_type type;
    const void *data; /* [out] rows of row_bytes, each `in` numbers; aligned for its type */
    int64_t out, in;  /* 0 = there is none */
    int64_t row_bytes;
} gyre_matrix;

/* y[r][o] = sum over i of x[r][i] w[o][i] + bias[o] + (add ? y[r][o] : 0), r < rows.  x and y do not overlap. */
typedef struct gyre_gemm {
    const gyre_matrix *w;
    const float *bias; /* [out], or NULL */
    const float *x;    /* rows x_row_stride floats apart */
    float *y;          /* rows y_row_stride floats apart */
    int64_t rows, x_row_stride, y_row_stride;
    int accumulate;
} gyre_gemm;

/* out = floats of scratch for products with w of up to `rows` rows, under an exec of that width. */
int64_t gyre_gemm_scratch(const gyre_matrix *w, int64_t rows, int width);
/* scratch: of those floats, 64-byte aligned. */
void gyre_gemm_run(const gyre_gemm *product, const gyre_kernels *kernels, float *scratch, const gyre_exec *exec);
/* The same of several, none of which needs what another gives (query, key and value; gate and up): threads are woken once
 * for all.  scratch: as much as the one that needs most. */
void gyre_gemm_run_many(const gyre_gemm *products, int count, const gyre_kernels *kernels, float *scratch,
                        const gyre_exec *exec);
/* out[0 .. in - 1] = row `row` of w. */
void gyre_matrix_row(const gyre_matrix *w, const gyre_kernels *kernels, int64_t row, float *out);

#endif
