/* tensor_store_index.c: a model in several .safetensors files, listed by an index: {"weight_map": {TENSOR: FILE, ...}}.
 * Every tensor must be in the file that the index names, and no file may hold others. */
#include "files/json_locate.h"
#include "files/printable_name.h"
#include "files/tensors/tensor_store_files.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX_BYTES = 1 << 26, /* ten times the index of the largest models */
    MAX_KEY_DOTS = 32          /* in a name that is located in the text: each dot may cost a walk of it */
};
static const char weight_map_key[] = "weight_map";

/* One entry of the index. */
typedef struct index_entry {
    const char *tensor, *shard;
    int64_t file;
} index_entry;

typedef struct weight_index {
    const char *path;
    gyre_mapping map;
    json_t *root;
    index_entry *index_entries; /* sorted by tensor */
    int64_t count;
    const char **shards; /* sorted, each once */
    int64_t shards_count;
} weight_index;

/* -- failures -- */
/* *line and *offset = where the index names a tensor, or where "weight_map" is if tensor is NULL.  1 and 0 if it is not
 * found. */
static void find_key(const weight_index *x, const char *tensor, int64_t *line, uint64_t *offset) {
    gyre_json_member member = {.key = 0, .line = 1};
    size_t dots = 0;
    for (const char *p = tensor ? tensor : ""; *p; p++)
        dots += *p == '.';
    char *key = tensor && dots <= MAX_KEY_DOTS ? malloc(sizeof weight_map_key + 1 + strlen(tensor)) : NULL;
    if (key) sprintf(key, "%s.%s", weight_map_key, tensor);
    if (!gyre_json_locate((const char *)x->map.bytes, x->map.size, key ? key : weight_map_key, &member))
        member = (gyre_json_member){.key = 0, .line = 1};
    free(key);
    *line = member.line;
    *offset = member.key;
}

static gyre_status failed(const weight_index *x, const char *tensor, gyre_status status, gyre_error *err, const char *format,
                          ...) __attribute__((format(printf, 5, 6)));
static gyre_status failed(const weight_index *x, const char *tensor, gyre_status status, gyre_error *err, const char *format,
                          ...) {
    char text[360];
    int64_t line;
    uint64_t offset;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    find_key(x, tensor, &line, &offset);
    (void)gyre_fail(err, status, "%s%s%s: %s (%s, line %" PRId64 ")", weight_map_key, tensor ? "." : "",
                    tensor ? gyre_make_printable(tensor, strlen(tensor)).text : "", text, x->path, line);
    if (err) err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* It does not look into variadic functions. */
#define failed(x, tensor, status, ...) ((void)failed(x, tensor, status, __VA_ARGS__), (status))
#endif

static gyre_status no_memory(const weight_index *x, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "no memory for the index (%s)", x->path);
}

/* -- the index -- */
static gyre_status parse(weight_index *x, gyre_error *err) {
    json_error_t error;
    if (x->map.size > MAX_INDEX_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "index: %zu bytes, at most %d (%s)", x->map.size, MAX_INDEX_BYTES, x->path);
    x->root = json_loadb((const char *)x->map.bytes, x->map.size, JSON_REJECT_DUPLICATES, &error);
    if (x->root) return GYRE_OK;
    gyre_fail(err, GYRE_EFORMAT, "index: %s (%s, line %d)", error.text, x->path, error.line > 0 ? error.line : 1);
    if (err) err->offset = (uint64_t)(error.position > 0 ? error.position : 0);
    return GYRE_EFORMAT; /* jansson reports running out of memory the same way */
}

static int by_tensor(const void *a, const void *b) {
    return strcmp(((const index_entry *)a)->tensor, ((const index_entry *)b)->tensor);
}
static int by_shard(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that leads out of the folder is refused. */
static int is_plain(const char *name) {
    return *name && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static gyre_status read_weight_map(weight_index *x, gyre_error *err) {
    const char *tensor;
    json_t *shard, *map = json_object_get(x->root, weight_map_key);
    if (!json_is_object(map)) return failed(x, NULL, GYRE_EFORMAT, err, "no object of that name");
    if (json_object_size(map) == 0) return failed(x, NULL, GYRE_EFORMAT, err, "names no tensor");
    x->index_entries = calloc(json_object_size(map), sizeof *x->index_entries);
    x->shards = calloc(json_object_size(map), sizeof *x->shards);
    if (!x->index_entries || !x->shards) return no_memory(x, err);
    json_object_foreach(map, tensor, shard) {
        if (!json_is_string(shard)) return failed(x, tensor, GYRE_EFORMAT, err, "not the name of a file");
        const char *name = json_string_value(shard);
        if (!is_plain(name))
            return failed(x, tensor, GYRE_EFORMAT, err, "\"%s\" is not the name of a file beside the index",
                          gyre_make_printable(name, strlen(name)).text);
        x->shards[x->count] = name;
        x->index_entries[x->count++] = (index_entry){tensor, name, 0};
    }
    qsort(x->index_entries, (size_t)x->count, sizeof *x->index_entries, by_tensor);
    qsort(x->shards, (size_t)x->count, sizeof *x->shards, by_shard);
    for (int64_t i = 0; i < x->count; i++)
        if (i == 0 || strcmp(x->shards[i], x->shards[i - 1]) != 0) x->shards[x->shards_count++] = x->shards[i];
    return GYRE_OK;
}

/* out = the first tensor that the index puts into this file. */
static const char *first_tensor_in(const weight_index *x, const char *shard) {
    for (int64_t i = 0; i < x->count; i++)
        if (strcmp(x->index_entries[i].shard, shard) == 0) return x->index_entries[i].tensor;
    return NULL;
}

static int64_t file_of(const weight_index *x, const char *shard) {
    const char *const *found = bsearch(&shard, x->shards, (size_t)x->shards_count, sizeof *x->shards, by_shard);
    return found - x->shards;
}

/* -- its files -- */
static gyre_status open_shards(gyre_tensor_store *store, const weight_index *x, gyre_error *err) {
    store->files = calloc((size_t)x->shards_count, sizeof *store->files);
    if (!store->files) return no_memory(x, err);
    for (int64_t i = 0; i < x->shards_count; i++) {
        gyre_error why = {0, ""};
        char *path = gyre_path_join(store->path, x->shards[i]);
        if (!path) return no_memory(x, err);
        const gyre_status status = gyre_tensor_store_add_safetensors(store, path, &why);
        free(path);
        if (status == GYRE_EIO) return failed(x, first_tensor_in(x, x->shards[i]), status, err, "%s", why.text);
        if (status) {
            if (err) *err = why;
            return status;
        }
    }
    return GYRE_OK;
}

/* out = the index entry of a tensor, or NULL. */
static const index_entry *find_index_entry(const weight_index *x, const char *tensor) {
    const index_entry wanted = {tensor, NULL, 0};
    return bsearch(&wanted, x->index_entries, (size_t)x->count, sizeof *x->index_entries, by_tensor);
}

static gyre_status check_index_entries(const gyre_tensor_store *store, const weight_index *x, gyre_error *err) {
    for (int64_t i = 0; i < store->count; i++) {
        const gyre_file_tensor *t = &store->tensors[i];
        const index_entry *p = find_index_entry(x, t->name);
        if (!p)
            return failed(x, NULL, GYRE_EFORMAT, err, "does not name %s, which is in %s",
                          gyre_make_printable(t->name, strlen(t->name)).text, t->file);
        if (store->files[p->file].path != t->file)
            return failed(x, t->name, GYRE_EFORMAT, err, "said to be in %s, and is in %s",
                          gyre_make_printable(p->shard, strlen(p->shard)).text, t->file);
    }
    gyre_file_tensor found;
    for (int64_t i = 0; i < x->count; i++)
        if (!gyre_tensor_store_find(store, x->index_entries[i].tensor, &found))
            return failed(x, x->index_entries[i].tensor, GYRE_EFORMAT, err, "not in %s",
                          gyre_make_printable(x->index_entries[i].shard, strlen(x->index_entries[i].shard)).text);
    return GYRE_OK;
}

static gyre_status read_index(gyre_tensor_store *store, weight_index *x, gyre_error *err) {
    gyre_status status = gyre_mapping_open(&x->map, x->path, err);
    if (!status) status = parse(x, err);
    if (!status) status = read_weight_map(x, err);
    if (!status) status = open_shards(store, x, err);
    if (!status) status = gyre_tensor_store_list(store, err);
    for (int64_t i = 0; i < x->count && !status; i++)
        x->index_entries[i].file = file_of(x, x->index_entries[i].shard);
    if (!status) status = gyre_mapping_check(&x->map, x->path, err);
    return !status ? check_index_entries(store, x, err) : status;
}

gyre_status gyre_tensor_store_open_index(gyre_tensor_store *store, const char *path, gyre_error *err) {
    weight_index x = {.path = path};
    const gyre_status status = read_index(store, &x, err);
    json_decref(x.root);
    gyre_mapping_close(&x.map);
    free(x.index_entries);
    free((void *)x.shards);
    return status;
}
