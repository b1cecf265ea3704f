/* tensor_store_files.c: finds, opens and lists the files of a model. */
#include "files/tensors/tensor_store_files.h"

#include "files/gguf.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/fnv1a.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static gyre_status no_memory(const gyre_tensor_store *store, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "no memory for the list of tensors (%s)", store->path);
}

char *gyre_path_join(const char *folder, const char *name) {
    const size_t before = strlen(folder), bytes = before + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path) snprintf(path, bytes, "%s%s%s", folder, before > 0 && folder[before - 1] != '/' ? "/" : "", name);
    return path;
}

/* -- safetensors -- */
gyre_status gyre_tensor_store_add_safetensors(gyre_tensor_store *store, const char *path, gyre_error *err) {
    gyre_tensor_store_file *file = &store->files[store->files_count];
    file->path = strdup(path);
    if (!file->path) return no_memory(store, err);
    store->files_count++;
    const gyre_status status = gyre_safetensors_open(&file->safetensors, path, err);
    if (!status) file->map = gyre_safetensors_mapping(file->safetensors);
    return status;
}

static gyre_stored_type type_of(const gyre_safetensors_info *t) {
    if (t->rank > 4) return GYRE_STORED_OTHER;
    const gyre_stored_type type = gyre_stored_type_named(t->type);
    return gyre_stored_block_size(type) == 1 ? type : GYRE_STORED_OTHER; /* the format has no blocks */
}

static gyre_file_tensor stored_of(const gyre_tensor_store_file *file, int64_t index) {
    const gyre_safetensors_info t = gyre_safetensors_at(file->safetensors, index);
    return (gyre_file_tensor){.name = t.name,
                              .file = file->path,
                              .file_dtype = t.type,
                              .type = type_of(&t),
                              .rank = t.rank,
                              .shape = {t.shape[0], t.shape[1], t.shape[2], t.shape[3]},
                              .count = t.count,
                              .data = t.data,
                              .bytes = t.bytes,
                              .offset = t.offset};
}

/* Equal names, which only a broken index causes, are ordered by file. */
static int by_name(const void *a, const void *b) {
    const gyre_file_tensor *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->file, y->file);
}

gyre_status gyre_tensor_store_list(gyre_tensor_store *store, gyre_error *err) {
    int64_t count = 0;
    for (int64_t i = 0; i < store->files_count; i++)
        count += gyre_safetensors_count(store->files[i].safetensors);
    store->tensors = malloc(((size_t)count + 1) * sizeof *store->tensors);
    if (!store->tensors) return no_memory(store, err);
    for (int64_t i = 0; i < store->files_count; i++)
        for (int64_t j = 0; j < gyre_safetensors_count(store->files[i].safetensors); j++)
            store->tensors[store->count++] = stored_of(&store->files[i], j);
    qsort(store->tensors, (size_t)store->count, sizeof *store->tensors, by_name);
    return GYRE_OK;
}

static gyre_status open_one(gyre_tensor_store *store, const char *path, gyre_error *err) {
    store->files = calloc(1, sizeof *store->files);
    if (!store->files) return no_memory(store, err);
    const gyre_status status = gyre_tensor_store_add_safetensors(store, path, err);
    return !status ? gyre_tensor_store_list(store, err) : status;
}

/* -- opening -- */
/* out = 1 if there is such a file; what cannot be looked at is there too, and opening it says why. */
static int exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 || errno != ENOENT;
}

/* out = 1 if the folder holds the weights as transformers wrote them before safetensors. */
static int has_pickles(const char *folder) {
    static const char *const names[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    for (int i = 0; i < 2; i++) {
        char *path = gyre_path_join(folder, names[i]);
        const int there = path && exists(path);
        free(path);
        if (there) return 1;
    }
    return 0;
}

/* A single file is preferred to an index, as in transformers. */
static gyre_status open_folder(gyre_tensor_store *store, gyre_error *err) {
    char *whole = gyre_path_join(store->path, GYRE_WEIGHTS_FILE),
         *index = gyre_path_join(store->path, GYRE_WEIGHTS_INDEX_FILE);
    gyre_status status;
    if (!whole || !index)
        status = no_memory(store, err);
    else if (exists(whole))
        status = open_one(store, whole, err);
    else if (exists(index))
        status = gyre_tensor_store_open_index(store, index, err);
    else
        status = gyre_fail(
            err, GYRE_EIO, "%s: not in the folder, nor %s%s (%s)", GYRE_WEIGHTS_FILE, GYRE_WEIGHTS_INDEX_FILE,
            has_pickles(store->path) ? "; pickles are not read, because that runs code: save the model as safetensors" : "",
            store->path);
    free(whole);
    free(index);
    return status;
}

static gyre_status open_path(gyre_tensor_store *store, gyre_error *err) {
    struct stat info;
    if (stat(store->path, &info) != 0) return gyre_fail_errno(err, store->path, errno);
    if (S_ISDIR(info.st_mode)) return open_folder(store, err);
    int is_gguf;
    const gyre_status status = gyre_gguf_is_file(store->path, &is_gguf, err);
    if (status) return status;
    return is_gguf ? gyre_tensor_store_open_gguf(store, err) : open_one(store, store->path, err);
}

static gyre_status open_store(gyre_tensor_store **out, const char *path, int heads, gyre_error *err) {
    gyre_tensor_store *store = calloc(1, sizeof *store);
    if (store) store->path = strdup(path), store->heads = heads;
    if (!store || !store->path) {
        free(store);
        return gyre_fail(err, GYRE_ENOMEM, "no memory (%s)", path);
    }
    const gyre_status status = open_path(store, err);
    if (!status)
        *out = store;
    else
        gyre_tensor_store_free(store);
    return status;
}

gyre_status gyre_tensor_store_open(gyre_tensor_store **out, const char *path, gyre_error *err) {
    return open_store(out, path, 0, err);
}
gyre_status gyre_tensor_store_open_head(gyre_tensor_store **out, const char *path, gyre_error *err) {
    return open_store(out, path, 1, err);
}

void gyre_tensor_store_free(gyre_tensor_store *store) {
    if (!store) return;
    for (int64_t i = 0; i < store->files_count; i++) {
        gyre_tensor_store_file *file = &store->files[i];
        if (file->safetensors)
            gyre_safetensors_free(file->safetensors);
        else
            gyre_mapping_close(&file->map);
        free(file->path);
    }
    gyre_gguf_free(store->gguf);
    free(store->files);
    free(store->tensors);
    free(store->names);
    free(store->path);
    free(store);
}

/* -- asking -- */
int64_t gyre_tensor_store_count(const gyre_tensor_store *store) {
    return store->count;
}
gyre_file_tensor gyre_tensor_store_at(const gyre_tensor_store *store, int64_t index) {
    return store->tensors[index];
}
const gyre_gguf *gyre_tensor_store_gguf(const gyre_tensor_store *store) {
    return store->gguf;
}
const char *gyre_tensor_store_path(const gyre_tensor_store *store) {
    return store->path;
}

static int name_and_stored(const void *name, const void *stored) {
    return strcmp(name, ((const gyre_file_tensor *)stored)->name);
}

int gyre_tensor_store_find(const gyre_tensor_store *store, const char *name, gyre_file_tensor *tensor) {
    const gyre_file_tensor *found =
        bsearch(name, store->tensors, (size_t)store->count, sizeof *store->tensors, name_and_stored);
    if (!found) return 0;
    *tensor = *found;
    return 1;
}

int64_t gyre_tensor_store_bytes(const gyre_tensor_store *store) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < store->files_count; i++)
        bytes += (int64_t)store->files[i].map.size;
    return bytes;
}

gyre_status gyre_tensor_store_hash(const gyre_tensor_store *store, uint64_t *hash, gyre_error *err) {
    uint64_t h = GYRE_FNV1A_OFFSET_BASIS;
    for (int64_t i = 0; i < store->files_count; i++)
        h = gyre_fnv1a(h, store->files[i].map.bytes, store->files[i].map.size);
    const gyre_status status = gyre_tensor_store_check(store, err);
    if (!status) *hash = h;
    return status;
}

gyre_status gyre_tensor_store_check(const gyre_tensor_store *store, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < store->files_count && !status; i++)
        status = gyre_mapping_check(&store->files[i].map, store->files[i].path, err);
    return status;
}
