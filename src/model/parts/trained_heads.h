/* trained_heads.h: queries and keys of a layer with a trained rotation: frequencies or series of its rotation, phases of
 * polar coordinates. */
#ifndef GYRE_MODEL_TRAINED_HEADS_H
#define GYRE_MODEL_TRAINED_HEADS_H
#include "gyre/gyre_model.h"
#include "gyre/gyre_trained.h"

/* What the layers of a model with Fourier series share. */
typedef struct gyre_fourier_terms {
    int64_t terms, series, pairs; /* series: of the first pairs */
    gyre_fourier_rest rest;       /* of the other pairs */
    const double *frequencies;    /* [terms] */
} gyre_fourier_terms;

/* The numbers of a layer, one row for each key head and the query heads that share it. */
typedef struct gyre_trained_heads {
    int64_t kv_heads, numbers;
    gyre_layout layout;                /* of pairs */
    const float *data;                 /* [kv_heads][numbers]; of series [2][kv_heads][terms][series], cosines and sines */
    const gyre_fourier_terms *fourier; /* NULL = no series */
} gyre_trained_heads;

/* qk[0], qk[1] = queries and keys, rotated in place by trained frequencies, or rotated back (ADJOINT).  Views [batch,
 * token, heads, head_dim].  Errors: those of gyre_trained_rotate. */
gyre_status gyre_rotate_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                              const gyre_view qk[2], const gyre_exec *exec, gyre_error *err);
/* gradient[kv_heads][numbers] += that of the frequencies, given what gyre_rotate_heads wrote and the gradient to it.
 * Errors: those of gyre_trained_rotate_gradient. */
gyre_status gyre_rotate_heads_gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_view qk[2],
                                       const gyre_view dqk[2], float *gradient, gyre_error *err);

/* out[0], out[1] = queries and keys as complex numbers: magnitudes softplus(x), angles 0 and the phases of keys.  Positions
 * are not in them: the model's encoding rotates out.  in [batch, token, heads, dim], out [batch, token, heads, 2 dim].
 * Errors: those of gyre_polar_rotate. */
gyre_status gyre_polar_heads(const gyre_trained_heads *t, const gyre_view in[2], const gyre_view out[2],
                             const gyre_exec *exec, gyre_error *err);
/* din = gradient to `in`, given dout; gradient[kv_heads][numbers] += that to the phases.
 * Errors: those of gyre_polar_rotate_gradient. */
gyre_status gyre_polar_heads_gradient(const gyre_trained_heads *t, const gyre_view in[2], const gyre_view dout[2],
                                      const gyre_view din[2], float *gradient, gyre_error *err);

/* out[0], out[1] = queries and keys, their pairs multiplied by their series (FORWARD), or the gradient to `in` from that to
 * out (ADJOINT).  out may be in.  Views [batch, token, heads, head_dim].  Errors: those of gyre_fourier_rotate. */
gyre_status gyre_fourier_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                               const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err);
/* gradient, laid out as t->data, += that of the coefficients, given `in` and the gradient to out.
 * Errors: those of gyre_fourier_rotate_gradient. */
gyre_status gyre_fourier_heads_gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_view in[2],
                                        const gyre_view dout[2], float *gradient, gyre_error *err);

#endif
