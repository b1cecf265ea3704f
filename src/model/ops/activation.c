#include "model/ops/activation.h"

#include "model/ops/logits.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16, /* softcap_row_f32 takes multiples of it */
    CHUNK = 256 /* channels at a time, so that intermediate values stay on the stack */
};

/* out[i] = 1 / (1 + exp(-x[i])).  Uses exp(-|x|), which cannot overflow. */
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

/* 0.5 x (1 + tanh(u)) equals x sigmoid(2 u). */
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

/* The gate of CLAMPED_SWIGLU. */
static void clamped_silu(const gyre_kernels *kernels, const float *x, int64_t n, float *restrict out) {
    float u[CHUNK];
    if (n < 1) return;
    for (int64_t i = 0; i < n; i++)
        u[i] = 1.702F * (x[i] > 7 ? 7 : x[i]);
    sigmoid(kernels, u, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] *= x[i] > 7 ? 7 : x[i];
}

/* out *= up. */
static void multiply_up(gyre_activation activation, const float *up, int64_t n, float *restrict out) {
    if (activation != GYRE_ACTIVATION_CLAMPED_SWIGLU) {
        for (int64_t i = 0; i < n; i++)
            out[i] *= up[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] *= (up[i] > 7 ? 7 : up[i] < -7 ? -7 : up[i]) + 1;
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
    case GYRE_ACTIVATION_CLAMPED_SWIGLU:
        clamped_silu(kernels, x, n, out);
        break;
    }
}

void gyre_activate(const gyre_kernels *kernels, gyre_activation activation, int gated, int64_t rows, int64_t mlp_dim,
                   const float *gate_up, float *out) {
    for (int64_t r = 0; r < rows; r++, gate_up += (gated ? 2 : 1) * mlp_dim, out += mlp_dim)
        for (int64_t from = 0; from < mlp_dim; from += CHUNK) {
            const int64_t n = mlp_dim - from < CHUNK ? mlp_dim - from : CHUNK;
            activate(kernels, activation, gate_up + from, n, out + from);
            if (gated) multiply_up(activation, gate_up + mlp_dim + from, n, out + from);
        }
}

void gyre_swiglu_gradient(const gyre_kernels *kernels, int64_t rows, int64_t mlp_dim, float *gate_up, const float *dout) {
    float s[CHUNK];
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * mlp_dim, dout += mlp_dim)
        for (int64_t from = 0; from < mlp_dim; from += CHUNK) {
            const int64_t n = mlp_dim - from < CHUNK ? mlp_dim - from : CHUNK;
            float *restrict gate = gate_up + from, *restrict up = gate + mlp_dim;
            const float *d = dout + from;
            sigmoid(kernels, gate, n, s);
            for (int64_t i = 0; i < n; i++) {
                const float silu = gate[i] * s[i];
                gate[i] = d[i] * up[i] * s[i] * (1 + gate[i] - silu);
                up[i] = d[i] * silu;
            }
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
