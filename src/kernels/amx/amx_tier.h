/* amx_tier.h: products of floats with a matrix of bf16 in tiles.
 *
 * A float is the sum of three bf16: its upper 16 bits, those of the rest, and what then remains.  So three products of tiles
 * give x w with the error of sums of floats.  Exceptions: a part below 2^-126 is lost, a subnormal number of the matrix
 * counts as 0, and so does a sum below 2^-126.
 *
 *     C [16 outputs][16 rows]  +=  A [16 outputs][32 channels]  B [16 pairs of channels][16 rows][2]
 *
 * The matrix is the operand A, as its rows are stored; x is packed as B, the three parts of 32 channels one after the other.
 * In a block of GYRE_TILE_BLOCK channels a sum adds the smallest parts of all channels first, while it is small itself, and
 * the sums of blocks are added in order.  So few roundings are those of large numbers, and the bits do not depend on the
 * number of rows.
 *
 * The kernels that round x to bf16 have one part in the place of three, and the bits of three parts of rounded numbers.
 *
 * A sum that is not finite is computed again by the kernel of TIER_BASE: parts of an infinite number give NaNs, and so does
 * an infinite number of the matrix times a part that is 0. */
#ifndef GYRE_KERNELS_AMX_TIER_H
#define GYRE_KERNELS_AMX_TIER_H
#include "kernels/half_precision.h"
#include "kernels/kernel_names.h"

enum {
    PARTS = 3,
    TILE_WORDS = TILE_ROWS * TILE_ROWS,
    TILE_OUTS = 2 * TILE_ROWS,
    STEP_NUMBERS = TILE_OUTS * GYRE_TILE_CHANNELS, /* of the matrix: 32 outputs, 32 channels */
    PROJECT_OUTS = 2 * TILE_OUTS
};

#define TILES_OF(parts)                                                                                                     \
    { TILE_ROWS, TILE_OUTS, GYRE_PRODUCT_OUTS / TILE_OUTS, GYRE_TILE_BLOCK, GYRE_TILE_CHANNELS, 2 * (parts), 2 }
#define TILES_BF16         TILES_OF(PARTS)
#define TILES_ROUNDED_BF16 TILES_OF(1)

/* Functions with a number of parts, PARTS or 1, which is a constant after inlining. */
#define OF_PARTS static inline __attribute__((always_inline))

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* -- packing -- */
/* out = words of a step of packed rows: 16 rows, 32 channels. */
OF_PARTS int64_t step_words(int parts) {
    return (int64_t)parts * TILE_WORDS;
}

/* to[part * TILE_WORDS] = that part of a and of b; a single part is rounded. */
OF_PARTS void split_pair(float a, float b, int parts, uint32_t *to) {
    if (parts == 1) {
        *to = gyre_bf16_round(a) | (uint32_t)gyre_bf16_round(b) << 16;
        return;
    }
    for (int part = 0; part < parts; part++) {
        const uint32_t high_a = gyre_float_bits(a) & 0xffff0000u, high_b = gyre_float_bits(b) & 0xffff0000u;
        to[part * TILE_WORDS] = high_a >> 16 | high_b;
        a -= gyre_float_from_bits(high_a);
        b -= gyre_float_from_bits(high_b);
    }
}

OF_PARTS void pack_whole_step(const float *x, int64_t row_stride, int parts, uint32_t *restrict to) {
    float columns[GYRE_TILE_CHANNELS * TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r += TRANSPOSE)
        for (int c = 0; c < GYRE_TILE_CHANNELS; c += TRANSPOSE)
            transpose_square(x + r * row_stride + c, row_stride, columns + c * TILE_ROWS + r, TILE_ROWS);
    for (int pair = 0; pair < TILE_ROWS; pair++) {
        const float *a = columns + 2 * pair * TILE_ROWS, *b = a + TILE_ROWS;
        for (int r = 0; r < TILE_ROWS; r++)
            split_pair(a[r], b[r], parts, to + pair * TILE_ROWS + r);
    }
}

/* `rows` rows and up to 32 of n channels; the others are 0. */
OF_PARTS void pack_step(const float *x, int64_t row_stride, int64_t rows, int64_t n, int parts, uint32_t *to) {
    if (rows == TILE_ROWS && n >= GYRE_TILE_CHANNELS) {
        pack_whole_step(x, row_stride, parts, to);
        return;
    }
    memset(to, 0, (size_t)step_words(parts) * sizeof *to);
    for (int64_t r = 0; r < rows; r++, x += row_stride)
        for (int64_t c = 0; c < n && c < GYRE_TILE_CHANNELS; c += 2)
            split_pair(x[c], c + 1 < n ? x[c + 1] : 0, parts, to + c / 2 * TILE_ROWS + r);
}

OF_PARTS void pack_parts(const gyre_pack *p, int parts) {
    const float *x = p->in;
    uint32_t *to = p->out;
    for (int64_t c = 0; c < p->n; c += GYRE_TILE_CHANNELS, to += step_words(parts))
        pack_step(x + c, p->in_row_stride, p->rows, p->n - c, parts, to);
}

void OF_TIER(pack_rows_bf16)(const gyre_pack *p) {
    pack_parts(p, PARTS);
}
void OF_TIER(pack_rounded_rows_bf16)(const gyre_pack *p) {
    pack_parts(p, 1);
}

/* to[rows] = up to 32 of n channels of `rows` rows, the others 0. */
static inline void copy_channels(const uint16_t *w, int64_t row_stride, int64_t rows, int64_t n, int64_t tile_rows,
                                 uint16_t *to) {
    const int64_t channels = n < GYRE_TILE_CHANNELS ? n : GYRE_TILE_CHANNELS;
    if (rows < tile_rows || channels < GYRE_TILE_CHANNELS)
        memset(to, 0, (size_t)(tile_rows * GYRE_TILE_CHANNELS) * sizeof *to);
    for (int64_t r = 0; r < rows && r < tile_rows; r++) {
        if (channels == GYRE_TILE_CHANNELS)
            memcpy(to + r * GYRE_TILE_CHANNELS, w + r * row_stride, TILE_ROW_BYTES);
        else
            memcpy(to + r * GYRE_TILE_CHANNELS, w + r * row_stride, (size_t)channels * sizeof *w);
    }
}

void OF_TIER(pack_bf16)(const gyre_pack *p) {
    const uint16_t *w = p->in;
    uint16_t *to = p->out;
    for (int64_t c = 0; c < p->n; c += GYRE_TILE_CHANNELS, to += STEP_NUMBERS)
        copy_channels(w + c, p->in_row_stride, p->rows, p->n - c, p->tile_rows, to);
}

/* -- sums that are not finite -- */
static inline int is_finite(float x) {
    return (gyre_float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

typedef void projection_kernel(const gyre_projection *);

/* base: the kernel of TIER_BASE. */
static void mend(const gyre_projection *all, projection_kernel *base, int64_t row, int64_t first, int64_t outs,
                 float *sums) {
    int finite = 1;
    for (int64_t o = 0; o < outs; o++)
        finite &= is_finite(sums[o]);
    for (int64_t o = 0; o < outs && !finite; o++) {
        const uint16_t *w = (const uint16_t *)all->w + (first + o) * all->w_row_stride;
        const float *x = all->x + row * all->x_row_stride;
        if (is_finite(sums[o])) continue;
        base(&(gyre_projection){1, 1, all->in, x, all->x_row_stride, w, all->w_row_stride, sums + o, 1});
    }
}

OF_PARTS projection_kernel *base_kernel(int parts) {
    return parts == 1 ? NAME_IN(TIER_BASE, project_rounded_bf16) : NAME_IN(TIER_BASE, project_bf16);
}

/* A tile of sums at its place in the product: 16 rows at most from `row` on, 32 outputs at most from `out` on. */
typedef struct tile_place {
    int64_t row, rows, out, outs;
} tile_place;

/* to[row][output] = sums[output][row]. */
static void finish_tile(const gyre_projection *all, projection_kernel *base, const tile_place *at, const float *sums,
                        float *to) {
    for (int o = 0; o < TILE_OUTS; o += TRANSPOSE)
        for (int r = 0; r < TILE_ROWS; r += TRANSPOSE)
            transpose_square(sums + o * TILE_ROWS + r, TILE_ROWS, to + r * TILE_OUTS + o, TILE_OUTS);
    for (int64_t r = 0; r < at->rows; r++)
        mend(all, base, at->row + r, at->out, at->outs, to + r * TILE_OUTS);
}

/* sums += block, or sums = block. */
static inline void add_block(const float *restrict block, int64_t n, int first, float *restrict sums) {
    for (int64_t i = 0; i < n; i++)
        sums[i] = first ? block[i] : sums[i] + block[i];
}

/* -- many rows -- */
/* 32 outputs and 16 rows, or 32 with `both`: sums[0 or 1][output][row] = the products over `steps` steps.  `both` is a
 * constant after inlining. */
OF_PARTS void multiply_steps(tile_registers *t, const uint16_t *w, const uint32_t *x, int64_t steps, float *sums, int both,
                             int parts) {
    const int64_t step = step_words(parts);
    tile_zero(t, 0);
    tile_zero(t, 1);
    tile_zero(t, 2);
    tile_zero(t, 3);
    for (int part = parts - 1; part >= 0; part--) {
        const uint16_t *a = w;
        const uint32_t *b = x + part * TILE_WORDS, *b2 = b + steps * step;
        for (int64_t s = 0; s < steps; s++, a += STEP_NUMBERS, b += step, b2 += step) {
            tile_load(t, 4, a, TILE_ROW_BYTES);
            tile_load(t, 5, a + STEP_NUMBERS / 2, TILE_ROW_BYTES);
            tile_load(t, 6, b, TILE_ROW_BYTES);
            if (both) tile_load(t, 7, b2, TILE_ROW_BYTES);
            tile_dot_bf16(t, 0, 4, 6);
            tile_dot_bf16(t, 1, 5, 6);
            if (both) tile_dot_bf16(t, 2, 4, 7);
            if (both) tile_dot_bf16(t, 3, 5, 7);
        }
    }
    tile_store(t, 0, sums, TILE_ROW_BYTES);
    tile_store(t, 1, sums + TILE_WORDS, TILE_ROW_BYTES);
    if (both) tile_store(t, 2, sums + 2 * TILE_WORDS, TILE_ROW_BYTES);
    if (both) tile_store(t, 3, sums + 3 * TILE_WORDS, TILE_ROW_BYTES);
}

static void store_tile(const gyre_product_tiles *p, projection_kernel *base, const tile_place *at, const float *sums) {
    float rows[TILE_ROWS * TILE_OUTS];
    finish_tile(p->in_place, base, at, sums, rows);
    for (int64_t r = 0; r < at->rows; r++) {
        float *row = rows + r * TILE_OUTS, *y = p->y + (at->row + r) * p->y_row_stride + at->out;
        for (int64_t o = 0; o < at->outs && p->bias; o++)
            row[o] += p->bias[at->out + o];
        for (int64_t o = 0; o < at->outs && p->accumulate; o++)
            row[o] = y[o] + row[o];
        memcpy(y, row, (size_t)at->outs * sizeof *row);
    }
}

/* Two tiles of x, which stay in the first-level cache, times all tiles of the matrix. */
OF_PARTS void product_of_parts(const gyre_product_tiles *p, int parts) {
    const int64_t steps = (p->n + GYRE_TILE_CHANNELS - 1) / GYRE_TILE_CHANNELS;
    const uint32_t *x = p->x;
    float *partial = p->partial, block[4 * TILE_WORDS];
    tile_registers t;
    tile_begin(&t);
    for (int64_t r = 0; r < p->rows; r += 2 * TILE_ROWS, x += 2 * steps * step_words(parts)) {
        const int tiles = p->rows - r > TILE_ROWS ? 2 : 1;
        const uint16_t *w = p->w;
        for (int64_t o = 0; o < p->outs; o += TILE_OUTS, w += steps * STEP_NUMBERS) {
            const float *sums = block;
            if (tiles == 2)
                multiply_steps(&t, w, x, steps, block, 1, parts);
            else
                multiply_steps(&t, w, x, steps, block, 0, parts);
            if (!p->first || !p->last) {
                add_block(block, tiles * 2 * TILE_WORDS, p->first, partial);
                sums = partial;
                partial += tiles * 2 * TILE_WORDS;
            }
            for (int i = 0; i < tiles && p->last; i++) {
                const tile_place at = {r + i * TILE_ROWS, least(TILE_ROWS, p->rows - r - i * TILE_ROWS), o,
                                       least(TILE_OUTS, p->outs - o)};
                store_tile(p, base_kernel(parts), &at, sums + i * 2 * TILE_WORDS);
            }
        }
    }
    tile_end(&t);
}

void OF_TIER(product_tiles_bf16)(const gyre_product_tiles *p) {
    product_of_parts(p, PARTS);
}
void OF_TIER(product_rounded_tiles_bf16)(const gyre_product_tiles *p) {
    product_of_parts(p, 1);
}

/* -- a few rows -- */
/* 16 outputs of the matrix in place, or copied where 32 channels of 16 rows would reach past its end. */
static inline const uint16_t *matrix_tile(const gyre_projection *p, int64_t out, int64_t channel, uint16_t *copy,
                                          int64_t *stride) {
    const uint16_t *w = (const uint16_t *)p->w + out * p->w_row_stride + channel;
    const int64_t outs = p->outs - out, n = p->in - channel;
    *stride = p->w_row_stride * 2;
    if (outs >= TILE_ROWS && n >= GYRE_TILE_CHANNELS) return w;
    *stride = TILE_ROW_BYTES;
    copy_channels(w, p->w_row_stride, outs, n, TILE_ROWS, copy);
    return copy;
}

/* sums[output][row] += the products of 32 outputs and 16 rows over the block of channels from `first` on, whose packed rows
 * are x. */
OF_PARTS void project_block(tile_registers *t, const gyre_projection *p, const uint32_t *x, int64_t out, int64_t first,
                            float *sums, int parts) {
    const int64_t end = least(p->in, first + GYRE_TILE_BLOCK);
    uint16_t copy[2][TILE_ROWS * GYRE_TILE_CHANNELS];
    float block[2 * TILE_WORDS];
    tile_zero(t, 0);
    tile_zero(t, 1);
    for (int part = parts - 1; part >= 0; part--) {
        const uint32_t *b = x + part * TILE_WORDS;
        for (int64_t c = first; c < end; c += GYRE_TILE_CHANNELS, b += step_words(parts)) {
            int64_t stride, stride2;
            const uint16_t *a = matrix_tile(p, out, c, copy[0], &stride);
            const uint16_t *a2 = matrix_tile(p, out + TILE_ROWS, c, copy[1], &stride2);
            tile_load(t, 4, a, stride);
            tile_load(t, 5, a2, stride2);
            tile_load(t, 6, b, TILE_ROW_BYTES);
            tile_dot_bf16(t, 0, 4, 6);
            tile_dot_bf16(t, 1, 5, 6);
        }
    }
    tile_store(t, 0, block, TILE_ROW_BYTES);
    tile_store(t, 1, block + TILE_WORDS, TILE_ROW_BYTES);
    add_block(block, 2 * TILE_WORDS, first == 0, sums);
}

/* 16 rows at most and 64 outputs at most: a block of x is packed once for all of them. */
OF_PARTS void project_tiles(tile_registers *t, const gyre_projection *p, const tile_place *at, int parts) {
    uint32_t x[GYRE_TILE_BLOCK / GYRE_TILE_CHANNELS * PARTS * TILE_WORDS];
    float sums[PROJECT_OUTS * TILE_ROWS], rows[TILE_ROWS * TILE_OUTS];
    for (int64_t first = 0; first == 0 || first < p->in; first += GYRE_TILE_BLOCK) { /* without channels sums are 0 */
        const gyre_pack job = {
            at->rows,        TILE_ROWS, least(GYRE_TILE_BLOCK, p->in - first), p->x + at->row * p->x_row_stride + first,
            p->x_row_stride, x};
        pack_parts(&job, parts);
        for (int64_t o = 0; o < at->outs; o += TILE_OUTS)
            project_block(t, p, x, at->out + o, first, sums + o * TILE_ROWS, parts);
    }
    for (int64_t o = 0; o < at->outs; o += TILE_OUTS) {
        const tile_place tile = {at->row, at->rows, at->out + o, least(TILE_OUTS, at->outs - o)};
        finish_tile(p, base_kernel(parts), &tile, sums + o * TILE_ROWS, rows);
        for (int64_t r = 0; r < at->rows; r++)
            memcpy(p->y + (at->row + r) * p->y_row_stride + tile.out, rows + r * TILE_OUTS,
                   (size_t)tile.outs * sizeof *rows);
    }
}

OF_PARTS void project_of_parts(const gyre_projection *p, int parts) {
    tile_registers t;
    tile_begin(&t);
    for (int64_t o = 0; o < p->outs; o += PROJECT_OUTS)
        for (int64_t r = 0; r < p->rows; r += TILE_ROWS)
            project_tiles(&t, p, &(tile_place){r, least(TILE_ROWS, p->rows - r), o, least(PROJECT_OUTS, p->outs - o)},
                          parts);
    tile_end(&t);
}

void OF_TIER(project_bf16)(const gyre_projection *p) {
    project_of_parts(p, PARTS);
}
void OF_TIER(project_rounded_bf16)(const gyre_projection *p) {
    project_of_parts(p, 1);
}

#endif
