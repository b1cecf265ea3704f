/* tiles_emulated.h: the operations of tiles_amx.h in plain C, bit for bit, but for the payloads of NaNs.
 *
 * Source: TDPBF16PS in Intel's Software Developer's Manual.  All operations round to nearest even; a subnormal operand is a
 * zero of its sign, and so is a result that is below 2^-126 after it is rounded to 24 bits. */
#ifndef GYRE_KERNELS_TILES_EMULATED_H
#define GYRE_KERNELS_TILES_EMULATED_H
#include "kernels/amx/tile_sizes.h"
#include "kernels/half_precision.h"

typedef struct tile_registers {
    uint32_t word[8][TILE_ROWS][TILE_ROWS];
} tile_registers;

static inline void tile_begin(tile_registers *t) {
    memset(t, 0, sizeof *t);
}
static inline void tile_end(tile_registers *t) {
    memset(t, 0, sizeof *t);
}
static inline void tile_zero(tile_registers *t, int tile) {
    memset(t->word[tile], 0, sizeof t->word[tile]);
}
static inline void tile_load(tile_registers *t, int tile, const void *from, int64_t stride) {
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy(t->word[tile][r], (const char *)from + r * stride, TILE_ROW_BYTES);
}
static inline void tile_store(const tile_registers *t, int tile, void *to, int64_t stride) {
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy((char *)to + r * stride, t->word[tile][r], TILE_ROW_BYTES);
}

static inline float tile_flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* a b + c.  A result of 2^-126 is too small if it was rounded up from below 2^-126 - 2^-151, half a unit of 24 bits. */
static inline float tile_fma(float a, float b, float c) {
    const float sum = fmaf(a, b, c);
    if (fabsf(sum) != 0x1p-126f) return tile_flush(sum);
    const double sign = sum < 0 ? -1 : 1, least = 0x1p-126 - 0x1p-151;
    return fma(sign * (double)a, (double)b, sign * (double)c - least) < 0 ? copysignf(0, sum) : sum;
}

/* c[n] = a b[n] + c[n] for a row, as tile_fma.  The products are exact in double.  A sum rounded to double and then to float
 * has the bits of one rounding, unless the double is in the middle of two floats. */
static inline void tile_fma_row(float a, const float *b, float *c) {
    float sums[TILE_ROWS];
    int doubtful = 0;
    for (int n = 0; n < TILE_ROWS; n++) {
        const double sum = (double)a * (double)b[n] + (double)c[n];
        uint64_t bits;
        memcpy(&bits, &sum, sizeof bits);
        doubtful |= (bits & 0x1fffffff) == 0x10000000 || (!(fabs(sum) > 0x1p-125) && sum != 0);
        sums[n] = (float)sum;
    }
    for (int n = 0; n < TILE_ROWS; n++)
        c[n] = doubtful ? tile_fma(a, b[n], c[n]) : sums[n];
}

/* numbers[n] = the even or the odd member of each pair of a row. */
static inline void tile_members(const uint32_t *pairs, int odd, float *numbers) {
    for (int n = 0; n < TILE_ROWS; n++)
        numbers[n] = tile_flush(gyre_float_from_bits(odd ? pairs[n] & 0xffff0000u : pairs[n] << 16));
}

/* c[m][n] += sum over k of a[m][2k] b[k][2n] + sum over k of a[m][2k + 1] b[k][2n + 1]: two sums, added to each other. */
static inline void tile_dot_bf16(tile_registers *t, int c, int a, int b) {
    float of_b[2][TILE_ROWS][TILE_ROWS];
    for (int k = 0; k < TILE_ROWS; k++)
        for (int odd = 0; odd < 2; odd++)
            tile_members(t->word[b][k], odd, of_b[odd][k]);
    for (int m = 0; m < TILE_ROWS; m++) {
        float sums[2][TILE_ROWS] = {{0}}, of_a[2][TILE_ROWS];
        for (int odd = 0; odd < 2; odd++) {
            tile_members(t->word[a][m], odd, of_a[odd]);
            for (int k = 0; k < TILE_ROWS; k++)
                tile_fma_row(of_a[odd][k], of_b[odd][k], sums[odd]);
        }
        for (int n = 0; n < TILE_ROWS; n++) {
            const float before = tile_flush(gyre_float_from_bits(t->word[c][m][n]));
            t->word[c][m][n] = gyre_float_bits(tile_fma(tile_fma(sums[0][n], 1, sums[1][n]), 1, before));
        }
    }
}

#endif
