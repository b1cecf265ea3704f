/* gguf_writer.c: GGUF version 3, little-endian, tensors at multiples of 32. */
#include "files/gguf_writer.h"

#include "files/little_endian.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };
static const unsigned char magic[4] = {'G', 'G', 'U', 'F'};

void gyre_gguf_writer_free(gyre_gguf_writer *maker) {
    free(maker->keys);
    free(maker->infos);
    *maker = (gyre_gguf_writer){0};
}

/* -- bytes -- */
typedef struct buffer {
    unsigned char **bytes;
    size_t *count, *capacity;
} buffer;

static void put(gyre_gguf_writer *m, buffer b, const void *bytes, size_t count) {
    if (m->failed || count == 0) return;
    if (count > *b.capacity - *b.count) {
        const size_t capacity = 2 * (*b.count + count) + 1024;
        unsigned char *grown = realloc(*b.bytes, capacity);
        if (!grown) {
            m->failed = 1;
            return;
        }
        *b.bytes = grown;
        *b.capacity = capacity;
    }
    memcpy(*b.bytes + *b.count, bytes, count);
    *b.count += count;
}

static buffer keys(gyre_gguf_writer *m) {
    return (buffer){&m->keys, &m->keys_bytes, &m->keys_capacity};
}
static buffer infos(gyre_gguf_writer *m) {
    return (buffer){&m->infos, &m->infos_bytes, &m->infos_capacity};
}

static void put_number(gyre_gguf_writer *m, buffer b, uint64_t x, size_t count) {
    unsigned char bytes[8];
    gyre_store_le(bytes, x, count);
    put(m, b, bytes, count);
}

static void put_text(gyre_gguf_writer *m, buffer b, const char *text, size_t bytes) {
    put_number(m, b, bytes, 8);
    put(m, b, text, bytes);
}

static uint32_t bits_of(double x) {
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

/* -- keys -- */
static void put_key(gyre_gguf_writer *m, const char *key, gyre_gguf_type type) {
    put_text(m, keys(m), key, strlen(key));
    put_number(m, keys(m), type, 4);
    m->keys_count++;
}

void gyre_gguf_write_u32(gyre_gguf_writer *m, const char *key, uint32_t x) {
    put_key(m, key, GYRE_GGUF_U32);
    put_number(m, keys(m), x, 4);
}

void gyre_gguf_write_f32(gyre_gguf_writer *m, const char *key, double x) {
    put_key(m, key, GYRE_GGUF_F32);
    put_number(m, keys(m), bits_of(x), 4);
}

void gyre_gguf_write_bool(gyre_gguf_writer *m, const char *key, int x) {
    put_key(m, key, GYRE_GGUF_BOOL);
    put_number(m, keys(m), x != 0, 1);
}

void gyre_gguf_write_string(gyre_gguf_writer *m, const char *key, const char *text) {
    put_key(m, key, GYRE_GGUF_STRING);
    put_text(m, keys(m), text, strlen(text));
}

void gyre_gguf_write_array(gyre_gguf_writer *m, const char *key, gyre_gguf_type element, uint64_t count) {
    put_key(m, key, GYRE_GGUF_ARRAY);
    put_number(m, keys(m), element, 4);
    put_number(m, keys(m), count, 8);
}

void gyre_gguf_write_array_string(gyre_gguf_writer *m, const char *text, size_t bytes) {
    put_text(m, keys(m), text, bytes);
}

void gyre_gguf_write_array_number(gyre_gguf_writer *m, gyre_gguf_type element, double x) {
    put_number(m, keys(m), element == GYRE_GGUF_F32 ? bits_of(x) : (uint64_t)(int64_t)x, 4);
}

void gyre_gguf_write_kv_copy(gyre_gguf_writer *m, const gyre_gguf *file, const gyre_gguf_kv *pair) {
    put(m, keys(m), file->bytes + pair->offset, (size_t)pair->bytes);
    m->keys_count++;
}

/* -- tensors -- */
uint64_t gyre_gguf_pad(uint64_t bytes) {
    return (bytes + GYRE_GGUF_ALIGNMENT - 1) / GYRE_GGUF_ALIGNMENT * GYRE_GGUF_ALIGNMENT;
}

void gyre_gguf_write_tensor_info(gyre_gguf_writer *m, const char *name, gyre_stored_type type, int rank,
                                 const int64_t *shape) {
    int64_t rows = 1;
    put_text(m, infos(m), name, strlen(name));
    put_number(m, infos(m), (uint64_t)rank, 4);
    for (int i = rank - 1; i >= 0; i--)
        put_number(m, infos(m), (uint64_t)shape[i], 8);
    put_number(m, infos(m), gyre_stored_ggml_type(type), 4);
    put_number(m, infos(m), m->data_bytes, 8);
    for (int i = 0; i < rank - 1; i++)
        rows *= shape[i];
    m->data_bytes += gyre_gguf_pad((uint64_t)(rows * gyre_stored_row_bytes(type, rank > 0 ? shape[rank - 1] : 1)));
    m->tensors_count++;
}

gyre_status gyre_gguf_write_metadata(const gyre_gguf_writer *m, unsigned char **out, size_t *bytes, gyre_error *err) {
    const size_t used = GYRE_GGUF_HEADER_BYTES + m->keys_bytes + m->infos_bytes, whole = (size_t)gyre_gguf_pad(used);
    unsigned char *head = m->failed ? NULL : calloc(1, whole);
    if (!head) return gyre_fail(err, GYRE_ENOMEM, "GGUF: no memory for its metadata");
    memcpy(head, magic, sizeof magic);
    gyre_store_le(head + 4, VERSION, 4);
    gyre_store_le(head + 8, m->tensors_count, 8);
    gyre_store_le(head + 16, m->keys_count, 8);
    if (m->keys_bytes > 0) memcpy(head + GYRE_GGUF_HEADER_BYTES, m->keys, m->keys_bytes);
    if (m->infos_bytes > 0) memcpy(head + GYRE_GGUF_HEADER_BYTES + m->keys_bytes, m->infos, m->infos_bytes);
    *out = head;
    *bytes = whole;
    return GYRE_OK;
}
