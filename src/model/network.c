#include "model/network.h"
#include "util/error.h"

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
    for (int i = 0; network->group && i < network->groups; i++)
        if (network->group[i].encoding != network->borrowed) gyre_encoding_free(network->group[i].encoding);
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

void gyre_network_set_layer_sizes(gyre_network *n, int64_t layer, int64_t head_dim, int64_t kv_heads) {
    const gyre_architecture *a = &n->arch;
    const int64_t dim = head_dim, query = dim + a->query_vectors, heads = gyre_projected_heads(a->layer_parts, a->heads);
    const int64_t value = a->layer_rules.heads_by_group ? dim : a->value_dim;
    gyre_network_layer *l = &n->layer[layer];
    if (a->qkv_layout == GYRE_QKV_INTERLEAVED) {
        l->q = (gyre_head_layout){0, 3 * dim, heads, dim};
        l->k = (gyre_head_layout){dim, 3 * dim, kv_heads, dim};
        l->v = (gyre_head_layout){2 * dim, 3 * dim, kv_heads, dim};
    } else {
        l->q = (gyre_head_layout){0, query, heads, query};
        l->k = (gyre_head_layout){heads * query, dim, kv_heads, dim};
        l->v = (gyre_head_layout){heads * query + kv_heads * dim, value, kv_heads, value};
    }
    l->mlp_dim = a->mlp_dim;
    l->keys_of = layer;
}

int64_t gyre_network_qkv_dim(const gyre_network_layer *l) {
    return l->q.count * l->q.channels + l->k.count * (l->k.channels + l->v.channels);
}

gyre_trained_heads gyre_network_trained_heads(const gyre_network *n, int64_t layer) {
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(n->group[0].encoding)->rope;
    const int has_part = layer >= gyre_part_first_layer(n->arch.layer_parts, n->arch.layers);
    return (gyre_trained_heads){.part = has_part ? gyre_head_part_of(n->arch.layer_parts) : NULL,
                                .layer_parts = n->arch.layer_parts,
                                .model_dim = n->arch.model_dim,
                                .heads = n->arch.heads,
                                .kv_heads = n->arch.kv_heads,
                                .pairs = rope->dim / 2,
                                .layout = rope->layout,
                                .encoding = n->group[0].encoding,
                                .data = n->layer[layer].trained};
}

gyre_own_attention gyre_network_own_attention(const gyre_network *n, int64_t layer) {
    const struct gyre_score_config *score = &gyre_encoding_get_config(n->group[0].encoding)->score;
    const int64_t parts = n->arch.layer_parts;
    if (!(parts & GYRE_LAYER_PARTS_OWN_ATTENTION)) return (gyre_own_attention){0, 0, NULL};
    return (gyre_own_attention){parts, parts & GYRE_LAYER_PART_CONTEXTUAL ? score->max_positions : score->hidden_units,
                                n->layer[layer].own};
}
