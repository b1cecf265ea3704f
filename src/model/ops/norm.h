/* norm.h: RMSNorm and LayerNorm over rows.
 *
 * Sums over channels run in sixteen fixed lanes of floats.  The mean of a sum is taken in double. */
#ifndef GYRE_MODEL_NORM_H
#define GYRE_MODEL_NORM_H
#include <stdint.h>

typedef enum gyre_norm_kind { GYRE_NORM_RMS, GYRE_NORM_LAYER } gyre_norm_kind;

typedef struct gyre_norm_weights {
    const float *gain, *bias; /* [dim]; gain NULL = no norm; bias NULL = no bias */
    int64_t dim;              /* channels normalized together: model_dim, head_dim, or all heads at once (olmo2) */
} gyre_norm_weights;

typedef struct gyre_norm_args {
    gyre_norm_kind kind;
    const gyre_norm_weights *weights;
    double epsilon;
    int64_t rows, row_stride; /* floats between the beginnings of two rows of x */
} gyre_norm_args;

/* y[r] = gain * x[r] / rms(x[r]) + bias (RMS), or gain * (x[r] - mean) / deviation + bias (LAYER), for r < rows.
 * y_row_stride: floats between rows of y.  y may be x if both strides are equal.
 * rstd[r] = 1 / rms or 1 / deviation of row r, for the gradient; may be NULL. */
void gyre_normalize_rows(const gyre_norm_args *n, const float *x, float *y, int64_t y_row_stride, float *rstd);

/* The gradient of an RMSNorm without bias over dense rows: dx += gradient to x, dgain[dim] += gradient to the gain.
 * x, rstd: as the forward pass read and wrote them. */
void gyre_rmsnorm_gradient(const gyre_norm_args *n, const float *x, const float *rstd, const float *dy, float *dx,
                           float *dgain);

#endif
