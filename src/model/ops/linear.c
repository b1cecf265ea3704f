#include "model/ops/linear.h"

#include <cblas.h>

void gyre_blas_single_thread(void) {
    openblas_set_num_threads(1);
}

void gyre_linear_forward(const gyre_linear *l, const float *x, float beta, float *y) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)l->rows, (int)l->out, (int)l->in, 1, x, (int)l->in, l->w,
                (int)l->in, beta, y, (int)l->out);
}

void gyre_linear_input_gradient(const gyre_linear *l, const float *dy, float beta, float *dx) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)l->rows, (int)l->in, (int)l->out, 1, dy, (int)l->out, l->w,
                (int)l->in, beta, dx, (int)l->in);
}

void gyre_linear_weight_gradient(const gyre_linear *l, const float *x, const float *dy, float *dw) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)l->out, (int)l->in, (int)l->rows, 1, dy, (int)l->out, x,
                (int)l->in, 1, dw, (int)l->in);
}
