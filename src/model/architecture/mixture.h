/* mixture.h: which layers of a decoder have experts, in place of the mlp or beside it, and how a token chooses and weighs
 * them. */
#ifndef GYRE_MODEL_MIXTURE_H
#define GYRE_MODEL_MIXTURE_H
#include "model/ops/routing.h"

enum { GYRE_MIXTURE_LAYERS = 1024 }; /* a decoder with experts has at most this many layers */

typedef struct gyre_mixture {
    gyre_routing routing; /* experts 0 = no layer has experts */
    int64_t expert_dim;   /* channels of the activation of an expert */
    int64_t shared_dim;   /* of the expert that reads every token; 0 = none */
    int shared_switch;    /* 1: a sigmoid of the token multiplies the output of that expert */
    int beside_mlp;       /* 1: beside the mlp, with norms and scales of their own; 0: in its place */
    int weighs_input;     /* 1: the weight of an expert multiplies its input; 0: its output */
    int in_out;           /* 1: tensors of all experts are [expert][in][out]; 0: [expert][out][in] */
    int with_suffix;      /* 1: names of those tensors end in .weight and .bias, as in a GGUF */
    int interleaved;      /* 1: their gates and ups alternate; 0: all gates come first */
    int packed;           /* 1: those tensors may be in blocks of MXFP4, and are then [expert][out][in] */
    int choice_bias;      /* 1: ROUTER_CHOICE is required */
    uint64_t layers[GYRE_MIXTURE_LAYERS / 64]; /* bit of a layer: it has experts */
} gyre_mixture;

/* out = 1 if the layer has experts. */
static inline int gyre_mixture_has(const gyre_mixture *m, int64_t layer) {
    return m->routing.experts > 0 && layer < GYRE_MIXTURE_LAYERS && (m->layers[layer / 64] >> (layer % 64) & 1);
}
static inline void gyre_mixture_set(gyre_mixture *m, int64_t layer) {
    if (layer >= 0 && layer < GYRE_MIXTURE_LAYERS) m->layers[layer / 64] |= (uint64_t)1 << (layer % 64);
}

#endif
