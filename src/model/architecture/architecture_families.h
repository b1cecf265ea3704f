/* architecture_families.h: one row per family of models: what its class computes by default, and its tensor names. */
#ifndef GYRE_MODEL_ARCHITECTURE_FAMILIES_H
#define GYRE_MODEL_ARCHITECTURE_FAMILIES_H
#include "gyre/gyre_fields.h"
#include "model/architecture/architecture.h"

/* What is special about a family or its config. */
enum {
    GYRE_TRAIT_BIAS_FLAGS = 1,         /* attention_bias and mlp_bias say whether there are biases */
    GYRE_TRAIT_SOFTCAPS = 2,           /* attn_logit_softcapping, final_logit_softcapping */
    GYRE_TRAIT_SCALED_EMBEDDING = 4,   /* embeddings are multiplied by sqrt(model_dim) */
    GYRE_TRAIT_GRANITE_SCALES = 8,     /* embedding_multiplier, residual_multiplier, logits_scaling */
    GYRE_TRAIT_PARALLEL_FLAG = 16,     /* use_parallel_residual */
    GYRE_TRAIT_MPT_KEYS = 32,          /* attn_config, expansion_ratio */
    GYRE_TRAIT_LOGIT_SCALE = 64,       /* logit_scale: cohere */
    GYRE_TRAIT_QK_NORM = 128,          /* queries and keys are normalized */
    GYRE_TRAIT_PARALLEL_MLP_NORM = 256 /* the mlp has its own norm with a parallel residual too */
};

typedef struct gyre_family_row {
    const char *type; /* model_type, or general.architecture */
    const char *const *names;
    const char *prefix;
    gyre_norm_kind norm;
    gyre_activation activation;
    double gain_offset;
    double epsilon;
    unsigned traits;
    unsigned required_biases; /* GYRE_TENSOR_BIT of the roles that always have a bias */
    int gated, parallel_residual, post_norms, transposed, tied;
    gyre_qkv_layout qkv_layout;
} gyre_family_row;

#define GYRE_TENSOR_BIT(role) (1u << GYRE_TENSOR_##role)
/* Every linear map and norm of the layers, and the final norm. */
#define GYRE_ALL_BIASES                                                                                                     \
    (GYRE_TENSOR_BIT(QKV) | GYRE_TENSOR_BIT(Q) | GYRE_TENSOR_BIT(K) | GYRE_TENSOR_BIT(V) | GYRE_TENSOR_BIT(O) |             \
     GYRE_TENSOR_BIT(FINAL_NORM) | GYRE_TENSOR_BIT(ATTN_NORM) | GYRE_TENSOR_BIT(MLP_NORM) | GYRE_TENSOR_BIT(UP) |           \
     GYRE_TENSOR_BIT(DOWN))

/* out = the row of a model_type, or NULL. */
const gyre_family_row *gyre_family_row_of(const char *model_type);
/* out = the row of a general.architecture, or NULL. */
const gyre_family_row *gyre_family_row_of_gguf(const char *architecture);
/* *a = the architecture of the row, without sizes. */
void gyre_architecture_from_row(gyre_architecture *a, const gyre_family_row *row);
/* out = "llama, mistral, ...", for messages. */
const char *gyre_family_list(int of_gguf);

#endif
