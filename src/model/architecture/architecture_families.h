/* architecture_families.h: one row per family of models: what its class computes by default, and its tensor names. */
#ifndef GYRE_MODEL_ARCHITECTURE_FAMILIES_H
#define GYRE_MODEL_ARCHITECTURE_FAMILIES_H
#include "gyre/gyre_fields.h"
#include "model/architecture/architecture.h"

/* What is special about a family or its config. */
enum {
    GYRE_TRAIT_BIAS_FLAGS = 1,                /* attention_bias and mlp_bias say whether there are biases */
    GYRE_TRAIT_SOFTCAPS = 2,                  /* attn_logit_softcapping, final_logit_softcapping */
    GYRE_TRAIT_SCALED_EMBEDDING = 4,          /* embeddings are multiplied by sqrt(model_dim) */
    GYRE_TRAIT_GRANITE_SCALES = 8,            /* embedding_multiplier, residual_multiplier, logits_scaling */
    GYRE_TRAIT_PARALLEL_FLAG = 16,            /* use_parallel_residual */
    GYRE_TRAIT_MPT_KEYS = 32,                 /* attn_config, expansion_ratio */
    GYRE_TRAIT_LOGIT_SCALE = 64,              /* logit_scale: cohere */
    GYRE_TRAIT_QK_NORM = 128,                 /* queries and keys are normalized */
    GYRE_TRAIT_PARALLEL_MLP_NORM = 256,       /* the mlp has its own norm with a parallel residual too */
    GYRE_TRAIT_INPUT_BIAS_FLAG = 512,         /* attention_bias is of queries, keys and values alone */
    GYRE_TRAIT_OUT_BIAS_FLAG = 1024,          /* attention_out_bias */
    GYRE_TRAIT_MLP_BIAS_FLAG = 2048,          /* mlp_bias */
    GYRE_TRAIT_USE_BIAS_FLAG = 4096,          /* use_bias: all biases of attention and mlp; off if missing */
    GYRE_TRAIT_SINKS = 8192,                  /* a logit without a key for each head */
    GYRE_TRAIT_LATENTS = 32768,               /* multi-head latent attention */
    GYRE_TRAIT_QK_NORM_ALL = 65536,           /* queries and keys are normalized, all heads at once */
    GYRE_TRAIT_QK_NORM_FLAG = 131072,         /* use_qk_norm: cohere's by head with gains for each, llama4's without gains */
    GYRE_TRAIT_QKV_BIAS_KEY = 524288,         /* qkv_bias */
    GYRE_TRAIT_USE_QKV_BIAS_KEY = 1048576,    /* use_qkv_bias */
    GYRE_TRAIT_ATTENTION_BIAS_FLAG = 2097152, /* attention_bias alone */
    GYRE_TRAIT_GEMMA4_KEYS = 4194304,         /* how layers differ: gemma4 */
    GYRE_TRAIT_FALCON_KEYS = 262144           /* new_decoder_architecture, multi_query, parallel_attn, bias */
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
    uint64_t required_biases; /* GYRE_TENSOR_BIT of the roles that always have a bias */
    int gated, parallel_residual, post_norms, transposed, tied;
    gyre_qkv_layout qkv_layout;
} gyre_family_row;

#define GYRE_TENSOR_BIT(role) ((uint64_t)1 << GYRE_TENSOR_##role)
/* Every linear map and norm of the layers, and the final norm. */
#define GYRE_ALL_BIASES                                                                                                     \
    (GYRE_TENSOR_BIT(QKV) | GYRE_TENSOR_BIT(Q) | GYRE_TENSOR_BIT(K) | GYRE_TENSOR_BIT(V) | GYRE_TENSOR_BIT(O) |             \
     GYRE_TENSOR_BIT(FINAL_NORM) | GYRE_TENSOR_BIT(ATTN_NORM) | GYRE_TENSOR_BIT(MLP_NORM) | GYRE_TENSOR_BIT(UP) |           \
     GYRE_TENSOR_BIT(DOWN))

/* out = the row of a model_type, or NULL. */
const gyre_family_row *gyre_family_row_of(const char *model_type);
/* out = the row of a general.architecture, or NULL. */
const gyre_family_row *gyre_family_row_of_gguf(const char *architecture);
/* A model that holds a language model beside encoders of images or sound. */
typedef struct gyre_wrapper_row {
    const char *type; /* model_type */
    const char *text; /* model_type of its text_config, if that leaves it out */
    const char *row;  /* of the families, for such a text; NULL = that of the text's model_type */
    int tied;         /* default of its tie_word_embeddings */
    int flat;         /* 1: older files have no text_config: the keys of the text are those of the whole */
} gyre_wrapper_row;
/* out = the wrapper of a model_type, or NULL. */
const gyre_wrapper_row *gyre_wrapper_row_of(const char *model_type);
/* What may stand for "model." in the names of a wrapped language model.  Ends with NULL. */
extern const char *const gyre_wrapped_prefixes[];
/* *a = the architecture of the row, without sizes. */
void gyre_architecture_from_row(gyre_architecture *a, const gyre_family_row *row);
/* What is wrong with a family that has no row. */
#define GYRE_FAMILY_NOT_RUN "is not run: docs/models.md lists the families that are"

/* The names of a falcon whose attention and mlp have a norm each. */
extern const char *const gyre_falcon_two_norms[GYRE_TENSOR_ROLES];

#endif
