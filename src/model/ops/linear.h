/* linear.h: dense linear maps over float weights, forward and gradient, for training.
 * Each function runs on one thread.  The caller splits the work, so the bits do not depend on the number of threads.  Rows
 * of x and y are dense. */
#ifndef GYRE_MODEL_LINEAR_H
#define GYRE_MODEL_LINEAR_H
#include "kernels/kernels.h"

typedef struct gyre_linear {
    const float *w; /* [out][in] */
    int64_t rows, in, out;
} gyre_linear;

/* What the functions compute with. */
typedef struct gyre_linear_work {
    const gyre_kernels *kernels;
    float *scratch; /* gyre_linear_scratch floats, 64-byte aligned */
} gyre_linear_work;

/* out = floats of scratch for maps of up to `rows` rows and `in` inputs. */
int64_t gyre_linear_scratch(int64_t rows, int64_t in);

/* y[rows][out] = x[rows][in] w^T, added to y if accumulate is 1. */
void gyre_linear_forward(const gyre_linear *l, const gyre_linear_work *work, const float *x, int accumulate, float *y);
/* dx[rows][in] = dy[rows][out] w, added to dx if accumulate is 1. */
void gyre_linear_input_gradient(const gyre_linear *l, const gyre_linear_work *work, const float *dy, int accumulate,
                                float *dx);
/* dw[out][in] += dy^T x. */
void gyre_linear_weight_gradient(const gyre_linear *l, const gyre_linear_work *work, const float *x, const float *dy,
                                 float *dw);

#endif
