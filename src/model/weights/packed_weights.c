/* packed_weights.c: experts whose numbers are floats of four bits with a scale for each 32 (OCP MX), as gpt-oss has them.
 *
 *     NAME_blocks  U8 [experts][out][in / 32][16]   bytes of two numbers, the even one in the low bits
 *     NAME_scales  U8 [experts][out][in / 32]       2^(scale - 127)
 *
 * A GGUF has the scale in front of its block, and numbers j and j + 16 in a byte.  The kernels read that order, so it is
 * made here. */
#include "model/weights/weight_loader.h"

#include <string.h>

enum { NUMBERS = 32, BYTES = NUMBERS / 2, LARGEST_SCALE = 252 }; /* 6 x 2^(252 - 127) is the largest number that is finite */

static int is_of_shape(const gyre_file_tensor *t, int rank, const int64_t shape[4]) {
    return t->rank == rank && strcmp(t->file_dtype, "U8") == 0 && memcmp(t->shape, shape, 4 * sizeof *shape) == 0;
}

static int take(gyre_loader *o, gyre_tensor_place place, const char *suffix, int rank, const int64_t shape[4],
                gyre_file_tensor *out) {
    if (!gyre_load_take(o, place, suffix, out)) {
        gyre_load_missing(o, place, suffix);
        return 0;
    }
    if (is_of_shape(out, rank, shape)) return 1;
    gyre_load_fail(
        o, GYRE_EFORMAT,
        "%s: %s of %lld x %lld x %lld x %lld in %d dimensions, where the config asks for U8 of %lld x %lld x %lld x "
        "%lld in %d (%s, offset %llu)",
        out->name, out->file_dtype, (long long)out->shape[0], (long long)out->shape[1], (long long)out->shape[2],
        (long long)out->shape[3], out->rank, (long long)shape[0], (long long)shape[1], (long long)shape[2],
        (long long)shape[3], rank, out->file, (unsigned long long)out->offset);
    return 0;
}

static void check_scales(gyre_loader *o, const gyre_file_tensor *scales) {
    for (int64_t i = 0; i < scales->count; i++)
        if (scales->data[i] > LARGEST_SCALE) {
            gyre_load_fail(o, GYRE_EFORMAT, "%s: scale %lld is 2^%d, with which numbers are not finite (%s, offset %llu)",
                           scales->name, (long long)i, scales->data[i] - 127, scales->file,
                           (unsigned long long)scales->offset + (unsigned long long)i);
            return;
        }
}

static void reorder(const unsigned char *pairs, unsigned char *halves) {
    unsigned char number[NUMBERS];
    for (int i = 0; i < BYTES; i++) {
        number[2 * i] = pairs[i] & 15;
        number[2 * i + 1] = pairs[i] >> 4;
    }
    for (int i = 0; i < BYTES; i++)
        halves[i] = (unsigned char)(number[i] | number[i + BYTES] << 4);
}

static unsigned char *copy_blocks(gyre_loader *o, const gyre_file_tensor *blocks, const gyre_file_tensor *scales) {
    unsigned char *copy = gyre_network_alloc(o->net, (size_t)scales->count * (BYTES + 1));
    if (!copy) {
        gyre_load_fail(o, GYRE_ENOMEM, "%s: no memory for %lld blocks (%s)", blocks->name, (long long)scales->count,
                       blocks->file);
        return NULL;
    }
    for (int64_t i = 0; i < scales->count; i++) {
        copy[i * (BYTES + 1)] = scales->data[i];
        reorder(blocks->data + i * BYTES, copy + i * (BYTES + 1) + 1);
    }
    gyre_stored_release_pages(blocks);
    return copy;
}

int gyre_load_packed(gyre_loader *o, gyre_tensor_place place, int64_t out, int64_t in, gyre_matrix *matrix) {
    const int64_t experts = o->net->arch.mixture.routing.experts;
    const int64_t shape[4] = {experts, out, in / NUMBERS, BYTES}, of_scales[4] = {experts, out, in / NUMBERS, 1};
    gyre_file_tensor blocks, scales;
    *matrix = (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
    if (!o->net->arch.mixture.packed || !gyre_load_has(o, place, "_blocks")) return 0;
    const int has_blocks = take(o, place, "_blocks", 4, shape, &blocks);
    if (!take(o, place, "_scales", 3, of_scales, &scales) || !has_blocks) return 1;
    if (in % NUMBERS != 0)
        gyre_load_fail(o, GYRE_EFORMAT, "%s: rows of %lld numbers are not whole blocks (%s)", blocks.name, (long long)in,
                       blocks.file);
    o->net->parameter_count += experts * out * in - blocks.count - scales.count;
    check_scales(o, &scales);
    if (o->faults) return 1;
    const unsigned char *data = o->status ? NULL : copy_blocks(o, &blocks, &scales);
    if (data)
        *matrix = (gyre_matrix){GYRE_STORED_MXFP4, data, experts * out, in, gyre_stored_row_bytes(GYRE_STORED_MXFP4, in)};
    return 1;
}
