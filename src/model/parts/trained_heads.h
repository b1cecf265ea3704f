/* trained_heads.h: parts of a layer that make queries and keys of attention from those of the projections: trained
 * frequencies or series of its rotation, polar coordinates, imaginary heads, matrices of heads.  Who runs a layer, to read
 * or to train, need not know which. */
#ifndef GYRE_MODEL_TRAINED_HEADS_H
#define GYRE_MODEL_TRAINED_HEADS_H
#include "gyre/gyre_model.h"
#include "gyre/gyre_trained.h"

struct gyre_head_part;

/* What the layers of a model with Fourier series share. */
typedef struct gyre_fourier_terms {
    int64_t terms, series, pairs; /* series: of the first pairs */
    gyre_fourier_rest rest;       /* of the other pairs */
    const double *frequencies;    /* [terms] */
} gyre_fourier_terms;

/* The numbers of a layer, one row for each key head and the query heads that share it. */
typedef struct gyre_trained_heads {
    const struct gyre_head_part *part; /* NULL = the layer has none */
    int64_t kv_heads, numbers;
    gyre_layout layout;                /* of pairs */
    const float *data;                 /* [kv_heads][numbers]; of series [2][kv_heads][terms][series], cosines and sines */
    const gyre_fourier_terms *fourier; /* NULL = no series */
    const float *prepared;             /* of the part's prepare; NULL = not made, or the part has none */
} gyre_trained_heads;

/* Queries and keys: in of the projections, out of attention.  Views [batch, token, heads, channels]. */
typedef struct gyre_head_views {
    gyre_view in[2], out[2];
} gyre_head_views;

typedef struct gyre_head_part {
    int64_t part; /* its gyre_layer_part */
    int tensor;   /* GYRE_WEIGHT_ of its numbers, the first of several; -1 = it trains none */
    int resizes;  /* 1: out has other heads or channels than in, so it has its own memory; 0: out may be in */
    int reads_in; /* 1: the gradient needs in; 0: only out */
    /* What forward needs made of the numbers, which a decoder makes once: so many floats.  NULL = nothing. */
    int64_t (*prepared_floats)(const gyre_trained_heads *t);
    gyre_status (*prepare)(const gyre_trained_heads *t, float *out, gyre_error *err);
    /* out from in. */
    gyre_status (*forward)(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_exec *exec, gyre_error *err);
    /* d->in = the gradient to heads->in, given d->out, that to heads->out; gradient, laid out as t->data, += that to the
     * numbers.  d->in may be d->out where out may be in. */
    gyre_status (*gradient)(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, float *gradient, gyre_error *err);
} gyre_head_part;
/* out = the part among gyre_model_config.layer_parts that makes queries and keys, of which a model has at most one; NULL =
 * none does. */
const gyre_head_part *gyre_head_part_of(int64_t layer_parts);

extern const gyre_head_part gyre_head_part_imaginary, gyre_head_part_matrices;
enum { GYRE_MATRIX_CHANNELS = 256 }; /* the most channels of a head with a matrix */

#endif
