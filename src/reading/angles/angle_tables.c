/* angle_tables.c: the tables of angles in a .npy or a .safetensors. */
#include "gyre/gyre_angles.h"

#include "files/file_read.h"
#include "files/printable_name.h"
#include "files/tensors/npy.h"
#include "files/tensors/safetensors.h"
#include "util/error.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct own_tables {
    gyre_angle_tables tables; /* first */
    gyre_angle_table *list;   /* [tables.count] */
    void **copies;            /* [tables.count] numbers that the file has at odd addresses; NULL = used where they are */
    gyre_mapping map;         /* of a .npy */
    char type[16];
    gyre_safetensors *safetensors;
} own_tables;

static gyre_status fail_memory(const char *path, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "%s: no memory to read it", path);
}

static gyre_status make_room(own_tables *own, int64_t count, const char *path, gyre_error *err) {
    own->list = calloc((size_t)count + 1, sizeof *own->list);
    own->copies = calloc((size_t)count + 1, sizeof *own->copies);
    own->tables.tables = own->list;
    return own->list && own->copies ? GYRE_OK : fail_memory(path, err);
}

/* Adds a table whose view is complete but for its data. */
static gyre_status add_table(own_tables *own, const gyre_angle_table *table, const unsigned char *data, int64_t count,
                             const char *path, gyre_error *err) {
    const size_t size = gyre_dtype_size(table->view.dtype);
    gyre_angle_table *out = &own->list[own->tables.count];
    *out = *table;
    out->view.data = data;
    if ((uintptr_t)data % size != 0) { /* of no element if count is 0: malloc of 1 byte */
        void *copy = own->copies[own->tables.count] = malloc((size_t)count * size + 1);
        if (!copy) return fail_memory(path, err);
        memcpy(copy, data, (size_t)count * size);
        out->view.data = copy;
    }
    own->tables.count++;
    return GYRE_OK;
}

/* -- .npy -- */
static gyre_status open_npy(own_tables *own, const char *path, gyre_error *err) {
    gyre_npy npy;
    gyre_status status = gyre_npy_parse(&npy, own->map.bytes, own->map.size, path, err);
    if (!status) status = make_room(own, 1, path, err);
    if (status) return status;
    memcpy(own->type, npy.type, sizeof own->type);
    gyre_angle_table table = {.name = "", .dtype = own->type, .rank = npy.rank, .view = {.dtype = npy.dtype}};
    memcpy(table.view.shape, npy.shape, sizeof npy.shape);
    memcpy(table.view.stride, npy.stride, sizeof npy.stride);
    return add_table(own, &table, own->map.bytes + npy.offset, npy.count, path, err);
}

/* -- .safetensors -- */
/* out = 1 if the name is one of a table of angles, in any case of letters. */
static int is_named(const char *name) {
    static const char *const words[] = {"cos", "sin", "freq", "rope", "rotary"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = name; *at; at++) {
            size_t k = 0;
            while (words[i][k] && tolower((unsigned char)at[k]) == words[i][k])
                k++;
            if (!words[i][k]) return 1;
        }
    return 0;
}

static gyre_status add_tensor(own_tables *own, const gyre_safetensors_info *info, const char *path, gyre_error *err) {
    static const struct {
        const char *name;
        gyre_dtype dtype;
    } types[] = {{"F32", GYRE_DTYPE_F32}, {"F16", GYRE_DTYPE_F16}, {"BF16", GYRE_DTYPE_BF16}, {"F64", GYRE_DTYPE_F64}};
    gyre_angle_table table = {.name = info->name, .dtype = info->type, .rank = info->rank};
    int known = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, info->type) == 0) table.view.dtype = types[i].dtype, known = 1;
    if (!known || info->rank > 4)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: %s of %d extents is not a table of angles (tensor %s)", path,
                         info->type, info->rank, gyre_make_printable(info->name, strlen(info->name)).text);
    int64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        table.view.shape[i] = info->shape[i];
        table.view.stride[i] = step;
        step *= info->shape[i] > 0 ? info->shape[i] : 1;
    }
    return add_table(own, &table, info->data, info->count, path, err);
}

static gyre_status open_safetensors(own_tables *own, const char *path, gyre_error *err) {
    gyre_status status = gyre_safetensors_open(&own->safetensors, path, err);
    const int64_t count = status ? 0 : gyre_safetensors_count(own->safetensors);
    if (!status) status = make_room(own, count, path, err);
    for (int64_t i = 0; i < count && !status; i++) {
        const gyre_safetensors_info info = gyre_safetensors_at(own->safetensors, i);
        if (count == 1 || is_named(info.name)) status = add_tensor(own, &info, path, err);
    }
    if (!status && own->tables.count == 0)
        status = gyre_fail(err, GYRE_EUNSUPPORTED,
                           "%s: none of %lld tensors has cos, sin, freq, rope or rotary in its name (.safetensors)", path,
                           (long long)count);
    return status;
}

/* -- the call -- */
static gyre_status open_file(own_tables *own, const char *path, gyre_error *err) {
    const gyre_status status = gyre_mapping_open(&own->map, path, err);
    if (status) return status;
    if (own->map.size > 6 && memcmp(own->map.bytes, "\x93NUMPY", 6) == 0) return open_npy(own, path, err);
    const int is_zip = own->map.size > 4 && memcmp(own->map.bytes, "PK\3\4", 4) == 0;
    gyre_mapping_close(&own->map);
    if (is_zip)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "%s: a .npz or .pt; write the table with numpy.save or safetensors (tables of angles)", path);
    return open_safetensors(own, path, err);
}

gyre_status gyre_angle_tables_open(gyre_angle_tables **out, const char *path, gyre_error *err) {
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "gyre_angle_tables_open: an argument is missing");
    own_tables *own = calloc(1, sizeof *own);
    if (!own) return fail_memory(path, err);
    const gyre_status status = open_file(own, path, err);
    if (status)
        gyre_angle_tables_free(&own->tables);
    else
        *out = &own->tables;
    return status;
}

void gyre_angle_tables_free(gyre_angle_tables *tables) {
    own_tables *own = (own_tables *)tables;
    if (!own) return;
    for (int64_t i = 0; own->copies && i < own->tables.count; i++)
        free(own->copies[i]);
    free(own->copies);
    free(own->list);
    gyre_mapping_close(&own->map);
    gyre_safetensors_free(own->safetensors);
    free(own);
}
