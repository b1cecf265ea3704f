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
    const int64_t dim = a->head_dim, query = dim + a->query_vectors, value = a->value_dim;
    const int64_t heads = a->heads, keys = a->kv_heads;
    if (a->qkv_layout == GYRE_QKV_INTERLEAVED) {
        n->q = (gyre_head_layout){0, 3 * dim, heads, dim};
        n->k = (gyre_head_layout){dim, 3 * dim, keys, dim};
        n->v = (gyre_head_layout){2 * dim, 3 * dim, keys, dim};
    } else {
        n->q = (gyre_head_layout){0, query, heads, query};
        n->k = (gyre_head_layout){heads * query, dim, keys, dim};
        n->v = (gyre_head_layout){heads * query + keys * dim, value, keys, value};
    }
    return heads * query + keys * (dim + value);
}

gyre_trained_heads gyre_network_trained_heads(const gyre_network *n, int64_t layer) {
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(n->group[0].encoding)->rope;
    const gyre_fourier_terms *fourier = n->fourier.terms > 0 ? &n->fourier : NULL;
    const int64_t numbers = fourier ? fourier->terms * fourier->series : rope->dim / 2;
    return (gyre_trained_heads){n->arch.kv_heads, numbers, rope->layout, n->layer[layer].trained, fourier};
}

gyre_own_attention gyre_network_own_attention(const gyre_network *n, int64_t layer) {
    const struct gyre_score_config *score = &gyre_encoding_get_config(n->group[0].encoding)->score;
    const int64_t parts = n->arch.layer_parts;
    if (!(parts & GYRE_LAYER_PARTS_OWN_ATTENTION)) return (gyre_own_attention){0, 0, NULL};
    return (gyre_own_attention){parts, parts & GYRE_LAYER_PART_CONTEXTUAL ? score->max_positions : score->hidden_units,
                                n->layer[layer].own};
}
