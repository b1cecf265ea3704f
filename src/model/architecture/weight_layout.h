/* weight_layout.h: the place of each tensor of Gyre's own models in the block of weights, and its name in files.
 *
 *     embedding | input table? | relative embedding? | layer 0 | layer 1 | ... | final norm
 *     layer: attn_norm | q k v | o | mlp_norm | gate up | down | layer parts? | position tables?
 *
 * The input table and the position tables are those that the encoding has.  The relative embedding is the one that
 * position tables are projected from, if it is trained.  Position tables come last in a layer, so they never move the
 * other tensors. */
#ifndef GYRE_MODEL_WEIGHT_LAYOUT_H
#define GYRE_MODEL_WEIGHT_LAYOUT_H
#include "core/encoding.h"
#include "model/architecture/head_part.h"

/* Tensors of a layer, in order.  q, k and v are adjacent and used as one matrix, and so are gate and up.  The last ones
 * are the tables from GYRE_TABLE_QUERY on. */
enum {
    GYRE_WEIGHT_ATTN_NORM,
    GYRE_WEIGHT_Q,
    GYRE_WEIGHT_K,
    GYRE_WEIGHT_V,
    GYRE_WEIGHT_O,
    GYRE_WEIGHT_MLP_NORM,
    GYRE_WEIGHT_GATE,
    GYRE_WEIGHT_UP,
    GYRE_WEIGHT_DOWN,
    GYRE_WEIGHT_FORGET_GATE, /* from here on only in models that have it */
    GYRE_WEIGHT_FORGET_GATE_BIAS,
    GYRE_WEIGHT_PART, /* those of the part that makes queries and keys, in its order: used as one block */
    GYRE_WEIGHT_PART_LAST = GYRE_WEIGHT_PART + GYRE_PART_TENSORS - 1,
    GYRE_WEIGHT_CONTEXTUAL,
    GYRE_WEIGHT_ADAPTIVE_HIDDEN, /* these three are adjacent and used as one block */
    GYRE_WEIGHT_ADAPTIVE_HIDDEN_BIAS,
    GYRE_WEIGHT_ADAPTIVE_OUTPUT,
    GYRE_WEIGHT_FIRST_TABLE,
    GYRE_WEIGHTS_PER_LAYER = GYRE_WEIGHT_FIRST_TABLE + GYRE_TABLE_COUNT - GYRE_TABLE_QUERY
};

typedef enum gyre_tensor_purpose {
    GYRE_TENSOR_PLAIN,       /* a matrix, a table, or the gain of a norm */
    GYRE_TENSOR_BIAS,        /* 0 at first; its name ends in .bias */
    GYRE_TENSOR_PART,        /* of a part that makes queries and keys, which says how it begins */
    GYRE_TENSOR_EMBEDDINGS,  /* 0 at first */
    GYRE_TENSOR_NETWORK,     /* weights of a network within a layer */
    GYRE_TENSOR_NETWORK_BIAS /* its biases, which begin as its weights; its name ends in .bias */
} gyre_tensor_purpose;

enum {
    GYRE_LAYER_PARTS_ADAPTIVE = GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_CONCAT | GYRE_LAYER_PART_ADAPTIVE_ADD,
    /* Parts with another attention than gyre_attention (parts/own_attention.h), of which a model has at most one. */
    GYRE_LAYER_PARTS_OWN_ATTENTION = GYRE_LAYER_PART_CONTEXTUAL | GYRE_LAYER_PART_ADAPTIVE
};

typedef struct gyre_tensor_spec {
    const char *name; /* within the layer, or the full name; NULL = the model has no such tensor */
    int64_t shape[2], offset;
    int rank;  /* 1 or 2 */
    int table; /* the gyre_table that it stores, or -1 */
    gyre_tensor_purpose purpose;
    const gyre_part_tensor *part; /* of GYRE_TENSOR_PART; otherwise NULL */
} gyre_tensor_spec;

typedef struct gyre_weight_layout {
    gyre_tensor_spec embedding, input, relative_embedding, final_norm; /* offsets into the weights */
    gyre_tensor_spec layer[GYRE_WEIGHTS_PER_LAYER];                    /* offsets into the layer */
    int64_t layers, layers_offset, weight_count;
    int64_t weights_per_layer, tensors_per_layer; /* with those of the part that makes queries and keys, which: */
    int64_t part_weights, part_tensors;           /* layers before first_part_layer lack */
    int64_t first_part_layer;
    gyre_row_source row_source;
} gyre_weight_layout;

typedef struct gyre_tensor {
    char name[72]; /* as in Hugging Face's llama: model.layers.0.self_attn.q_proj.weight */
    int64_t shape[2];
    int rank;             /* 1 or 2 */
    int64_t offset;       /* into the weights */
    int table;            /* the gyre_table that it stores, or -1 */
    int has_weight_decay; /* 1: matrices and vectors; 0: norms, biases, numbers added to scores, factors */
    gyre_tensor_purpose purpose;
    const gyre_part_tensor *part; /* of GYRE_TENSOR_PART; otherwise NULL */
} gyre_tensor;

/* out = channels of queries that keys lack (GYRE_TRAIT_QUERY_VECTORS). */
static inline int64_t gyre_query_vectors_of(const gyre_model_config *c) {
    return gyre_kind_has(c->position.kind, GYRE_TRAIT_QUERY_VECTORS) ? c->position.score.relative_channels : 0;
}
/* out = channels of a query as the maps of a layer make it. */
static inline int64_t gyre_query_dim(const gyre_model_config *c) {
    return c->head_dim + gyre_query_vectors_of(c);
}
/* out = channels of queries in attention: the head_dim of the encoding. */
static inline int64_t gyre_rotated_head_dim(const gyre_model_config *c) {
    const int64_t factor = gyre_channel_factor(c->layer_parts);
    return factor > 1 ? factor * c->head_dim : gyre_query_dim(c);
}

/* out = inputs of the network of ADAPTIVE. */
static inline int64_t gyre_adaptive_inputs_of(int64_t layer_parts, int64_t heads) {
    return layer_parts & GYRE_LAYER_PART_ADAPTIVE_ADD ? heads : 2 * heads;
}

/* out = the layout.  A table [1, heads, rows, channels] is stored as [heads rows, channels].  With
 * GYRE_ROW_SOURCE_PROJECTED and _SINUSOID it is the matrix W [heads channels, model_dim], and the relative embedding P
 * is [rows, model_dim].
 * encoding: NULL = no position tables. */
gyre_weight_layout gyre_weight_layout_of(const gyre_model_config *config, const gyre_encoding *encoding);
/* EINVAL if a size or the number of weights is too large.  Call it before gyre_weight_layout_of. */
gyre_status gyre_weight_layout_check(const gyre_model_config *config, const gyre_encoding *encoding, gyre_error *err);

int64_t gyre_tensor_count(const gyre_weight_layout *layout);
/* out = 1 for the tensors of parts that make queries and keys.  A frequency of 8 bits is radians off after some hundred
 * positions, so they are stored in F32 whatever the others are. */
int gyre_tensor_stays_float(const char *name);
gyre_tensor gyre_tensor_at(const gyre_weight_layout *layout, int64_t index);
/* out = offset into the weights of a tensor (GYRE_WEIGHT_...) that the layer has. */
int64_t gyre_layer_tensor_offset(const gyre_weight_layout *layout, int64_t layer, int tensor);
/* out = the layer whose tensors lie at an offset into the weights; -1 = none. */
int64_t gyre_layer_at_offset(const gyre_weight_layout *layout, int64_t offset);

/* 1: the query, key and value tables are projected from an embedding of positions. */
static inline int gyre_is_projected(gyre_row_source source) {
    return source == GYRE_ROW_SOURCE_PROJECTED || source == GYRE_ROW_SOURCE_SINUSOID;
}

#endif
