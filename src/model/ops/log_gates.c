#include "model/ops/log_gates.h"

#include <math.h>

/* exp(-|x|) cannot overflow. */
void gyre_log_gates(const float *x, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)x[i];
        out[i] = (v < 0 ? v : 0) - log1p(exp(-fabs(v)));
    }
}

void gyre_log_gates_gradient(const float *x, int64_t n, const double *dlog_gates, float *dx) {
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)x[i], e = exp(-fabs(v));
        dx[i] = (float)(dlog_gates[i] * (v < 0 ? 1 : e) / (1 + e));
    }
}
