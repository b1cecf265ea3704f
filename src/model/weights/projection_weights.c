/* projection_weights.c: the tensors of a layer's attention. */
#include "model/weights/weight_loader.h"

#include <stdlib.h>
#include <string.h>

/* Gains of queries or keys (gyre_head_norms). */
static gyre_norm_weights load_head_norm(gyre_loader *o, gyre_tensor_role role, int64_t layer,
                                        const gyre_head_layout *layout) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t heads = layout->count, dim = layout->channels;
    const gyre_norm_weights none = {NULL, NULL, 0};
    gyre_file_tensor tensor;
    if (a->qk_norm == GYRE_HEAD_NORMS_NONE) return none;
    if (a->qk_norm == GYRE_HEAD_NORMS_EACH) return gyre_load_norm(o, gyre_in_layer(role, layer), dim, 1);
    if (a->qk_norm == GYRE_HEAD_NORMS_ALL) return gyre_load_norm(o, gyre_in_layer(role, layer), heads * dim, 1);
    if (!gyre_load_take(o, gyre_in_layer(role, layer), ".weight", &tensor)) {
        gyre_load_missing(o, gyre_in_layer(role, layer), ".weight");
        return none;
    }
    if (tensor.rank != 2 || tensor.shape[0] != heads || tensor.shape[1] != dim)
        gyre_load_fail(o, GYRE_EFORMAT, "%s: not %lld x %lld gains (%s, offset %llu)", tensor.name, (long long)heads,
                       (long long)dim, tensor.file, (unsigned long long)tensor.offset);
    return (gyre_norm_weights){o->status ? NULL : gyre_load_floats(o, &tensor), NULL, dim};
}

/* Gains of 1: the norm without weights. */
static gyre_norm_weights unit_norm(gyre_loader *o, int64_t dim) {
    if (o->status || o->faults) return (gyre_norm_weights){NULL, NULL, 0};
    float *gains = gyre_network_alloc(o->net, (size_t)dim * sizeof *gains);
    if (!gains) gyre_load_fail(o, GYRE_ENOMEM, "model: no memory for %lld numbers", (long long)dim);
    for (int64_t i = 0; gains && i < dim; i++)
        gains[i] = 1;
    return (gyre_norm_weights){gains, NULL, dim};
}

/* 1: the layer rotates.  0 also where no positions are known, which only a list of all faults does without. */
static int rotates(const gyre_network *n, int64_t layer) {
    const int group = n->layer[layer].group;
    return group >= 0 && group < n->groups && gyre_encoding_rotates(n->group[group].encoding);
}

/* Copies the rows of a matrix or vector from the order of GROUPED to that of CONCAT.  row: bytes. */
static void ungroup(const gyre_architecture *a, const unsigned char *from, size_t row, unsigned char *to) {
    const int64_t shared = a->heads / a->kv_heads;
    const size_t head = (size_t)a->head_dim * row;
    for (int64_t g = 0; g < a->kv_heads; g++) {
        memcpy(to + (size_t)(g * shared) * head, from, (size_t)shared * head);
        memcpy(to + (size_t)(a->heads + g) * head, from + (size_t)shared * head, head);
        memcpy(to + (size_t)(a->heads + a->kv_heads + g) * head, from + (size_t)(shared + 1) * head, head);
        from += (size_t)(shared + 2) * head;
    }
}

static void ungroup_affine(gyre_loader *o, gyre_affine *map) {
    const gyre_architecture *a = &o->net->arch;
    if (o->status || !map->w.data) return;
    const size_t row = (size_t)map->w.row_bytes;
    unsigned char *rows = gyre_network_alloc(o->net, (size_t)map->w.out * row);
    float *bias = map->bias ? gyre_network_alloc(o->net, (size_t)map->w.out * sizeof *bias) : NULL;
    if (!rows || (map->bias && !bias)) {
        gyre_load_fail(o, GYRE_ENOMEM, "model: no memory for %lld bytes", (long long)(map->w.out * map->w.row_bytes));
        return;
    }
    ungroup(a, map->w.data, row, rows);
    if (bias) ungroup(a, (const void *)map->bias, sizeof *bias, (void *)bias);
    map->w.data = rows;
    map->bias = bias;
}

static int take_heads(gyre_loader *o, gyre_tensor_role role, int64_t layer, const int64_t shape[3], gyre_file_tensor *out) {
    const gyre_tensor_place place = gyre_in_layer(role, layer);
    if (!gyre_load_take(o, place, ".weight", out)) {
        gyre_load_missing(o, place, ".weight");
        return 0;
    }
    if (out->rank != 3 || memcmp(out->shape, shape, 3 * sizeof *shape) != 0)
        gyre_load_fail(o, GYRE_EFORMAT,
                       "%s: %lld x %lld x %lld, where the config asks for %lld x %lld x %lld (%s, offset %llu)", out->name,
                       (long long)out->shape[0], (long long)out->shape[1], (long long)out->shape[2], (long long)shape[0],
                       (long long)shape[1], (long long)shape[2], out->file, (unsigned long long)out->offset);
    if (o->faults && out->type == GYRE_STORED_OTHER) gyre_fault_list_add_unread(o->faults, out);
    return !o->status && !o->faults;
}

/* Keys and values of heads, for which a file has a tensor each, as one map: of each head keys, then values.  In floats, as
 * one of the two is transposed. */
static gyre_affine join_kv_up(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t still = a->latents.still, value = a->value_dim, kv = a->latents.kv, both = still + value;
    gyre_affine map = {{GYRE_STORED_F32, NULL, 0, 0, 0}, NULL};
    gyre_file_tensor keys, values;
    const int has_keys = take_heads(o, GYRE_TENSOR_LATENT_KEYS, layer, (const int64_t[]){a->heads, kv, still}, &keys);
    if (!take_heads(o, GYRE_TENSOR_LATENT_VALUES, layer, (const int64_t[]){a->heads, value, kv}, &values) || !has_keys)
        return map;
    float *joined = gyre_network_alloc(o->net, (size_t)(a->heads * both * kv) * sizeof *joined);
    float *read = malloc((size_t)(a->heads * (still > value ? still : value) * kv) * sizeof *read);
    if (!joined || !read) {
        free(read);
        gyre_load_fail(o, GYRE_ENOMEM, "model: no memory for keys and values of layer %lld", (long long)layer);
        return map;
    }
    if (!o->status) o->status = gyre_stored_read(o->kernels, &keys, read, o->err);
    for (int64_t h = 0; h < a->heads && !o->status; h++)
        for (int64_t c = 0; c < still; c++)
            for (int64_t i = 0; i < kv; i++)
                joined[(h * both + c) * kv + i] = read[(h * kv + i) * still + c];
    if (!o->status) o->status = gyre_stored_read(o->kernels, &values, read, o->err);
    for (int64_t h = 0; h < a->heads && !o->status; h++)
        memcpy(joined + (h * both + still) * kv, read + h * value * kv, (size_t)(value * kv) * sizeof *read);
    free(read);
    if (o->status) return map;
    map.w = (gyre_matrix){GYRE_STORED_F32, joined, a->heads * both, kv, kv * (int64_t)sizeof *joined};
    o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}

/* A file may have both forms. */
static gyre_affine load_kv_up(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    const gyre_tensor_place place = gyre_in_layer(GYRE_TENSOR_KV_UP, layer);
    const gyre_tensor_place keys = gyre_in_layer(GYRE_TENSOR_LATENT_KEYS, layer);
    if (!gyre_load_has(o, place, ".weight") && gyre_load_has(o, keys, ".weight")) return join_kv_up(o, layer);
    gyre_load_leave_out(o, keys, ".weight");
    gyre_load_leave_out(o, gyre_in_layer(GYRE_TENSOR_LATENT_VALUES, layer), ".weight");
    return gyre_load_affine(o, place, a->kv_heads * (a->latents.still + a->value_dim), a->latents.kv);
}

static void load_latents(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_latent_maps *to = &o->net->layer[layer].latent;
    const int64_t query = a->latents.query, turning = a->head_dim - a->latents.still;
    if (query > 0) {
        to->query_down = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_QUERY_DOWN, layer), query, a->model_dim);
        to->query_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_QUERY_LATENT_NORM, layer), query, 1);
    }
    o->net->layer[layer].qkv[0] = gyre_load_affine(o, gyre_in_layer(query > 0 ? GYRE_TENSOR_QUERY_UP : GYRE_TENSOR_Q, layer),
                                                   a->heads * a->head_dim, query > 0 ? query : a->model_dim);
    to->kv_down = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_KV_DOWN, layer), a->latents.kv + turning, a->model_dim);
    to->kv_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_KV_LATENT_NORM, layer), a->latents.kv, 1);
    to->kv_up = load_kv_up(o, layer);
}

static void load_projections(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    gyre_affine *qkv = l->qkv;
    const int64_t q = l->q.count * l->q.channels, kv = l->k.count * l->k.channels;
    if (!a->names[GYRE_TENSOR_Q] || gyre_load_has(o, gyre_in_layer(GYRE_TENSOR_QKV, layer), ".weight")) {
        qkv[0] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_QKV, layer), q + 2 * kv, a->model_dim);
        if (a->qkv_layout == GYRE_QKV_GROUPED) ungroup_affine(o, &qkv[0]);
    } else {
        qkv[0] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_Q, layer), q, a->model_dim);
        if (l->keys_of != layer) return;
        qkv[1] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_K, layer), kv, a->model_dim);
        if (l->values_are_keys) return;
        qkv[2] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_V, layer), kv, a->model_dim);
    }
}

static void load_norms(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    if (a->qk_norm == GYRE_HEAD_NORMS_UNIT) {
        if (rotates(o->net, layer)) l->query_norm = l->key_norm = unit_norm(o, l->q.channels);
    } else {
        l->query_norm = load_head_norm(o, GYRE_TENSOR_QUERY_NORM, layer, &l->q);
        if (l->keys_of == layer) l->key_norm = load_head_norm(o, GYRE_TENSOR_KEY_NORM, layer, &l->k);
    }
    if (a->value_norm && l->keys_of == layer) l->value_norm = unit_norm(o, l->v.channels);
}

/* Files may hold the maps and norms of keys that a layer reads from another one. */
static void leave_out_keys(gyre_loader *o, int64_t layer) {
    static const gyre_tensor_role roles[] = {GYRE_TENSOR_K, GYRE_TENSOR_V, GYRE_TENSOR_KEY_NORM};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        gyre_load_leave_out(o, gyre_in_layer(roles[i], layer), ".weight");
}

void gyre_load_attention(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    load_norms(o, layer);
    if (l->keys_of != layer) leave_out_keys(o, layer);
    if (a->latents.kv > 0)
        load_latents(o, layer);
    else
        load_projections(o, layer);
    l->o = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_O, layer), a->model_dim, a->heads * l->v.channels);
    if (a->sinks) l->sinks = gyre_load_vector(o, gyre_in_layer(GYRE_TENSOR_SINKS, layer), "", a->heads, 1);
}
