/* stored_index.c: a model in several .safetensors, which an index lists: {"weight_map": {TENSOR: FILE, ...}}.  Every tensor
 * is in the file that the index says, and every file has no other. */
#include "core/encoding.h"
#include "files/json_text.h"
#include "files/shown.h"
#include "files/stored_files.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 26, /* of an index: the largest models' have a tenth of it */
    MOST_DOTS = 32        /* of a name that is looked for in the text, which takes a walk of it for each */
};
static const char map_name[] = "weight_map";

/* A line of the index. */
typedef struct promise {
    const char *tensor, *shard;
    int64_t file;
} promise;

typedef struct index {
    const char *path;
    gyre_mapping map;
    json_t *root;
    promise *promises; /* by tensor */
    int64_t count;
    const char **shards; /* by name, each once */
    int64_t shards_count;
} index;

/* -- failures ---------------------------------------------------------------------------------------------------------- */
/* *line and *offset = where the index names a tensor, NULL: where the map is; 1 and 0 where that is not to be found. */
static void find_key(const index *x, const char *tensor, int64_t *line, uint64_t *offset) {
    gyre_json_member member = {.key = 0, .line = 1};
    size_t dots = 0;
    for (const char *p = tensor ? tensor : ""; *p; p++)
        dots += *p == '.';
    char *key = tensor && dots <= MOST_DOTS ? malloc(sizeof map_name + 1 + strlen(tensor)) : NULL;
    if (key) sprintf(key, "%s.%s", map_name, tensor);
    if (!gyre_json_find((const char *)x->map.bytes, x->map.size, key ? key : map_name, &member))
        member = (gyre_json_member){.key = 0, .line = 1};
    free(key);
    *line = member.line;
    *offset = member.key;
}

static gyre_status failed(const index *x, const char *tensor, gyre_status status, gyre_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static gyre_status failed(const index *x, const char *tensor, gyre_status status, gyre_error *err, const char *format, ...) {
    char text[360];
    int64_t line;
    uint64_t offset;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    find_key(x, tensor, &line, &offset);
    (void)gyre_fail(err, status, "%s%s%s: %s (%s, line %" PRId64 ")", map_name, tensor ? "." : "",
                    tensor ? gyre_show(tensor, strlen(tensor)).text : "", text, x->path, line);
    if (err) err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* which does not look into functions of any number of arguments */
#define failed(x, tensor, status, ...) ((void)failed(x, tensor, status, __VA_ARGS__), (status))
#endif

static gyre_status no_memory(const index *x, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "no memory for the index (%s)", x->path);
}

/* -- the index --------------------------------------------------------------------------------------------------------- */
static gyre_status parse(index *x, gyre_error *err) {
    json_error_t error;
    if (x->map.size > MOST_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "index: %zu bytes, at most %d (%s)", x->map.size, MOST_BYTES, x->path);
    x->root = json_loadb((const char *)x->map.bytes, x->map.size, JSON_REJECT_DUPLICATES, &error);
    if (x->root) return GYRE_OK;
    gyre_fail(err, GYRE_EFORMAT, "index: %s (%s, line %d)", error.text, x->path, error.line > 0 ? error.line : 1);
    if (err) err->offset = (uint64_t)(error.position > 0 ? error.position : 0);
    return GYRE_EFORMAT; /* also without memory: jansson does not tell */
}

static int by_tensor(const void *a, const void *b) {
    return strcmp(((const promise *)a)->tensor, ((const promise *)b)->tensor);
}
static int by_shard(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that leads out of the folder is no file of the model. */
static int is_plain(const char *name) {
    return *name && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static gyre_status take_promises(index *x, gyre_error *err) {
    const char *tensor;
    json_t *shard, *map = json_object_get(x->root, map_name);
    if (!json_is_object(map)) return failed(x, NULL, GYRE_EFORMAT, err, "no object of that name");
    if (json_object_size(map) == 0) return failed(x, NULL, GYRE_EFORMAT, err, "names no tensor");
    x->promises = calloc(json_object_size(map), sizeof *x->promises);
    x->shards = calloc(json_object_size(map), sizeof *x->shards);
    if (!x->promises || !x->shards) return no_memory(x, err);
    json_object_foreach(map, tensor, shard) {
        if (!json_is_string(shard)) return failed(x, tensor, GYRE_EFORMAT, err, "not the name of a file");
        const char *name = json_string_value(shard);
        if (!is_plain(name))
            return failed(x, tensor, GYRE_EFORMAT, err, "\"%s\" is not the name of a file beside the index",
                          gyre_show(name, strlen(name)).text);
        x->shards[x->count] = name;
        x->promises[x->count++] = (promise){tensor, name, 0};
    }
    qsort(x->promises, (size_t)x->count, sizeof *x->promises, by_tensor);
    qsort(x->shards, (size_t)x->count, sizeof *x->shards, by_shard);
    for (int64_t i = 0; i < x->count; i++)
        if (i == 0 || strcmp(x->shards[i], x->shards[i - 1]) != 0) x->shards[x->shards_count++] = x->shards[i];
    return GYRE_OK;
}

/* out = the first tensor that the index puts into a file. */
static const char *tensor_in(const index *x, const char *shard) {
    for (int64_t i = 0; i < x->count; i++)
        if (strcmp(x->promises[i].shard, shard) == 0) return x->promises[i].tensor;
    return NULL;
}

static int64_t file_of(const index *x, const char *shard) {
    const char *const *found = bsearch(&shard, x->shards, (size_t)x->shards_count, sizeof *x->shards, by_shard);
    return found - x->shards;
}

/* -- its files --------------------------------------------------------------------------------------------------------- */
static gyre_status open_shards(gyre_store *store, const index *x, gyre_error *err) {
    store->files = calloc((size_t)x->shards_count, sizeof *store->files);
    if (!store->files) return no_memory(x, err);
    for (int64_t i = 0; i < x->shards_count; i++) {
        gyre_error why = {0, ""};
        char *path = gyre_store_join(store->path, x->shards[i]);
        if (!path) return no_memory(x, err);
        const gyre_status status = gyre_store_add_safetensors(store, path, &why);
        free(path);
        if (status == GYRE_EIO) return failed(x, tensor_in(x, x->shards[i]), status, err, "%s", why.text);
        if (status != GYRE_OK) {
            if (err) *err = why;
            return status;
        }
    }
    return GYRE_OK;
}

/* out = the promise about a tensor, or NULL. */
static const promise *promise_of(const index *x, const char *tensor) {
    const promise wanted = {tensor, NULL, 0};
    return bsearch(&wanted, x->promises, (size_t)x->count, sizeof *x->promises, by_tensor);
}

static gyre_status check_kept(const gyre_store *store, const index *x, gyre_error *err) {
    for (int64_t i = 0; i < store->count; i++) {
        const gyre_stored *t = &store->tensors[i];
        const promise *p = promise_of(x, t->name);
        if (!p)
            return failed(x, NULL, GYRE_EFORMAT, err, "does not name %s, which is in %s",
                          gyre_show(t->name, strlen(t->name)).text, t->file);
        if (store->files[p->file].path != t->file)
            return failed(x, t->name, GYRE_EFORMAT, err, "said to be in %s, and is in %s",
                          gyre_show(p->shard, strlen(p->shard)).text, t->file);
    }
    gyre_stored found;
    for (int64_t i = 0; i < x->count; i++)
        if (!gyre_store_find(store, x->promises[i].tensor, &found))
            return failed(x, x->promises[i].tensor, GYRE_EFORMAT, err, "not in %s",
                          gyre_show(x->promises[i].shard, strlen(x->promises[i].shard)).text);
    return GYRE_OK;
}

static gyre_status take(gyre_store *store, index *x, gyre_error *err) {
    gyre_status status = gyre_mapping_open(&x->map, x->path, err);
    if (status == GYRE_OK) status = parse(x, err);
    if (status == GYRE_OK) status = take_promises(x, err);
    if (status == GYRE_OK) status = open_shards(store, x, err);
    if (status == GYRE_OK) status = gyre_store_list(store, err);
    for (int64_t i = 0; i < x->count && status == GYRE_OK; i++)
        x->promises[i].file = file_of(x, x->promises[i].shard);
    return status == GYRE_OK ? check_kept(store, x, err) : status;
}

gyre_status gyre_store_take_index(gyre_store *store, const char *path, gyre_error *err) {
    index x = {.path = path};
    const gyre_status status = take(store, &x, err);
    json_decref(x.root);
    gyre_mapping_close(&x.map);
    free(x.promises);
    free((void *)x.shards);
    return status;
}
