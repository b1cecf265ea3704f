/* make_gguf.h: builds GGUF files from the description of the format, without code of the reader. */
#ifndef GYRE_TESTS_MAKE_GGUF_H
#define GYRE_TESTS_MAKE_GGUF_H
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum {
    MADE_U8,
    MADE_I8,
    MADE_U16,
    MADE_I16,
    MADE_U32,
    MADE_I32,
    MADE_F32,
    MADE_BOOL,
    MADE_STRING,
    MADE_ARRAY,
    MADE_U64,
    MADE_I64,
    MADE_F64
};
enum { MADE_ROOM = 1 << 22, MADE_ALIGNMENT = 32 }; /* address space; pages are allocated when touched */

/* Put keys first, then declare tensors, then call made_finish to lay out the file. */
typedef struct made_gguf {
    unsigned char kvs[MADE_ROOM], infos[1 << 15], data[MADE_ROOM], file[3 * MADE_ROOM];
    size_t kvs_bytes, infos_bytes, data_bytes, file_bytes;
    size_t infos_at, data_at; /* in the file */
    uint64_t keys, tensors, alignment;
    uint32_t version;
} made_gguf;

static inline void made_number(unsigned char *to, size_t *at, uint64_t x, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        to[(*at)++] = (unsigned char)(x >> (8 * i));
}
static inline void made_text(unsigned char *to, size_t *at, const char *text) {
    const size_t bytes = strlen(text);
    made_number(to, at, bytes, 8);
    memcpy(to + *at, text, bytes);
    *at += bytes;
}

static inline made_gguf *made_begin(uint32_t version) {
    made_gguf *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->version = version;
    made->alignment = MADE_ALIGNMENT;
    return made;
}

/* -- keys -- */
static inline void made_key(made_gguf *made, const char *key, uint32_t type) {
    made_text(made->kvs, &made->kvs_bytes, key);
    made_number(made->kvs, &made->kvs_bytes, type, 4);
    made->keys++;
}
static inline void made_put(made_gguf *made, const char *key, uint32_t type, uint64_t bits, size_t bytes) {
    made_key(made, key, type);
    made_number(made->kvs, &made->kvs_bytes, bits, bytes);
}
static inline void made_u32(made_gguf *made, const char *key, uint32_t x) {
    made_put(made, key, MADE_U32, x, 4);
}
static inline void made_bool(made_gguf *made, const char *key, int x) {
    made_put(made, key, MADE_BOOL, (uint64_t)x, 1);
}
static inline uint64_t made_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline uint64_t made_f64_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline void made_f32(made_gguf *made, const char *key, float x) {
    made_put(made, key, MADE_F32, made_f32_bits(x), 4);
}
static inline void made_string(made_gguf *made, const char *key, const char *text) {
    made_key(made, key, MADE_STRING);
    made_text(made->kvs, &made->kvs_bytes, text);
}
/* The header of an array. The caller puts the elements. */
static inline void made_array(made_gguf *made, const char *key, uint32_t element, uint64_t count) {
    made_key(made, key, MADE_ARRAY);
    made_number(made->kvs, &made->kvs_bytes, element, 4);
    made_number(made->kvs, &made->kvs_bytes, count, 8);
}
static inline void made_i32s(made_gguf *made, const char *key, const int32_t *x, size_t count) {
    made_array(made, key, MADE_I32, count);
    for (size_t i = 0; i < count; i++)
        made_number(made->kvs, &made->kvs_bytes, (uint32_t)x[i], 4);
}
static inline void made_words(made_gguf *made, const char *key, size_t count) {
    made_array(made, key, MADE_STRING, count);
    for (size_t i = 0; i < count; i++)
        made_text(made->kvs, &made->kvs_bytes, i % 3 ? "word" : "");
}

/* -- tensors -- */
static inline void made_info(made_gguf *made, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type,
                             uint64_t offset) {
    made_text(made->infos, &made->infos_bytes, name);
    made_number(made->infos, &made->infos_bytes, rank, 4);
    for (uint32_t i = 0; i < rank; i++)
        made_number(made->infos, &made->infos_bytes, dims[i], 8);
    made_number(made->infos, &made->infos_bytes, type, 4);
    made_number(made->infos, &made->infos_bytes, offset, 8);
    made->tensors++;
}
/* One row of floats. */
static inline void made_tensor(made_gguf *made, const char *name, const float *x, uint64_t count) {
    made_info(made, name, 1, &count, 0, made->data_bytes);
    for (uint64_t i = 0; i < count; i++)
        made_number(made->data, &made->data_bytes, made_f32_bits(x[i]), 4);
    while (made->data_bytes % made->alignment)
        made->data[made->data_bytes++] = 0;
}

static inline void made_finish(made_gguf *made) {
    size_t at = 0;
    memcpy(made->file, "GGUF", 4);
    at = 4;
    made_number(made->file, &at, made->version, 4);
    made_number(made->file, &at, made->tensors, 8);
    made_number(made->file, &at, made->keys, 8);
    memcpy(made->file + at, made->kvs, made->kvs_bytes);
    at += made->kvs_bytes;
    made->infos_at = at;
    memcpy(made->file + at, made->infos, made->infos_bytes);
    at += made->infos_bytes;
    while (at % made->alignment)
        at++;
    made->data_at = at;
    memcpy(made->file + at, made->data, made->data_bytes);
    made->file_bytes = at + made->data_bytes;
}

/* A copy of exactly the file's size, so that a sanitizer finds reads past its end. */
static inline unsigned char *made_copy(const made_gguf *made, size_t bytes) {
    unsigned char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, made->file, bytes);
    return copy;
}

#endif
