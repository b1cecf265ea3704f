/* gyre_trained.h: rotations of queries and keys by trained numbers or by angles that a network makes, and their gradients.
 * Part of libgyre.
 *
 *     frequencies, for one axis or several mixed          gyre_trained_rotate        RoPE-Mixed, arXiv 2403.13298
 *     a magnitude and a phase for each channel            gyre_polar_rotate          PoPE, arXiv 2509.10534
 *     a Fourier series for each pair                      gyre_fourier_rotate        FoPE, arXiv 2412.17739
 *     an angle for each token and pair                    gyre_angle_rotate          Selective RoPE, arXiv 2511.17388
 *
 * Pass the rotated queries and keys to gyre_attention, or a cache, without an encoding.  All sums are in double and
 * rounded once.  The conventions of gyre.h hold. */
#ifndef GYRE_TRAINED_H
#define GYRE_TRAINED_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- trained frequencies -- */

/* Pair i of head h of a token at position (m_0, m_1, ...) rotates by the angle
 *
 *     phases[h][i] + sum over axes a of m_a frequencies[a][h][i]
 *
 * RoPE-Mixed is two axes, x and y, with frequencies for each head.  Other channels pass through. */
typedef struct gyre_trained_rotation {
    size_t size;            /* set by GYRE_INIT */
    gyre_layout layout;     /* HALF or INTERLEAVED */
    int64_t first_channel;  /* the first of the 2 x pairs rotated channels; 0 = the first of a head */
    gyre_cview frequencies; /* F32 or F64 [1, axes, heads or 1, pairs]: radians per position of an axis; at most 4 axes.
                             * heads 1 = all heads share them */
    gyre_cview phases;      /* F32 or F64 [1, 1, heads or 1, pairs]: radians.  data NULL = none */
} gyre_trained_rotation;

/* Gradients are added to these, F32 or F64, shaped as the frequencies and phases.  data NULL = not wanted. */
typedef struct gyre_trained_gradients {
    size_t size; /* set by GYRE_INIT */
    gyre_view frequencies, phases;
} gyre_trained_gradients;

/* out = in, rotated (FORWARD) or rotated back (INVERSE and ADJOINT, which are the same); the gradient for `in` is the
 * ADJOINT of dout.  Views [batch, token, head, channel] of one type: F32, F16, BF16 or F64.  in == out with equal strides
 * is allowed, other overlap is not.  Positions: axis a at data[... + a * stride_axis]; with data NULL all axes are base +
 * t.  The error of an angle is at most 2^-52 times the sum of the magnitudes of its products.
 * Errors: EINVAL (also a frequency or phase that is not finite), ESHAPE, EDTYPE, ERANGE (past 2^31). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trained_rotate(const gyre_trained_rotation *rotation, const gyre_rotate_args *args,
                                                         const gyre_exec *exec, gyre_error *err);
/* Arguments of the gradients of these rotations. */
typedef struct gyre_rotate_gradient_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_positions *positions;
    gyre_cview in;   /* the input of FORWARD; gyre_trained_rotate_gradient: the result of FORWARD */
    gyre_cview dout; /* gradient of the loss for the result of FORWARD */
    gyre_view din;   /* gyre_polar_rotate_gradient: gradient for `in`, overwritten; data NULL = not wanted */
} gyre_rotate_gradient_args;
/* gradients->frequencies and ->phases += those of a loss, given `in`, which gyre_trained_rotate wrote FORWARD, and dout:
 * m_a (dout rotated back by a right angle) . in, summed over batch, tokens, and heads that share them, in that order.  in
 * and dout: views shaped alike, each F32, F16, BF16 or F64.  Queries and keys are two calls.  gradients may not overlap the
 * inputs.
 * Errors: as gyre_trained_rotate. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trained_rotate_gradient(const gyre_trained_rotation *rotation,
                                                                  const gyre_rotate_gradient_args *args,
                                                                  const gyre_trained_gradients *gradients,
                                                                  const gyre_exec *exec, gyre_error *err);

/* -- polar coordinates -- */

/* A channel becomes a complex number: its magnitude is content, its phase is position.  For channel i of head h at m,
 *
 *     pair i of out = softplus(in[i]) (cos a, sin a),     a = clamp(phases[h][i], -2 pi, 0) + sum over axes of m frequencies
 *
 * so that the score of a query at m and a key at n is sum over i of softplus(q[i]) softplus(k[i]) cos((n - m)
 * frequencies[i] + phases[i]).  PoPE has phases only for keys and frequencies base^(-i / channels): those of RoPE with
 * twice the channels, under any scaling (gyre_encoding_frequencies).  rotation: as above; as many pairs as `in` has
 * channels; first_channel 0.  in [batch, token, head, channels]; out [batch, token, head, 2 channels]: each F32, F16, BF16
 * or F64.  No overlap (EINVAL).  args->direction: FORWARD (else EUNSUPPORTED).
 * softplus(x) is ln(1 + e^x).  (PyTorch's is x above 20, which is 2e-9 less.)  Attention over out needs a scale of
 * 1 / sqrt(channels), because its default counts 2 channels.
 * Errors: EINVAL, ESHAPE, EDTYPE, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_polar_rotate(const gyre_trained_rotation *rotation, const gyre_rotate_args *args,
                                                       const gyre_exec *exec, gyre_error *err);
/* din = gradient for `in`, given dout, shaped as out; gradients += those for frequencies and phases (NULL = not wanted); a
 * phase outside its bounds gets none.  Each view F32, F16, BF16 or F64.  No overlap.  Errors: as gyre_polar_rotate. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_polar_rotate_gradient(const gyre_trained_rotation *rotation,
                                                                const gyre_rotate_gradient_args *args,
                                                                const gyre_trained_gradients *gradients,
                                                                const gyre_exec *exec, gyre_error *err);

/* -- Fourier series -- */

/* The pairs without a series, at every position. */
typedef enum gyre_fourier_rest {
    GYRE_FOURIER_REST_STILL,   /* they pass through, cos 1 and sin 0: frequency 0, as in the paper */
    GYRE_FOURIER_REST_RELEASED /* cos 1 and sin 1, (x, y) becomes (x - y, x + y): the released code pads both with 1 */
} gyre_fourier_rest;

/* Pair i of head h of a token at m is multiplied by the complex number C + i S, where
 *
 *     C = sum over terms t of cosines[h][t][i] cos(m frequencies[t]),      S = sum of sines[h][t][i] sin(m frequencies[t]),
 *
 * so (x, y) becomes (C x - S y, S x + C y).  RoPE is cosines = sines = the identity.  FoPE's frequencies are those of RoPE
 * that make a turn or more within the trained length (2 pi / L and above). */
typedef struct gyre_fourier_rotation {
    size_t size;           /* set by GYRE_INIT */
    gyre_layout layout;    /* HALF or INTERLEAVED */
    int64_t first_channel; /* the first of the 2 x pairs channels; others pass through.  0 = the first of a head */
    int64_t pairs;         /* those with a series, then the rest; 0 = those with a series */
    gyre_fourier_rest rest;
    gyre_cview frequencies; /* F32 or F64 [1, 1, 1, terms]: radians per position */
    gyre_cview cosines;     /* F32 or F64 [1, heads or 1, terms, pairs with a series].  heads 1 = all heads share them */
    gyre_cview sines;       /* F32 or F64, shaped as cosines.  May be the same memory */
} gyre_fourier_rotation;

/* Gradients are added to these, F32 or F64, shaped as the numbers of the series.  data NULL = not wanted. */
typedef struct gyre_fourier_gradients {
    size_t size; /* set by GYRE_INIT */
    gyre_view frequencies, cosines, sines;
} gyre_fourier_gradients;

/* out = in with every pair multiplied by its C + i S (FORWARD), divided by it (INVERSE), or multiplied by C - i S
 * (ADJOINT); the gradient for `in` is the ADJOINT of dout.  A C + i S near 0 makes INVERSE large, 0 makes it infinite or
 * NaN.  Views [batch, token, head, channel] of one type: F32, F16, BF16 or F64.  in == out with equal strides is allowed,
 * other overlap is not.  One axis.  Angles are exact for the given frequencies to the last bits of double, at positions up
 * to 2^31.  Errors: EINVAL (also a number that is not finite), ESHAPE, EDTYPE, ERANGE (past 2^31). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_fourier_rotate(const gyre_fourier_rotation *rotation, const gyre_rotate_args *args,
                                                         const gyre_exec *exec, gyre_error *err);
/* gradients += those of a loss, given `in` of gyre_fourier_rotate FORWARD and dout, the gradient for its out, shaped
 * alike; each F32, F16, BF16 or F64.  Summed over batch, tokens, and heads that share them, in that order.  Queries and
 * keys are two calls.  gradients may not overlap the inputs.  Errors: as gyre_fourier_rotate. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_fourier_rotate_gradient(const gyre_fourier_rotation *rotation,
                                                                  const gyre_rotate_gradient_args *args,
                                                                  const gyre_fourier_gradients *gradients,
                                                                  const gyre_exec *exec, gyre_error *err);

/* -- angles of the caller -- */

/* Pair i of head h of token t in batch row b rotates by angles[b][t][h][i].  Other channels pass through. */
typedef struct gyre_angle_rotation {
    size_t size;           /* set by GYRE_INIT */
    gyre_layout layout;    /* HALF or INTERLEAVED */
    int64_t first_channel; /* the first of the 2 x pairs rotated channels; 0 = the first of a head */
    gyre_cview angles;     /* F32 or F64 [batch, tokens, heads or 1, pairs]: radians.  heads 1 = all heads share them.
                            * Stride 0 broadcasts */
} gyre_angle_rotation;

/* out = in, rotated (FORWARD) or rotated back (INVERSE and ADJOINT, which are the same); the gradient for `in` is the
 * ADJOINT of dout.  Views [batch, token, head, channel] of one type: F32, F16, BF16 or F64.  in == out with equal strides
 * is allowed, other overlap is not, nor of out with angles (EINVAL).  args->positions is not read.
 * cos and sin are within 2^-52.5 of those of the given angle, of any size; pairs are rotated in double and rounded once.  A
 * pair whose angle is not finite becomes NaN.  Angles summed along a sequence (gyre_gate_sums) are F64: an F32 sum of 10^4
 * radians is off by up to 5e-4 radians.
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_angle_rotate(const gyre_angle_rotation *rotation, const gyre_rotate_args *args,
                                                       const gyre_exec *exec, gyre_error *err);
/* dangles += the gradient of a loss for angles, given args->in, which gyre_angle_rotate wrote FORWARD, and dout, shaped
 * alike, each F32, F16, BF16 or F64: for a pair (x, y) of `in`, dout_y x - dout_x y, of shared angles summed over heads in
 * their order, in double.  dangles: F32 or F64, shaped as the angles; it may not overlap the inputs (EINVAL).  Queries and
 * keys are two calls.  rotation->angles, args->positions and args->din are not read.
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_angle_rotate_gradient(const gyre_angle_rotation *rotation,
                                                                const gyre_rotate_gradient_args *args,
                                                                const gyre_view *dangles, const gyre_exec *exec,
                                                                gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_TRAINED_H */
