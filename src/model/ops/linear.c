#include "model/ops/linear.h"

#include "model/ops/outer.h"
#include "model/ops/product.h"

int64_t gyre_linear_scratch(int64_t rows, int64_t in) {
    const int64_t product = gyre_product_scratch(GYRE_STORED_F32, rows, in), outer = gyre_outer_scratch();
    return product > outer ? product : outer;
}

void gyre_linear_forward(const gyre_linear *l, const gyre_linear_work *work, const float *x, int accumulate, float *y) {
    const gyre_matrix w = {GYRE_STORED_F32, l->w, l->out, l->in, l->in * (int64_t)sizeof(float)};
    const gyre_gemm p = {&w, NULL, x, y, l->rows, l->in, l->out, accumulate};
    for (int64_t first = 0; first < l->out; first += GYRE_PRODUCT_OUTS) {
        const int64_t left = l->out - first;
        gyre_product_run(&p, work->kernels, first, left < GYRE_PRODUCT_OUTS ? left : GYRE_PRODUCT_OUTS, work->scratch);
    }
}

void gyre_linear_input_gradient(const gyre_linear *l, const gyre_linear_work *work, const float *dy, int accumulate,
                                float *dx) {
    const gyre_matmul p = {.m = l->rows,
                           .n = l->in,
                           .k = l->out,
                           .a = dy,
                           .a_row_stride = l->out,
                           .a_col_stride = 1,
                           .b = l->w,
                           .b_row_stride = l->in,
                           .c = dx,
                           .c_row_stride = l->in,
                           .accumulate = accumulate};
    gyre_outer_run(&p, work->kernels, work->scratch);
}

void gyre_linear_weight_gradient(const gyre_linear *l, const gyre_linear_work *work, const float *x, const float *dy,
                                 float *dw) {
    const gyre_matmul p = {.m = l->out,
                           .n = l->in,
                           .k = l->rows,
                           .a = dy,
                           .a_row_stride = 1,
                           .a_col_stride = l->out,
                           .b = x,
                           .b_row_stride = l->in,
                           .c = dw,
                           .c_row_stride = l->in,
                           .accumulate = 1};
    gyre_outer_run(&p, work->kernels, work->scratch);
}
