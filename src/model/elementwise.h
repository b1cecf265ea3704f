/* elementwise.h: what a decoder does to each number or row between its products. */
#ifndef GYRE_MODEL_ELEMENTWISE_H
#define GYRE_MODEL_ELEMENTWISE_H
#include "model/network.h"

/* Rows to be normalised: row r of group g begins at g * group_step + r * row_stride.  Each of norm->width numbers. */
typedef struct gyre_norm_args {
    gyre_norm_kind kind;
    const gyre_norm_weights *weights;
    double epsilon;
    int64_t rows, row_stride;
} gyre_norm_args;
/* y = the rows of x normalised: gain x / rms (+ bias), or gain (x - mean) / deviation + bias; y's rows y_step apart.  y may
 * be x where the steps agree.  Sums run in sixteen fixed lanes, in double for their mean. */
void gyre_normalize_rows(const gyre_norm_args *n, const float *x, float *y, int64_t y_step);

/* product[r][i] = act(up[r][i]), or act(gate) up of a row that holds the gates first: up is [rows][hidden] or [rows][2
 * hidden].  The error of an activation is below 3e-7 of the larger of it and its argument. */
void gyre_activate(const gyre_kernels *kernels, gyre_activation activation, int gated, int64_t rows, int64_t hidden,
                   const float *up, float *product);

/* x[i] = cap tanh(x[i] / cap), any n. */
void gyre_softcap(const gyre_kernels *kernels, float *x, int64_t n, double cap);

#endif
