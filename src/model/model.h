/* model.h: what is inside a gyre_model, and where each tensor lies in its one block of weights. */
#ifndef GYRE_MODEL_MODEL_H
#define GYRE_MODEL_MODEL_H
#include "core/encoding.h"
#include "gyre/gyre_model.h"
#include "model/folder.h"

struct gyre_model {
    gyre_model_config config;
    gyre_encoding *encoding;
    float *weights; /* every tensor, dense, in the order of gyre_tensor_at; 64-byte aligned */
    int64_t count;
};

typedef struct gyre_tensor {
    char name[72]; /* as Hugging Face's llama names it: model.layers.0.self_attn.q_proj.weight */
    int64_t shape[2];
    int rank;       /* 1 or 2 */
    int64_t offset; /* into the weights */
} gyre_tensor;

/* Tensors of one layer, in the order they lie: q, k, v are one matrix to the model, and so are gate and up. */
enum { GYRE_NORM1, GYRE_Q, GYRE_K, GYRE_V, GYRE_O, GYRE_NORM2, GYRE_GATE, GYRE_UP, GYRE_DOWN, GYRE_LAYER_TENSORS };

/* The embedding [vocab, width], the learned table [positions, width] if any, the layers, the last norm.  The config is that
 * of a model: its position.input.positions is 0 unless the encoding has an input table. */
int64_t gyre_tensor_count(const gyre_model_config *config);
gyre_tensor gyre_tensor_at(const gyre_model_config *config, int64_t index);
/* Offsets into the weights of the parts that the forward and backward passes walk. */
int64_t gyre_layer_offset(const gyre_model_config *config, int64_t layer, int tensor);
int64_t gyre_final_norm_offset(const gyre_model_config *config);
/* -1 where the encoding has no input table. */
int64_t gyre_input_table_offset(const gyre_model_config *config);
int64_t gyre_weight_count(const gyre_model_config *config);

/* 1 for the kinds that the decoder has weights for, and its config.json a spelling of every field: those without tables
 * inside attention. */
int gyre_model_holds(gyre_kind kind);

/* Writes config.json and model.safetensors (dtype F32, F16 or BF16) into a folder that the caller commits. */
gyre_status gyre_model_save_into(const gyre_model *model, const gyre_folder *folder, gyre_dtype dtype, gyre_error *err);

/* Checks the sizes, completes config->position and creates the encoding.  Weights stay unset (allocated). */
gyre_status gyre_model_allocate(gyre_model **out, const gyre_model_config *config, gyre_error *err);

#endif
