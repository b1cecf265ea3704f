/* network_open.c: a network from a model's files: every tensor found by its name, measured, and left where it lies. */
#include "model/network.h"

#include "core/encoding.h"
#include "files/file_read.h"
#include "files/printable_name.h"
#include "util/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { MAX_NAME = 160, MAX_PAIRS = 1024 };

typedef struct loader {
    gyre_network *net;
    const gyre_kernels *kernels;
    const char *prefix;  /* before the names: the architecture's, or none */
    unsigned char *used; /* [tensors in the store] */
    gyre_error *err;
    gyre_status status; /* the first failure; nothing is done after it */
} loader;

static void fail(loader *o, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void fail(loader *o, gyre_status status, const char *format, ...) {
    char text[sizeof o->err->text];
    va_list arguments;
    if (o->status) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->status = gyre_fail(o->err, status, "%s", text);
}

/* -- tensors by role -- */
/* "model.layers.3.self_attn.q_proj" + ".weight"; 0 where the family has no such role. */
static int tensor_name(const loader *o, gyre_tensor_role role, int64_t layer, const char *suffix, char out[MAX_NAME]) {
    const char *pattern = o->net->arch.names[role];
    if (!pattern) return 0;
    const char *number = strstr(pattern, "%d");
    if (number)
        snprintf(out, MAX_NAME, "%s%.*s%lld%s%s", o->prefix, (int)(number - pattern), pattern, (long long)layer, number + 2,
                 suffix);
    else
        snprintf(out, MAX_NAME, "%s%s%s", o->prefix, pattern, suffix);
    return 1;
}

/* Index in the store, or -1. */
static int64_t find_tensor(const gyre_tensor_store *store, const char *name) {
    int64_t first = 0, end = gyre_tensor_store_count(store);
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        const int order = strcmp(gyre_tensor_store_at(store, middle).name, name);
        if (order == 0) return middle;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}

/* 1 and the tensor, which is then used; 0 where there is none. */
static int take_tensor(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix, gyre_file_tensor *out) {
    char name[MAX_NAME];
    if (o->status || !tensor_name(o, role, layer, suffix, name)) return 0;
    const int64_t index = find_tensor(o->net->store, name);
    if (index < 0) return 0;
    *out = gyre_tensor_store_at(o->net->store, index);
    if (!o->used[index]) o->net->parameter_count += out->count;
    o->used[index] = 1;
    return 1;
}

static int has_tensor(const loader *o, gyre_tensor_role role, int64_t layer) {
    char name[MAX_NAME];
    return tensor_name(o, role, layer, ".weight", name) && find_tensor(o->net->store, name) >= 0;
}

static void fail_missing(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix) {
    char name[MAX_NAME] = "?";
    (void)tensor_name(o, role, layer, suffix, name);
    fail(o, GYRE_EFORMAT, "%s: no such tensor, which a %s has (%s)", name, o->net->arch.family,
         gyre_tensor_store_path(o->net->store));
}

/* -- vectors -- */
static float *load_floats(loader *o, const gyre_file_tensor *tensor) {
    float *out = gyre_network_alloc(o->net, (size_t)tensor->count * sizeof *out);
    if (!out) {
        fail(o, GYRE_ENOMEM, "%s: no memory for %lld numbers (%s)", tensor->name, (long long)tensor->count, tensor->file);
        return NULL;
    }
    if (!o->status) o->status = gyre_stored_read(o->kernels, tensor, out, o->err);
    return o->status ? NULL : out;
}

/* NULL where there is none, and `needed` says that there need not be. */
static float *load_vector(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix, int64_t count, int needed) {
    gyre_file_tensor tensor;
    if (!take_tensor(o, role, layer, suffix, &tensor)) {
        if (needed) fail_missing(o, role, layer, suffix);
        return NULL;
    }
    if (tensor.rank != 1 || tensor.count != count) {
        fail(o, GYRE_EFORMAT, "%s: %lld numbers in %d dimensions, where the config asks for %lld in one (%s, offset %llu)",
             tensor.name, (long long)tensor.count, tensor.rank, (long long)count, tensor.file,
             (unsigned long long)tensor.offset);
        return NULL;
    }
    return load_floats(o, &tensor);
}

static int needs_bias(const loader *o, gyre_tensor_role role) {
    return o->net->arch.required_biases >> role & 1;
}

/* One that nobody asks for is left to check_unknown_tensors: transformers would leave it out without a word. */
static float *bias(loader *o, gyre_tensor_role role, int64_t layer, int64_t count) {
    const int needed = needs_bias(o, role);
    return needed || o->net->arch.optional_biases ? load_vector(o, role, layer, ".bias", count, needed) : NULL;
}

static gyre_norm_weights load_norm(loader *o, gyre_tensor_role role, int64_t layer, int64_t width, int needed) {
    float *gains = load_vector(o, role, layer, ".weight", width, needed);
    for (int64_t i = 0; gains && i < width && o->net->arch.gain_offset != 0; i++)
        gains[i] += (float)o->net->arch.gain_offset;
    return (gyre_norm_weights){gains, gains ? bias(o, role, layer, width) : NULL, width};
}

/* Of a head, or, where norms come after the blocks (olmo2), of all heads side by side. */
static gyre_norm_weights load_head_norm(loader *o, gyre_tensor_role role, int64_t layer, int64_t heads) {
    const gyre_architecture *a = &o->net->arch;
    if (!a->qk_norm) return (gyre_norm_weights){NULL, NULL, 0};
    return load_norm(o, role, layer, a->names[GYRE_TENSOR_ATTN_NORM] ? a->head_dim : heads * a->head_dim, 1);
}

/* -- matrices -- */
static int64_t alignment_of(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? 4 : 2;
}

/* Rows for columns, number by number: of types whose numbers stand alone. */
static void transpose(const gyre_file_tensor *tensor, unsigned char *out) {
    const size_t size = (size_t)gyre_stored_row_bytes(tensor->type, 1);
    const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
    enum { TILE = 64 };
    for (int64_t top = 0; top < rows; top += TILE)
        for (int64_t left = 0; left < columns; left += TILE)
            for (int64_t c = left; c < columns && c < left + TILE; c++)
                for (int64_t r = top; r < rows && r < top + TILE; r++)
                    memcpy(out + (size_t)(c * rows + r) * size, tensor->data + (size_t)(r * columns + c) * size, size);
}

/* Where it lies, or a copy where that is not fit to be read in place. */
static const void *map_or_copy(loader *o, const gyre_file_tensor *tensor, int transposed) {
    if (!transposed && (uintptr_t)tensor->data % (uintptr_t)alignment_of(tensor->type) == 0) return tensor->data;
    unsigned char *copy = gyre_network_alloc(o->net, (size_t)tensor->bytes);
    if (!copy) {
        fail(o, GYRE_ENOMEM, "%s: no memory for %llu bytes (%s)", tensor->name, (unsigned long long)tensor->bytes,
             tensor->file);
        return NULL;
    }
    if (transposed)
        transpose(tensor, copy);
    else
        memcpy(copy, tensor->data, (size_t)tensor->bytes);
    gyre_stored_release_pages(tensor);
    return copy;
}

static gyre_matrix load_matrix(loader *o, const gyre_file_tensor *tensor, int64_t out, int64_t in, int transposed) {
    const int64_t *shape = tensor->shape, first = transposed ? in : out, second = transposed ? out : in;
    if (tensor->rank != 2 || shape[0] != first || shape[1] != second)
        fail(o, GYRE_EFORMAT, "%s: %lld x %lld in %d dimensions, where the config asks for %lld x %lld (%s, offset %llu)",
             tensor->name, (long long)shape[0], (long long)shape[1], tensor->rank, (long long)first, (long long)second,
             tensor->file, (unsigned long long)tensor->offset);
    else if (transposed && gyre_stored_block_size(tensor->type) > 1)
        fail(o, GYRE_EUNSUPPORTED, "%s: %s, stored with its rows for columns (%s)", tensor->name,
             gyre_stored_type_name(tensor->type), tensor->file);
    if (!o->status) o->status = gyre_stored_check_finite(o->kernels, tensor, o->err);
    const void *data = o->status ? NULL : map_or_copy(o, tensor, transposed);
    if (o->status) return (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
    return (gyre_matrix){tensor->type, data, out, in, gyre_stored_row_bytes(tensor->type, in)};
}

static gyre_affine load_affine(loader *o, gyre_tensor_role role, int64_t layer, int64_t out, int64_t in) {
    gyre_file_tensor tensor;
    gyre_affine map = {{GYRE_STORED_F32, NULL, 0, 0, 0}, NULL};
    const int transposed = role >= GYRE_TENSOR_FIRST_OF_LAYER && o->net->arch.transposed;
    if (!take_tensor(o, role, layer, ".weight", &tensor)) {
        fail_missing(o, role, layer, ".weight");
        return map;
    }
    map.w = load_matrix(o, &tensor, out, in, transposed);
    map.bias = bias(o, role, layer, out);
    if (!o->status) o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}

/* -- the model -- */
static void load_layer(loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    const int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    const int first_norms = a->names[GYRE_TENSOR_ATTN_NORM] != NULL;
    if (first_norms) l->attn_norm = load_norm(o, GYRE_TENSOR_ATTN_NORM, layer, a->model_dim, 1);
    if (first_norms && (!a->parallel_residual || a->parallel_mlp_norm))
        l->mlp_norm = load_norm(o, GYRE_TENSOR_MLP_NORM, layer, a->model_dim, 1);
    if (a->post_norms) {
        l->post_attn_norm = load_norm(o, GYRE_TENSOR_POST_ATTN_NORM, layer, a->model_dim, 1);
        l->post_mlp_norm = load_norm(o, GYRE_TENSOR_POST_MLP_NORM, layer, a->model_dim, 1);
    }
    l->query_norm = load_head_norm(o, GYRE_TENSOR_QUERY_NORM, layer, a->heads);
    l->key_norm = load_head_norm(o, GYRE_TENSOR_KEY_NORM, layer, a->kv_heads);
    if (has_tensor(o, GYRE_TENSOR_QKV, layer)) {
        l->qkv[0] = load_affine(o, GYRE_TENSOR_QKV, layer, q + 2 * kv, a->model_dim);
    } else {
        l->qkv[0] = load_affine(o, GYRE_TENSOR_Q, layer, q, a->model_dim);
        l->qkv[1] = load_affine(o, GYRE_TENSOR_K, layer, kv, a->model_dim);
        l->qkv[2] = load_affine(o, GYRE_TENSOR_V, layer, kv, a->model_dim);
    }
    l->o = load_affine(o, GYRE_TENSOR_O, layer, a->model_dim, q);
    if (a->gated && has_tensor(o, GYRE_TENSOR_GATE_UP, layer)) {
        l->gate_up[0] = load_affine(o, GYRE_TENSOR_GATE_UP, layer, 2 * a->mlp_dim, a->model_dim);
    } else {
        if (a->gated) l->gate_up[0] = load_affine(o, GYRE_TENSOR_GATE, layer, a->mlp_dim, a->model_dim);
        l->gate_up[a->gated] = load_affine(o, GYRE_TENSOR_UP, layer, a->mlp_dim, a->model_dim);
    }
    l->down = load_affine(o, GYRE_TENSOR_DOWN, layer, a->model_dim, a->mlp_dim);
}

/* A learned table, as its encoding asks for it. */
static void load_position_embedding(loader *o) {
    const gyre_encoding *encoding = o->net->group[o->net->main_group].encoding;
    const gyre_table_size *t = &encoding->table[GYRE_TABLE_INPUT];
    gyre_file_tensor tensor;
    for (int which = 0; which < GYRE_TABLE_COUNT && !o->status; which++)
        if (which != GYRE_TABLE_INPUT && encoding->table[which].rows > 0)
            fail(o, GYRE_EUNSUPPORTED, "%s: a position table beside the input's is not read from such files (%s)",
                 gyre_kind_name(encoding->config.kind), gyre_tensor_store_path(o->net->store));
    if (t->rows == 0) return;
    if (!take_tensor(o, GYRE_TENSOR_POSITION_EMBEDDING, 0, ".weight", &tensor)) {
        fail_missing(o, GYRE_TENSOR_POSITION_EMBEDDING, 0, ".weight");
        return;
    }
    (void)load_matrix(o, &tensor, t->rows, t->channels, 0);
    const float *rows = o->status ? NULL : load_floats(o, &tensor);
    if (rows) o->net->input = gyre_cdense(rows, GYRE_DTYPE_F32, 1, 1, t->rows, t->channels);
}

/* The embedding, where the model is said to be tied and its files hold no other: what transformers 5 ties. */
static void load_lm_head(loader *o) {
    const gyre_architecture *a = &o->net->arch;
    const char *prefix = o->prefix;
    o->prefix = ""; /* "transformer." may stand before the others, never before this */
    if (a->tied && !has_tensor(o, GYRE_TENSOR_LM_HEAD, 0)) {
        o->net->lm_head = o->net->embedding;
    } else {
        if (!o->status) o->net->weight_bytes -= o->net->embedding.w.out * o->net->embedding.w.row_bytes;
        o->net->lm_head = load_affine(o, GYRE_TENSOR_LM_HEAD, 0, a->vocab, a->model_dim);
    }
    o->prefix = prefix;
}

static void load_tensors(loader *o) {
    const gyre_architecture *a = &o->net->arch;
    char name[MAX_NAME];
    o->prefix = a->prefix;
    (void)tensor_name(o, GYRE_TENSOR_EMBEDDING, 0, ".weight", name);
    if (find_tensor(o->net->store, name) < 0) o->prefix = "";
    o->net->embedding = load_affine(o, GYRE_TENSOR_EMBEDDING, 0, a->vocab, a->model_dim);
    load_position_embedding(o);
    o->net->embed_norm = load_norm(o, GYRE_TENSOR_EMBED_NORM, 0, a->model_dim,
                                   a->names[GYRE_TENSOR_EMBED_NORM] && needs_bias(o, GYRE_TENSOR_EMBED_NORM));
    for (int64_t layer = 0; layer < a->layers && !o->status; layer++)
        load_layer(o, layer);
    o->net->final_norm = load_norm(o, GYRE_TENSOR_FINAL_NORM, 0, a->model_dim, 1);
    load_lm_head(o);
}

/* -- what is left over -- */
static int ends_with(const char *name, const char *tail) {
    const size_t length = strlen(name), part = strlen(tail);
    return length >= part && strcmp(name + length - part, tail) == 0;
}

/* Tables that a class keeps in its files, though they follow from the config: masks, frequencies (read by gyre_reading
 * where they count). */
static int is_ignored(const char *name) {
    static const char *const tails[] = {
        ".rotary_emb.inv_freq",   ".attn.bias",        ".attn.masked_bias",        ".attention.bias",
        ".attention.masked_bias", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (ends_with(name, tails[i])) return 1;
    return 0;
}

/* What reads images, beside the decoder. */
static int is_vision_tensor(const gyre_architecture *a, const char *name) {
    return a->vision_tower && (strncmp(name, "vision_tower.", 13) == 0 || strncmp(name, "multi_modal_projector.", 22) == 0);
}

/* A weight that nothing here computes with (a bias, a layer more) would be left out without a word. */
static void check_unknown_tensors(loader *o) {
    for (int64_t i = 0; i < gyre_tensor_store_count(o->net->store) && !o->status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(o->net->store, i);
        if (o->used[i] || is_ignored(tensor.name) || is_vision_tensor(&o->net->arch, tensor.name)) continue;
        fail(o, GYRE_EFORMAT, "%.100s: no tensor of the %s that the config describes%s (%s, offset %llu)",
             gyre_make_printable(tensor.name, strlen(tensor.name)).text, o->net->arch.family,
             ends_with(tensor.name, ".bias") ? ", which has no such bias" : "", tensor.file,
             (unsigned long long)tensor.offset);
    }
}

/* -- positions -- */
static void create_group_encoding(loader *o, const gyre_layer_reading *from, gyre_network_group *to) {
    const gyre_architecture *a = &o->net->arch;
    gyre_config config = from->config;
    gyre_error why = {0, ""};
    if (config.kind == GYRE_KIND_ALIBI && config.heads != a->heads)
        fail(o, GYRE_EFORMAT, "heads: slopes of %lld, but %lld heads (%s)", (long long)config.heads, (long long)a->heads,
             o->net->reading->path);
    config.heads = a->heads;
    config.head_dim = a->head_dim;
    config.input.dim = a->model_dim;
    to->scale = from->scale;
    to->window = from->window;
    if (o->status) return;
    const gyre_status status = gyre_encoding_create(&to->encoding, &config, NULL, &why);
    if (status) fail(o, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why.text, o->net->reading->path);
}

/* Gemma 2's layers turn alike whatever they see; Gemma 3's local ones do not, and keep their own where the others are
 * stretched. */
static int same_positions(const gyre_encoding *a, const gyre_encoding *b) {
    const gyre_config *c = gyre_encoding_get_config(a), *d = gyre_encoding_get_config(b);
    const int64_t pairs = c->rope.dim / 2;
    double one, other, x[MAX_PAIRS], y[MAX_PAIRS];
    if (a == b) return 1;
    if (c->kind != GYRE_KIND_ROPE || d->kind != GYRE_KIND_ROPE || c->rope.dim != d->rope.dim ||
        c->rope.layout != d->rope.layout || c->rope.scaling != d->rope.scaling || pairs > MAX_PAIRS)
        return 0;
    return gyre_encoding_frequencies(a, 0, x, &one) == GYRE_OK && gyre_encoding_frequencies(b, 0, y, &other) == GYRE_OK &&
           one == other && memcmp(x, y, (size_t)pairs * sizeof *x) == 0;
}

static void choose_main_group(gyre_network *n) {
    for (int g = n->groups - 1; g >= 0; g--) {
        const gyre_encoding *encoding = n->group[g].encoding;
        if (n->group[g].window == 0 && encoding && encoding->config.kind != GYRE_KIND_NOPE) n->main_group = g;
    }
    for (int g = 0; g < n->groups; g++)
        n->group[g].shares_main = same_positions(n->group[n->main_group].encoding, n->group[g].encoding);
}

static void create_encodings(loader *o) {
    gyre_network *n = o->net;
    const gyre_reading *reading = n->reading;
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        n->layer[layer].group = reading->groups_count == 1 && reading->groups[0].layers_count == 0 ? 0 : -1;
    for (int64_t g = 0; g < reading->groups_count && !o->status; g++) {
        const gyre_layer_reading *from = &reading->groups[g];
        if (n->arch.vision_tower && strcmp(from->name, "vision") == 0) continue;
        create_group_encoding(o, from, &n->group[n->groups]);
        for (int64_t i = 0; i < from->layers_count; i++)
            if (from->layers[i] < n->arch.layers) n->layer[from->layers[i]].group = n->groups;
        n->groups++;
    }
    if (!o->status) choose_main_group(n);
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        if (n->layer[layer].group < 0)
            fail(o, GYRE_EUNSUPPORTED, "layer %lld: the reading of %s does not tell its positions", (long long)layer,
                 reading->path);
}

/* -- opening -- */
/* The config is read before the weights, so that an error in the model's description is reported before one in its files. */
static gyre_status open_files(gyre_network *n, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err) {
    gyre_status status = config ? gyre_architecture_from_config(&n->arch, config, err) : GYRE_OK;
    if (!status) status = gyre_tensor_store_open(&n->store, path, err);
    if (!status && !config) status = gyre_architecture_from_gguf(&n->arch, gyre_tensor_store_gguf(n->store), path, err);
    if (status) return status;
    return config ? gyre_reading_from_document(&n->reading, config, profile, length, err)
                  : gyre_reading_open(&n->reading, path, profile, length, err);
}

static gyre_status load_network(gyre_network *n, gyre_error *err) {
    loader o = {.net = n, .kernels = gyre_kernels_select(), .err = err};
    n->layer = calloc((size_t)n->arch.layers, sizeof *n->layer);
    n->group = calloc((size_t)n->reading->groups_count, sizeof *n->group);
    o.used = calloc((size_t)gyre_tensor_store_count(n->store) + 1, 1);
    if (!n->layer || !n->group || !o.used)
        fail(&o, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)n->arch.layers);
    if (!o.status) create_encodings(&o);
    (void)gyre_network_set_head_layout(n);
    if (!o.status) load_tensors(&o);
    if (!o.status) check_unknown_tensors(&o);
    free(o.used);
    return o.status;
}

gyre_status gyre_network_open(gyre_network **out, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (!n) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", path);
    gyre_error local;
    gyre_status status = open_files(n, path, config, profile, length, err ? err : &local);
    if (!status) status = load_network(n, err ? err : &local);
    if (status)
        gyre_network_free(n);
    else
        *out = n;
    return status;
}
