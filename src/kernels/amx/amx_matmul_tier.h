/* amx_matmul_tier.h: products of floats with a matrix of floats that are bf16, in tiles, for attention.
 *
 *     C [16 rows][16 columns]  +=  A [16 rows][32 products]  B [16 pairs of products][16 columns][2]
 *
 * a is the operand A, in three parts as in amx_tier.h; b is packed in pairs.  The order of a sum is that of amx_tier.h, and
 * so is what happens to a sum that is not finite. */
#ifndef GYRE_KERNELS_AMX_MATMUL_TIER_H
#define GYRE_KERNELS_AMX_MATMUL_TIER_H
#include "kernels/amx/amx_tier.h"

enum {
    MATMUL_ROWS = 64, /* of a that are packed at once: a tile of queries */
    MATMUL_SIDE = 2 * TILE_ROWS,
    MATMUL_STEPS = GYRE_TILE_BLOCK / GYRE_TILE_CHANNELS,
    TILE_NUMBERS = 2 * TILE_WORDS
};

/* A block of a product: rows from `row` on, products over l from `first` on. */
typedef struct matmul_part {
    int64_t row, rows, first, n;
} matmul_part;

/* to[32], one for each part, TILE_NUMBERS apart = the parts of n <= 32 numbers `stride` apart, then zeros. */
static inline void split_row(const float *a, int64_t stride, int64_t n, uint16_t *restrict to) {
    float rest[GYRE_TILE_CHANNELS] = {0};
    if (n == GYRE_TILE_CHANNELS && stride == 1)
        memcpy(rest, a, sizeof rest);
    else
        for (int64_t i = 0; i < n; i++)
            rest[i] = a[i * stride];
    for (int part = 0; part < PARTS; part++, to += TILE_NUMBERS)
        for (int i = 0; i < GYRE_TILE_CHANNELS; i++) {
            const uint32_t high = gyre_float_bits(rest[i]) & 0xffff0000u;
            to[i] = (uint16_t)(high >> 16);
            rest[i] -= gyre_float_from_bits(high);
        }
}

/* to[rows / 16, rounded up to an even number][steps][part] = tiles of a, the missing rows and products 0. */
static void pack_a(const gyre_matmul *p, const matmul_part *at, int64_t steps, uint16_t *to) {
    const int64_t tile = steps * PARTS * TILE_NUMBERS;
    for (int64_t r = 0; r < (at->rows + MATMUL_SIDE - 1) / MATMUL_SIDE * MATMUL_SIDE; r++) {
        const int exists = r < at->rows;
        const float *a = exists ? p->a + (at->row + r) * p->a_row_stride + at->first * p->a_col_stride : NULL;
        uint16_t *row = to + r / TILE_ROWS * tile + r % TILE_ROWS * GYRE_TILE_CHANNELS;
        for (int64_t l = 0; l < steps * GYRE_TILE_CHANNELS; l += GYRE_TILE_CHANNELS, row += PARTS * TILE_NUMBERS)
            split_row(exists ? a + l * p->a_col_stride : NULL, p->a_col_stride,
                      exists ? least(GYRE_TILE_CHANNELS, at->n - l) : 0, row);
    }
}

/* to[16] = pairs of a number of each of two rows of b; NULL = zeros, high where low is. */
static inline void pack_pair(const float *low, const float *high, uint32_t *restrict to) {
    if (!low) {
        memset(to, 0, TILE_ROWS * sizeof *to);
        return;
    }
    for (int j = 0; j < TILE_ROWS; j++)
        to[j] = gyre_float_bits(low[j]) >> 16;
    for (int j = 0; j < TILE_ROWS && high; j++)
        to[j] |= gyre_float_bits(high[j]) & 0xffff0000u;
}

/* to[steps][2] = tiles of 32 columns of b from `column` on, the missing columns and products 0. */
static void pack_b(const gyre_matmul *p, const matmul_part *at, int64_t steps, int64_t column, uint32_t *to) {
    for (int64_t l = 0; l < steps * GYRE_TILE_CHANNELS; l += 2)
        for (int64_t j = 0; j < MATMUL_SIDE; j += TILE_ROWS) {
            const int64_t left = column + j < p->n ? at->n - l : 0;
            const float *low = left > 0 ? p->b + (at->first + l) * p->b_row_stride + column + j : NULL;
            pack_pair(low, left > 1 ? low + p->b_row_stride : NULL,
                      to + (l / GYRE_TILE_CHANNELS * 2 + j / TILE_ROWS) * TILE_WORDS +
                          l % GYRE_TILE_CHANNELS / 2 * TILE_ROWS);
        }
}

/* sums[2 row tiles][2 column tiles] = the products over `steps` steps. */
static void multiply_square(tile_registers *t, const uint16_t *a, const uint32_t *b, int64_t steps, float *sums) {
    const int64_t tile = steps * PARTS * TILE_NUMBERS;
    tile_zero(t, 0);
    tile_zero(t, 1);
    tile_zero(t, 2);
    tile_zero(t, 3);
    for (int part = PARTS - 1; part >= 0; part--)
        for (int64_t s = 0; s < steps; s++) {
            const uint16_t *of_a = a + (s * PARTS + part) * TILE_NUMBERS;
            tile_load(t, 4, of_a, TILE_ROW_BYTES);
            tile_load(t, 5, of_a + tile, TILE_ROW_BYTES);
            tile_load(t, 6, b + s * 2 * TILE_WORDS, TILE_ROW_BYTES);
            tile_load(t, 7, b + (s * 2 + 1) * TILE_WORDS, TILE_ROW_BYTES);
            tile_dot_bf16(t, 0, 4, 6);
            tile_dot_bf16(t, 1, 4, 7);
            tile_dot_bf16(t, 2, 5, 6);
            tile_dot_bf16(t, 3, 5, 7);
        }
    tile_store(t, 0, sums, TILE_ROW_BYTES);
    tile_store(t, 1, sums + TILE_WORDS, TILE_ROW_BYTES);
    tile_store(t, 2, sums + 2 * TILE_WORDS, TILE_ROW_BYTES);
    tile_store(t, 3, sums + 3 * TILE_WORDS, TILE_ROW_BYTES);
}

/* Replaces what is not finite among 16 sums of a row. */
static void mend_columns(const gyre_matmul *p, const matmul_part *at, int64_t row, int64_t column, float *sums) {
    int finite = 1;
    for (int j = 0; j < TILE_ROWS; j++)
        finite &= is_finite(sums[j]);
    if (finite) return;
    float again[TILE_ROWS];
    gyre_matmul one = {.m = 1, .n = TILE_ROWS, .k = at->n, .c = again, .c_row_stride = TILE_ROWS};
    one.a = p->a + row * p->a_row_stride + at->first * p->a_col_stride;
    one.a_row_stride = p->a_row_stride, one.a_col_stride = p->a_col_stride;
    one.b = p->b + at->first * p->b_row_stride + column;
    one.b_row_stride = p->b_row_stride;
    NAME_IN(TIER_BASE, matmul_f32)(&one);
    for (int j = 0; j < TILE_ROWS; j++)
        if (!is_finite(sums[j])) sums[j] = again[j];
}

static void store_square(const gyre_matmul *p, const matmul_part *at, int64_t row, int64_t column, float *sums) {
    const int adds = p->accumulate || at->first > 0;
    for (int64_t r = row; r < row + MATMUL_SIDE && r < at->row + at->rows; r++)
        for (int64_t j = 0; j < MATMUL_SIDE && column + j < p->n; j += TILE_ROWS) {
            float *from =
                sums + ((r - row) / TILE_ROWS * 2 + j / TILE_ROWS) * TILE_WORDS + (r - row) % TILE_ROWS * TILE_ROWS;
            float *to = p->c + r * p->c_row_stride + column + j;
            mend_columns(p, at, r, column + j, from);
            for (int i = 0; i < TILE_ROWS; i++)
                to[i] = adds ? to[i] + from[i] : from[i];
        }
}

void OF_TIER(matmul_bf16)(const gyre_matmul *p) {
    uint16_t a[MATMUL_ROWS / TILE_ROWS * MATMUL_STEPS * PARTS * TILE_NUMBERS];
    uint32_t b[MATMUL_STEPS * 2 * TILE_WORDS];
    float sums[4 * TILE_WORDS];
    tile_registers t;
    tile_begin(&t);
    for (int64_t first = 0; first == 0 || first < p->k; first += GYRE_TILE_BLOCK)
        for (int64_t row = 0; row < p->m; row += MATMUL_ROWS) {
            const matmul_part at = {row, least(MATMUL_ROWS, p->m - row), first, least(GYRE_TILE_BLOCK, p->k - first)};
            const int64_t steps = (at.n + GYRE_TILE_CHANNELS - 1) / GYRE_TILE_CHANNELS;
            pack_a(p, &at, steps, a);
            for (int64_t j = 0; j < p->n; j += MATMUL_SIDE) {
                pack_b(p, &at, steps, j, b);
                for (int64_t r = 0; r < at.rows; r += MATMUL_SIDE) {
                    multiply_square(&t, a + r / TILE_ROWS * steps * PARTS * TILE_NUMBERS, b, steps, sums);
                    store_square(p, &at, row + r, j, sums);
                }
            }
        }
    tile_end(&t);
}

#endif
