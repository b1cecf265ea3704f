#include "model/ops/norm.h"

#include <math.h>
#include <stddef.h>

enum { LANES = 16 };

/* Adds the lanes in a fixed tree.  Every machine then adds in the same order, whatever its vector width. */
static float lane_sum(float *lanes) {
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] += lanes[i + n];
    return lanes[0];
}

static float sum(const float *x, int64_t n) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lanes[l] += x[i];
    return lane_sum(lanes);
}

/* Sum of (x - mean)^2. */
static float sum_squares(const float *x, int64_t n, float mean) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int l = 0; i < n; i++, l++)
        lanes[l] += (x[i] - mean) * (x[i] - mean);
    return lane_sum(lanes);
}

/* Sum of a b c. */
static float dot3(const float *a, const float *b, const float *c, int64_t n) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += a[i + l] * b[i + l] * c[i + l];
    for (int l = 0; i < n; i++, l++)
        lanes[l] += a[i] * b[i] * c[i];
    return lane_sum(lanes);
}

void gyre_normalize_rows(const gyre_norm_args *n, const float *x, float *y, int64_t y_row_stride, float *rstd) {
    const int64_t dim = n->weights->dim;
    const float *gain = n->weights->gain, *bias = n->weights->bias;
    for (int64_t r = 0; r < n->rows; r++, x += n->row_stride, y += y_row_stride) {
        const float mean = n->kind == GYRE_NORM_LAYER ? (float)((double)sum(x, dim) / (double)dim) : 0.0F;
        const double variance = (double)sum_squares(x, dim, mean) / (double)dim;
        const float scale = (float)(1 / sqrt(variance + n->epsilon));
        if (rstd) rstd[r] = scale;
        for (int64_t i = 0; i < dim; i++)
            y[i] = (x[i] - mean) * scale * gain[i];
        for (int64_t i = 0; bias && i < dim; i++)
            y[i] += bias[i];
    }
}

/* With y = x s g and s = (mean x^2 + epsilon)^(-1/2):  dx = s (dy g - x s^2 mean(dy g x)). */
void gyre_rmsnorm_gradient(const gyre_norm_args *n, const float *x, const float *rstd, const float *dy, float *restrict dx,
                           float *restrict dgain) {
    const int64_t dim = n->weights->dim;
    const float *gain = n->weights->gain;
    for (int64_t r = 0; r < n->rows; r++, x += dim, dy += dim, dx += dim) {
        const float s = rstd[r];
        const float mean_s2 = dot3(dy, gain, x, dim) / (float)dim * s * s;
        for (int64_t i = 0; i < dim; i++) {
            dgain[i] += dy[i] * x[i] * s;
            dx[i] += s * (dy[i] * gain[i] - x[i] * mean_s2);
        }
    }
}
