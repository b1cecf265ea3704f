/* architecture.h: what a decoder computes, read off its config.json or the keys of its GGUF; where its tensors are.
 *
 * A family is a row of architecture_families.c: what its class computes where the config is silent, and how its files name
 * things.  Positions are not here: they are gyre_reading's. */
#ifndef GYRE_MODEL_ARCHITECTURE_H
#define GYRE_MODEL_ARCHITECTURE_H
#include "files/stored.h"
#include "gyre/gyre_model.h"

typedef enum gyre_norm_kind { GYRE_NORM_RMS, GYRE_NORM_LAYER } gyre_norm_kind;
typedef enum gyre_activation { GYRE_SILU, GYRE_GELU /* exact */, GYRE_GELU_TANH, GYRE_RELU } gyre_activation;
/* How the rows of a fused matrix of queries, keys and values lie. */
typedef enum gyre_fused {
    GYRE_FUSED_BLOCKS, /* all query heads, then key heads, then value heads: phi3, gpt2, mpt, every GGUF */
    GYRE_FUSED_HEADS   /* head by head its query, key and value: gpt_neox, bloom */
} gyre_fused;

/* What a tensor is for.  A linear map and a norm may have a bias under the same name. */
typedef enum gyre_tensor_role {
    GYRE_ROLE_EMBEDDING,
    GYRE_ROLE_POSITIONS,  /* a learned table added at the input */
    GYRE_ROLE_EMBED_NORM, /* of embedded tokens: bloom */
    GYRE_ROLE_LAST_NORM,
    GYRE_ROLE_HEAD, /* to the vocabulary; absent = the embedding is it */
    GYRE_ROLES_OF_MODEL,
    GYRE_ROLE_NORM1 = GYRE_ROLES_OF_MODEL, /* before attention */
    GYRE_ROLE_NORM2,                       /* before the perceptron; absent in a parallel block = it reads norm1's */
    GYRE_ROLE_POST1,                       /* of what attention gives: gemma2 */
    GYRE_ROLE_POST2,                       /* of what the perceptron gives */
    GYRE_ROLE_QUERY_NORM,                  /* of each head: qwen3, gemma3; of all at once: olmo2 */
    GYRE_ROLE_KEY_NORM,
    GYRE_ROLE_QKV, /* fused, or the three */
    GYRE_ROLE_Q,
    GYRE_ROLE_K,
    GYRE_ROLE_V,
    GYRE_ROLE_O,
    GYRE_ROLE_GATE_UP, /* fused, gate first, or the two; up alone where nothing is gated */
    GYRE_ROLE_GATE,
    GYRE_ROLE_UP,
    GYRE_ROLE_DOWN,
    GYRE_ROLES
} gyre_tensor_role;

typedef struct gyre_architecture {
    char family[48];          /* model_type, or general.architecture */
    const char *const *names; /* [GYRE_ROLES] "model.layers.%d.self_attn.q_proj", without .weight and .bias; NULL = never */
    const char *prefix;       /* that names may begin with, or not: "transformer."; "" = none */
    int tower;                /* 1: files hold a tower for images beside the decoder, which is passed over */
    int64_t vocab, width, layers, heads, kv_heads, head_dim, hidden;
    gyre_norm_kind norm;
    double norm_epsilon;
    double gain_offset; /* added to every gain of a norm: 1 in gemma's safetensors */
    gyre_activation activation;
    int gated, parallel;
    int post_norms; /* 1: POST1 and POST2 must be there */
    gyre_fused fused;
    int transposed;                                  /* 1: matrices of layers are stored [in, out] (gpt2's safetensors) */
    uint32_t biases;                                 /* bits 1 << role: there must be a bias */
    int more_biases;                                 /* 1: any other role may have one (a GGUF's); 0: one is refused */
    int head_norms;                                  /* 1: QUERY_NORM and KEY_NORM must be there; 0: they are refused */
    int parallel_norm2;                              /* 1: parallel blocks have a NORM2 as others; 0: they share NORM1 */
    int tied;                                        /* 1: the head is the embedding, if no file holds one */
    double embed_scale, residual_scale, logit_scale; /* 1 = none */
    double score_cap, logit_cap;                     /* 0 = none */
    double clip_qkv;                                 /* 0 = none; mpt */
    /* GGUFs of llama have rows of query and key permuted for interleaved pairs: nothing to undo, the reading says so. */
} gyre_architecture;

/* *out = what config.json (bytes of it, `path` for messages) describes.  Every key that changes what is computed is looked
 * at; one that asks for what is not done here is EUNSUPPORTED, named with its line. */
gyre_status gyre_architecture_of_config(gyre_architecture *out, const char *json, size_t bytes, const char *path,
                                        gyre_error *err);
/* The same of the keys of a GGUF. */
gyre_status gyre_architecture_of_gguf(gyre_architecture *out, const gyre_gguf *file, const char *path, gyre_error *err);

#endif
