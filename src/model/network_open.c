/* network_open.c: a network from a model's files: every tensor found by its name, measured, and left where it lies. */
#include "model/network.h"

#include "core/encoding.h"
#include "files/file_read.h"
#include "files/shown.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { NAME_ROOM = 160, MOST_PAIRS = 1024 };

typedef struct opening {
    gyre_network *net;
    const gyre_kernels *kernels;
    const char *prefix;  /* before the names: the architecture's, or none */
    unsigned char *used; /* [tensors in the store] */
    gyre_error *err;
    gyre_status status; /* the first failure; nothing is done after it */
} opening;

static void fail(opening *o, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void fail(opening *o, gyre_status status, const char *format, ...) {
    char text[sizeof o->err->text];
    va_list arguments;
    if (o->status) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->status = gyre_fail(o->err, status, "%s", text);
}

/* -- tensors by role -----------------------------------------------------------------------------------------------------
 */
/* "model.layers.3.self_attn.q_proj" + ".weight"; 0 where the family has no such role. */
static int name_of(const opening *o, gyre_tensor_role role, int64_t layer, const char *suffix, char out[NAME_ROOM]) {
    const char *pattern = o->net->arch.names[role];
    if (!pattern) return 0;
    const char *number = strstr(pattern, "%d");
    if (number)
        snprintf(out, NAME_ROOM, "%s%.*s%lld%s%s", o->prefix, (int)(number - pattern), pattern, (long long)layer, number + 2,
                 suffix);
    else
        snprintf(out, NAME_ROOM, "%s%s%s", o->prefix, pattern, suffix);
    return 1;
}

/* Index in the store, or -1. */
static int64_t index_of(const gyre_store *store, const char *name) {
    int64_t first = 0, end = gyre_store_count(store);
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        const int order = strcmp(gyre_store_at(store, middle).name, name);
        if (order == 0) return middle;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}

/* 1 and the tensor, which is then used; 0 where there is none. */
static int take(opening *o, gyre_tensor_role role, int64_t layer, const char *suffix, gyre_stored *out) {
    char name[NAME_ROOM];
    if (o->status || !name_of(o, role, layer, suffix, name)) return 0;
    const int64_t index = index_of(o->net->store, name);
    if (index < 0) return 0;
    *out = gyre_store_at(o->net->store, index);
    if (!o->used[index]) o->net->parameters += out->count;
    o->used[index] = 1;
    return 1;
}

static int there_is(const opening *o, gyre_tensor_role role, int64_t layer) {
    char name[NAME_ROOM];
    return name_of(o, role, layer, ".weight", name) && index_of(o->net->store, name) >= 0;
}

static void fail_missing(opening *o, gyre_tensor_role role, int64_t layer, const char *suffix) {
    char name[NAME_ROOM] = "?";
    (void)name_of(o, role, layer, suffix, name);
    fail(o, GYRE_EFORMAT, "%s: no such tensor, which a %s has (%s)", name, o->net->arch.family,
         gyre_store_path(o->net->store));
}

/* -- vectors -------------------------------------------------------------------------------------------------------------
 */
static float *read_floats(opening *o, const gyre_stored *tensor) {
    float *out = gyre_network_keep(o->net, (size_t)tensor->count * sizeof *out);
    if (!out) {
        fail(o, GYRE_ENOMEM, "%s: no memory for %lld numbers (%s)", tensor->name, (long long)tensor->count, tensor->file);
        return NULL;
    }
    if (!o->status) o->status = gyre_stored_read(o->kernels, tensor, out, o->err);
    return o->status ? NULL : out;
}

/* NULL where there is none, and `needed` says that there need not be. */
static float *vector(opening *o, gyre_tensor_role role, int64_t layer, const char *suffix, int64_t count, int needed) {
    gyre_stored tensor;
    if (!take(o, role, layer, suffix, &tensor)) {
        if (needed) fail_missing(o, role, layer, suffix);
        return NULL;
    }
    if (tensor.rank != 1 || tensor.count != count) {
        fail(o, GYRE_EFORMAT, "%s: %lld numbers in %d dimensions, where the config asks for %lld in one (%s, offset %llu)",
             tensor.name, (long long)tensor.count, tensor.rank, (long long)count, tensor.file,
             (unsigned long long)tensor.offset);
        return NULL;
    }
    return read_floats(o, &tensor);
}

static int needs_bias(const opening *o, gyre_tensor_role role) {
    return o->net->arch.biases >> role & 1;
}

/* One that nobody asks for is left to check_no_others: transformers would leave it out without a word. */
static float *bias(opening *o, gyre_tensor_role role, int64_t layer, int64_t count) {
    const int needed = needs_bias(o, role);
    return needed || o->net->arch.more_biases ? vector(o, role, layer, ".bias", count, needed) : NULL;
}

static gyre_gain gain(opening *o, gyre_tensor_role role, int64_t layer, int64_t width, int needed) {
    float *gains = vector(o, role, layer, ".weight", width, needed);
    for (int64_t i = 0; gains && i < width && o->net->arch.gain_offset != 0; i++)
        gains[i] += (float)o->net->arch.gain_offset;
    return (gyre_gain){gains, gains ? bias(o, role, layer, width) : NULL, width};
}

/* Of a head, or, where norms come after the blocks (olmo2), of all heads side by side. */
static gyre_gain head_gain(opening *o, gyre_tensor_role role, int64_t layer, int64_t heads) {
    const gyre_architecture *a = &o->net->arch;
    if (!a->head_norms) return (gyre_gain){NULL, NULL, 0};
    return gain(o, role, layer, a->names[GYRE_ROLE_NORM1] ? a->head_dim : heads * a->head_dim, 1);
}

/* -- matrices ------------------------------------------------------------------------------------------------------------
 */
static int64_t alignment_of(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? 4 : 2;
}

/* Rows for columns, number by number: of types whose numbers stand alone. */
static void transpose(const gyre_stored *tensor, unsigned char *out) {
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
static const void *place(opening *o, const gyre_stored *tensor, int transposed) {
    if (!transposed && (uintptr_t)tensor->data % (uintptr_t)alignment_of(tensor->type) == 0) return tensor->data;
    unsigned char *copy = gyre_network_keep(o->net, (size_t)tensor->bytes);
    if (!copy) {
        fail(o, GYRE_ENOMEM, "%s: no memory for %llu bytes (%s)", tensor->name, (unsigned long long)tensor->bytes,
             tensor->file);
        return NULL;
    }
    if (transposed)
        transpose(tensor, copy);
    else
        memcpy(copy, tensor->data, (size_t)tensor->bytes);
    gyre_stored_forget(tensor);
    return copy;
}

static gyre_matrix matrix_of(opening *o, const gyre_stored *tensor, int64_t out, int64_t in, int transposed) {
    const int64_t *shape = tensor->shape, first = transposed ? in : out, second = transposed ? out : in;
    if (tensor->rank != 2 || shape[0] != first || shape[1] != second)
        fail(o, GYRE_EFORMAT, "%s: %lld x %lld in %d dimensions, where the config asks for %lld x %lld (%s, offset %llu)",
             tensor->name, (long long)shape[0], (long long)shape[1], tensor->rank, (long long)first, (long long)second,
             tensor->file, (unsigned long long)tensor->offset);
    else if (transposed && gyre_stored_block(tensor->type) > 1)
        fail(o, GYRE_EUNSUPPORTED, "%s: %s, stored with its rows for columns (%s)", tensor->name,
             gyre_stored_type_name(tensor->type), tensor->file);
    if (!o->status) o->status = gyre_stored_check(o->kernels, tensor, o->err);
    const void *data = o->status ? NULL : place(o, tensor, transposed);
    if (o->status) return (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
    return (gyre_matrix){tensor->type, data, out, in, gyre_stored_row_bytes(tensor->type, in)};
}

static gyre_affine affine(opening *o, gyre_tensor_role role, int64_t layer, int64_t out, int64_t in) {
    gyre_stored tensor;
    gyre_affine map = {{GYRE_STORED_F32, NULL, 0, 0, 0}, NULL};
    const int transposed = role >= GYRE_ROLES_OF_MODEL && o->net->arch.transposed;
    if (!take(o, role, layer, ".weight", &tensor)) {
        fail_missing(o, role, layer, ".weight");
        return map;
    }
    map.w = matrix_of(o, &tensor, out, in, transposed);
    map.bias = bias(o, role, layer, out);
    if (!o->status) o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}

/* -- the model -----------------------------------------------------------------------------------------------------------
 */
static void open_layer(opening *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    const int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    const int first_norms = a->names[GYRE_ROLE_NORM1] != NULL;
    if (first_norms) l->norm1 = gain(o, GYRE_ROLE_NORM1, layer, a->width, 1);
    if (first_norms && (!a->parallel || a->parallel_norm2)) l->norm2 = gain(o, GYRE_ROLE_NORM2, layer, a->width, 1);
    if (a->post_norms) {
        l->post1 = gain(o, GYRE_ROLE_POST1, layer, a->width, 1);
        l->post2 = gain(o, GYRE_ROLE_POST2, layer, a->width, 1);
    }
    l->query_norm = head_gain(o, GYRE_ROLE_QUERY_NORM, layer, a->heads);
    l->key_norm = head_gain(o, GYRE_ROLE_KEY_NORM, layer, a->kv_heads);
    if (there_is(o, GYRE_ROLE_QKV, layer)) {
        l->qkv[0] = affine(o, GYRE_ROLE_QKV, layer, q + 2 * kv, a->width);
    } else {
        l->qkv[0] = affine(o, GYRE_ROLE_Q, layer, q, a->width);
        l->qkv[1] = affine(o, GYRE_ROLE_K, layer, kv, a->width);
        l->qkv[2] = affine(o, GYRE_ROLE_V, layer, kv, a->width);
    }
    l->o = affine(o, GYRE_ROLE_O, layer, a->width, q);
    if (a->gated && there_is(o, GYRE_ROLE_GATE_UP, layer)) {
        l->up[0] = affine(o, GYRE_ROLE_GATE_UP, layer, 2 * a->hidden, a->width);
    } else {
        if (a->gated) l->up[0] = affine(o, GYRE_ROLE_GATE, layer, a->hidden, a->width);
        l->up[a->gated] = affine(o, GYRE_ROLE_UP, layer, a->hidden, a->width);
    }
    l->down = affine(o, GYRE_ROLE_DOWN, layer, a->width, a->hidden);
}

/* A learned table, as its encoding asks for it. */
static void open_positions(opening *o) {
    const gyre_encoding *encoding = o->net->group[o->net->main].encoding;
    const gyre_table_size *t = &encoding->table[GYRE_TABLE_INPUT];
    gyre_stored tensor;
    for (int which = 0; which < GYRE_TABLES && !o->status; which++)
        if (which != GYRE_TABLE_INPUT && encoding->table[which].rows > 0)
            fail(o, GYRE_EUNSUPPORTED, "%s: a position table beside the input's is not read from such files (%s)",
                 gyre_kind_name(encoding->config.kind), gyre_store_path(o->net->store));
    if (t->rows == 0) return;
    if (!take(o, GYRE_ROLE_POSITIONS, 0, ".weight", &tensor)) {
        fail_missing(o, GYRE_ROLE_POSITIONS, 0, ".weight");
        return;
    }
    (void)matrix_of(o, &tensor, t->rows, t->channels, 0);
    const float *rows = o->status ? NULL : read_floats(o, &tensor);
    if (rows) o->net->input = gyre_cdense(rows, GYRE_F32, 1, 1, t->rows, t->channels);
}

/* The embedding, where the model is said to be tied and its files hold no other: what transformers 5 ties. */
static void open_head(opening *o) {
    const gyre_architecture *a = &o->net->arch;
    const char *prefix = o->prefix;
    o->prefix = ""; /* "transformer." may stand before the others, never before this */
    if (a->tied && !there_is(o, GYRE_ROLE_HEAD, 0)) {
        o->net->head = o->net->embedding;
    } else {
        if (!o->status) o->net->weight_bytes -= o->net->embedding.w.out * o->net->embedding.w.row_bytes;
        o->net->head = affine(o, GYRE_ROLE_HEAD, 0, a->vocab, a->width);
    }
    o->prefix = prefix;
}

static void open_tensors(opening *o) {
    const gyre_architecture *a = &o->net->arch;
    char name[NAME_ROOM];
    o->prefix = a->prefix;
    (void)name_of(o, GYRE_ROLE_EMBEDDING, 0, ".weight", name);
    if (index_of(o->net->store, name) < 0) o->prefix = "";
    o->net->embedding = affine(o, GYRE_ROLE_EMBEDDING, 0, a->vocab, a->width);
    open_positions(o);
    o->net->embed_norm =
        gain(o, GYRE_ROLE_EMBED_NORM, 0, a->width, a->names[GYRE_ROLE_EMBED_NORM] && needs_bias(o, GYRE_ROLE_EMBED_NORM));
    for (int64_t layer = 0; layer < a->layers && !o->status; layer++)
        open_layer(o, layer);
    o->net->last_norm = gain(o, GYRE_ROLE_LAST_NORM, 0, a->width, 1);
    open_head(o);
}

/* -- what is left over ---------------------------------------------------------------------------------------------------
 */
static int ends_in(const char *name, const char *tail) {
    const size_t length = strlen(name), part = strlen(tail);
    return length >= part && strcmp(name + length - part, tail) == 0;
}

/* Tables that a class keeps in its files, though they follow from the config: masks, frequencies (read by gyre_reading
 * where they count). */
static int is_passed_over(const char *name) {
    static const char *const tails[] = {
        ".rotary_emb.inv_freq",   ".attn.bias",        ".attn.masked_bias",        ".attention.bias",
        ".attention.masked_bias", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (ends_in(name, tails[i])) return 1;
    return 0;
}

/* What reads images, beside the decoder. */
static int is_of_tower(const gyre_architecture *a, const char *name) {
    return a->tower && (strncmp(name, "vision_tower.", 13) == 0 || strncmp(name, "multi_modal_projector.", 22) == 0);
}

/* A weight that nothing here computes with (a bias, a layer more) would be left out without a word. */
static void check_no_others(opening *o) {
    for (int64_t i = 0; i < gyre_store_count(o->net->store) && !o->status; i++) {
        const gyre_stored tensor = gyre_store_at(o->net->store, i);
        if (o->used[i] || is_passed_over(tensor.name) || is_of_tower(&o->net->arch, tensor.name)) continue;
        fail(o, GYRE_EFORMAT, "%.100s: no tensor of the %s that the config describes%s (%s, offset %llu)",
             gyre_show(tensor.name, strlen(tensor.name)).text, o->net->arch.family,
             ends_in(tensor.name, ".bias") ? ", which has no such bias" : "", tensor.file,
             (unsigned long long)tensor.offset);
    }
}

/* -- positions -----------------------------------------------------------------------------------------------------------
 */
static void open_group(opening *o, const gyre_layer_reading *from, gyre_network_group *to) {
    const gyre_architecture *a = &o->net->arch;
    gyre_config config = from->config;
    gyre_error why = {0, ""};
    if (config.kind == GYRE_ALIBI && config.heads != a->heads)
        fail(o, GYRE_EFORMAT, "heads: slopes of %lld, but %lld heads (%s)", (long long)config.heads, (long long)a->heads,
             o->net->reading->path);
    config.heads = a->heads;
    config.head_dim = a->head_dim;
    config.input.dim = a->width;
    to->scale = from->scale;
    to->window = from->window;
    if (o->status) return;
    const gyre_status status = gyre_encoding_create(&to->encoding, &config, NULL, &why);
    if (status) fail(o, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why.text, o->net->reading->path);
}

/* Gemma 2's layers turn alike whatever they see; Gemma 3's local ones do not, and keep their own where the others are
 * stretched. */
static int same_positions(const gyre_encoding *a, const gyre_encoding *b) {
    const gyre_config *c = gyre_encoding_config(a), *d = gyre_encoding_config(b);
    const int64_t pairs = c->rope.dim / 2;
    double one, other, x[MOST_PAIRS], y[MOST_PAIRS];
    if (a == b) return 1;
    if (c->kind != GYRE_ROPE || d->kind != GYRE_ROPE || c->rope.dim != d->rope.dim || c->rope.layout != d->rope.layout ||
        c->rope.scaling != d->rope.scaling || pairs > MOST_PAIRS)
        return 0;
    return gyre_encoding_frequencies(a, 0, x, &one) == GYRE_OK && gyre_encoding_frequencies(b, 0, y, &other) == GYRE_OK &&
           one == other && memcmp(x, y, (size_t)pairs * sizeof *x) == 0;
}

static void choose_main(gyre_network *n) {
    for (int g = n->groups - 1; g >= 0; g--) {
        const gyre_encoding *encoding = n->group[g].encoding;
        if (n->group[g].window == 0 && encoding && encoding->config.kind != GYRE_NOPE) n->main = g;
    }
    for (int g = 0; g < n->groups; g++)
        n->group[g].shares = same_positions(n->group[n->main].encoding, n->group[g].encoding);
}

static void open_positions_of_layers(opening *o) {
    gyre_network *n = o->net;
    const gyre_reading *reading = n->reading;
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        n->layer[layer].group = reading->groups_count == 1 && reading->groups[0].layers_count == 0 ? 0 : -1;
    for (int64_t g = 0; g < reading->groups_count && !o->status; g++) {
        const gyre_layer_reading *from = &reading->groups[g];
        if (n->arch.tower && strcmp(from->name, "vision") == 0) continue;
        open_group(o, from, &n->group[n->groups]);
        for (int64_t i = 0; i < from->layers_count; i++)
            if (from->layers[i] < n->arch.layers) n->layer[from->layers[i]].group = n->groups;
        n->groups++;
    }
    if (!o->status) choose_main(n);
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        if (n->layer[layer].group < 0)
            fail(o, GYRE_EUNSUPPORTED, "layer %lld: the reading of %s does not tell its positions", (long long)layer,
                 reading->path);
}

/* -- opening -------------------------------------------------------------------------------------------------------------
 */
/* The config.json beside the weights. */
static gyre_status config_path(const char *path, char out[PATH_MAX], gyre_error *err) {
    const size_t length = strlen(path);
    int written;
    if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0) {
        const char *slash = strrchr(path, '/');
        written = snprintf(out, PATH_MAX, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
    } else {
        written = snprintf(out, PATH_MAX, "%s/config.json", path);
    }
    return written < PATH_MAX ? GYRE_OK : gyre_fail(err, GYRE_EIO, "config.json: path too long (%.200s...)", path);
}

/* A config before its weights: what is wrong with the model is then told before what is wrong with a file of it. */
static gyre_status open_config(gyre_network *n, const char *described, gyre_error *err) {
    char *json;
    size_t bytes;
    gyre_status status = gyre_file_read(described, &json, &bytes, err);
    if (status) return status;
    status = gyre_architecture_of_config(&n->arch, json, bytes, described, err);
    free(json);
    return status;
}

static gyre_status open_described(gyre_network *n, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    const int is_gguf = gyre_file_begins(path, "GGUF", 4);
    char described[PATH_MAX];
    gyre_status status = is_gguf ? GYRE_OK : config_path(path, described, err);
    if (!status && !is_gguf) status = open_config(n, described, err);
    if (!status) status = gyre_store_open(&n->store, path, err);
    if (!status && is_gguf) status = gyre_architecture_of_gguf(&n->arch, gyre_store_gguf(n->store), path, err);
    if (!status) status = gyre_reading_open(&n->reading, is_gguf ? path : described, profile, length, err);
    return status;
}

static gyre_status open_parts(gyre_network *n, gyre_error *err) {
    opening o = {.net = n, .kernels = gyre_kernels_pick(), .err = err};
    n->layer = calloc((size_t)n->arch.layers, sizeof *n->layer);
    n->group = calloc((size_t)n->reading->groups_count, sizeof *n->group);
    o.used = calloc((size_t)gyre_store_count(n->store) + 1, 1);
    if (!n->layer || !n->group || !o.used)
        fail(&o, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)n->arch.layers);
    if (!o.status) open_positions_of_layers(&o);
    (void)gyre_network_place_heads(n);
    if (!o.status) open_tensors(&o);
    if (!o.status) check_no_others(&o);
    free(o.used);
    return o.status;
}

gyre_status gyre_network_open(gyre_network **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (!n) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", path);
    gyre_error local;
    gyre_status status = open_described(n, path, profile, length, err ? err : &local);
    if (!status) status = open_parts(n, err ? err : &local);
    if (status)
        gyre_network_free(n);
    else
        *out = n;
    return status;
}
