/* gguf.h: the container of llama.cpp's models: typed keys, then what tensors there are, then their bytes.  Little-endian,
 * versions 2 and 3.  Nothing is copied and no tensor is touched: a file of any size may be mapped. */
#ifndef GYRE_READING_GGUF_H
#define GYRE_READING_GGUF_H
#include "files/file_read.h"
#include "gyre/gyre.h"

/* As the format numbers them. */
typedef enum gyre_gguf_type {
    GYRE_GGUF_U8,
    GYRE_GGUF_I8,
    GYRE_GGUF_U16,
    GYRE_GGUF_I16,
    GYRE_GGUF_U32,
    GYRE_GGUF_I32,
    GYRE_GGUF_F32,
    GYRE_GGUF_BOOL,
    GYRE_GGUF_STRING,
    GYRE_GGUF_ARRAY,
    GYRE_GGUF_U64,
    GYRE_GGUF_I64,
    GYRE_GGUF_F64
} gyre_gguf_type;
enum { GYRE_GGUF_HEADER_BYTES = 24, GYRE_GGUF_ALIGNMENT = 32, GYRE_GGUF_MAX_DIMS = 4 };

/* Points into the file; strings have no NUL at their end. */
typedef struct gyre_gguf_value {
    gyre_gguf_type type, element; /* element: of an array */
    uint64_t count;               /* an array's elements, a string's bytes; else 1 */
    const unsigned char *data;    /* the number, the characters, the elements */
} gyre_gguf_value;
/* A key and its value: bytes offset .. offset + bytes - 1 of the file. */
typedef struct gyre_gguf_kv {
    const char *key;
    size_t key_bytes;
    uint64_t offset, bytes;
    gyre_gguf_value value;
} gyre_gguf_kv;
typedef struct gyre_gguf_tensor {
    const char *name;
    size_t name_bytes;
    uint32_t type; /* ggml's number: 0 = F32 */
    int rank;
    uint64_t dims[GYRE_GGUF_MAX_DIMS]; /* fastest first, as stored; 1 past the rank */
    uint64_t info_offset;              /* where in the file it is described */
    const unsigned char *data;
    uint64_t bytes; /* 0 = of a type whose size is not known here */
} gyre_gguf_tensor;

/* out = 1 if the bytes begin as a GGUF file does. */
int gyre_gguf_has_magic(const void *bytes, size_t size);
/* out = 1 if `path` is a regular file that begins so. */
int gyre_gguf_is_file(const char *path);

/* All spans of a file are within it, keys and names are unique. */
typedef struct gyre_gguf {
    const unsigned char *bytes;
    uint64_t size;
    uint32_t version;
    uint64_t alignment, tensor_infos, tensor_infos_end,
        data;          /* where the tensors' descriptions begin and end, and their bytes begin */
    gyre_gguf_kv *kvs; /* in the file's order */
    int64_t kv_count;
    gyre_gguf_tensor *tensors;
    int64_t tensors_count;
    uint32_t *kvs_by_key, *tensors_by_name; /* indices */
} gyre_gguf;

/* *out = the file's contents, pointing into `bytes`.  err->text is "what: why" and err->offset the byte; the path is the
 * caller's to add.  EFORMAT, EUNSUPPORTED (version 1, big-endian), ENOMEM. */
gyre_status gyre_gguf_open(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err);
/* The same of a gyre_mapping's bytes: the pages of long arrays of words, once walked, are not kept in memory. */
gyre_status gyre_gguf_open_mapped(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err);
/* Maps and opens the file at `path`.  *map must outlive *out, and the caller closes it, also after an error.  err->text names
 * path and byte. */
gyre_status gyre_gguf_open_path(gyre_gguf **out, gyre_mapping *map, const char *path, gyre_error *err);
void gyre_gguf_free(gyre_gguf *file); /* NULL is fine */
/* out = the key's, or NULL. */
const gyre_gguf_kv *gyre_gguf_find_key(const gyre_gguf *file, const char *key);
const gyre_gguf_tensor *gyre_gguf_find_tensor(const gyre_gguf *file, const char *name);

/* The i-th of an array's fixed-size elements, or i = 0 of a number: 1, or 0 where it is none (or, as an integer, one that
 * is not whole or does not fit).  A bool is 0 or 1. */
int gyre_gguf_number(const gyre_gguf_value *value, uint64_t i, double *out);
int gyre_gguf_integer(const gyre_gguf_value *value, uint64_t i, int64_t *out);
int gyre_gguf_equals(const gyre_gguf_value *value, const char *text);
/* out = "uint32", "array", ... */
const char *gyre_gguf_type_name(gyre_gguf_type type);
/* out = bytes of one number of the type; 0 for strings and arrays. */
size_t gyre_gguf_type_size(gyre_gguf_type type);

#endif
