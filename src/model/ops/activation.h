/* activation.h: activations of the mlp, and the soft cap of logits. */
#ifndef GYRE_MODEL_ACTIVATION_H
#define GYRE_MODEL_ACTIVATION_H
#include "kernels/kernels.h"

#include <stdint.h>

typedef enum gyre_activation {
    GYRE_ACTIVATION_SILU,
    GYRE_ACTIVATION_GELU, /* exact, with erf */
    GYRE_ACTIVATION_GELU_TANH,
    GYRE_ACTIVATION_RELU,
    GYRE_ACTIVATION_CLAMPED_SWIGLU /* gated, gpt_oss: (up + 1) gate sigmoid(1.702 gate), gate at most 7, up within -7 .. 7 */
} gyre_activation;

/* out[rows][mlp_dim] = act(gate) * up.  gated: a row of gate_up is [gate | up], each of mlp_dim; otherwise it is the
 * mlp_dim inputs of the activation, and out = act(gate_up).  The error of an activation is below 3e-7 of the larger of
 * its value and its argument. */
void gyre_activate(const gyre_kernels *kernels, gyre_activation activation, int gated, int64_t rows, int64_t mlp_dim,
                   const float *gate_up, float *out);
/* The gradient of the gated SiLU (SwiGLU).  Replaces gate_up by its gradient. */
void gyre_swiglu_gradient(const gyre_kernels *kernels, int64_t rows, int64_t mlp_dim, float *gate_up, const float *dout);

/* x[i] = cap tanh(x[i] / cap) for i < n.  n may be any number. */
void gyre_softcap(const gyre_kernels *kernels, float *x, int64_t n, double cap);

#endif
