/* architecture.h: what a decoder computes and how its tensors are named, from its config.json or the keys of its GGUF.
 *
 * A family is a row of architecture_families.c: what its class computes by default, and how its files name things.
 * Positions are not described here.  gyre_reading reads them. */
#ifndef GYRE_MODEL_ARCHITECTURE_H
#define GYRE_MODEL_ARCHITECTURE_H
#include "files/tensors/tensor_store.h"
#include "gyre/gyre_model.h"
#include "model/architecture/mixture.h"
#include "model/ops/activation.h"
#include "model/ops/norm.h"
#include "reading/config_document.h"

/* Order of the rows of a fused matrix of queries, keys and values. */
typedef enum gyre_qkv_layout {
    GYRE_QKV_CONCAT,      /* all query heads, then key heads, then value heads: phi3, gpt2, mpt, every GGUF */
    GYRE_QKV_INTERLEAVED, /* query, key and value of head 0, then of head 1, ...: gpt_neox, bloom */
    GYRE_QKV_GROUPED      /* the queries of key head 0, that key, its value, then those of key head 1, ...: falcon.  The rows
                           * are copied in the order of CONCAT */
} gyre_qkv_layout;

/* The norms of queries and keys, before they rotate. */
typedef enum gyre_head_norms {
    GYRE_HEAD_NORMS_NONE,  /* QUERY_NORM and KEY_NORM are refused */
    GYRE_HEAD_NORMS_EACH,  /* of each head, with the same gains: qwen3, gemma3 */
    GYRE_HEAD_NORMS_ALL,   /* of all heads at once: olmo2 */
    GYRE_HEAD_NORMS_GAINS, /* of each head, with gains for each: cohere */
    GYRE_HEAD_NORMS_UNIT   /* of each head, without gains, in layers that rotate: llama4 */
} gyre_head_norms;

/* Multi-head latent attention: queries, keys and values are maps of small vectors.  A head has `still` channels and then
 * those that rotate, which are the same in all keys of a token. */
typedef struct gyre_latents {
    int64_t kv;     /* numbers of the latent of keys and values; 0 = no latents */
    int64_t query;  /* of the latent of queries; 0 = queries are maps of the layer's input */
    int64_t still;  /* channels of a head that do not rotate, in front of those that do */
    double epsilon; /* of the norms of both latents */
} gyre_latents;

/* How layers of one decoder differ (gemma4).  All zero: they do not, but for experts. */
typedef struct gyre_layer_rules {
    int heads_by_group;       /* 1: layers have the head_dim that the reading gives their group */
    int64_t wide_kv_heads;    /* key heads of layers without a window; 0 = kv_heads */
    int wide_values_are_keys; /* 1: those layers have no V: values are keys, before their norm and rotation */
    int64_t sharing; /* the last layers, which read the keys and values of the last layer of their group before them */
    int64_t sharing_mlp_dim; /* of those layers; 0 = mlp_dim */
    int64_t inputs;          /* channels of the inputs that each layer has beside the stream; 0 = none */
    int64_t inputs_vocab;    /* tokens in the table of these inputs */
    int scaled;              /* 1: LAYER_SCALE multiplies the stream after a layer */
} gyre_layer_rules;

/* What a tensor is for.  The bias of a linear map or a norm has the role of its weight. */
typedef enum gyre_tensor_role {
    GYRE_TENSOR_EMBEDDING,
    GYRE_TENSOR_POSITION_EMBEDDING, /* a learned table added at the input */
    GYRE_TENSOR_EMBED_NORM,         /* of embedded tokens: bloom */
    GYRE_TENSOR_FINAL_NORM,
    GYRE_TENSOR_LM_HEAD,           /* logits; absent = the embedding is used (tied) */
    GYRE_TENSOR_LAYER_INPUTS,      /* [token][layers x inputs] a table beside the embedding: gemma4 */
    GYRE_TENSOR_LAYER_INPUTS_MAP,  /* the embedded token to what is added to its row of that table */
    GYRE_TENSOR_LAYER_INPUTS_NORM, /* of the layer's part of it */
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
    GYRE_TENSOR_SINKS,      /* a logit without a key for each head: gpt_oss */
    GYRE_TENSOR_QUERY_DOWN, /* to the latent of queries: deepseek_v3 */
    GYRE_TENSOR_QUERY_LATENT_NORM,
    GYRE_TENSOR_QUERY_UP, /* the latent to queries, in place of Q */
    GYRE_TENSOR_KV_DOWN,  /* to the latent of keys and values, and the channels of keys that rotate */
    GYRE_TENSOR_KV_LATENT_NORM,
    GYRE_TENSOR_KV_UP,           /* the latent to the other channels of keys, and values, head by head; in newer GGUFs: */
    GYRE_TENSOR_LATENT_KEYS,     /* [head][latent][channel] of those channels */
    GYRE_TENSOR_LATENT_VALUES,   /* [head][channel][latent] of values */
    GYRE_TENSOR_ROUTER,          /* of a mixture of experts */
    GYRE_TENSOR_ROUTER_CHOICE,   /* added to scores where experts are chosen, not where they are weighed */
    GYRE_TENSOR_EXPERTS_GATE_UP, /* of all experts in one tensor, with .weight in a GGUF alone; otherwise the next two */
    GYRE_TENSOR_EXPERTS_GATE,
    GYRE_TENSOR_EXPERTS_UP,
    GYRE_TENSOR_EXPERTS_DOWN,
    GYRE_TENSOR_EXPERT_GATE, /* of one expert */
    GYRE_TENSOR_EXPERT_UP,
    GYRE_TENSOR_EXPERT_DOWN,
    GYRE_TENSOR_SHARED_GATE, /* of the expert that reads every token */
    GYRE_TENSOR_SHARED_UP,
    GYRE_TENSOR_SHARED_DOWN,
    GYRE_TENSOR_SHARED_SWITCH, /* to the number whose sigmoid multiplies its output: qwen2_moe */
    GYRE_TENSOR_ROUTER_NORM,   /* of what the router reads, without .weight: gemma4; of experts beside the mlp, and so: */
    GYRE_TENSOR_EXPERT_SCALES, /* multiply the weight of each expert, without .weight */
    GYRE_TENSOR_EXPERTS_NORM,  /* of what they read */
    GYRE_TENSOR_POST_EXPERTS_NORM,
    GYRE_TENSOR_POST_DENSE_NORM, /* of the mlp's output, before it is added to that of the experts */
    GYRE_TENSOR_INPUT_GATE,      /* the stream to gates of the layer's inputs */
    GYRE_TENSOR_INPUT_OUT,       /* the gated inputs to the stream */
    GYRE_TENSOR_POST_INPUT_NORM, /* of what is added to it */
    GYRE_TENSOR_LAYER_SCALE,     /* one number, without .weight */
    GYRE_TENSOR_ROLES
} gyre_tensor_role;

_Static_assert(GYRE_TENSOR_ROLES <= 64, "required_biases has a bit for each role");

typedef struct gyre_architecture {
    char family[48]; /* model_type, or general.architecture */
    const char *const
        *names; /* [GYRE_TENSOR_ROLES] "model.layers.%d.self_attn.q_proj", without .weight or .bias; NULL = no such role */
    const char *prefix; /* of all names but lm_head: "transformer."; "" = none, also of a network whose files have none */
    const char *head_prefix; /* of lm_head: "language_model." in some wrappers; NULL = none */
    /* 1: the language model of a model that also takes images or sound.  Its prefix is that of gyre_wrapped_prefixes that its
     * files have, in place of "model."; tensors with other names are left aside. */
    int wrapped;
    int64_t vocab, model_dim, layers, heads, kv_heads, head_dim, mlp_dim;
    int64_t query_vectors; /* channels of queries beyond head_dim, which keys lack */
    int64_t value_dim;     /* channels of a value */
    gyre_mixture mixture;
    gyre_latents latents;
    gyre_layer_rules layer_rules;
    gyre_norm_kind norm;
    double norm_epsilon;
    double gain_offset; /* added to the gains of norms: 1 in gemma's safetensors */
    gyre_activation activation;
    int gated, parallel_residual;
    int post_norms; /* 1: POST_ATTN_NORM and POST_MLP_NORM are required */
    gyre_qkv_layout qkv_layout;
    int transposed;           /* 1: matrices of layers are stored [in, out] (gpt2's safetensors) */
    uint64_t required_biases; /* bit 1 << role: the role must have a bias */
    int optional_biases;      /* 1: any other role may have a bias (GGUF); 0: it is refused */
    gyre_head_norms qk_norm;  /* of queries and keys */
    int value_norm;           /* 1: values of each head are normalized, without gains */
    int sinks;                /* 1: SINKS are required */
    int chunked;              /* 1: the windows of a reading are chunks, which a query sees from their beginning on */
    int parallel_mlp_norm;    /* with parallel_residual: 1 = MLP_NORM is required; 0 = the mlp reads ATTN_NORM */
    int64_t extra_layers;     /* of multi-token prediction, after the others in a file; not read */
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
