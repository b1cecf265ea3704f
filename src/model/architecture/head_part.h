/* head_part.h: parts of a layer that make queries and keys of attention from those of the projections.  An entry says all
 * that differs from part to part: its facts, its tensors, what it needs of the config, and what it computes.  Entries are
 * files of `../parts`, and core/config/head_parts.def lists them; a model has at most one of them. */
#ifndef GYRE_MODEL_HEAD_PART_H
#define GYRE_MODEL_HEAD_PART_H
#include "core/config/head_part_facts.h"
#include "gyre/gyre_research.h"

struct gyre_kernels;
struct gyre_head_part;

enum { GYRE_PART_TENSORS = 6, GYRE_PART_VARIANTS = 2 }; /* the most of a part */

/* -- its tensors -- */
typedef struct gyre_part_start {
    const gyre_model_config *config;
    const gyre_encoding *encoding;
    const double *inv_freq; /* of the encoding, radians per position: [rope.dim / 2] */
    int64_t shape[2];
    int64_t i;     /* number i of the tensor, row by row */
    double normal; /* a number drawn from normal(0, 1) for it */
} gyre_part_start;

typedef struct gyre_part_tensor {
    const char *name; /* "self_attn.frequencies": in files model.layers.N is before it, and .weight after it */
    double (*start)(const gyre_part_start *at); /* out = what a number begins as; NULL = 0 */
    int has_weight_decay;
    float minimum, maximum; /* of its numbers in training; equal = none */
} gyre_part_tensor;

/* -- what it computes -- */
/* A layer that has the part. */
typedef struct gyre_trained_heads {
    const struct gyre_head_part *part; /* NULL = the layer has none */
    int64_t layer_parts;               /* of gyre_model_config */
    int64_t model_dim, heads, kv_heads;
    int64_t pairs;                 /* that the encoding rotates */
    gyre_layout layout;            /* of pairs */
    const gyre_encoding *encoding; /* of the model, borrowed */
    const float *data;             /* its tensors, side by side */
    const float *prepared;         /* of the part's prepare; NULL = not made, or the part has none */
} gyre_trained_heads;

/* Queries and keys, in of the projections and out of attention, views [batch, token, heads, channels]; and beside them, in
 * parts that have it: */
typedef struct gyre_head_views {
    gyre_view in[2], out[2];
    gyre_view x;       /* [batch, token, 1, model_dim] what the projections read; gradients are added to it */
    gyre_view kept;    /* double [batch, token, 1, kept]; forward writes it */
    gyre_cview before; /* double [batch, 1, 1, kept] of the token before the first one; data NULL = that is all zeros */
} gyre_head_views;

typedef struct gyre_part_work {
    const struct gyre_kernels *kernels;
    const gyre_exec *exec;
    float *scratch; /* of the part's scratch, 64-byte aligned */
} gyre_part_work;

/* What a part needs of the encoding's rotation of queries and keys, which it always needs. */
typedef enum gyre_part_need {
    GYRE_PART_NEEDS_WHOLE = 1, /* of all channels */
    GYRE_PART_NEEDS_PLAIN = 2  /* of angles position x frequency alone (gyre_rotation_is_plain) */
} gyre_part_need;

typedef struct gyre_head_part {
    int64_t part;   /* its gyre_layer_part */
    int64_t option; /* a gyre_layer_part that changes what it computes, and needs it; 0 = none */
    const gyre_head_part_facts *facts;
    gyre_layer_part_variant variants[GYRE_PART_VARIANTS]; /* name NULL = no more */
    unsigned needs;                                       /* a set of gyre_part_need */
    /* What else it needs of the config: EINVAL.  NULL = nothing. */
    gyre_status (*check)(const gyre_model_config *config, const gyre_encoding *encoding, gyre_error *err);
    gyre_part_tensor tensors[GYRE_PART_TENSORS]; /* name NULL = no more */
    /* out = rows and columns of each tensor. */
    void (*shapes)(const gyre_model_config *config, const gyre_encoding *encoding, int64_t (*out)[2]);
    /* out = the first layer that has it; those before it are layers without a part.  Only for parts that work in place,
     * because layers share the buffers of queries and keys.  NULL = layer 0. */
    int64_t (*first_layer)(int64_t layers);
    int64_t heads_of_query; /* query heads of attention that one of the projections makes; 0 = 1 */
    int reads_in;           /* 1: the gradient needs in; 0: only out */
    int reads_x;            /* 1: it reads x */
    int reads_no_positions; /* 1: a layer that has it reads none */
    /* out = doubles that a token keeps in a layer, such as a running sum: the next token gets them in `before`.  NULL = 0. */
    int64_t (*kept)(const gyre_trained_heads *t);
    /* out = floats of work->scratch for up to `rows` tokens and an exec of this concurrency.  NULL = 0. */
    int64_t (*scratch)(const gyre_trained_heads *t, int64_t rows, int concurrency);
    /* What forward needs made of the numbers, which a decoder makes once: so many floats.  NULL = nothing. */
    int64_t (*prepared_floats)(const gyre_trained_heads *t);
    gyre_status (*prepare)(const gyre_trained_heads *t, float *out, gyre_error *err);
    /* out from in.  out may be in, unless sizes differ. */
    gyre_status (*forward)(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err);
    /* d->in = the gradient to heads->in, given d->out, that to heads->out; gradient, laid out as t->data, += that to the
     * numbers; d->x += that to heads->x.  d->in may be d->out where out may be in. */
    gyre_status (*gradient)(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *gradient, gyre_error *err);
} gyre_head_part;

/* -- the list -- */
/* out = entry i; NULL = there are no more. */
const gyre_head_part *gyre_head_part_at(int i);
/* out = the part among gyre_model_config.layer_parts; NULL = there is none. */
const gyre_head_part *gyre_head_part_of(int64_t layer_parts);
/* out = the part that has a tensor of this name in files; NULL = none has. */
const gyre_head_part *gyre_head_part_of_tensor(const char *name);
/* EINVAL: the encoding or the config is not one that the part can have, or there are two of them. */
gyre_status gyre_head_part_check(const gyre_model_config *config, const gyre_encoding *encoding, gyre_error *err);
/* out = the set of all parts and options of the list. */
int64_t gyre_head_parts_all(void);

/* out = the first layer that has the part, if layer_parts has one. */
static inline int64_t gyre_part_first_layer(int64_t layer_parts, int64_t layers) {
    const gyre_head_part *part = gyre_head_part_of(layer_parts);
    return part && part->first_layer ? part->first_layer(layers) : 0;
}
/* 1: out has other heads or channels than in. */
static inline int gyre_head_part_resizes(const gyre_head_part *part) {
    return part && (part->heads_of_query > 1 || part->facts->channel_factor > 1);
}
/* 1: layers that have the part rotate queries and keys before attention. */
static inline int gyre_parts_rotate(int64_t layer_parts) {
    const gyre_head_part *part = gyre_head_part_of(layer_parts);
    return part && part->facts->replaces_rotation;
}
/* out = query heads that the maps of a layer make. */
static inline int64_t gyre_projected_heads(int64_t layer_parts, int64_t heads) {
    const gyre_head_part *part = gyre_head_part_of(layer_parts);
    return part && part->heads_of_query ? heads / part->heads_of_query : heads;
}
/* out = channels of attention for each of the projections, of whose channels attention's scale is. */
static inline int64_t gyre_channel_factor(int64_t layer_parts) {
    const gyre_head_part *part = gyre_head_part_of(layer_parts);
    return part ? part->facts->channel_factor : 1;
}
/* out = the scale of attention; 0 = that of its channels. */
double gyre_parts_scale(int64_t layer_parts, int64_t head_dim);
static inline int64_t gyre_part_kept(const gyre_trained_heads *t) {
    return t->part && t->part->kept ? t->part->kept(t) : 0;
}
static inline int64_t gyre_part_scratch(const gyre_trained_heads *t, int64_t rows, int concurrency) {
    return t->part && t->part->scratch ? t->part->scratch(t, rows, concurrency) : 0;
}

/* out = 1 for one axis of angles position x frequency and nothing else, as needed by layers that train in the place of the
 * encoding's rotation: whatever else it does to an angle or a score would be left out. */
int gyre_rotation_is_plain(const gyre_encoding *encoding);

#endif
