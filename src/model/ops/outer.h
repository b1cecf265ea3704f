/* outer.h: c (+)= a b for row-major b, from packed panels, on one thread.  For the gradients of training. */
#ifndef GYRE_MODEL_OUTER_H
#define GYRE_MODEL_OUTER_H
#include "kernels/kernels.h"

/* out = floats of scratch for any product. */
int64_t gyre_outer_scratch(void);
/* c[i][j] (+)= sum over l < k of a[i * a_row_stride + l * a_col_stride] b[l][j], i < m, j < n, of any sizes, as gyre_matmul
 * names them.  The order of a sum depends on k alone.  scratch: gyre_outer_scratch floats, 64-byte aligned. */
void gyre_outer_run(const gyre_matmul *p, const gyre_kernels *kernels, float *scratch);

#endif
