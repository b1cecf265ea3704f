/* gguf_writer.h: a GGUF made from keys and tensors: first all of its metadata in memory, then the tensors' bytes as they
 * come. */
#ifndef GYRE_MODEL_GGUF_WRITER_H
#define GYRE_MODEL_GGUF_WRITER_H
#include "files/tensor_store.h"

#include <stdio.h>

/* Begin with {0}.  Running out of memory sticks, and is told at the end. */
typedef struct gyre_gguf_writer {
    unsigned char *keys, *infos;
    size_t keys_bytes, keys_room, infos_bytes, infos_room;
    uint64_t keys_count, tensors_count;
    uint64_t data_bytes; /* of the tensors so far, each padded */
    int failed;
} gyre_gguf_writer;
void gyre_gguf_writer_free(gyre_gguf_writer *maker);

void gyre_gguf_write_u32(gyre_gguf_writer *maker, const char *key, uint32_t x);
void gyre_gguf_write_f32(gyre_gguf_writer *maker, const char *key, double x);
void gyre_gguf_write_bool(gyre_gguf_writer *maker, const char *key, int x);
void gyre_gguf_write_string(gyre_gguf_writer *maker, const char *key, const char *text);
/* The head of an array; its `count` elements are put next, by one of those below. */
void gyre_gguf_write_array(gyre_gguf_writer *maker, const char *key, gyre_gguf_type element, uint64_t count);
void gyre_gguf_write_array_string(gyre_gguf_writer *maker, const char *text, size_t bytes);
void gyre_gguf_write_array_number(gyre_gguf_writer *maker, gyre_gguf_type element, double x); /* I32, F32, U32 */
/* A key and its value as they stand in another file. */
void gyre_gguf_write_kv_copy(gyre_gguf_writer *maker, const gyre_gguf *file, const gyre_gguf_kv *pair);

/* Says that a tensor will come, after those said before.  shape: slowest first.  type: not OTHER. */
void gyre_gguf_write_tensor_info(gyre_gguf_writer *maker, const char *name, gyre_stored_type type, int rank,
                                 const int64_t *shape);
/* out = bytes from the beginning of a tensor of `bytes` bytes to that of the next. */
uint64_t gyre_gguf_pad(uint64_t bytes);
/* *out = the file up to its tensors' bytes, *bytes of them, which the caller frees.  ENOMEM. */
gyre_status gyre_gguf_write_metadata(const gyre_gguf_writer *maker, unsigned char **out, size_t *bytes, gyre_error *err);

/* ggml's number for a type, and the number for general.file_type where most matrices have it. */
uint32_t gyre_ggml_type(gyre_stored_type type);
uint32_t gyre_ggml_ftype(gyre_stored_type type);

#endif
