/* weight_layout.h: where each tensor of a decoder lies in its one block of weights, and how its files name it.
 *
 * The tensors: the embedding; the input table, if the encoding has one; the embedding of positions that tables are projected
 * from, if it is trained; the layers; the last norm.  A layer ends with its position tables, so what the encoding asks for
 * never moves the others. */
#ifndef GYRE_MODEL_WEIGHT_LAYOUT_H
#define GYRE_MODEL_WEIGHT_LAYOUT_H
#include "core/encoding.h"
#include "gyre/gyre_model.h"

/* Tensors of one layer, in the order they lie: q, k, v are one matrix to the model, and so are gate and up.  The last ones
 * stand for the tables from GYRE_TABLE_QUERY on; a model has those that its encoding has. */
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
    GYRE_WEIGHT_FIRST_TABLE,
    GYRE_WEIGHTS_PER_LAYER = GYRE_WEIGHT_FIRST_TABLE + GYRE_TABLE_COUNT - GYRE_TABLE_QUERY
};

typedef struct gyre_tensor_spec {
    const char *name; /* within the layer, or whole; NULL = the model has none */
    int64_t shape[2], offset;
    int rank;  /* 1 or 2 */
    int table; /* the gyre_table whose entries these are, or -1 */
} gyre_tensor_spec;

typedef struct gyre_weight_layout {
    gyre_tensor_spec embedding, input, relative_embedding, final_norm; /* offsets from the beginning ... */
    gyre_tensor_spec layer[GYRE_WEIGHTS_PER_LAYER];                    /* ... and from that of the layer */
    int64_t layers, layers_offset, weights_per_layer, weight_count, tensors_per_layer;
    gyre_row_source row_source;
} gyre_weight_layout;

typedef struct gyre_tensor {
    char name[72]; /* as Hugging Face's llama names it: model.layers.0.self_attn.q_proj.weight */
    int64_t shape[2];
    int rank;             /* 1 or 2 */
    int64_t offset;       /* into the weights */
    int table;            /* the gyre_table whose entries these are, or -1 */
    int has_weight_decay; /* by weight decay: matrices and vectors do; norms, and numbers added to scores or multiplying, do
                             not */
} gyre_tensor;

/* Tables of shape [1, heads, rows, channels] are stored as [heads rows, channels], those of GYRE_ROW_SOURCE_PROJECTED and
 * _SINUSOID as the matrix W [heads channels, width], P as [rows, width].  encoding: NULL = without any of these. */
gyre_weight_layout gyre_weight_layout_of(const gyre_model_config *config, const gyre_encoding *encoding);
/* GYRE_OK, or EINVAL for a model of more weights than can be counted: before gyre_weight_layout_of. */
gyre_status gyre_weight_layout_check(const gyre_model_config *config, const gyre_encoding *encoding, gyre_error *err);

int64_t gyre_tensor_count(const gyre_weight_layout *layout);
gyre_tensor gyre_tensor_at(const gyre_weight_layout *layout, int64_t index);
/* Offset into the weights of a tensor that the layer has. */
int64_t gyre_layer_tensor_offset(const gyre_weight_layout *layout, int64_t layer, int tensor);

/* 1: the rows of the vector tables are made of an embedding of positions. */
static inline int gyre_is_projected(gyre_row_source source) {
    return source == GYRE_ROW_SOURCE_PROJECTED || source == GYRE_ROW_SOURCE_SINUSOID;
}

#endif
