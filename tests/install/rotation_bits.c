/* rotation_bits.c: rotates every type and layout, at positions near and far, under two scalings, and prints a hash of the
 * bits.  ci/checks/amalgamation compares what the three forms of the library print. */
#ifdef AMALGAMATED
#include "gyre_rope.h"
#else
#include <gyre/gyre.h>
#include <gyre/gyre_cache.h>
#endif
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 7, HEADS = 5, DIM = 96, NUMBERS = TOKENS * HEADS * DIM };

static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static void fail_if(gyre_status status, const gyre_error *err) {
    if (!status) return;
    fprintf(stderr, "rotation_bits: %s\n", err->text);
    exit(1);
}

/* Numbers of every type that are far from the ends of its range: bytes that repeat below an exponent of about 0. */
static void fill(void *data, gyre_dtype dtype) {
    uint32_t state = 1;
    for (size_t i = 0; i < NUMBERS; i++) {
        state = state * 1664525u + 1013904223u;
        const double x = (double)(int32_t)state / 2147483648.0;
        const float y = (float)x;
        uint32_t bits;
        memcpy(&bits, &y, sizeof bits);
        const uint16_t bf16 = (uint16_t)(bits >> 16), f16 = (uint16_t)(0x3000 | (state >> 20 & 0x8fff));
        if (dtype == GYRE_DTYPE_F64) memcpy((double *)data + i, &x, sizeof x);
        if (dtype == GYRE_DTYPE_F32) memcpy((float *)data + i, &y, sizeof y);
        if (dtype == GYRE_DTYPE_BF16) memcpy((uint16_t *)data + i, &bf16, sizeof bf16);
        if (dtype == GYRE_DTYPE_F16) memcpy((uint16_t *)data + i, &f16, sizeof f16);
    }
}

static uint64_t rotate_and_hash(const gyre_config *config, gyre_dtype dtype, int64_t first, uint64_t hash) {
    static double memory[NUMBERS];
    gyre_error err;
    gyre_encoding *rope = NULL;
    fail_if(gyre_encoding_create(&rope, config, NULL, &err), &err);
    fill(memory, dtype);
    const gyre_view x = gyre_dense(memory, dtype, 1, TOKENS, HEADS, DIM);
    fail_if(gyre_rotate_dense(rope, GYRE_ROLE_KEY, x, first, 0, &err), &err);
    hash = hash_of(hash, memory, NUMBERS * gyre_dtype_size(dtype));
    const gyre_positions old = {.base = first}, moved = {.base = first + 1000};
    gyre_rerotate_args args = GYRE_INIT(gyre_rerotate_args);
    args.before = args.after = rope;
    args.old_positions = &old;
    args.new_positions = &moved;
    args.in = gyre_const(x);
    args.out = x;
    fail_if(gyre_rerotate(&args, NULL, &err), &err);
    gyre_encoding_free(rope);
    return hash_of(hash, memory, NUMBERS * gyre_dtype_size(dtype));
}

int main(void) {
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
    static const int64_t firsts[] = {-3, 0, 61, 100000, 2000000000};
    uint64_t hash = 0xcbf29ce484222325u;
    for (int way = 0; way < 4; way++) {
        gyre_config config = GYRE_INIT(gyre_config);
        config.kind = GYRE_KIND_ROPE;
        config.head_dim = DIM;
        config.rope.layout = way & 1 ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
        config.trained_length = 4096;
        config.rope.scaling = way & 2 ? GYRE_SCALING_YARN : GYRE_SCALING_NONE;
        if (way & 2) config.rope.factor = 8;
        for (int d = 0; d < 4; d++)
            for (int f = 0; f < 5; f++)
                hash = rotate_and_hash(&config, dtypes[d], firsts[f], hash);
    }
    printf("%016" PRIx64 "\n", hash);
    return 0;
}
