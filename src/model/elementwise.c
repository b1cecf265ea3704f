/* elementwise.c: norms and activations. */
#include "model/elementwise.h"

#include "model/layers.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, CHUNK = 256 };

/* -- norms -- */
/* A fixed tree over sixteen lanes: wide registers can hold it, and every machine adds in the same order. */
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

/* Sum of (x - shift)^2. */
static float sum_squares(const float *x, int64_t n, float shift) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += (x[i + l] - shift) * (x[i + l] - shift);
    for (int l = 0; i < n; i++, l++)
        lanes[l] += (x[i] - shift) * (x[i] - shift);
    return lane_sum(lanes);
}

void gyre_normalize_rows(const gyre_norm_args *n, const float *x, float *y, int64_t y_step) {
    const int64_t width = n->weights->dim;
    const float *gain = n->weights->gain, *bias = n->weights->bias;
    for (int64_t r = 0; r < n->rows; r++, x += n->row_stride, y += y_step) {
        const float mean = n->kind == GYRE_NORM_LAYER ? (float)((double)sum(x, width) / (double)width) : 0.0F;
        const double variance = (double)sum_squares(x, width, mean) / (double)width;
        const float scale = (float)(1 / sqrt(variance + n->epsilon));
        for (int64_t i = 0; i < width; i++)
            y[i] = (x[i] - mean) * scale * gain[i];
        for (int64_t i = 0; bias && i < width; i++)
            y[i] += bias[i];
    }
}

/* -- activations -- */
/* out[i] = 1 / (1 + exp(-x[i])), through exp(-|x|) so that nothing overflows. */
static void sigmoid(const gyre_kernels *kernels, const float *x, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = -fabsf(x[i]);
    (void)gyre_exp_row(kernels, out, n, 0);
    for (int64_t i = 0; i < n; i++)
        out[i] = (x[i] >= 0 ? 1 : out[i]) / (1 + out[i]);
}

static void silu(const gyre_kernels *kernels, const float *x, int64_t n, float *restrict out) {
    sigmoid(kernels, x, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] *= x[i];
}

/* 0.5 x (1 + tanh(u)) is x sigmoid(2 u). */
static void gelu_tanh(const gyre_kernels *kernels, const float *x, int64_t n, float *restrict out) {
    float u[CHUNK];
    if (n < 1) return;
    for (int64_t i = 0; i < n; i++)
        u[i] = 1.5957691216057308F * (x[i] + 0.044715F * x[i] * x[i] * x[i]);
    sigmoid(kernels, u, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] *= x[i];
}

static void gelu(const float *x, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = 0.5F * x[i] * (1 + erff(x[i] * 0.70710678118654752F));
}

static void relu(const float *x, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] < 0 ? 0 : x[i]; /* a NaN stays one */
}

static void activate(const gyre_kernels *kernels, gyre_activation activation, const float *x, int64_t n,
                     float *restrict out) {
    switch (activation) {
    case GYRE_ACTIVATION_SILU:
        silu(kernels, x, n, out);
        break;
    case GYRE_ACTIVATION_GELU_TANH:
        gelu_tanh(kernels, x, n, out);
        break;
    case GYRE_ACTIVATION_GELU:
        gelu(x, n, out);
        break;
    case GYRE_ACTIVATION_RELU:
        relu(x, n, out);
        break;
    }
}

void gyre_activate(const gyre_kernels *kernels, gyre_activation activation, int gated, int64_t rows, int64_t hidden,
                   const float *up, float *product) {
    for (int64_t r = 0; r < rows; r++, up += (gated ? 2 : 1) * hidden, product += hidden)
        for (int64_t from = 0; from < hidden; from += CHUNK) {
            const int64_t n = hidden - from < CHUNK ? hidden - from : CHUNK;
            activate(kernels, activation, up + from, n, product + from);
            for (int64_t i = 0; gated && i < n; i++)
                product[from + i] *= up[hidden + from + i];
        }
}

void gyre_softcap(const gyre_kernels *kernels, float *x, int64_t n, double cap) {
    const int64_t whole = n / LANES * LANES;
    float tail[LANES] = {0};
    if (whole) kernels->softcap_row_f32(x, NULL, whole, (float)cap);
    if (whole == n) return;
    memcpy(tail, x + whole, (size_t)(n - whole) * sizeof *x);
    kernels->softcap_row_f32(tail, NULL, LANES, (float)cap);
    memcpy(x + whole, tail, (size_t)(n - whole) * sizeof *x);
}
