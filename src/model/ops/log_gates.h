/* log_gates.h: forget gates of attention, from what a linear map gives. */
#ifndef GYRE_MODEL_LOG_GATES_H
#define GYRE_MODEL_LOG_GATES_H
#include <stdint.h>

/* out[i] = ln sigmoid(x[i]), in double: never above 0, finite for every finite x. */
void gyre_log_gates(const float *x, int64_t n, double *out);
/* dx[i] = dlog_gates[i] (1 - sigmoid(x[i])): the gradient to x, given that to its log gates. */
void gyre_log_gates_gradient(const float *x, int64_t n, const double *dlog_gates, float *dx);

#endif
