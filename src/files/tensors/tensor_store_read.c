/* tensor_store_read.c: converts stored tensors to float. */
#include "files/tensors/tensor_store.h"

#include "files/file_read.h"
#include "files/printable_name.h"
#include "kernels/quant_blocks.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK_NUMBERS = 2048 /* numbers converted at a time while checking */ };

/* -- types -- */
static const struct {
    const char *name;
    int64_t block, bytes;
} types[] = {
    [GYRE_STORED_F32] = {"F32", 1, 4},
    [GYRE_STORED_F16] = {"F16", 1, 2},
    [GYRE_STORED_BF16] = {"BF16", 1, 2},
    [GYRE_STORED_Q8_0] = {"Q8_0", GYRE_Q_BLOCK, GYRE_Q8_0_BYTES},
    [GYRE_STORED_Q4_0] = {"Q4_0", GYRE_Q_BLOCK, GYRE_Q4_0_BYTES},
    [GYRE_STORED_Q4_K] = {"Q4_K", GYRE_QK_K, GYRE_Q4_K_BYTES},
    [GYRE_STORED_Q5_K] = {"Q5_K", GYRE_QK_K, GYRE_Q5_K_BYTES},
    [GYRE_STORED_Q6_K] = {"Q6_K", GYRE_QK_K, GYRE_Q6_K_BYTES},
    [GYRE_STORED_OTHER] = {"another type", 1, 0},
};

const char *gyre_stored_type_name(gyre_stored_type type) {
    return types[type].name;
}
int64_t gyre_stored_block_size(gyre_stored_type type) {
    return types[type].block;
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
    case GYRE_STORED_Q8_0:
        kernels->dequantize_q8_0(row, out, n);
        return;
    case GYRE_STORED_Q4_0:
        kernels->dequantize_q4_0(row, out, n);
        return;
    case GYRE_STORED_Q4_K:
        kernels->dequantize_q4_k(row, out, n);
        return;
    case GYRE_STORED_Q5_K:
        kernels->dequantize_q5_k(row, out, n);
        return;
    case GYRE_STORED_Q6_K:
        kernels->dequantize_q6_k(row, out, n);
        return;
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
    const int64_t bytes = types[t->type].bytes;
    float numbers[CHUNK_NUMBERS];
    for (int64_t at = 0; at < t->count; at += CHUNK_NUMBERS) {
        const int64_t n = t->count - at < CHUNK_NUMBERS ? t->count - at : CHUNK_NUMBERS;
        int finite;
        gyre_stored_dequantize(kernels, t->type, t->data + at * bytes, numbers, n);
        for (int64_t i = n; i % 16 != 0; i++)
            numbers[i] = 0.0f;
        kernels->finite_row_f32(numbers, (n + 15) / 16 * 16, &finite);
        for (int64_t i = 0; i < n && !finite; i++)
            if (!isfinite(numbers[i])) return refuse(t, "element", at + i, numbers[i], (uint64_t)((at + i) * bytes), err);
    }
    return GYRE_OK;
}

static int is_finite_half(const unsigned char *bytes) {
    return (bytes[1] & 0x7c) != 0x7c;
}

/* Integers times a finite f16 are finite, so checking the scales is enough. */
static gyre_status check_scales(const gyre_kernels *kernels, const gyre_file_tensor *t, gyre_error *err) {
    const int64_t bytes = types[t->type].bytes, blocks = t->count / types[t->type].block;
    const int64_t scale = t->type == GYRE_STORED_Q6_K ? GYRE_Q6_K_SCALE : GYRE_Q_SCALE;
    const int has_minima = t->type == GYRE_STORED_Q4_K || t->type == GYRE_STORED_Q5_K;
    for (int64_t i = 0; i < blocks; i++) {
        const unsigned char *block = t->data + i * bytes;
        const int64_t at = !is_finite_half(block + scale) ? scale : GYRE_K_DMIN;
        if (at != scale && !(has_minima && !is_finite_half(block + GYRE_K_DMIN))) continue;
        float value;
        widen_halves(kernels->widen_f16, block + at, &value, 1);
        return refuse(t, at == scale ? "the scale of block" : "the least of block", i, value, (uint64_t)(i * bytes + at),
                      err);
    }
    return GYRE_OK;
}

gyre_status gyre_stored_check_finite(const gyre_kernels *kernels, const gyre_file_tensor *tensor, gyre_error *err) {
    if (tensor->type == GYRE_STORED_OTHER) {
        (void)gyre_fail(err, GYRE_EUNSUPPORTED, "%s: %s of %d dimensions is not read (%s, byte %" PRIu64 ")",
                        gyre_make_printable(tensor->name, strlen(tensor->name)).text, tensor->file_dtype, tensor->rank,
                        tensor->file, tensor->offset);
        if (err) err->offset = tensor->offset;
        return GYRE_EUNSUPPORTED;
    }
    return types[tensor->type].block == 1 ? check_numbers(kernels, tensor, err) : check_scales(kernels, tensor, err);
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
