/* gguf.h: the container format of llama.cpp: typed keys, tensor descriptions, tensor data.  Little-endian, versions 2
 * and 3.  Nothing is copied and tensor data is not read, so a mapped file may have any size.
 *
 *    header | keys and values | tensor descriptions | padding | tensor data */
#ifndef GYRE_FILES_GGUF_H
#define GYRE_FILES_GGUF_H
#include "files/file_read.h"
#include "gyre/gyre.h"

/* Numbered as in the format. */
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

/* Points into the file.  Strings have no NUL at their end. */
typedef struct gyre_gguf_value {
    gyre_gguf_type type, element; /* element: of arrays */
    uint64_t count;               /* elements of an array, bytes of a string; else 1 */
    const unsigned char *data;    /* the number, the characters or the elements */
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
    uint32_t type; /* ggml's number of the type: 0 = F32 */
    int rank;
    uint64_t dims[GYRE_GGUF_MAX_DIMS]; /* fastest first, as stored; 1 past the rank */
    uint64_t info_offset;              /* of its description in the file */
    uint64_t start;                    /* of its data, from the beginning of all data */
    const unsigned char *data; /* NULL = type of unknown size; of gyre_gguf_open_head also past the end of the file */
    uint64_t bytes;            /* 0 = type of unknown size */
} gyre_gguf_tensor;

/* out = 1 if the bytes begin like a GGUF file. */
int gyre_gguf_has_magic(const void *bytes, size_t size);
/* *out = 1 if `path` is a regular file that begins like a GGUF file, else 0, also if there is no such file.  Errors:
 * EIO, a file that cannot be read; *out = 0. */
gyre_status gyre_gguf_is_file(const char *path, int *out, gyre_error *err);

/* A parsed file.  All spans are within the file, except data of gyre_gguf_open_head; keys are unique, and so are names
 * of tensors. */
typedef struct gyre_gguf {
    const unsigned char *bytes;
    uint64_t size;
    uint32_t version;
    uint64_t alignment, tensor_infos, tensor_infos_end, data; /* offsets: descriptions begin and end, data begins */
    gyre_gguf_kv *kvs;                                        /* in file order */
    int64_t kv_count;
    gyre_gguf_tensor *tensors;
    int64_t tensors_count;
    uint32_t *kvs_by_key, *tensors_by_name; /* indices, sorted by name */
} gyre_gguf;

/* *out = the parsed file, which points into `bytes`.  After an error err->text is "what: why" and err->offset the byte;
 * the caller adds the path.  EFORMAT, EUNSUPPORTED (version 1, big-endian), ENOMEM. */
gyre_status gyre_gguf_open(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err);
/* gyre_gguf_open for the bytes of a gyre_mapping: pages of long string arrays are released once they were walked. */
gyre_status gyre_gguf_open_mapped(gyre_gguf **out, const void *bytes, size_t size, gyre_error *err);
/* gyre_gguf_open of a file that may end within the data of its tensors: data is NULL for those that are not whole.  mapped:
 * as of gyre_gguf_open_mapped. */
gyre_status gyre_gguf_open_head(gyre_gguf **out, const void *bytes, size_t size, int mapped, gyre_error *err);
/* EFORMAT, with text and offset as above, if a tensor's data ends past the file. */
gyre_status gyre_gguf_check_whole(const gyre_gguf *file, gyre_error *err);
/* Maps and opens the file at `path`.  *map must outlive *out; the caller closes it, also after an error.  err->text
 * names path and byte. */
gyre_status gyre_gguf_open_path(gyre_gguf **out, gyre_mapping *map, const char *path, gyre_error *err);
/* The same as gyre_gguf_open_head does. */
gyre_status gyre_gguf_open_path_head(gyre_gguf **out, gyre_mapping *map, const char *path, gyre_error *err);
void gyre_gguf_free(gyre_gguf *file); /* NULL does nothing */
/* out = the key or tensor of that name, or NULL. */
const gyre_gguf_kv *gyre_gguf_find_key(const gyre_gguf *file, const char *key);
const gyre_gguf_tensor *gyre_gguf_find_tensor(const gyre_gguf *file, const char *name);

/* *out = element i of an array of numbers, or the number itself for i = 0; a bool is 0 or 1.  out = 1, or 0 if there is
 * no such number.  gyre_gguf_integer also returns 0 for a fraction and for a number that does not fit. */
int gyre_gguf_number(const gyre_gguf_value *value, uint64_t i, double *out);
int gyre_gguf_integer(const gyre_gguf_value *value, uint64_t i, int64_t *out);
int gyre_gguf_equals(const gyre_gguf_value *value, const char *text);
/* out = "uint32", "array", ... */
const char *gyre_gguf_type_name(gyre_gguf_type type);
/* out = bytes of one number of this type; 0 for strings and arrays. */
size_t gyre_gguf_type_size(gyre_gguf_type type);

#endif
