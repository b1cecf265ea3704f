/* architecture.h: what a decoder computes and how its tensors are named, from its config.json or the keys of its GGUF.
 *
 * A family is a row of architecture_families.c: what its class computes by default, and how its files name things.
 * Positions are not described here.  gyre_reading reads them. */
#ifndef GYRE_MODEL_ARCHITECTURE_H
#define GYRE_MODEL_ARCHITECTURE_H
#include "files/tensors/tensor_store.h"
#include "gyre/gyre_model.h"
#include "model/ops/activation.h"
#include "model/ops/norm.h"
#include "reading/config_document.h"

/* Order of the rows of a fused matrix of queries, keys and values. */
typedef enum gyre_qkv_layout {
    GYRE_QKV_CONCAT,     /* all query heads, then key heads, then value heads: phi3, gpt2, mpt, every GGUF */
    GYRE_QKV_INTERLEAVED /* query, key and value of head 0, then of head 1, ...: gpt_neox, bloom */
} gyre_qkv_layout;

/* What a tensor is for.  The bias of a linear map or a norm has the role of its weight. */
typedef enum gyre_tensor_role {
    GYRE_TENSOR_EMBEDDING,
    GYRE_TENSOR_POSITION_EMBEDDING, /* a learned table added at the input */
    GYRE_TENSOR_EMBED_NORM,         /* of embedded tokens: bloom */
    GYRE_TENSOR_FINAL_NORM,
    GYRE_TENSOR_LM_HEAD, /* logits; absent = the embedding is used (tied) */
    GYRE_TENSOR_FIRST_OF_LAYER,
    GYRE_TENSOR_ATTN_NORM = GYRE_TENSOR_FIRST_OF_LAYER, /* before attention */
    GYRE_TENSOR_MLP_NORM,       /* before the mlp; absent with a parallel residual = the mlp reads ATTN_NORM */
    GYRE_TENSOR_POST_ATTN_NORM, /* of the attention block's output: gemma2 */
    GYRE_TENSOR_POST_MLP_NORM,  /* of the mlp's output */
    GYRE_TENSOR_QUERY_NORM,     /* of each head: qwen3, gemma3; of all heads at once: olmo2 */
    GYRE_TENSOR_KEY_NORM,
    GYRE_TENSOR_QKV, /* fused; otherwise Q, K and V */
    GYRE_TENSOR_Q,
    GYRE_TENSOR_K,
    GYRE_TENSOR_V,
    GYRE_TENSOR_O,
    GYRE_TENSOR_GATE_UP, /* fused, gate first; otherwise GATE and UP, or UP alone if the mlp is not gated */
    GYRE_TENSOR_GATE,
    GYRE_TENSOR_UP,
    GYRE_TENSOR_DOWN,
    GYRE_TENSOR_ROLES
} gyre_tensor_role;

typedef struct gyre_architecture {
    char family[48]; /* model_type, or general.architecture */
    const char *const
        *names; /* [GYRE_TENSOR_ROLES] "model.layers.%d.self_attn.q_proj", without .weight or .bias; NULL = no such role */
    const char *prefix; /* of all names but lm_head: "transformer."; "" = none, also of a network whose files have none */
    int vision_tower;   /* 1: the files also hold an image encoder, which is ignored */
    int64_t vocab, model_dim, layers, heads, kv_heads, head_dim, mlp_dim;
    int64_t query_vectors; /* channels of queries beyond head_dim, which keys lack */
    gyre_norm_kind norm;
    double norm_epsilon;
    double gain_offset; /* added to the gains of norms: 1 in gemma's safetensors */
    gyre_activation activation;
    int gated, parallel_residual;
    int post_norms; /* 1: POST_ATTN_NORM and POST_MLP_NORM are required */
    gyre_qkv_layout qkv_layout;
    int transposed;           /* 1: matrices of layers are stored [in, out] (gpt2's safetensors) */
    uint32_t required_biases; /* bit 1 << role: the role must have a bias */
    int optional_biases;      /* 1: any other role may have a bias (GGUF); 0: it is refused */
    int qk_norm;              /* 1: QUERY_NORM and KEY_NORM are required; 0: they are refused */
    int parallel_mlp_norm;    /* with parallel_residual: 1 = MLP_NORM is required; 0 = the mlp reads ATTN_NORM */
    int tied;                 /* 1: lm_head is the embedding, unless a file holds an lm_head */
    double embed_scale, residual_scale, logit_scale;   /* 1 = none */
    double attn_softcap, logit_softcap;                /* 0 = none */
    double clip_qkv;                                   /* 0 = none; mpt */
    int64_t position_form, rotates_input, layer_parts; /* of gyre_model_config */
    /* A llama's GGUF has the rows of query and key permuted for interleaved pairs.  The permutation is not undone: the
     * reading states it. */
} gyre_architecture;

/* *out = what a config.json describes.  Looks at every key that changes what is computed.  One that asks for
 * something Gyre does not compute is EUNSUPPORTED, named with its line. */
gyre_status gyre_architecture_from_config(gyre_architecture *out, const gyre_config_document *config, gyre_error *err);
/* *out = what the keys of a GGUF describe. */
gyre_status gyre_architecture_from_gguf(gyre_architecture *out, const gyre_gguf *file, const char *path, gyre_error *err);

#endif
