#include "model/network_weights.h"

#include "core/encoding.h"
#include "files/printable_name.h"
#include "util/error.h"
#include "util/path.h"
#include "util/plain_numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = GYRE_TENSOR_NAME };

typedef struct loader {
    gyre_network *net;
    const gyre_kernels *kernels;
    unsigned char *used;     /* [tensors in the store] 1 = read */
    gyre_fault_list *faults; /* NULL = the first fault ends the loading */
    gyre_error *err;
    gyre_status status; /* the first failure; every later step then does nothing */
} loader;

static void fail(loader *o, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void fail(loader *o, gyre_status status, const char *format, ...) {
    char text[sizeof o->err->text];
    va_list arguments;
    if (o->status) return;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (o->faults && status != GYRE_ENOMEM)
        o->status = gyre_fault_list_add(o->faults, text, o->err);
    else
        o->status = gyre_fail(o->err, status, "%s", text);
}

/* -- tensors by role -- */
int gyre_network_tensor_name(const gyre_network *n, gyre_tensor_role role, int64_t layer, const char *suffix,
                             char out[GYRE_TENSOR_NAME]) {
    const char *pattern = n->arch.names[role];
    if (!pattern) return 0;
    /* lm_head never has the prefix that other names may have ("transformer.") */
    const char *number = strstr(pattern, "%d"), *prefix = role == GYRE_TENSOR_LM_HEAD ? "" : n->arch.prefix;
    if (number)
        snprintf(out, GYRE_TENSOR_NAME, "%s%.*s%lld%s%s", prefix, (int)(number - pattern), pattern, (long long)layer,
                 number + 2, suffix);
    else
        snprintf(out, GYRE_TENSOR_NAME, "%s%s%s", prefix, pattern, suffix);
    return 1;
}

/* Binary search: the store is sorted by name. */
int64_t gyre_network_find_tensor(const gyre_tensor_store *store, const char *name) {
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

/* Returns 1, with the tensor in *out and marked as used, or 0 if there is none. */
static int take_tensor(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix, gyre_file_tensor *out) {
    char name[MAX_NAME];
    if (o->status || !gyre_network_tensor_name(o->net, role, layer, suffix, name)) return 0;
    const int64_t index = gyre_network_find_tensor(o->net->store, name);
    if (index < 0) return 0;
    *out = gyre_tensor_store_at(o->net->store, index);
    if (!o->used[index]) o->net->parameter_count += out->count;
    o->used[index] = 1;
    return 1;
}

static int has_tensor(const loader *o, gyre_tensor_role role, int64_t layer) {
    char name[MAX_NAME];
    return gyre_network_tensor_name(o->net, role, layer, ".weight", name) &&
           gyre_network_find_tensor(o->net->store, name) >= 0;
}

static void fail_missing(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix) {
    char name[MAX_NAME] = "?";
    (void)gyre_network_tensor_name(o->net, role, layer, suffix, name);
    fail(o, GYRE_EFORMAT, "%s: no such tensor, which a %s has (%s)", name, o->net->arch.family,
         gyre_tensor_store_path(o->net->store));
}

/* -- vectors -- */
/* Where all faults are listed no number is used, and those that are not finite are listed by the caller. */
static float *load_floats(loader *o, const gyre_file_tensor *tensor) {
    if (o->faults) {
        if (tensor->type == GYRE_STORED_OTHER) gyre_fault_list_add_unread(o->faults, tensor);
        return NULL;
    }
    float *out = gyre_network_alloc(o->net, (size_t)tensor->count * sizeof *out);
    if (!out) {
        fail(o, GYRE_ENOMEM, "%s: no memory for %lld numbers (%s)", tensor->name, (long long)tensor->count, tensor->file);
        return NULL;
    }
    if (!o->status) o->status = gyre_stored_read(o->kernels, tensor, out, o->err);
    return o->status ? NULL : out;
}

/* Returns NULL if the file has no such vector, which is an error if `required`. */
static float *load_vector(loader *o, gyre_tensor_role role, int64_t layer, const char *suffix, int64_t count, int required) {
    gyre_file_tensor tensor;
    if (!take_tensor(o, role, layer, suffix, &tensor)) {
        if (required) fail_missing(o, role, layer, suffix);
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

static int requires_bias(const loader *o, gyre_tensor_role role) {
    return o->net->arch.required_biases >> role & 1;
}

/* A bias that the architecture does not have is left to check_unknown_tensors, which refuses it.  transformers would
 * ignore it silently. */
static float *load_bias(loader *o, gyre_tensor_role role, int64_t layer, int64_t count) {
    const int required = requires_bias(o, role);
    return required || o->net->arch.optional_biases ? load_vector(o, role, layer, ".bias", count, required) : NULL;
}

static gyre_norm_weights load_norm(loader *o, gyre_tensor_role role, int64_t layer, int64_t dim, int required) {
    float *gains = load_vector(o, role, layer, ".weight", dim, required);
    for (int64_t i = 0; gains && i < dim && o->net->arch.gain_offset != 0; i++)
        gains[i] += (float)o->net->arch.gain_offset;
    return (gyre_norm_weights){gains, gains || o->faults ? load_bias(o, role, layer, dim) : NULL, dim};
}

/* The norm of queries or keys: of each head alone, or of all heads at once in families without norms before the blocks
 * (olmo2). */
static gyre_norm_weights load_head_norm(loader *o, gyre_tensor_role role, int64_t layer, int64_t heads) {
    const gyre_architecture *a = &o->net->arch;
    if (!a->qk_norm) return (gyre_norm_weights){NULL, NULL, 0};
    return load_norm(o, role, layer, a->names[GYRE_TENSOR_ATTN_NORM] ? a->head_dim : heads * a->head_dim, 1);
}

/* -- matrices -- */
static int64_t alignment_of(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? 4 : 2;
}

/* out = the transposed matrix.  The type must store each number separately (no quantized blocks). */
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

/* Returns the tensor's place in the mapped file, or a copy if it is misaligned or stored transposed. */
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
    else if (o->faults && tensor->type == GYRE_STORED_OTHER)
        gyre_fault_list_add_unread(o->faults, tensor);
    if (o->faults) return (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
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
    if (o->faults && role == GYRE_TENSOR_EMBEDDING) o->faults->vocab = tensor.shape[0];
    map.w = load_matrix(o, &tensor, out, in, transposed);
    map.bias = load_bias(o, role, layer, out);
    if (!o->status) o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}

/* -- layers -- */
static void load_layer(loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    const int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    const int pre_norms = a->names[GYRE_TENSOR_ATTN_NORM] != NULL;
    if (pre_norms) l->attn_norm = load_norm(o, GYRE_TENSOR_ATTN_NORM, layer, a->model_dim, 1);
    if (pre_norms && (!a->parallel_residual || a->parallel_mlp_norm))
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

/* The position table that the main group's encoding adds to the embeddings, if it has one.  Without groups, which only a
 * list of all faults does without, it is taken as it is. */
static void load_position_embedding(loader *o) {
    gyre_file_tensor tensor;
    if (o->net->groups == 0) {
        (void)take_tensor(o, GYRE_TENSOR_POSITION_EMBEDDING, 0, ".weight", &tensor);
        return;
    }
    const gyre_encoding *encoding = o->net->group[o->net->main_group].encoding;
    const gyre_table_size *t = &encoding->table[GYRE_TABLE_INPUT];
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

/* Uses the embedding if the model is tied and its files hold no lm_head, as transformers 5 does. */
static void load_lm_head(loader *o) {
    const gyre_architecture *a = &o->net->arch;
    if (a->tied && !has_tensor(o, GYRE_TENSOR_LM_HEAD, 0)) {
        o->net->lm_head = o->net->embedding;
    } else {
        if (!o->status) o->net->weight_bytes -= o->net->embedding.w.out * o->net->embedding.w.row_bytes;
        o->net->lm_head = load_affine(o, GYRE_TENSOR_LM_HEAD, 0, a->vocab, a->model_dim);
    }
}

static void load_tensors(loader *o) {
    const gyre_architecture *a = &o->net->arch;
    char name[MAX_NAME];
    (void)gyre_network_tensor_name(o->net, GYRE_TENSOR_EMBEDDING, 0, ".weight", name);
    if (gyre_network_find_tensor(o->net->store, name) < 0) o->net->arch.prefix = "";
    o->net->embedding = load_affine(o, GYRE_TENSOR_EMBEDDING, 0, a->vocab, a->model_dim);
    load_position_embedding(o);
    o->net->embed_norm = load_norm(o, GYRE_TENSOR_EMBED_NORM, 0, a->model_dim,
                                   a->names[GYRE_TENSOR_EMBED_NORM] && requires_bias(o, GYRE_TENSOR_EMBED_NORM));
    for (int64_t layer = 0; layer < a->layers && !o->status; layer++)
        load_layer(o, layer);
    o->net->final_norm = load_norm(o, GYRE_TENSOR_FINAL_NORM, 0, a->model_dim, 1);
    load_lm_head(o);
}

/* -- tensors that nothing used -- */
/* Buffers that some classes save although the config implies them: masks, and frequencies (gyre_reading reads those that
 * matter). */
int gyre_network_ignores(const char *name) {
    static const char *const tails[] = {
        ".rotary_emb.inv_freq",   ".attn.bias",        ".attn.masked_bias",        ".attention.bias",
        ".attention.masked_bias", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (gyre_ends_with(name, tails[i])) return 1;
    return 0;
}

/* Tensors of the image encoder that the files of a multimodal model hold beside the decoder. */
static int is_vision_tensor(const gyre_architecture *a, const char *name) {
    return a->vision_tower && (strncmp(name, "vision_tower.", 13) == 0 || strncmp(name, "multi_modal_projector.", 22) == 0);
}

/* Refuses weights that the decoder would silently ignore: a bias, an extra layer. */
static void check_unknown_tensors(loader *o) {
    for (int64_t i = 0; i < gyre_tensor_store_count(o->net->store) && !o->status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(o->net->store, i);
        if (o->used[i] || gyre_network_ignores(tensor.name) || is_vision_tensor(&o->net->arch, tensor.name)) continue;
        fail(o, GYRE_EFORMAT, "%.100s: no tensor of the %s that the config describes%s (%s, offset %llu)",
             gyre_make_printable(tensor.name, strlen(tensor.name)).text, o->net->arch.family,
             gyre_ends_with(tensor.name, ".bias") ? ", which has no such bias" : "", tensor.file,
             (unsigned long long)tensor.offset);
    }
}

static gyre_status load(gyre_network *network, gyre_fault_list *faults, gyre_error *err) {
    loader o = {.net = network, .kernels = gyre_kernels_select(), .faults = faults, .err = err};
    o.used = calloc((size_t)gyre_tensor_store_count(network->store) + 1, 1);
    if (!o.used) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for its list of tensors");
    load_tensors(&o);
    check_unknown_tensors(&o);
    free(o.used);
    return o.status;
}

gyre_status gyre_network_load_weights(gyre_network *network, gyre_error *err) {
    return load(network, NULL, err);
}

gyre_status gyre_network_list_faults(gyre_network *network, gyre_fault_list *faults, gyre_error *err) {
    return load(network, faults, err);
}
