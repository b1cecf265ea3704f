/* tensor_store_gguf.c: the tensors of a GGUF, with dimensions reversed to slowest first and names NUL-terminated. */
#include "files/printable_name.h"
#include "files/tensors/tensor_store_files.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ggml's types by number.  A name of NULL: no type, or a removed one. */
static const struct {
    const char *name;
    gyre_stored_type type;
} types[] = {
#define GYRE_STORED_PLAIN(NAME, number, ...)       [number] = {#NAME, GYRE_STORED_##NAME},
#define GYRE_STORED_BLOCK(NAME, name, number, ...) [number] = {#NAME, GYRE_STORED_##NAME},
#define GYRE_STORED_RARE(NAME, name, number, ...)  [number] = {#NAME, GYRE_STORED_##NAME},
#define GYRE_STORED_UNREAD(NAME, number, ...)      [number] = {#NAME, GYRE_STORED_OTHER},
#include "kernels/quants/stored_types.def"
};
enum { TYPES = sizeof types / sizeof *types, UNKNOWN_TYPE_BYTES = sizeof "type 4294967295" };

static int is_known(uint32_t type) {
    return type < TYPES && types[type].name;
}

static gyre_status failed(const gyre_tensor_store *store, gyre_status status, uint64_t offset, const char *what,
                          gyre_error *err) {
    (void)gyre_fail(err, status, "%s (%s, byte %" PRIu64 ")", what, store->path, offset);
    if (err) err->offset = offset;
    return status;
}

/* *names = the place of the next string.  Stores the tensor's name there and, for a type without a name, "type N". */
static gyre_file_tensor stored_of(const gyre_tensor_store *store, const gyre_gguf_tensor *t, char **names) {
    gyre_file_tensor out = {.name = *names, .file = store->files->path, .rank = t->rank, .count = 1};
    memcpy(*names, t->name, t->name_bytes);
    (*names)[t->name_bytes] = '\0';
    *names += t->name_bytes + 1;
    out.type = is_known(t->type) ? types[t->type].type : GYRE_STORED_OTHER;
    out.file_dtype = is_known(t->type) ? types[t->type].name : *names;
    if (!is_known(t->type)) *names += snprintf(*names, UNKNOWN_TYPE_BYTES, "type %" PRIu32, t->type) + 1;
    for (int i = 0; i < 4; i++)
        out.shape[i] = i < t->rank ? (int64_t)t->dims[t->rank - 1 - i] : 1;
    for (int i = 0; i < t->rank; i++)
        out.count *= out.shape[i];
    out.data = t->data;
    out.bytes = t->bytes;
    out.offset = t->data ? (uint64_t)(t->data - store->gguf->bytes) : t->info_offset;
    return out;
}

static gyre_status read_tensors(gyre_tensor_store *store, gyre_error *err) {
    const gyre_gguf *g = store->gguf;
    size_t bytes = 1;
    for (int64_t i = 0; i < g->tensors_count; i++) {
        if (memchr(g->tensors[i].name, '\0', g->tensors[i].name_bytes))
            return failed(store, GYRE_EFORMAT, g->tensors[i].info_offset, "tensor name: a NUL within it", err);
        bytes += g->tensors[i].name_bytes + 1 + (is_known(g->tensors[i].type) ? 0 : UNKNOWN_TYPE_BYTES);
    }
    store->names = malloc(bytes);
    store->tensors = calloc((size_t)g->tensors_count + 1, sizeof *store->tensors);
    if (!store->names || !store->tensors)
        return gyre_fail(err, GYRE_ENOMEM, "no memory for the list of tensors (%s)", store->path);
    char *names = store->names;
    for (int64_t i = 0; i < g->tensors_count; i++)
        store->tensors[store->count++] = stored_of(store, &g->tensors[g->tensors_by_name[i]], &names);
    return GYRE_OK;
}

typedef struct span {
    const char *name;
    uint64_t offset, bytes;
} span;

static int by_offset(const void *a, const void *b) {
    const span *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* If two tensors shared bytes, one file could mean two things. */
static gyre_status check_no_overlap(const gyre_tensor_store *store, gyre_error *err) {
    span *spans = malloc(((size_t)store->count + 1) * sizeof *spans);
    gyre_status status = GYRE_OK;
    int64_t count = 0;
    if (!spans) return gyre_fail(err, GYRE_ENOMEM, "no memory for the list of tensors (%s)", store->path);
    for (int64_t i = 0; i < store->count; i++) {
        const gyre_file_tensor *t = &store->tensors[i];
        if (t->data && t->bytes > 0) spans[count++] = (span){t->name, t->offset, t->bytes};
    }
    qsort(spans, (size_t)count, sizeof *spans, by_offset);
    for (int64_t i = 1; i < count && !status; i++) {
        const span *before = &spans[i - 1], *s = &spans[i];
        if (s->offset - before->offset >= before->bytes) continue;
        char what[2 * sizeof(gyre_printable_name) + 32];
        snprintf(what, sizeof what, "%s: overlaps %s", gyre_make_printable(s->name, strlen(s->name)).text,
                 gyre_make_printable(before->name, strlen(before->name)).text);
        status = failed(store, GYRE_EFORMAT, s->offset, what, err);
    }
    free(spans);
    return status;
}

/* llama.cpp's splitter stores the number of parts in each part. */
static gyre_status check_not_split(const gyre_tensor_store *store, gyre_error *err) {
    const gyre_gguf_kv *parts = gyre_gguf_find_key(store->gguf, "split.count");
    int64_t count = 1;
    if (!parts || !gyre_gguf_integer(&parts->value, 0, &count) || count < 2) return GYRE_OK;
    return failed(store, GYRE_EUNSUPPORTED, parts->offset,
                  "split.count: one of several parts of a model; merge them into one file first", err);
}

gyre_status gyre_tensor_store_open_gguf(gyre_tensor_store *store, gyre_error *err) {
    store->files = calloc(1, sizeof *store->files);
    if (store->files) store->files->path = strdup(store->path);
    if (!store->files || !store->files->path) return gyre_fail(err, GYRE_ENOMEM, "no memory (%s)", store->path);
    store->files_count = 1;
    gyre_status status = store->heads ? gyre_gguf_open_path_head(&store->gguf, &store->files->map, store->path, err)
                                      : gyre_gguf_open_path(&store->gguf, &store->files->map, store->path, err);
    if (!status) status = check_not_split(store, err);
    if (!status) status = read_tensors(store, err);
    return !status ? check_no_overlap(store, err) : status;
}
