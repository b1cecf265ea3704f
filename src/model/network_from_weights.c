/* network_from_weights.c: a network over the float weights of a model made here. */
#include "model/network_groups.h"

#include "core/encoding.h"
#include "model/architecture/architecture_families.h"
#include "util/error.h"

#include <stdlib.h>

typedef struct weight_source {
    const gyre_model_config *config;
    const gyre_weight_layout *layout;
    const float *weights;
} weight_source;

static gyre_affine affine_at(const weight_source *s, int64_t offset, int64_t out, int64_t in) {
    return (gyre_affine){
        {GYRE_STORED_F32, s->weights + offset, out, in, in * (int64_t)sizeof(float)},
        NULL,
    };
}

static gyre_norm_weights norm_at(const weight_source *s, int64_t offset) {
    return (gyre_norm_weights){s->weights + offset, NULL, s->config->model_dim};
}

/* The tensor of an attention of the layer's own, the first of several; -1 = none. */
static int own_tensor(int64_t parts) {
    return parts & GYRE_LAYER_PART_CONTEXTUAL ? GYRE_WEIGHT_CONTEXTUAL
           : parts & GYRE_LAYER_PART_ADAPTIVE ? GYRE_WEIGHT_ADAPTIVE_HIDDEN
                                              : -1;
}

/* q, k and v are adjacent in the weights, and so are gate and up.  Each is one matrix. */
static void fill_layer(const weight_source *s, int64_t layer, gyre_network_layer *out) {
    const gyre_model_config *c = s->config;
    const gyre_weight_layout *l = s->layout;
    const int64_t rows = gyre_projected_heads(c->layer_parts, c->heads) * gyre_query_dim(c) + 2 * c->kv_heads * c->head_dim;
    *out = (gyre_network_layer){.attn_norm = norm_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_ATTN_NORM)),
                                .mlp_norm = norm_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_MLP_NORM))};
    out->qkv[0] = affine_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_Q), rows, c->model_dim);
    out->o = affine_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_O), c->model_dim, c->heads * c->head_dim);
    out->gate_up[0] = affine_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_GATE), 2 * c->mlp_dim, c->model_dim);
    out->down = affine_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_DOWN), c->model_dim, c->mlp_dim);
    const gyre_head_part *trained = gyre_head_part_of(c->layer_parts);
    const int own = own_tensor(c->layer_parts);
    if (trained && trained->tensors[0].name && layer >= l->first_part_layer)
        out->trained = s->weights + gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_PART);
    if (own >= 0) out->own = s->weights + gyre_layer_tensor_offset(l, layer, own);
    if (!(c->layer_parts & GYRE_LAYER_PART_FORGET_GATES)) return;
    out->forget_gate = affine_at(s, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_FORGET_GATE), c->heads, c->model_dim);
    out->forget_gate.bias = s->weights + gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_FORGET_GATE_BIAS);
}

static void fill_network(gyre_network *n, const weight_source *s) {
    const gyre_model_config *c = s->config;
    const gyre_tensor_spec *input = &s->layout->input;
    n->arch = (gyre_architecture){.family = "gyre",
                                  .names = gyre_family_row_of("llama")->names,
                                  .prefix = "",
                                  .vocab = c->vocab,
                                  .model_dim = c->model_dim,
                                  .layers = c->layers,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->head_dim,
                                  .query_vectors = gyre_query_vectors_of(c),
                                  .value_dim = c->head_dim,
                                  .mlp_dim = c->mlp_dim,
                                  .norm = GYRE_NORM_RMS,
                                  .norm_epsilon = c->norm_epsilon,
                                  .activation = GYRE_ACTIVATION_SILU,
                                  .gated = 1,
                                  .tied = 1,
                                  .embed_scale = 1,
                                  .residual_scale = 1,
                                  .logit_scale = 1,
                                  .position_form = c->position_form,
                                  .rotates_input = c->rotates_input,
                                  .layer_parts = c->layer_parts};
    n->embedding = n->lm_head = affine_at(s, s->layout->embedding.offset, c->vocab, c->model_dim);
    n->final_norm = norm_at(s, s->layout->final_norm.offset);
    if (input->name)
        n->input = gyre_cdense(s->weights + input->offset, GYRE_DTYPE_F32, 1, 1, input->shape[0], input->shape[1]);
    n->group[0].scale = gyre_parts_scale(c->layer_parts, c->head_dim);
    n->parameter_count = s->layout->weight_count;
    n->weight_bytes = s->layout->weight_count * (int64_t)sizeof(float);
    for (int64_t layer = 0; layer < c->layers; layer++) {
        fill_layer(s, layer, &n->layer[layer]);
        gyre_network_set_layer_sizes(n, layer, c->head_dim, c->kv_heads);
    }
}

gyre_status gyre_network_from_weights(gyre_network **out, const gyre_model_config *config, const gyre_weight_layout *layout,
                                      const float *weights, gyre_encoding *encoding, gyre_error *err) {
    const weight_source source = {config, layout, weights};
    gyre_network *n = calloc(1, sizeof *n);
    if (n) {
        n->layer = calloc((size_t)config->layers, sizeof *n->layer);
        n->group = calloc(GYRE_MAX_BASE_GROUPS, sizeof *n->group);
    }
    if (!n || !n->layer || !n->group) {
        gyre_network_free(n);
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)config->layers);
    }
    fill_network(n, &source);
    const gyre_status status = gyre_network_create_base_groups(n, config, encoding, err);
    if (status) {
        gyre_network_free(n);
        return status;
    }
    *out = n;
    return GYRE_OK;
}
