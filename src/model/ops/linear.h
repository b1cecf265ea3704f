/* linear.h: dense linear maps over float weights, forward and gradient, for training.
 *
 * Each function is one single-threaded BLAS call.  The caller splits the work, so the bits do not depend on the number of
 * threads.  Rows of x and y are dense. */
#ifndef GYRE_MODEL_LINEAR_H
#define GYRE_MODEL_LINEAR_H
#include <stdint.h>

typedef struct gyre_linear {
    const float *w; /* [out][in] */
    int64_t rows, in, out;
} gyre_linear;

/* y[rows][out] = x[rows][in] w^T + beta y. */
void gyre_linear_forward(const gyre_linear *l, const float *x, float beta, float *y);
/* dx[rows][in] = dy[rows][out] w + beta dx. */
void gyre_linear_input_gradient(const gyre_linear *l, const float *dy, float beta, float *dx);
/* dw[out][in] += dy^T x. */
void gyre_linear_weight_gradient(const gyre_linear *l, const float *x, const float *dy, float *dw);

/* Sets OpenBLAS to one thread for the whole process.  Its own way of splitting a product would change the bits. */
void gyre_blas_single_thread(void);

#endif
