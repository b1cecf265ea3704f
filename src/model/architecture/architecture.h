/* architecture.h: what a decoder computes, read off its config.json or the keys of its GGUF; where its tensors are.
 *
 * A family is a row of architecture_families.c: what its class computes where the config is silent, and how its files name
 * things.  Positions are not here: they are gyre_reading's. */
#ifndef GYRE_MODEL_ARCHITECTURE_H
#define GYRE_MODEL_ARCHITECTURE_H
#include "files/tensor_store.h"
#include "gyre/gyre_model.h"
#include "reading/config_document.h"

typedef enum gyre_norm_kind { GYRE_NORM_RMS, GYRE_NORM_LAYER } gyre_norm_kind;
typedef enum gyre_activation {
    GYRE_ACTIVATION_SILU,
    GYRE_ACTIVATION_GELU /* exact */,
    GYRE_ACTIVATION_GELU_TANH,
    GYRE_ACTIVATION_RELU
} gyre_activation;
/* How the rows of a fused matrix of queries, keys and values lie. */
typedef enum gyre_qkv_layout {
    GYRE_QKV_CONCAT,     /* all query heads, then key heads, then value heads: phi3, gpt2, mpt, every GGUF */
    GYRE_QKV_INTERLEAVED /* head by head its query, key and value: gpt_neox, bloom */
} gyre_qkv_layout;

/* What a tensor is for.  A linear map and a norm may have a bias under the same name. */
typedef enum gyre_tensor_role {
    GYRE_TENSOR_EMBEDDING,
    GYRE_TENSOR_POSITION_EMBEDDING, /* a learned table added at the input */
    GYRE_TENSOR_EMBED_NORM,         /* of embedded tokens: bloom */
    GYRE_TENSOR_FINAL_NORM,
    GYRE_TENSOR_LM_HEAD, /* to the vocabulary; absent = the embedding is it */
    GYRE_TENSOR_FIRST_OF_LAYER,
    GYRE_TENSOR_ATTN_NORM = GYRE_TENSOR_FIRST_OF_LAYER, /* before attention */
    GYRE_TENSOR_MLP_NORM,       /* before the perceptron; absent in a parallel block = it reads norm1's */
    GYRE_TENSOR_POST_ATTN_NORM, /* of what attention gives: gemma2 */
    GYRE_TENSOR_POST_MLP_NORM,  /* of what the perceptron gives */
    GYRE_TENSOR_QUERY_NORM,     /* of each head: qwen3, gemma3; of all at once: olmo2 */
    GYRE_TENSOR_KEY_NORM,
    GYRE_TENSOR_QKV, /* fused, or the three */
    GYRE_TENSOR_Q,
    GYRE_TENSOR_K,
    GYRE_TENSOR_V,
    GYRE_TENSOR_O,
    GYRE_TENSOR_GATE_UP, /* fused, gate first, or the two; up alone where nothing is gated */
    GYRE_TENSOR_GATE,
    GYRE_TENSOR_UP,
    GYRE_TENSOR_DOWN,
    GYRE_TENSOR_ROLES
} gyre_tensor_role;

typedef struct gyre_architecture {
    char family[48]; /* model_type, or general.architecture */
    const char *const
        *names;         /* [GYRE_TENSOR_ROLES] "model.layers.%d.self_attn.q_proj", without .weight and .bias; NULL = never */
    const char *prefix; /* that names may begin with, or not: "transformer."; "" = none */
    int vision_tower;   /* 1: files hold a tower for images beside the decoder, which is passed over */
    int64_t vocab, model_dim, layers, heads, kv_heads, head_dim, mlp_dim;
    gyre_norm_kind norm;
    double norm_epsilon;
    double gain_offset; /* added to every gain of a norm: 1 in gemma's safetensors */
    gyre_activation activation;
    int gated, parallel_residual;
    int post_norms; /* 1: POST1 and POST2 must be there */
    gyre_qkv_layout qkv_layout;
    int transposed;                                  /* 1: matrices of layers are stored [in, out] (gpt2's safetensors) */
    uint32_t required_biases;                        /* bits 1 << role: there must be a bias */
    int optional_biases;                             /* 1: any other role may have one (a GGUF's); 0: one is refused */
    int qk_norm;                                     /* 1: QUERY_NORM and KEY_NORM must be there; 0: they are refused */
    int parallel_mlp_norm;                           /* 1: parallel blocks have a NORM2 as others; 0: they share NORM1 */
    int tied;                                        /* 1: the head is the embedding, if no file holds one */
    double embed_scale, residual_scale, logit_scale; /* 1 = none */
    double attn_softcap, logit_softcap;              /* 0 = none */
    double clip_qkv;                                 /* 0 = none; mpt */
    /* GGUFs of llama have rows of query and key permuted for interleaved pairs: nothing to undo, the reading says so. */
} gyre_architecture;

/* *out = what a config.json describes.  Every key that changes what is computed is looked
 * at; one that asks for what is not done here is EUNSUPPORTED, named with its line. */
gyre_status gyre_architecture_from_config(gyre_architecture *out, const gyre_config_document *config, gyre_error *err);
/* The same of the keys of a GGUF. */
gyre_status gyre_architecture_from_gguf(gyre_architecture *out, const gyre_gguf *file, const char *path, gyre_error *err);

#endif
