/* gguf_writer.h: builds the metadata of a new GGUF file in memory.  The caller writes the tensor data after it. */
#ifndef GYRE_FILES_GGUF_WRITER_H
#define GYRE_FILES_GGUF_WRITER_H
#include "files/tensors/tensor_store.h"

#include <stdio.h>

/* Begin with {0}.  Running out of memory sets `failed`, which gyre_gguf_write_metadata reports. */
typedef struct gyre_gguf_writer {
    unsigned char *keys, *infos;
    size_t keys_bytes, keys_capacity, infos_bytes, infos_capacity;
    uint64_t keys_count, tensors_count;
    uint64_t data_bytes; /* of the tensors so far, each padded */
    int failed;
} gyre_gguf_writer;
void gyre_gguf_writer_free(gyre_gguf_writer *maker);

void gyre_gguf_write_u32(gyre_gguf_writer *maker, const char *key, uint32_t x);
void gyre_gguf_write_f32(gyre_gguf_writer *maker, const char *key, double x);
void gyre_gguf_write_bool(gyre_gguf_writer *maker, const char *key, int x);
void gyre_gguf_write_string(gyre_gguf_writer *maker, const char *key, const char *text);
/* Begins an array.  Exactly `count` elements follow, written by the next two functions. */
void gyre_gguf_write_array(gyre_gguf_writer *maker, const char *key, gyre_gguf_type element, uint64_t count);
void gyre_gguf_write_array_string(gyre_gguf_writer *maker, const char *text, size_t bytes);
void gyre_gguf_write_array_number(gyre_gguf_writer *maker, gyre_gguf_type element, double x); /* I32, F32, U32 */
/* Copies a key and its value from another file. */
void gyre_gguf_write_kv_copy(gyre_gguf_writer *maker, const gyre_gguf *file, const gyre_gguf_kv *pair);

/* Describes the next tensor.  shape: slowest first.  type: not OTHER. */
void gyre_gguf_write_tensor_info(gyre_gguf_writer *maker, const char *name, gyre_stored_type type, int rank,
                                 const int64_t *shape);
/* out = `bytes` rounded up to the alignment: the distance from one tensor to the next. */
uint64_t gyre_gguf_pad(uint64_t bytes);
/* *out = everything up to the tensor data, *bytes long; the caller frees it.  ENOMEM. */
gyre_status gyre_gguf_write_metadata(const gyre_gguf_writer *maker, unsigned char **out, size_t *bytes, gyre_error *err);

#endif
