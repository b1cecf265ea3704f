/* gguf.c: parses header, keys and tensor descriptions.  Keys are walked once, because a vocabulary of 150 000 strings is
 * among them. */
#include "files/gguf.h"

#include "files/file_read.h"
#include "files/little_endian.h"
#include "files/printable_name.h"
#include "util/error.h"
#include "util/open_regular.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_DEPTH = 8,            /* nesting of arrays; files in the wild have one level */
    MAX_NAME_BYTES = 65535,   /* of keys, by the format; applied to tensors too */
    MIN_KV_BYTES = 8 + 4 + 1, /* an empty key, its type, one byte */
    MAX_COUNT = 1 << 20,      /* keys, tensors; ten times what files in the wild have */
    MIN_TENSOR_INFO_BYTES = 8 + 4 + 4 + 8,
    RELEASE_BYTES = 1 << 20 /* array bytes between two releases of pages */
};

int gyre_gguf_has_magic(const void *bytes, size_t size) {
    return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

gyre_status gyre_gguf_is_file(const char *path, int *out, gyre_error *err) {
    char head[4];
    struct stat info;
    *out = 0;
    if (stat(path, &info) != 0) return errno == ENOENT ? GYRE_OK : gyre_fail_errno(err, path, errno);
    if (!S_ISREG(info.st_mode)) return GYRE_OK;
    FILE *file = gyre_open_regular(path);
    if (!file) return gyre_fail_errno(err, path, errno);
    const size_t bytes = fread(head, 1, sizeof head, file);
    const gyre_status status = ferror(file) ? gyre_fail_errno(err, path, errno) : GYRE_OK;
    if (!status) *out = gyre_gguf_has_magic(head, bytes);
    fclose(file);
    return status;
}

/* The bytes not parsed yet. */
typedef struct cursor {
    const unsigned char *bytes;
    uint64_t at, size;
    gyre_error *err;
    int mapped;
} cursor;

/* -- failures -- */
static gyre_status failed(const cursor *c, gyre_status status, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static gyre_status failed(const cursor *c, gyre_status status, uint64_t offset, const char *format, ...) {
    char text[360];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)gyre_fail(c->err, status, "%s", text);
    if (c->err) c->err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* It does not look into variadic functions. */
#define failed(c, status, ...) ((void)failed(c, status, __VA_ARGS__), (status))
#endif

/* -- numbers -- */
static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},  {"float32", 4},
             {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8}};
enum { TYPES = sizeof types / sizeof *types };

const char *gyre_gguf_type_name(gyre_gguf_type type) {
    return (unsigned)type < TYPES ? types[type].name : "no type";
}
size_t gyre_gguf_type_size(gyre_gguf_type type) {
    return (unsigned)type < TYPES ? types[type].bytes : 0;
}

/* out = the bytes of element i, *type = its type; NULL if it is not a number or i is out of range. */
static const unsigned char *element_of(const gyre_gguf_value *value, uint64_t i, gyre_gguf_type *type) {
    *type = value->type == GYRE_GGUF_ARRAY ? value->element : value->type;
    const size_t bytes = gyre_gguf_type_size(*type);
    return bytes == 0 || i >= value->count ? NULL : value->data + (size_t)i * bytes;
}

/* Sign-extends a two's complement number of `bytes` bytes. */
static int64_t sign_extend(uint64_t x, size_t bytes) {
    const uint64_t top = (uint64_t)1 << (8 * bytes - 1);
    if (!(x & top)) return (int64_t)x;
    return -(int64_t)(((top - 1) & ~x)) - 1;
}

int gyre_gguf_integer(const gyre_gguf_value *value, uint64_t i, int64_t *out) {
    gyre_gguf_type type;
    double x;
    const unsigned char *at = element_of(value, i, &type);
    if (!at) return 0;
    if (type == GYRE_GGUF_F32 || type == GYRE_GGUF_F64) {
        if (!gyre_gguf_number(value, i, &x) || !(x >= -0x1p53 && x <= 0x1p53) || x != floor(x)) return 0;
        *out = (int64_t)x;
        return 1;
    }
    const size_t bytes = gyre_gguf_type_size(type);
    const uint64_t bits = gyre_load_le(at, bytes);
    if (type == GYRE_GGUF_I8 || type == GYRE_GGUF_I16 || type == GYRE_GGUF_I32 || type == GYRE_GGUF_I64) {
        *out = sign_extend(bits, bytes);
        return 1;
    }
    if (bits > INT64_MAX || (type == GYRE_GGUF_BOOL && bits > 1)) return 0;
    *out = (int64_t)bits;
    return 1;
}

int gyre_gguf_number(const gyre_gguf_value *value, uint64_t i, double *out) {
    gyre_gguf_type type;
    int64_t whole;
    const unsigned char *at = element_of(value, i, &type);
    if (!at) return 0;
    if (type == GYRE_GGUF_F32) {
        const uint32_t bits = (uint32_t)gyre_load_le(at, 4);
        float x;
        memcpy(&x, &bits, sizeof x);
        *out = (double)x;
        return 1;
    }
    if (type == GYRE_GGUF_F64) {
        const uint64_t bits = gyre_load_le(at, 8);
        memcpy(out, &bits, sizeof *out);
        return 1;
    }
    if (type == GYRE_GGUF_U64) {
        *out = (double)gyre_load_le(at, 8);
        return 1;
    }
    if (!gyre_gguf_integer(value, i, &whole)) return 0;
    *out = (double)whole;
    return 1;
}

int gyre_gguf_equals(const gyre_gguf_value *value, const char *text) {
    return value->type == GYRE_GGUF_STRING && value->count == strlen(text) &&
           memcmp(value->data, text, (size_t)value->count) == 0;
}

/* -- keys and values -- */
static gyre_status read_uint(cursor *c, size_t bytes, const char *what, uint64_t *out) {
    *out = 0;
    if (c->size - c->at < bytes) return failed(c, GYRE_EFORMAT, c->at, "%s: the file ends within it", what);
    *out = gyre_load_le(c->bytes + c->at, bytes);
    c->at += bytes;
    return GYRE_OK;
}

/* Reads a string's length; *out = where its characters are. */
static gyre_status read_string(cursor *c, uint64_t maximum, const char *what, const char **text, uint64_t *bytes) {
    const uint64_t offset = c->at;
    const gyre_status status = read_uint(c, 8, what, bytes);
    if (status) return status;
    if (*bytes > maximum)
        return failed(c, GYRE_EFORMAT, offset, "%s: %" PRIu64 " characters, at most %" PRIu64, what, *bytes, maximum);
    if (*bytes > c->size - c->at)
        return failed(c, GYRE_EFORMAT, offset, "%s: %" PRIu64 " characters, where %" PRIu64 " bytes are left", what, *bytes,
                      c->size - c->at);
    *text = (const char *)c->bytes + c->at;
    c->at += *bytes;
    return GYRE_OK;
}

static gyre_status read_value_type(cursor *c, const char *what, gyre_gguf_type *type) {
    const uint64_t offset = c->at;
    uint64_t number = 0;
    *type = GYRE_GGUF_U8;
    const gyre_status status = read_uint(c, 4, what, &number);
    if (status) return status;
    if (number >= TYPES) return failed(c, GYRE_EFORMAT, offset, "%s: its type, %" PRIu64 ", does not exist", what, number);
    *type = (gyre_gguf_type)number;
    return GYRE_OK;
}

static gyre_status read_value(cursor *c, gyre_gguf_type type, const char *what, int depth, gyre_gguf_value *out);

/* Skips the elements.  Strings and nested arrays have to be walked one by one. */
static gyre_status read_elements(cursor *c, const char *what, uint64_t offset, int depth, gyre_gguf_value *array) {
    const size_t fixed = gyre_gguf_type_size(array->element);
    const size_t minimum = fixed ? fixed : array->element == GYRE_GGUF_STRING ? 8 : 12;
    if (array->count > (c->size - c->at) / minimum)
        return failed(c, GYRE_EFORMAT, offset, "%s: %" PRIu64 " elements of %s, where %" PRIu64 " bytes are left", what,
                      array->count, gyre_gguf_type_name(array->element), c->size - c->at);
    array->data = c->bytes + c->at;
    if (fixed) {
        c->at += array->count * fixed;
        return GYRE_OK;
    }
    uint64_t resident_from = c->at;
    for (uint64_t i = 0; i < array->count; i++) {
        gyre_gguf_value element;
        const gyre_status status = read_value(c, array->element, what, depth + 1, &element);
        if (status) return status;
        if (!c->mapped || c->at - resident_from < RELEASE_BYTES) continue;
        gyre_mapping_release_pages(c->bytes + resident_from, (size_t)(c->at - resident_from));
        resident_from = c->at;
    }
    return GYRE_OK;
}

static gyre_status read_array_value(cursor *c, const char *what, int depth, gyre_gguf_value *out) {
    const uint64_t offset = c->at;
    if (depth == MAX_DEPTH) return failed(c, GYRE_EFORMAT, offset, "%s: arrays more than %d deep", what, MAX_DEPTH);
    gyre_status status = read_value_type(c, what, &out->element);
    if (!status) status = read_uint(c, 8, what, &out->count);
    return !status ? read_elements(c, what, offset, depth, out) : status;
}

static gyre_status read_value(cursor *c, gyre_gguf_type type, const char *what, int depth, gyre_gguf_value *out) {
    const char *text;
    uint64_t bits;
    *out = (gyre_gguf_value){type, type, 1, c->bytes + c->at};
    if (type == GYRE_GGUF_ARRAY) return read_array_value(c, what, depth, out);
    if (type == GYRE_GGUF_STRING) {
        const gyre_status status = read_string(c, UINT64_MAX, what, &text, &out->count);
        if (!status) out->data = (const unsigned char *)text;
        return status;
    }
    return read_uint(c, gyre_gguf_type_size(type), what, &bits);
}

static gyre_status read_kv(cursor *c, gyre_gguf_kv *pair) {
    uint64_t bytes;
    gyre_gguf_type type = GYRE_GGUF_U8;
    pair->offset = c->at;
    gyre_status status = read_string(c, MAX_NAME_BYTES, "key", &pair->key, &bytes);
    if (status) return status;
    pair->key_bytes = (size_t)bytes;
    if (bytes == 0) return failed(c, GYRE_EFORMAT, pair->offset, "key: empty");
    const gyre_printable_name name = gyre_make_printable(pair->key, pair->key_bytes);
    status = read_value_type(c, name.text, &type);
    if (!status) status = read_value(c, type, name.text, 0, &pair->value);
    if (!status && type == GYRE_GGUF_BOOL && *pair->value.data > 1)
        return failed(c, GYRE_EFORMAT, c->at - 1, "%s: a bool of %u", name.text, *pair->value.data);
    pair->bytes = c->at - pair->offset;
    return status;
}

/* -- tensors -- */
/* Sizes of ggml's types by number.  Zero numbers: this number does not name a type, or names a removed one. */
static const struct {
    unsigned elements, bytes;
} blocks[] = {
#define GYRE_STORED_PLAIN(NAME, number, file_type, bytes)                            [number] = {1, bytes},
#define GYRE_STORED_BLOCK(NAME, name, number, file_type, count, bytes, scale, least) [number] = {count, bytes},
#define GYRE_STORED_RARE                                                             GYRE_STORED_BLOCK
#define GYRE_STORED_UNREAD(NAME, number, count, bytes)                               [number] = {count, bytes},
#include "kernels/quants/stored_types.def"
};

static gyre_status read_dims(cursor *c, const char *name, gyre_gguf_tensor *t, uint64_t *elements) {
    uint64_t rank = 0;
    gyre_status status = read_uint(c, 4, name, &rank);
    if (status) return status;
    if (rank > GYRE_GGUF_MAX_DIMS)
        return failed(c, GYRE_EFORMAT, c->at - 4, "%s: %" PRIu64 " dimensions, at most %d", name, rank, GYRE_GGUF_MAX_DIMS);
    t->rank = (int)rank;
    *elements = 1;
    for (int i = 0; i < GYRE_GGUF_MAX_DIMS; i++)
        t->dims[i] = 1;
    for (int i = 0; i < t->rank; i++) {
        status = read_uint(c, 8, name, &t->dims[i]);
        if (status) return status;
        if (t->dims[i] == 0 || t->dims[i] > INT64_MAX / *elements)
            return failed(c, GYRE_EFORMAT, c->at - 8, "%s: dimension %d, %" PRIu64 ", %s", name, i, t->dims[i],
                          t->dims[i] ? "makes more elements than there can be" : "is empty");
        *elements *= t->dims[i];
    }
    return GYRE_OK;
}

/* Sets tensor->bytes.  Types newer than this table are left at 0. */
static gyre_status set_tensor_bytes(cursor *c, const char *name, uint64_t elements, gyre_gguf_tensor *t) {
    const unsigned block = t->type < sizeof blocks / sizeof *blocks ? blocks[t->type].elements : 0;
    t->bytes = 0;
    if (block == 0) return GYRE_OK;
    if (t->dims[0] % block != 0)
        return failed(c, GYRE_EFORMAT, t->info_offset, "%s: rows of %" PRIu64 " elements, stored in blocks of %u", name,
                      t->dims[0], block);
    if (elements / block > INT64_MAX / blocks[t->type].bytes)
        return failed(c, GYRE_EFORMAT, t->info_offset, "%s: more bytes than there can be", name);
    t->bytes = elements / block * blocks[t->type].bytes;
    return GYRE_OK;
}

/* *relative = offset of the tensor's data from the start of all data, which is not known yet. */
static gyre_status read_tensor_info(cursor *c, gyre_gguf_tensor *t, uint64_t *relative) {
    uint64_t bytes, elements = 0, type = 0;
    t->info_offset = c->at;
    gyre_status status = read_string(c, MAX_NAME_BYTES, "tensor name", &t->name, &bytes);
    if (status) return status;
    t->name_bytes = (size_t)bytes;
    if (bytes == 0) return failed(c, GYRE_EFORMAT, t->info_offset, "tensor name: empty");
    const gyre_printable_name name = gyre_make_printable(t->name, t->name_bytes);
    status = read_dims(c, name.text, t, &elements);
    if (!status) status = read_uint(c, 4, name.text, &type);
    if (!status) status = read_uint(c, 8, name.text, relative);
    if (status) return status;
    t->type = (uint32_t)type;
    return set_tensor_bytes(c, name.text, elements, t);
}

static uint64_t data_bytes(const gyre_gguf *file) {
    return file->size > file->data ? file->size - file->data : 0;
}

static int is_within(const gyre_gguf *file, const gyre_gguf_tensor *t) {
    const uint64_t bytes = data_bytes(file);
    return t->start <= bytes && t->bytes <= bytes - t->start;
}

static gyre_status set_tensor_data(const cursor *c, const gyre_gguf *file, gyre_gguf_tensor *t, uint64_t relative) {
    if (relative % file->alignment != 0)
        return failed(c, GYRE_EFORMAT, t->info_offset, "%s: at %" PRIu64 " of the data, not a multiple of %" PRIu64,
                      gyre_make_printable(t->name, t->name_bytes).text, relative, file->alignment);
    t->start = relative;
    t->data = t->bytes && is_within(file, t) ? file->bytes + file->data + relative : NULL;
    return GYRE_OK;
}

/* -- order -- */
static int compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    const size_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = common ? memcmp(a, b, common) : 0;
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* A name in the file, for sorting and searching. */
typedef struct name_ref {
    const char *name;
    size_t bytes;
    uint64_t offset;
    uint32_t index;
} name_ref;

static int by_name(const void *a, const void *b) {
    const name_ref *x = a, *y = b;
    const int order = compare(x->name, x->bytes, y->name, y->bytes);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* *out = indices in order of the names.  A name that occurs twice is an error. */
static gyre_status sort(const cursor *c, name_ref *names, int64_t count, const char *what, uint32_t **out) {
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int64_t i = 1; i < count; i++)
        if (compare(names[i].name, names[i].bytes, names[i - 1].name, names[i - 1].bytes) == 0)
            return failed(c, GYRE_EFORMAT, names[i].offset, "%s: a second %s of that name, after the one at byte %" PRIu64,
                          gyre_make_printable(names[i].name, names[i].bytes).text, what, names[i - 1].offset);
    *out = malloc(((size_t)count + 1) * sizeof **out);
    if (!*out) return failed(c, GYRE_ENOMEM, 0, "GGUF: no memory");
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = names[i].index;
    return GYRE_OK;
}

static gyre_status sort_names(const cursor *c, gyre_gguf *file) {
    const int64_t maximum = file->kv_count > file->tensors_count ? file->kv_count : file->tensors_count;
    name_ref *names = malloc(((size_t)maximum + 1) * sizeof *names);
    if (!names) return failed(c, GYRE_ENOMEM, 0, "GGUF: no memory");
    for (int64_t i = 0; i < file->kv_count; i++) {
        const gyre_gguf_kv *p = &file->kvs[i];
        names[i] = (name_ref){p->key, p->key_bytes, p->offset, (uint32_t)i};
    }
    gyre_status status = sort(c, names, file->kv_count, "key", &file->kvs_by_key);
    for (int64_t i = 0; i < file->tensors_count; i++) {
        const gyre_gguf_tensor *t = &file->tensors[i];
        names[i] = (name_ref){t->name, t->name_bytes, t->info_offset, (uint32_t)i};
    }
    if (!status) status = sort(c, names, file->tensors_count, "tensor", &file->tensors_by_name);
    free(names);
    return status;
}

typedef int compare_entry(const gyre_gguf *file, uint32_t index, const char *name, size_t bytes);

static int compare_key(const gyre_gguf *file, uint32_t index, const char *name, size_t bytes) {
    return compare(name, bytes, file->kvs[index].key, file->kvs[index].key_bytes);
}

static int compare_tensor(const gyre_gguf *file, uint32_t index, const char *name, size_t bytes) {
    return compare(name, bytes, file->tensors[index].name, file->tensors[index].name_bytes);
}

/* out = the index of the entry of that name among those sorted by name; -1 if there is none. */
static int64_t find(const gyre_gguf *file, const uint32_t *sorted, int64_t count, compare_entry *order_of,
                    const char *name) {
    const size_t bytes = strlen(name);
    for (int64_t low = 0, high = count; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const int order = order_of(file, sorted[middle], name, bytes);
        if (order == 0) return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

const gyre_gguf_kv *gyre_gguf_find_key(const gyre_gguf *file, const char *key) {
    const int64_t found = find(file, file->kvs_by_key, file->kv_count, compare_key, key);
    return found < 0 ? NULL : &file->kvs[found];
}

const gyre_gguf_tensor *gyre_gguf_find_tensor(const gyre_gguf *file, const char *name) {
    const int64_t found = find(file, file->tensors_by_name, file->tensors_count, compare_tensor, name);
    return found < 0 ? NULL : &file->tensors[found];
}

/* -- the file -- */
static gyre_status check_version(const cursor *c, uint32_t version) {
    if (version == 2 || version == 3) return GYRE_OK;
    if (version == 1)
        return failed(c, GYRE_EUNSUPPORTED, 4, "GGUF: version 1, of 2023, whose lengths have 32 bits; convert it again");
    if ((version & 0xffff) == 0 && version != 0)
        return failed(c, GYRE_EUNSUPPORTED, 4,
                      "GGUF: big-endian (its version is stored as %08" PRIx32 "); only little-endian is read", version);
    return failed(c, GYRE_EUNSUPPORTED, 4, "GGUF: version %" PRIu32 "; 2 and 3 are read", version);
}

/* A large file has room for more entries than memory can hold. */
static gyre_status check_count(const cursor *c, uint64_t count, uint64_t minimum, uint64_t offset, const char *what) {
    const uint64_t left = c->size - c->at;
    if (count > left / minimum)
        return failed(c, GYRE_EFORMAT, offset, "number of %s: %" PRIu64 ", where %" PRIu64 " bytes are left", what, count,
                      left);
    if (count > MAX_COUNT)
        return failed(c, GYRE_EFORMAT, offset, "number of %s: %" PRIu64 ", at most %d", what, count, MAX_COUNT);
    return GYRE_OK;
}

static gyre_status read_gguf_header(cursor *c, gyre_gguf *file) {
    uint64_t version = 0, pairs = 0, tensors = 0;
    if (!gyre_gguf_has_magic(c->bytes, c->size)) return failed(c, GYRE_EFORMAT, 0, "GGUF: does not begin with GGUF");
    c->at = 4;
    gyre_status status = read_uint(c, 4, "version", &version);
    if (!status) status = check_version(c, (uint32_t)version);
    if (!status) status = read_uint(c, 8, "number of tensors", &tensors);
    if (!status) status = read_uint(c, 8, "number of keys", &pairs);
    if (status) return status;
    status = check_count(c, tensors, MIN_TENSOR_INFO_BYTES, 8, "tensors");
    if (!status) status = check_count(c, pairs, MIN_KV_BYTES, 16, "keys");
    if (status) return status;
    file->version = (uint32_t)version;
    file->kv_count = (int64_t)pairs;
    file->tensors_count = (int64_t)tensors;
    return GYRE_OK;
}

/* Arrays grow as entries are parsed, so that a false count in a small file cannot exhaust memory. */
static void *grow_array(void *array, int64_t count, int64_t *capacity, size_t each) {
    if (count < *capacity) return array;
    const int64_t grown_capacity = *capacity ? *capacity * 2 : 64;
    void *larger = realloc(array, (size_t)grown_capacity * each);
    if (larger) *capacity = grown_capacity;
    return larger;
}

static gyre_status read_kvs(cursor *c, gyre_gguf *file) {
    const int64_t count = file->kv_count;
    int64_t capacity = 0;
    for (file->kv_count = 0; file->kv_count < count; file->kv_count++) {
        gyre_gguf_kv *pairs = grow_array(file->kvs, file->kv_count, &capacity, sizeof *pairs);
        if (!pairs) return failed(c, GYRE_ENOMEM, c->at, "GGUF: no memory");
        file->kvs = pairs;
        const gyre_status status = read_kv(c, &pairs[file->kv_count]);
        if (status) return status;
    }
    return GYRE_OK;
}

static gyre_status find_alignment(const cursor *c, gyre_gguf *file) {
    int64_t alignment = GYRE_GGUF_ALIGNMENT;
    uint64_t offset = 0;
    for (int64_t i = 0; i < file->kv_count; i++) {
        const gyre_gguf_kv *p = &file->kvs[i];
        if (compare(p->key, p->key_bytes, "general.alignment", 17) != 0) continue;
        offset = p->offset;
        if (p->value.type == GYRE_GGUF_ARRAY || !gyre_gguf_integer(&p->value, 0, &alignment)) alignment = 0;
    }
    if (alignment < 1 || alignment > 1 << 30 || (alignment & (alignment - 1)) != 0)
        return failed(c, GYRE_EFORMAT, offset, "general.alignment: not a power of two from 1 to 2^30");
    file->alignment = (uint64_t)alignment;
    return GYRE_OK;
}

static gyre_status read_tensor_infos(cursor *c, gyre_gguf *file) {
    const int64_t count = file->tensors_count;
    int64_t capacity = 0, starts_capacity = 0;
    uint64_t *starts = NULL;
    gyre_status status = GYRE_OK;
    file->tensor_infos = c->at;
    for (file->tensors_count = 0; file->tensors_count < count && !status; file->tensors_count++) {
        gyre_gguf_tensor *tensors = grow_array(file->tensors, file->tensors_count, &capacity, sizeof *tensors);
        if (tensors) file->tensors = tensors;
        uint64_t *more = grow_array(starts, file->tensors_count, &starts_capacity, sizeof *starts);
        if (more) starts = more;
        status = tensors && more ? read_tensor_info(c, &tensors[file->tensors_count], &starts[file->tensors_count])
                                 : failed(c, GYRE_ENOMEM, c->at, "GGUF: no memory");
    }
    file->tensor_infos_end = c->at;
    file->data = (c->at + file->alignment - 1) / file->alignment * file->alignment;
    for (int64_t i = 0; i < file->tensors_count && !status; i++)
        status = set_tensor_data(c, file, &file->tensors[i], starts[i]);
    free(starts);
    return status;
}

static gyre_status open_bytes(gyre_gguf **out, const void *bytes, size_t size, int mapped, gyre_error *err) {
    cursor c = {bytes, 0, size, err, mapped};
    gyre_gguf *file = calloc(1, sizeof *file);
    if (!file) return failed(&c, GYRE_ENOMEM, 0, "GGUF: no memory");
    file->bytes = bytes;
    file->size = size;
    gyre_status status = read_gguf_header(&c, file);
    if (!status) status = read_kvs(&c, file);
    if (!status) status = find_alignment(&c, file);
    if (!status) status = read_tensor_infos(&c, file);
    if (!status) status = sort_names(&c, file);
    if (!status)
        *out = file;
    else
        gyre_gguf_free(file);
    return status;
}

gyre_status gyre_gguf_check_whole(const gyre_gguf *file, gyre_error *err) {
    const cursor c = {.bytes = file->bytes, .size = file->size, .err = err};
    for (int64_t i = 0; i < file->tensors_count; i++) {
        const gyre_gguf_tensor *t = &file->tensors[i];
        if (!is_within(file, t))
            return failed(&c, GYRE_EFORMAT, t->info_offset,
                          "%s: %" PRIu64 " bytes at %" PRIu64 " of the data, of which the file has %" PRIu64
                          ": it is cut short",
                          gyre_make_printable(t->name, t->name_bytes).text, t->bytes, t->start, data_bytes(file));
    }
    return GYRE_OK;
}

static gyre_status open_whole(gyre_gguf **out, const void *bytes, size_t size, int mapped, gyre_error *err) {
    gyre_gguf *file = NULL;
    gyre_status status = open_bytes(&file, bytes, size, mapped, err);
    if (!status) status = gyre_gguf_check_whole(file, err);
    if (!status)
        *out = file;
    else
        gyre_gguf_free(file);
    return status;
}

gyre_status gyre_gguf_open(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err) {
    return open_whole(out, bytes, size, 0, err);
}
gyre_status gyre_gguf_open_mapped(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err) {
    return open_whole(out, bytes, size, 1, err);
}
gyre_status gyre_gguf_open_head(gyre_gguf **out, const void *bytes, size_t size, int mapped, gyre_error *err) {
    return open_bytes(out, bytes, size, mapped, err);
}

void gyre_gguf_free(gyre_gguf *file) {
    if (!file) return;
    free(file->kvs);
    free(file->tensors);
    free(file->kvs_by_key);
    free(file->tensors_by_name);
    free(file);
}

static gyre_status open_path(gyre_gguf **out, gyre_mapping *map, const char *path, int whole, gyre_error *err) {
    gyre_error why = {0, ""};
    gyre_status status = gyre_mapping_open(map, path, err);
    if (status) return status;
    status = whole ? open_whole(out, map->bytes, map->size, 1, &why) : open_bytes(out, map->bytes, map->size, 1, &why);
    if (!status) return GYRE_OK;
    (void)gyre_fail(err, status, "%s (%s, byte %" PRIu64 ")", why.text, path, why.offset);
    if (err) err->offset = why.offset;
    return status;
}

gyre_status gyre_gguf_open_path(gyre_gguf **out, gyre_mapping *map, const char *path, gyre_error *err) {
    return open_path(out, map, path, 1, err);
}
gyre_status gyre_gguf_open_path_head(gyre_gguf **out, gyre_mapping *map, const char *path, gyre_error *err) {
    return open_path(out, map, path, 0, err);
}
