/* network.c: a network's memory, and the one over the weights of a model made here. */
#include "model/network.h"
#include "util/error.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>

void *gyre_network_alloc(gyre_network *network, size_t bytes) {
    if (bytes > SIZE_MAX - 64) return NULL;
    gyre_allocation *entry = malloc(sizeof *entry);
    void *memory = entry ? aligned_alloc(64, bytes ? (bytes + 63) / 64 * 64 : 64) : NULL;
    if (!memory) {
        free(entry);
        return NULL;
    }
    *entry = (gyre_allocation){network->allocations, memory};
    network->allocations = entry;
    return memory;
}

void gyre_network_free(gyre_network *network) {
    if (!network) return;
    for (int i = 0; network->store && i < network->groups; i++)
        gyre_encoding_free(network->group[i].encoding);
    for (gyre_allocation *entry = network->allocations, *next; entry; entry = next) {
        next = entry->next;
        free(entry->memory);
        free(entry);
    }
    free(network->layer);
    free(network->group);
    gyre_reading_free(network->reading);
    gyre_tensor_store_free(network->store);
    free(network);
}

int64_t gyre_network_set_head_layout(gyre_network *n) {
    const gyre_architecture *a = &n->arch;
    const int64_t dim = a->head_dim, heads = a->heads, keys = a->kv_heads;
    if (a->qkv_layout == GYRE_QKV_INTERLEAVED) {
        n->q = (gyre_head_layout){0, 3 * dim, heads};
        n->k = (gyre_head_layout){dim, 3 * dim, keys};
        n->v = (gyre_head_layout){2 * dim, 3 * dim, keys};
    } else {
        n->q = (gyre_head_layout){0, dim, heads};
        n->k = (gyre_head_layout){heads * dim, dim, keys};
        n->v = (gyre_head_layout){(heads + keys) * dim, dim, keys};
    }
    return (heads + 2 * keys) * dim;
}

/* -- over a gyre_model's own weights -- */
static gyre_affine affine_at(const gyre_model *model, int64_t offset, int64_t out, int64_t in) {
    return (gyre_affine){
        {GYRE_STORED_F32, model->weights + offset, out, in, in * (int64_t)sizeof(float)},
        NULL,
    };
}

static gyre_norm_weights norm_at(const gyre_model *model, int64_t offset) {
    return (gyre_norm_weights){model->weights + offset, NULL, model->config.model_dim};
}

/* q, k and v lie one after another, and so do gate and up: each is one matrix. */
static void fill_layer(const gyre_model *model, int64_t layer, gyre_network_layer *out) {
    const gyre_model_config *c = &model->config;
    const gyre_weight_layout *l = &model->layout;
    const int64_t query = c->heads * c->head_dim, rows = query + 2 * c->kv_heads * c->head_dim;
    *out = (gyre_network_layer){.attn_norm = norm_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_ATTN_NORM)),
                                .mlp_norm = norm_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_MLP_NORM))};
    out->qkv[0] = affine_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_Q), rows, c->model_dim);
    out->o = affine_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_O), c->model_dim, query);
    out->gate_up[0] = affine_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_GATE), 2 * c->mlp_dim, c->model_dim);
    out->down = affine_at(model, gyre_layer_tensor_offset(l, layer, GYRE_WEIGHT_DOWN), c->model_dim, c->mlp_dim);
}

static void fill_network(gyre_network *n, const gyre_model *model) {
    const gyre_model_config *c = &model->config;
    const gyre_tensor_spec *input = &model->layout.input;
    n->arch = (gyre_architecture){.family = "gyre",
                                  .prefix = "",
                                  .vocab = c->vocab,
                                  .model_dim = c->model_dim,
                                  .layers = c->layers,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->head_dim,
                                  .mlp_dim = c->mlp_dim,
                                  .norm = GYRE_NORM_RMS,
                                  .norm_epsilon = c->norm_epsilon,
                                  .activation = GYRE_ACTIVATION_SILU,
                                  .gated = 1,
                                  .tied = 1,
                                  .embed_scale = 1,
                                  .residual_scale = 1,
                                  .logit_scale = 1};
    n->embedding = n->lm_head = affine_at(model, model->layout.embedding.offset, c->vocab, c->model_dim);
    n->final_norm = norm_at(model, model->layout.final_norm.offset);
    if (input->name)
        n->input = gyre_cdense(model->weights + input->offset, GYRE_DTYPE_F32, 1, 1, input->shape[0], input->shape[1]);
    n->group[0].encoding = model->encoding;
    n->group[0].shares_main = 1;
    n->parameter_count = model->weight_count;
    n->weight_bytes = model->weight_count * (int64_t)sizeof(float);
    (void)gyre_network_set_head_layout(n);
    for (int64_t layer = 0; layer < c->layers; layer++)
        fill_layer(model, layer, &n->layer[layer]);
}

gyre_status gyre_network_from_model(gyre_network **out, const gyre_model *model, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (n) {
        n->layer = calloc((size_t)model->config.layers, sizeof *n->layer);
        n->group = calloc(1, sizeof *n->group);
        n->groups = 1;
    }
    if (!n || !n->layer || !n->group) {
        gyre_network_free(n);
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)model->config.layers);
    }
    fill_network(n, model);
    *out = n;
    return GYRE_OK;
}
