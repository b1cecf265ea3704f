/* network.h: the weights of a decoder by their purpose, in mapped files or in the float block of one of Gyre's own
 * models. */
#ifndef GYRE_MODEL_NETWORK_H
#define GYRE_MODEL_NETWORK_H
#include "model/architecture/architecture.h"
#include "model/architecture/weight_layout.h"
#include "model/ops/matrix.h"
#include "model/ops/norm.h"
#include "model/parts/experts.h"
#include "model/parts/own_attention.h"

/* The place of the heads of one kind (query, key or value) of a layer in a row of qkv: head h begins at
 * offset + h * stride and has `channels` channels.
 *
 *     GYRE_QKV_CONCAT        q0 q1 q2 q3 | k0 k1 | v0 v1
 *     GYRE_QKV_INTERLEAVED   q0 k0 v0 | q1 k1 v1 | ... */
typedef struct gyre_head_layout {
    int64_t offset, stride, count, channels;
} gyre_head_layout;

/* Queries, keys and values by latents (gyre_architecture.latents). */
typedef struct gyre_latent_maps {
    gyre_affine query_down, kv_down, kv_up; /* query_down.w.out = 0: qkv[0] reads the layer's input */
    gyre_norm_weights query_norm, kv_norm;
} gyre_latent_maps;

/* What a layer adds to the stream of inputs that it has beside it (gyre_layer_rules.inputs). */
typedef struct gyre_layer_inputs {
    gyre_affine gate, out; /* gate.w.out = 0: none */
    gyre_norm_weights post_norm;
} gyre_layer_inputs;

typedef struct gyre_network_layer {
    gyre_norm_weights attn_norm, mlp_norm, post_attn_norm, post_mlp_norm, query_norm, key_norm, value_norm;
    gyre_head_layout q, k, v;
    int64_t mlp_dim;
    int64_t keys_of;        /* the layer whose cache has the keys and values that this one reads: itself or an earlier one */
    int values_are_keys;    /* 1: values are the outputs of the map of keys */
    gyre_affine qkv[3];     /* q, k, v, side by side in a row of outputs; qkv[1].w.out = 0: qkv[0] is all three, fused */
    gyre_affine o, down;    /* outputs of attention and of the mlp */
    gyre_affine gate_up[2]; /* gate, up, side by side; gate_up[1].w.out = 0: gate_up[0] is both, or up alone (not gated) */
    const float *trained;   /* numbers of the part that makes queries and keys, of models made here; NULL = none */
    const float *own;       /* what its own attention trains (gyre_own_attention.data), as above; NULL = none */
    gyre_affine forget_gate; /* to a number for each query head; w.out = 0: none */
    gyre_experts experts;    /* in place of gate_up and down, or beside them */
    gyre_layer_inputs inputs;
    const float *scale;      /* [1] of the stream after the layer; NULL = none */
    gyre_latent_maps latent; /* in place of qkv[1] and qkv[2] */
    const float *sinks;      /* [heads]; NULL = none */
    int group;               /* index into gyre_network.group */
} gyre_network_layer;

enum { GYRE_LAYER_LINEARS = 13 };
/* out = the linear maps of a layer but those of experts, absent ones (w.out = 0) included. */
static inline void gyre_network_layer_linears(const gyre_network_layer *l, const gyre_affine *out[GYRE_LAYER_LINEARS]) {
    const gyre_affine *linears[GYRE_LAYER_LINEARS] = {&l->qkv[0],
                                                      &l->qkv[1],
                                                      &l->qkv[2],
                                                      &l->o,
                                                      &l->gate_up[0],
                                                      &l->gate_up[1],
                                                      &l->down,
                                                      &l->forget_gate,
                                                      &l->latent.query_down,
                                                      &l->latent.kv_down,
                                                      &l->latent.kv_up,
                                                      &l->inputs.gate,
                                                      &l->inputs.out};
    for (int i = 0; i < GYRE_LAYER_LINEARS; i++)
        out[i] = linears[i];
}

/* Layers that share a position encoding, a scale and a window. */
typedef struct gyre_network_group {
    gyre_encoding *encoding;
    double scale;    /* of attention scores; 0 = 1 / sqrt(head_dim) */
    int64_t window;  /* keys a query may see; 0 = all */
    int64_t chunk;   /* c > 0: a query at m sees keys at c floor(m / c) .. m (llama4); window is then 0 */
    int shares_main; /* 1: same positions as the main group, so an encoding that replaces those replaces these too */
} gyre_network_group;

/* Memory that lives as long as the network. */
typedef struct gyre_allocation {
    struct gyre_allocation *next;
    void *memory;
} gyre_allocation;

typedef struct gyre_network {
    gyre_architecture arch;
    gyre_affine embedding, lm_head;
    gyre_norm_weights embed_norm, final_norm;
    gyre_affine layer_inputs, layer_inputs_map; /* GYRE_TENSOR_LAYER_INPUTS, its bias NULL; GYRE_TENSOR_LAYER_INPUTS_MAP */
    gyre_norm_weights layer_inputs_norm;
    gyre_cview input;          /* position table added to the embeddings; data NULL = none */
    gyre_network_layer *layer; /* [arch.layers] */
    gyre_network_group *group; /* [groups] */
    int groups;
    int main_group; /* the group that a context extension is about: one that sees all keys, if there is one */
    int64_t parameter_count, weight_bytes;
    const gyre_tensor_store *mapped; /* the files that have the matrices; borrowed; NULL = only in memory */
    const gyre_encoding *borrowed; /* the encoding of the main group of a gyre_model made here; those of groups are owned */
    /* Owned.  NULL over the weights of a gyre_model made here. */
    gyre_tensor_store *store;
    gyre_reading *reading;
    gyre_allocation *allocations;
} gyre_network;

/* *out = the network of the model files at `path`.  Creates the encodings of its groups.  config: its config.json; NULL for
 * a GGUF. */
gyre_status gyre_network_open(gyre_network **out, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err);
/* *out = a network over `weights`, laid out as `layout` says.  Weights and encoding are borrowed. */
gyre_status gyre_network_from_weights(gyre_network **out, const gyre_model_config *config, const gyre_weight_layout *layout,
                                      const float *weights, gyre_encoding *encoding, gyre_error *err);
void gyre_network_free(gyre_network *network); /* NULL is fine */

/* out = the encoding of a layer. */
static inline const gyre_encoding *gyre_network_encoding(const gyre_network *network, int64_t layer) {
    return network->group[network->layer[layer].group].encoding;
}
/* out = the part that makes queries and keys of a layer, with its numbers; part NULL = it has none.  If a layer has one,
 * the last has it. */
gyre_trained_heads gyre_network_trained_heads(const gyre_network *network, int64_t layer);
/* out = what a layer trains for attention other than gyre_attention; parts 0 = gyre_attention is its attention. */
gyre_own_attention gyre_network_own_attention(const gyre_network *network, int64_t layer);

/* For the files that fill a network in: */
/* out = 64-byte aligned memory that the network owns; NULL if there is none. */
void *gyre_network_alloc(gyre_network *network, size_t bytes);
/* Sets the sizes of a layer: q, k, v and mlp_dim. */
void gyre_network_set_layer_sizes(gyre_network *network, int64_t layer, int64_t head_dim, int64_t kv_heads);
/* out = channels of a row of qkv that a layer writes. */
int64_t gyre_network_qkv_dim(const gyre_network_layer *layer);

#endif
