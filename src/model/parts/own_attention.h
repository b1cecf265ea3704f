/* own_attention.h: layers whose scores are no sum of terms of an encoding, so that a call of their own computes them:
 * queries count positions (gyre_contextual.h), or a network adapts biases (gyre_adaptive.h).  Who runs a layer, to read or
 * to train, need not know which. */
#ifndef GYRE_MODEL_OWN_ATTENTION_H
#define GYRE_MODEL_OWN_ATTENTION_H
#include "gyre/gyre_cache.h"
#include "model/architecture/weight_layout.h"

/* What a layer trains for it. */
typedef struct gyre_own_attention {
    int64_t parts; /* gyre_model_config.layer_parts */
    int64_t rows;  /* CONTEXTUAL: embeddings.  ADAPTIVE: hidden units */
    /* CONTEXTUAL: [rows][channels of q], which all heads share.  ADAPTIVE, side by side: hidden weights [rows][inputs],
     * hidden biases [rows], output weights [heads][rows] */
    const float *data;
} gyre_own_attention;

typedef struct gyre_own_call {
    gyre_own_attention layer;
    gyre_cview q;                  /* [batch, token, head, channel] */
    gyre_cview k, v;               /* the same, with keys at k_pos */
    const gyre_cache *cache;       /* in place of k and v: those of its sequence 0, where they are */
    const gyre_encoding *encoding; /* of the model, or in its place.  CONTEXTUAL: not read */
    const gyre_tables *tables;     /* of the layer; NULL where it has none */
    gyre_positions q_pos, k_pos;   /* with a cache k_pos is not read */
    gyre_view out, lse;            /* lse.data NULL = not wanted */
} gyre_own_call;

typedef struct gyre_own_gradients {
    gyre_view dq, dk, dv; /* overwritten */
    gyre_view dtable;     /* added to; data NULL = the encoding has no table of biases */
    float *data;          /* laid out as that of the layer: added to */
} gyre_own_gradients;

/* out = NULL where layers can have these parts with this encoding, and otherwise what they need: "contextual needs ...".
 * parts: gyre_model_config.layer_parts. */
const char *gyre_own_attention_needs(int64_t parts, const gyre_encoding *encoding);
/* out = what sets such layers apart, the beginning of an error: "the queries of the model count positions". */
const char *gyre_own_attention_says(int64_t parts);

/* out = the encoding of a cache of such layers: one that puts biases on scores, or NULL. */
const gyre_encoding *gyre_own_attention_encoding(const gyre_encoding *encoding);

/* out = bytes of scratch of gyre_own_attention_run (gradient 0) or gyre_own_attention_gradient (gradient 1); 0 = invalid
 * shapes.  Memory is not looked at.  With a cache: for as many tokens as it takes. */
size_t gyre_own_attention_scratch(const gyre_own_call *call, int gradient, const gyre_exec *exec);
/* out = attention, causal.  The gradient takes no cache.
 * Errors: those of gyre_contextual_attention or gyre_adaptive_attention, or of these over a cache. */
gyre_status gyre_own_attention_run(const gyre_own_call *call, void *scratch, size_t bytes, const gyre_exec *exec,
                                   gyre_error *err);
/* Gradients, given the gradient to out, and the out and lse that gyre_own_attention_run wrote.
 * Errors: those of gyre_contextual_gradient or gyre_adaptive_gradient. */
gyre_status gyre_own_attention_gradient(const gyre_own_call *call, const gyre_cview *dout, const gyre_own_gradients *to,
                                        void *scratch, size_t bytes, gyre_error *err);

#endif
