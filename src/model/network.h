/* network.h: a decoder's weights by what they are for, wherever they lie: in the maps of its files, or in a gyre_model's own
 * block of floats. */
#ifndef GYRE_MODEL_NETWORK_H
#define GYRE_MODEL_NETWORK_H
#include "model/architecture.h"
#include "model/matrix.h"

typedef struct gyre_gain {
    const float *gain, *bias; /* NULL = no norm; bias NULL = none */
} gyre_gain;
typedef struct gyre_affine {
    gyre_matrix w;
    const float *bias; /* NULL = none */
} gyre_affine;

/* Heads of a kind in a row of the product with query, key and value: head h begins at first + h step. */
typedef struct gyre_heads {
    int64_t first, step, count;
} gyre_heads;

typedef struct gyre_network_layer {
    gyre_gain norm1, norm2, post1, post2, query_norm, key_norm;
    gyre_affine qkv[3];         /* one after another in a row of their outputs; qkv[1].w.out = 0: the first is fused */
    gyre_affine o, up[2], down; /* up: gate and up, likewise; up alone where nothing is gated */
    int group;
} gyre_network_layer;

/* Layers that share their positions. */
typedef struct gyre_network_group {
    gyre_encoding *encoding;
    double scale;   /* of scores; 0 = 1 / sqrt(head_dim) */
    int64_t window; /* 0 = all */
} gyre_network_group;

typedef struct gyre_network {
    gyre_architecture arch;
    gyre_affine embedding, head;
    gyre_gain embed_norm, last_norm;
    const float *positions; /* [rows, width]: the first group's input table; NULL = none */
    int64_t position_rows;
    gyre_heads q, k, v;
    gyre_network_layer *layer; /* [arch.layers] */
    gyre_network_group *group; /* [groups] */
    int groups;
    int64_t parameters, weight_bytes;
    /* What it owns. */
    gyre_store *store;
    gyre_reading *reading;
    void **owned; /* [owned_count] each from aligned_alloc */
    int64_t owned_count;
} gyre_network;

/* *out = the network of the model at `path`.  Encodings of groups are created. */
gyre_status gyre_network_open(gyre_network **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err);
void gyre_network_free(gyre_network *network); /* NULL is fine */

#endif
