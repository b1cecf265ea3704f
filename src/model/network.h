/* network.h: a decoder's weights by what they are for, wherever they lie: in the maps of its files, or in a gyre_model's own
 * block of floats. */
#ifndef GYRE_MODEL_NETWORK_H
#define GYRE_MODEL_NETWORK_H
#include "model/architecture/architecture.h"
#include "model/matrix.h"

typedef struct gyre_norm_weights {
    const float *gain, *bias; /* NULL = no norm; bias NULL = none */
    int64_t dim;              /* of what is normalised: of queries and keys a head, or all of them (olmo2) */
} gyre_norm_weights;
typedef struct gyre_affine {
    gyre_matrix w;
    const float *bias; /* NULL = none */
} gyre_affine;

/* Heads of a kind in a row of the product with query, key and value: head h begins at first + h step. */
typedef struct gyre_head_layout {
    int64_t offset, stride, count;
} gyre_head_layout;

typedef struct gyre_network_layer {
    gyre_norm_weights attn_norm, mlp_norm, post_attn_norm, post_mlp_norm, query_norm, key_norm;
    gyre_affine qkv[3];              /* one after another in a row of their outputs; qkv[1].w.out = 0: the first is fused */
    gyre_affine o, gate_up[2], down; /* up: gate and up, likewise; up alone where nothing is gated */
    int group;
} gyre_network_layer;

/* Layers that share their positions. */
typedef struct gyre_network_group {
    gyre_encoding *encoding;
    double scale;    /* of scores; 0 = 1 / sqrt(head_dim) */
    int64_t window;  /* 0 = all */
    int shares_main; /* 1: its positions are those of the main group, so that what replaces those replaces these */
} gyre_network_group;

typedef struct gyre_network {
    gyre_architecture arch;
    gyre_affine embedding, lm_head;
    gyre_norm_weights embed_norm, final_norm;
    gyre_cview input; /* the first group's input table; data NULL = none */
    gyre_head_layout q, k, v;
    gyre_network_layer *layer; /* [arch.layers] */
    gyre_network_group *group; /* [groups] */
    int groups, main_group;    /* main: whose positions a context extension is about: a group that sees all keys, if any */
    int64_t parameter_count, weight_bytes;
    /* What it owns; NULL and 0 in the network of a gyre_model's own weights, whose group's encoding is the model's. */
    gyre_tensor_store *store;
    gyre_reading *reading;
    struct gyre_allocation *allocations;
} gyre_network;

/* Memory that lives as long as the network. */
typedef struct gyre_allocation {
    struct gyre_allocation *next;
    void *memory;
} gyre_allocation;
/* out = 64-byte aligned memory that the network owns; NULL where there is none. */
void *gyre_network_alloc(gyre_network *network, size_t bytes);

/* *out = the network of the model at `path`, with the encodings of its groups.  config: its config.json; NULL for a GGUF. */
gyre_status gyre_network_open(gyre_network **out, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err);
void gyre_network_free(gyre_network *network); /* NULL is fine */

/* *out = the network over the weights of a model made here, which it borrows, as it does its encoding. */
struct gyre_model;
gyre_status gyre_network_from_model(gyre_network **out, const struct gyre_model *model, gyre_error *err);
/* Where the heads of query, key and value lie, by arch; out = channels of a row. */
int64_t gyre_network_set_head_layout(gyre_network *network);

#endif
