/* tensor_store_read.c: converts stored tensors to float. */
#include "files/tensors/tensor_store.h"

#include "files/file_read.h"
#include "files/printable_name.h"
#include "kernels/quants/quants_rare.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_NUMBERS = 2048 /* numbers converted at a time while checking */ };

/* -- types -- */
typedef struct stored_type_info {
    const char *name;
    uint32_t number, file_type;
    int64_t block, bytes;
    int64_t scale, least; /* where the f16 of a block are; -1 = it has none */
} stored_type_info;

static const stored_type_info types[] = {
#define GYRE_STORED_PLAIN(NAME, number, file_type, bytes) {#NAME, number, file_type, 1, bytes, -1, -1},
#define GYRE_STORED_BLOCK(NAME, name, number, file_type, count, bytes, scale, least)                                        \
    {#NAME, number, file_type, count, bytes, scale, least},
#define GYRE_STORED_RARE GYRE_STORED_BLOCK
#include "kernels/quants/stored_types.def"
    {"another type", 0, 0, 1, 0, -1, -1}};

const char *gyre_stored_type_name(gyre_stored_type type) {
    return types[type].name;
}
gyre_stored_type gyre_stored_type_named(const char *name) {
    int type = 0;
    while (type < GYRE_STORED_OTHER && strcmp(types[type].name, name) != 0)
        type++;
    return (gyre_stored_type)type;
}
uint32_t gyre_stored_ggml_type(gyre_stored_type type) {
    return types[type].number;
}
uint32_t gyre_stored_ggml_file_type(gyre_stored_type type) {
    return types[type].file_type;
}
int64_t gyre_stored_block_size(gyre_stored_type type) {
    return types[type].block;
}
int gyre_stored_scales(gyre_stored_type type, int64_t at[2]) {
    at[0] = types[type].scale, at[1] = types[type].least;
    return (at[0] >= 0) + (at[1] >= 0);
}
int64_t gyre_stored_row_bytes(gyre_stored_type type, int64_t n) {
    return n / types[type].block * types[type].bytes;
}

/* Kernels need aligned rows, and safetensors does not align them. */
static void widen_halves(void (*widen)(const void *, float *, int64_t), const unsigned char *row, float *out, int64_t n) {
    uint16_t aligned[CHUNK_NUMBERS];
    if ((uintptr_t)row % sizeof *aligned == 0) {
        widen(row, out, n);
        return;
    }
    for (int64_t at = 0; at < n; at += CHUNK_NUMBERS) {
        const int64_t some = n - at < CHUNK_NUMBERS ? n - at : CHUNK_NUMBERS;
        memcpy(aligned, row + at * 2, (size_t)some * 2);
        widen(aligned, out + at, some);
    }
}

void gyre_stored_dequantize(const gyre_kernels *kernels, gyre_stored_type type, const void *row, float *out, int64_t n) {
    switch (type) {
    case GYRE_STORED_F32:
        if (n > 0) memcpy(out, row, (size_t)n * sizeof *out);
        return;
    case GYRE_STORED_F16:
        widen_halves(kernels->widen_f16, row, out, n);
        return;
    case GYRE_STORED_BF16:
        widen_halves(kernels->widen_bf16, row, out, n);
        return;
#define GYRE_STORED_BLOCK(NAME, name, ...)                                                                                  \
    case GYRE_STORED_##NAME:                                                                                                \
        kernels->dequantize_##name(row, out, n);                                                                            \
        return;
#define GYRE_STORED_RARE(NAME, name, ...)                                                                                   \
    case GYRE_STORED_##NAME:                                                                                                \
        gyre_dequantize_##name(row, out, n);                                                                                \
        return;
#include "kernels/quants/stored_types.def"
    case GYRE_STORED_OTHER:
        return;
    }
}

/* -- checks -- */
static gyre_status refuse(const gyre_file_tensor *t, const char *what, int64_t index, float value, uint64_t at,
                          gyre_error *err) {
    const uint64_t offset = t->offset + at;
    (void)gyre_fail(err, GYRE_EFORMAT, "%s: %s %" PRId64 " is %s (%s, byte %" PRIu64 ")",
                    gyre_make_printable(t->name, strlen(t->name)).text, what, index,
                    isnan(value) ? "not a number" : "infinite", t->file, offset);
    if (err) err->offset = offset;
    return GYRE_EFORMAT;
}

static gyre_status check_numbers(const gyre_kernels *kernels, const gyre_file_tensor *t, gyre_error *err) {
    float numbers[CHUNK_NUMBERS];
    for (int64_t at = 0; at < t->count; at += CHUNK_NUMBERS) {
        const int64_t n = t->count - at < CHUNK_NUMBERS ? t->count - at : CHUNK_NUMBERS;
        int finite;
        gyre_stored_dequantize(kernels, t->type, t->data + gyre_stored_row_bytes(t->type, at), numbers, n);
        for (int64_t i = n; i % 16 != 0; i++)
            numbers[i] = 0.0f;
        kernels->finite_row_f32(numbers, (n + 15) / 16 * 16, &finite);
        for (int64_t i = 0; i < n && !finite; i++)
            if (!isfinite(numbers[i]))
                return refuse(t, "element", at + i, numbers[i], (uint64_t)gyre_stored_row_bytes(t->type, at + i), err);
    }
    return GYRE_OK;
}

static int is_finite_half(const unsigned char *bytes) {
    return (bytes[1] & 0x7c) != 0x7c;
}

/* Integers times a finite f16 are finite, so checking the scales is enough. */
static gyre_status check_scales(const gyre_kernels *kernels, const gyre_file_tensor *t, gyre_error *err) {
    const int64_t bytes = types[t->type].bytes, blocks = t->count / types[t->type].block;
    const int64_t scale = types[t->type].scale, least = types[t->type].least;
    for (int64_t i = 0; i < blocks; i++) {
        const unsigned char *block = t->data + i * bytes;
        const int64_t at = !is_finite_half(block + scale) ? scale : least;
        if (at != scale && (least < 0 || is_finite_half(block + least))) continue;
        float value;
        widen_halves(kernels->widen_f16, block + at, &value, 1);
        return refuse(t, at == scale ? "the scale of block" : "the least of block", i, value, (uint64_t)(i * bytes + at),
                      err);
    }
    return GYRE_OK;
}

/* A type of blocks, or one that is newer than Gyre. */
static int is_unread_block(const char *file_dtype) {
    static const struct {
        const char *name;
        int count;
    } unread[] = {
#define GYRE_STORED_UNREAD(NAME, number, count, bytes) {#NAME, count},
#include "kernels/quants/stored_types.def"
    };
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (strcmp(unread[i].name, file_dtype) == 0) return unread[i].count > 1;
    return strncmp(file_dtype, "type ", 5) == 0;
}

/* The file may well be right, so the words are about Gyre. */
gyre_status gyre_stored_check_read(const gyre_file_tensor *t, gyre_error *err) {
    if (t->type != GYRE_STORED_OTHER) return GYRE_OK;
    const int has_number = strncmp(t->file_dtype, "type ", 5) == 0;
    char what[48];
    if (t->rank > 4)
        snprintf(what, sizeof what, "%.16s of %d dimensions", t->file_dtype, t->rank);
    else
        snprintf(what, sizeof what, "%s of type %.24s", is_unread_block(t->file_dtype) ? "blocks" : "numbers",
                 t->file_dtype + (has_number ? 5 : 0));
    (void)gyre_fail(err, GYRE_EUNSUPPORTED, "%s: Gyre does not read %s yet (%s, byte %" PRIu64 ")",
                    gyre_make_printable(t->name, strlen(t->name)).text, what, t->file, t->offset);
    if (err) err->offset = t->offset;
    return GYRE_EUNSUPPORTED;
}

gyre_status gyre_stored_check_finite(const gyre_kernels *kernels, const gyre_file_tensor *tensor, gyre_error *err) {
    const gyre_status status = gyre_stored_check_read(tensor, err);
    if (status) return status;
    return types[tensor->type].scale < 0 ? check_numbers(kernels, tensor, err) : check_scales(kernels, tensor, err);
}

gyre_status gyre_stored_read(const gyre_kernels *kernels, const gyre_file_tensor *tensor, float *out, gyre_error *err) {
    const gyre_status status = gyre_stored_check_finite(kernels, tensor, err);
    if (!status) gyre_stored_dequantize(kernels, tensor->type, tensor->data, out, tensor->count);
    return status;
}

/* Floats without a sign are in the order of their bits, NaN last.  A loop of a fixed length over signed integers is one of
 * vectors on every processor. */
static int32_t largest_bits(const float numbers[CHUNK_NUMBERS]) {
    int32_t bits[CHUNK_NUMBERS], most = 0;
    memcpy(bits, numbers, sizeof bits);
    for (int i = 0; i < CHUNK_NUMBERS; i++) {
        const int32_t magnitude = bits[i] & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

float gyre_stored_largest(const gyre_kernels *kernels, const gyre_file_tensor *t, int64_t *index) {
    float numbers[CHUNK_NUMBERS] = {0}, out;
    int32_t most = -1;
    *index = 0;
    for (int64_t at = 0; at < t->count; at += CHUNK_NUMBERS) {
        const int64_t n = t->count - at < CHUNK_NUMBERS ? t->count - at : CHUNK_NUMBERS;
        gyre_stored_dequantize(kernels, t->type, t->data + gyre_stored_row_bytes(t->type, at), numbers, n);
        for (int64_t i = n; i < CHUNK_NUMBERS; i++)
            numbers[i] = 0;
        const int32_t here = largest_bits(numbers);
        if (here <= most) continue;
        most = here;
        int32_t bits = -1;
        for (int64_t i = 0; bits != most; i++) {
            memcpy(&bits, &numbers[i], sizeof bits);
            bits &= 0x7fffffff;
            *index = at + i;
        }
    }
    most = most < 0 ? 0 : most;
    memcpy(&out, &most, sizeof out);
    return out;
}

void gyre_stored_release_pages(const gyre_file_tensor *tensor) {
    gyre_mapping_release_pages(tensor->data, (size_t)tensor->bytes);
}
