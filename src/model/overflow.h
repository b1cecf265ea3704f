/* overflow.h: where numbers that are not finite begin in a pass of a decoder.
 *
 * Weights are finite when a model is opened, so such a number is a product or a sum that overflowed.  An ordinary pass
 * checks only its results.  If they are not finite, it is repeated with decoder.overflow set, and checks after each
 * step. */
#ifndef GYRE_MODEL_OVERFLOW_H
#define GYRE_MODEL_OVERFLOW_H
#include "model/decoder.h"

typedef enum gyre_decoder_step {
    GYRE_STEP_EMBEDDING,
    GYRE_STEP_POSITIONS, /* the embedding with positions added */
    GYRE_STEP_ATTN_NORM,
    GYRE_STEP_PROJECTIONS, /* of queries, keys and values */
    GYRE_STEP_HEAD_NORMS,  /* of queries and keys, and all else that is done to them before they are cached */
    GYRE_STEP_ATTENTION,
    GYRE_STEP_ATTN_RESIDUAL,
    GYRE_STEP_MLP_NORM,
    GYRE_STEP_GATE_UP,
    GYRE_STEP_ACTIVATION,
    GYRE_STEP_MLP_RESIDUAL,
    GYRE_STEP_EXPERTS_RESIDUAL,
    GYRE_STEP_LAYER_END, /* what a layer's own inputs and scale leave */
    GYRE_STEP_FINAL_NORM,
    GYRE_STEP_LOGITS
} gyre_decoder_step;

/* The first step at which the first token with such numbers has one.  This does not depend on how tokens are cut into
 * passes. */
typedef struct gyre_overflow {
    const char *what;      /* made of `role`; NULL = none seen yet */
    gyre_tensor_role role; /* GYRE_TENSOR_ROLES = not one tensor */
    int64_t layer, row;    /* layer -1: outside of the layers */
    int64_t first;         /* row of the pass that the next buffer begins with */
    int64_t refused;       /* 1 + the layer whose keys and values its cache refused; 0 = none */
} gyre_overflow;

/* A cache that refused the keys or values of a layer as too large, with its reason: *err = that, the layer and `tokens`, the
 * tokens before the pass.  Q8 has numbers that it cannot store though they are finite.  out = GYRE_EFORMAT. */
gyre_status gyre_overflow_refused(int64_t layer, int64_t tokens, gyre_error *err);
/* Looks at what a step left in the buffers; of LOGITS at `logits`, else NULL.  A step outside of the layers has layer -1. */
void gyre_overflow_look(gyre_decoder *d, int64_t layer, gyre_decoder_step step, int64_t rows, const float *logits);
/* out = 1 if what a pass over `rows` tokens left is finite: the residual stream, the queries, keys and values of the last
 * layer, and the `count` results. */
int gyre_decoder_is_finite(const gyre_decoder *d, int64_t rows, const float *results, int64_t count);
/* Writes what was found in a pass after `tokens` tokens.  out = GYRE_EFORMAT. */
gyre_status gyre_overflow_fail(const gyre_decoder *d, const gyre_overflow *found, int64_t tokens, gyre_error *err);

#endif
