/* safetensors.c: a file is 8 bytes of header size, a JSON header, and the tensors without gaps. */
#include "files/tensors/safetensors.h"

#include "core/convert.h"
#include "core/encoding.h"
#include "files/json_locate.h"
#include "files/little_endian.h"
#include "files/printable_name.h"
#include "files/tensors/safetensors_stream.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES = 8, MAX_HEADER_BYTES = 100000000 /* the format's own limit */, BLOCK = 4096 };

typedef struct header_tensor {
    char *name;
    uint64_t begin, end; /* offsets in the data section */
    gyre_safetensors_view tensor;
    const char *type; /* name of the type */
    int readable;     /* 0: no reader takes this type or rank */
} header_tensor;

struct gyre_safetensors {
    char *path;
    gyre_mapping map;
    const unsigned char *data; /* after the header */
    uint64_t data_bytes;
    header_tensor *header_tensors; /* by name */
    int64_t count;
};

/* -- types -- */
typedef struct dtype_info {
    const char *name;
    unsigned bits;
    int readable;
    gyre_dtype dtype;
} dtype_info;

/* Types that Gyre does not read are listed too, because the whole file is checked. */
static const dtype_info types[] = {
    {"F32", 32, 1, GYRE_DTYPE_F32},        {"F16", 16, 1, GYRE_DTYPE_F16},        {"BF16", 16, 1, GYRE_DTYPE_BF16},
    {"F64", 64, 1, GYRE_DTYPE_F64},        {"I32", 32, 1, GYRE_DTYPE_I32},        {"I64", 64, 1, GYRE_DTYPE_I64},
    {"I16", 16, 0, GYRE_DTYPE_I32},        {"I8", 8, 0, GYRE_DTYPE_I32},          {"U8", 8, 0, GYRE_DTYPE_I32},
    {"U16", 16, 0, GYRE_DTYPE_I32},        {"U32", 32, 0, GYRE_DTYPE_I32},        {"U64", 64, 0, GYRE_DTYPE_I64},
    {"F8_E4M3", 8, 0, GYRE_DTYPE_F32},     {"F8_E5M2", 8, 0, GYRE_DTYPE_F32},     {"F8_E8M0", 8, 0, GYRE_DTYPE_F32},
    {"F8_E4M3FNUZ", 8, 0, GYRE_DTYPE_F32}, {"F8_E5M2FNUZ", 8, 0, GYRE_DTYPE_F32}, {"F6_E2M3", 6, 0, GYRE_DTYPE_F32},
    {"F6_E3M2", 6, 0, GYRE_DTYPE_F32},     {"F4", 4, 0, GYRE_DTYPE_F32},          {"BOOL", 8, 0, GYRE_DTYPE_I32},
    {"C64", 64, 0, GYRE_DTYPE_F32},
};

static const dtype_info *find_dtype(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

static const char *dtype_name(gyre_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].readable && types[i].dtype == dtype) return types[i].name;
    return "no type";
}

/* -- failures -- */
/* out = offset of the name's opening quote in the header, or of the header if it is not found.  Each dot in a name may
 * cost a walk of the header, so a name with too many dots is not searched for. */
static uint64_t key_offset(const gyre_safetensors *file, const char *name) {
    int dots = 0;
    for (const char *p = name; *p; p++)
        dots += *p == '.';
    if (dots > 32) return SIZE_BYTES;
    const char *header = (const char *)file->map.bytes + SIZE_BYTES;
    gyre_json_member member;
    const size_t bytes = file->map.size - SIZE_BYTES - (size_t)file->data_bytes;
    return SIZE_BYTES + (gyre_json_locate(header, bytes, name, &member) ? member.key : 0);
}

static gyre_status failed(const gyre_safetensors *file, const header_tensor *e, gyre_status status, gyre_error *err,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
static gyre_status failed(const gyre_safetensors *file, const header_tensor *e, gyre_status status, gyre_error *err,
                          const char *format, ...) {
    char text[360];
    va_list arguments;
    if (!err) return status;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const uint64_t offset = key_offset(file, e->name);
    (void)gyre_fail(err, status, "%s: %s (%s, byte %" PRIu64 ")", gyre_make_printable(e->name, strlen(e->name)).text, text,
                    file->path, offset);
    err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* It does not look into variadic functions. */
#define failed(file, e, status, ...) ((void)failed(file, e, status, __VA_ARGS__), (status))
#endif

/* -- one tensor of the header -- */
static gyre_status read_shape(const gyre_safetensors *file, const json_t *shape, header_tensor *e, gyre_error *err) {
    gyre_safetensors_view *t = &e->tensor;
    const size_t rank = json_array_size(shape);
    if (!json_is_array(shape)) return failed(file, e, GYRE_EFORMAT, err, "no shape");
    if (rank > INT_MAX) return failed(file, e, GYRE_EFORMAT, err, "%zu dimensions", rank);
    if (rank > 4) e->readable = 0;
    t->rank = (int)rank;
    t->count = 1;
    for (size_t i = 0; i < 4; i++)
        t->shape[i] = 1;
    /* In an empty tensor the product of the other sizes is not computed.  Each must be one that an axis can have, because
     * bytes of a row are computed from it. */
    const json_int_t most = (json_int_t)1 << 48;
    int empty = 0;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return failed(file, e, GYRE_EFORMAT, err, "shape[%zu] is not a size", i);
        empty |= json_integer_value(size) == 0;
        if (rank <= 4) t->shape[i] = json_integer_value(size);
    }
    if (empty) t->count = 0;
    for (size_t i = 0; i < rank && !empty; i++) {
        const int64_t size = json_integer_value(json_array_get(shape, i));
        if (size > INT64_MAX / t->count) return failed(file, e, GYRE_EFORMAT, err, "its shape overflows");
        t->count *= size;
    }
    for (size_t i = 0; i < rank && empty; i++)
        if (json_integer_value(json_array_get(shape, i)) > most)
            return failed(file, e, GYRE_EFORMAT, err, "its shape overflows");
    return GYRE_OK;
}

static gyre_status read_type(const gyre_safetensors *file, const json_t *dtype, header_tensor *e, unsigned *bits,
                             gyre_error *err) {
    if (!json_is_string(dtype)) return failed(file, e, GYRE_EFORMAT, err, "no dtype");
    const dtype_info *type = find_dtype(json_string_value(dtype));
    if (!type)
        return failed(file, e, GYRE_EFORMAT, err, "dtype \"%.20s\" is unknown",
                      gyre_make_printable(json_string_value(dtype), json_string_length(dtype)).text);
    e->tensor.dtype = type->dtype;
    e->type = type->name;
    e->readable = type->readable;
    *bits = type->bits;
    return GYRE_OK;
}

static gyre_status read_offsets(const gyre_safetensors *file, const json_t *offsets, unsigned bits, header_tensor *e,
                                gyre_error *err) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return failed(file, e, GYRE_EFORMAT, err, "no data_offsets");
    const long long from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > file->data_bytes)
        return failed(file, e, GYRE_EFORMAT, err, "bytes %lld to %lld are not within the %" PRIu64 " of data", from, to,
                      file->data_bytes);
    e->begin = (uint64_t)from;
    e->end = (uint64_t)to;
    e->tensor.data = file->data + from;
    /* Counted in bits: some types are smaller than a byte. */
    const uint64_t bytes = e->end - e->begin;
    if (bytes > UINT64_MAX / 8 || (bytes * 8) % bits != 0 || (bytes * 8) / bits != (uint64_t)e->tensor.count)
        return failed(file, e, GYRE_EFORMAT, err, "%" PRIu64 " bytes do not fit %" PRId64 " elements of %s", bytes,
                      e->tensor.count, e->type);
    return GYRE_OK;
}

static gyre_status read_header_tensor(const gyre_safetensors *file, const char *name, const json_t *value, header_tensor *e,
                                      gyre_error *err) {
    unsigned bits = 8;
    e->name = strdup(name);
    if (!e->name) return gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory for the header (%s)", file->path);
    if (!json_is_object(value)) return failed(file, e, GYRE_EFORMAT, err, "no object");
    gyre_status status = read_type(file, json_object_get(value, "dtype"), e, &bits, err);
    if (!status) status = read_shape(file, json_object_get(value, "shape"), e, err);
    if (!status) status = read_offsets(file, json_object_get(value, "data_offsets"), bits, e, err);
    return status;
}

/* -- the header -- */
static int by_begin(const void *a, const void *b) {
    const header_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const header_tensor *)a)->name, ((const header_tensor *)b)->name);
}

/* The tensors must cover the data exactly.  With gaps or overlaps one file could mean two things. */
static gyre_status check_tiling(gyre_safetensors *file, gyre_error *err) {
    uint64_t end = 0;
    qsort(file->header_tensors, (size_t)file->count, sizeof *file->header_tensors, by_begin);
    for (int64_t i = 0; i < file->count; i++) {
        const header_tensor *e = &file->header_tensors[i];
        if (e->begin < end)
            return failed(
                file, e, GYRE_EFORMAT, err, "overlaps %s",
                gyre_make_printable(file->header_tensors[i - 1].name, strlen(file->header_tensors[i - 1].name)).text);
        if (e->begin > end)
            return failed(file, e, GYRE_EFORMAT, err, "a gap of %" PRIu64 " bytes before it", e->begin - end);
        end = e->end;
    }
    if (end != file->data_bytes)
        return gyre_fail(err, GYRE_EFORMAT, "safetensors: %" PRIu64 " bytes after the last tensor (%s)",
                         file->data_bytes - end, file->path);
    qsort(file->header_tensors, (size_t)file->count, sizeof *file->header_tensors, by_name);
    return GYRE_OK;
}

static gyre_status read_header_tensors(gyre_safetensors *file, json_t *header, gyre_error *err) {
    const char *name;
    json_t *value;
    if (!json_is_object(header))
        return gyre_fail(err, GYRE_EFORMAT, "safetensors: the header is not an object (%s)", file->path);
    file->header_tensors = calloc(json_object_size(header) + 1, sizeof *file->header_tensors);
    if (!file->header_tensors) return gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory for the header (%s)", file->path);
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!json_is_object(value)) return gyre_fail(err, GYRE_EFORMAT, "__metadata__: no object (%s)", file->path);
            continue;
        }
        const gyre_status status = read_header_tensor(file, name, value, &file->header_tensors[file->count++], err);
        if (status) return status;
    }
    return check_tiling(file, err);
}

/* Files that are often taken for one: JSON, and the output of torch.save, a pickle alone or in a zip. */
static gyre_status refuse_header(const gyre_safetensors *file, uint64_t size, gyre_error *err) {
    const unsigned char *map = file->map.bytes;
    if (map[0] == '{')
        return gyre_fail(err, GYRE_EFORMAT,
                         "safetensors: the file is JSON text; a model is named by its folder, or by a GGUF (%s)",
                         file->path);
    if (map[0] == 0x80 || memcmp(map, "PK", 2) == 0)
        return gyre_fail(err, GYRE_EFORMAT,
                         "safetensors: the file is a pickle, whose reading runs code; save the model as safetensors (%s)",
                         file->path);
    return gyre_fail(err, GYRE_EFORMAT,
                     "safetensors: no such file, or a damaged one: it states a header of %" PRIu64
                     " bytes and has %zu in all "
                     "(%s)",
                     size, file->map.size, file->path);
}

static gyre_status parse(gyre_safetensors *file, gyre_error *err) {
    const unsigned char *map = file->map.bytes;
    if (file->map.size < SIZE_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "safetensors: %zu bytes are too few (%s)", file->map.size, file->path);
    const uint64_t size = gyre_load_le(map, SIZE_BYTES);
    if (size > MAX_HEADER_BYTES || size > file->map.size - SIZE_BYTES) return refuse_header(file, size, err);
    file->data = map + SIZE_BYTES + size;
    file->data_bytes = file->map.size - SIZE_BYTES - size;
    if (size == 0 || map[SIZE_BYTES] != '{')
        return gyre_fail(err, GYRE_EFORMAT, "safetensors: the header does not begin with { (%s)", file->path);
    json_error_t error;
    json_t *header = json_loadb((const char *)map + SIZE_BYTES, (size_t)size, JSON_REJECT_DUPLICATES, &error);
    if (!header) {
        gyre_fail(err, GYRE_EFORMAT, "safetensors: header: %s (%s, byte %d, line %d)", error.text, file->path,
                  SIZE_BYTES + (error.position > 0 ? error.position : 0), error.line);
        if (err) err->offset = SIZE_BYTES + (uint64_t)(error.position > 0 ? error.position : 0);
        return GYRE_EFORMAT; /* jansson reports running out of memory the same way */
    }
    const gyre_status status = read_header_tensors(file, header, err);
    json_decref(header);
    return status;
}

/* -- opening and reading -- */
gyre_status gyre_safetensors_open(gyre_safetensors **out, const char *path, gyre_error *err) {
    gyre_safetensors *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory (%s)", path);
    }
    gyre_status status = gyre_mapping_open(&file->map, path, err);
    if (!status) status = parse(file, err);
    if (!status)
        *out = file;
    else
        gyre_safetensors_free(file);
    return status;
}

void gyre_safetensors_free(gyre_safetensors *file) {
    if (!file) return;
    for (int64_t i = 0; i < file->count; i++)
        free(file->header_tensors[i].name);
    free(file->header_tensors);
    gyre_mapping_close(&file->map);
    free(file->path);
    free(file);
}

int64_t gyre_safetensors_count(const gyre_safetensors *file) {
    return file->count;
}
const char *gyre_safetensors_name(const gyre_safetensors *file, int64_t index) {
    return file->header_tensors[index].name;
}

gyre_safetensors_info gyre_safetensors_at(const gyre_safetensors *file, int64_t index) {
    const header_tensor *e = &file->header_tensors[index];
    const gyre_safetensors_view *t = &e->tensor;
    return (gyre_safetensors_info){.name = e->name,
                                   .type = e->type,
                                   .rank = t->rank,
                                   .shape = {t->shape[0], t->shape[1], t->shape[2], t->shape[3]},
                                   .count = t->count,
                                   .data = t->data,
                                   .bytes = e->end - e->begin,
                                   .offset = (uint64_t)((const unsigned char *)t->data - file->map.bytes)};
}

gyre_mapping gyre_safetensors_mapping(const gyre_safetensors *file) {
    return file->map;
}

gyre_status gyre_safetensors_check(const gyre_safetensors *file, gyre_error *err) {
    return gyre_mapping_check(&file->map, file->path, err);
}

static int compare_name(const void *name, const void *e) {
    return strcmp(name, ((const header_tensor *)e)->name);
}

gyre_status gyre_safetensors_find(const gyre_safetensors *file, const char *name, gyre_safetensors_view *out,
                                  gyre_error *err) {
    const header_tensor *e =
        bsearch(name, file->header_tensors, (size_t)file->count, sizeof *file->header_tensors, compare_name);
    if (!e) return gyre_fail(err, GYRE_EFORMAT, "no tensor %s (%s)", name, file->path);
    if (!e->readable)
        return failed(file, e, GYRE_EUNSUPPORTED, err, "%s of %d dimensions is not read", e->type, e->tensor.rank);
    *out = e->tensor;
    return GYRE_OK;
}

/* out = "[a, b]". */
static const char *shape_text(const int64_t *shape, int rank, char out[96]) {
    size_t used = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < rank; i++)
        used += (size_t)snprintf(out + used, 96 - used, i ? ", %" PRId64 : "%" PRId64, shape[i]);
    snprintf(out + used, 96 - used, "]");
    return out;
}

gyre_status gyre_safetensors_expect(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank,
                                    gyre_safetensors_view *out, gyre_error *err) {
    gyre_safetensors_view t;
    char is[96], wanted[96];
    const gyre_status status = gyre_safetensors_find(file, name, &t, err);
    if (status) return status;
    if (t.rank != rank || (rank > 0 && memcmp(t.shape, shape, (size_t)rank * sizeof *shape) != 0))
        return gyre_fail(err, GYRE_EFORMAT, "%s: shape %s, not %s (%s)", name, shape_text(t.shape, t.rank, is),
                         shape_text(shape, rank, wanted), file->path);
    *out = t;
    return GYRE_OK;
}

typedef union aligned_block {
    unsigned char bytes[BLOCK * sizeof(double)];
    double aligned;
} aligned_block;

/* Copies through an aligned block, because the data is unaligned. */
static gyre_status read_values(const gyre_safetensors *file, const char *name, const gyre_safetensors_view *t, float *out,
                               gyre_error *err) {
    aligned_block block;
    const size_t size = gyre_dtype_size(t->dtype);
    for (int64_t at = 0; at < t->count; at += BLOCK) {
        const int64_t n = t->count - at < BLOCK ? t->count - at : BLOCK;
        memcpy(block.bytes, (const unsigned char *)t->data + (size_t)at * size, (size_t)n * size);
        gyre_load_row(block.bytes, t->dtype, 1, n, out + at);
        for (int64_t i = at; i < at + n; i++)
            if (!isfinite(out[i]))
                return gyre_fail(err, GYRE_EFORMAT, "%s: element %" PRId64 " is %s (%s)", name, i,
                                 isnan(out[i]) ? "not a number" : "infinite", file->path);
    }
    return GYRE_OK;
}

gyre_status gyre_safetensors_read(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank, float *out,
                                  gyre_error *err) {
    gyre_safetensors_view t;
    const gyre_status status = gyre_safetensors_expect(file, name, shape, rank, &t, err);
    if (status) return status;
    if (t.dtype == GYRE_DTYPE_I32 || t.dtype == GYRE_DTYPE_I64)
        return gyre_fail(err, GYRE_EFORMAT, "%s: %s where numbers with a fraction are needed (%s)", name,
                         dtype_name(t.dtype), file->path);
    return read_values(file, name, &t, out, err);
}

/* -- writing -- */
static int64_t elements_of(const gyre_safetensors_input *t) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

/* Checks the values as they will be read back, so that no file is written that the reader refuses. */
static gyre_status check_finite(const gyre_safetensors_input *t, const void *stored, gyre_dtype dtype, int64_t at, int64_t n,
                                gyre_error *err) {
    float back[BLOCK];
    gyre_load_row(stored, dtype, 1, n, back);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(back[i]))
            return gyre_fail(err, GYRE_EINVAL, "%s: element %" PRId64 ", %g, is not finite in %s (writing)", t->name, at + i,
                             (double)t->data[at + i], dtype_name(dtype));
    return GYRE_OK;
}

static gyre_status write_tensor(gyre_safetensors_stream *stream, const gyre_safetensors_input *t, gyre_dtype dtype,
                                gyre_error *err) {
    aligned_block block;
    const size_t size = gyre_dtype_size(dtype);
    const int64_t count = elements_of(t);
    gyre_status status = GYRE_OK;
    for (int64_t at = 0; at < count && !status; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        gyre_store_row(t->data + at, n, block.bytes, dtype, 1);
        status = check_finite(t, block.bytes, dtype, at, n, err);
        if (!status) status = gyre_safetensors_stream_write(stream, block.bytes, size * (size_t)n, err);
    }
    return status;
}

static gyre_dtype dtype_of(const gyre_safetensors_input *t, gyre_dtype dtype) {
    return t->stays_float ? GYRE_DTYPE_F32 : dtype;
}

gyre_status gyre_safetensors_write(const char *path, const gyre_safetensors_input *tensors, int64_t count, gyre_dtype dtype,
                                   gyre_error *err) {
    gyre_safetensors_stream *stream = NULL;
    if (dtype != GYRE_DTYPE_F32 && dtype != GYRE_DTYPE_F16 && dtype != GYRE_DTYPE_BF16 && dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "safetensors: %s is not a type that is written (%s)", dtype_name(dtype), path);
    gyre_safetensors_spec *list = calloc((size_t)count + 1, sizeof *list);
    if (!list) return gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory for the header (%s)", path);
    for (int64_t i = 0; i < count; i++) {
        const gyre_dtype own = dtype_of(&tensors[i], dtype);
        list[i] = (gyre_safetensors_spec){
            .name = tensors[i].name, .dtype = dtype_name(own), .bytes = gyre_dtype_size(own), .rank = tensors[i].rank};
        memcpy(list[i].shape, tensors[i].shape, sizeof list[i].shape);
    }
    gyre_status status = gyre_safetensors_stream_open(&stream, path, list, count, err);
    free(list);
    if (status) return status;
    for (int64_t i = 0; i < count && !status; i++)
        status = write_tensor(stream, &tensors[i], dtype_of(&tensors[i], dtype), err);
    if (!status) return gyre_safetensors_stream_close(stream, err);
    gyre_safetensors_stream_discard(stream);
    return status;
}
