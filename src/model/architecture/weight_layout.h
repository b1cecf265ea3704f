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
    GYRE_NORM1,
    GYRE_Q,
    GYRE_K,
    GYRE_V,
    GYRE_O,
    GYRE_NORM2,
    GYRE_GATE,
    GYRE_UP,
    GYRE_DOWN,
    GYRE_POSITION_TABLES,
    GYRE_LAYER_TENSORS = GYRE_POSITION_TABLES + GYRE_TABLES - GYRE_TABLE_QUERY
};

typedef struct gyre_part {
    const char *name; /* within the layer, or whole; NULL = the model has none */
    int64_t shape[2], offset;
    int rank;  /* 1 or 2 */
    int table; /* the gyre_table whose entries these are, or -1 */
} gyre_part;

typedef struct gyre_weight_layout {
    gyre_part embedding, input, positions, norm; /* offsets from the beginning ... */
    gyre_part layer[GYRE_LAYER_TENSORS];         /* ... and from that of the layer */
    int64_t layers, first_layer, layer_weights, count, layer_parts;
    gyre_row_source source;
} gyre_weight_layout;

typedef struct gyre_tensor {
    char name[72]; /* as Hugging Face's llama names it: model.layers.0.self_attn.q_proj.weight */
    int64_t shape[2];
    int rank;       /* 1 or 2 */
    int64_t offset; /* into the weights */
    int table;      /* the gyre_table whose entries these are, or -1 */
    int decays;     /* by weight decay: matrices and vectors do; norms, and numbers added to scores or multiplying, do not */
} gyre_tensor;

/* Tables of shape [1, heads, rows, channels] are stored as [heads rows, channels], those of GYRE_ROWS_PROJECTED and
 * _SINUSOID as the matrix W [heads channels, width], P as [rows, width].  encoding: NULL = without any of these. */
gyre_weight_layout gyre_weight_layout_of(const gyre_model_config *config, const gyre_encoding *encoding);
/* GYRE_OK, or EINVAL for a model of more weights than can be counted: before gyre_weight_layout_of. */
gyre_status gyre_weight_layout_check(const gyre_model_config *config, const gyre_encoding *encoding, gyre_error *err);

int64_t gyre_tensor_count(const gyre_weight_layout *layout);
gyre_tensor gyre_tensor_at(const gyre_weight_layout *layout, int64_t index);
/* Offset into the weights of a tensor that the layer has. */
int64_t gyre_layer_offset(const gyre_weight_layout *layout, int64_t layer, int tensor);

/* 1: the rows of the vector tables are made of an embedding of positions. */
static inline int gyre_is_projected(gyre_row_source source) {
    return source == GYRE_ROWS_PROJECTED || source == GYRE_ROWS_SINUSOID;
}

#endif
