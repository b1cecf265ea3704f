/* product_tier.h: many rows of x times a matrix, y = x w^T, from packed tiles.
 *
 * Each of PRODUCT_ROWS x PRODUCT_OUTS sums is a vector over channels, so weights are used as they are stored, without a
 * transposition.  A step loads PRODUCT_ROWS + PRODUCT_OUTS vectors for PRODUCT_ROWS * PRODUCT_OUTS fused multiply-adds. */
#ifndef GYRE_KERNELS_PRODUCT_TIER_H
#define GYRE_KERNELS_PRODUCT_TIER_H
#include "kernels/decode_tier.h"

enum { PRODUCT_TILE = PRODUCT_ROWS * PRODUCT_OUTS, PRODUCT_VECS = (PRODUCT_TILE + LANES - 1) / LANES };

/* -- packing -- */
/* `rows` is a constant after inlining for a whole tile.  The tile is written in order. */
TIER_INLINE void pack_tile(elem_type type, const gyre_pack *p, int64_t rows, int64_t tile_rows) {
    const int64_t stride = p->in_row_stride * type.size;
    const char *in = p->in;
    float *out = p->out;
    int64_t c = 0;
    for (; c + LANES <= p->n; c += LANES, in += LANES * type.size, out += tile_rows * LANES)
        for (int64_t r = 0; r < rows; r++)
            vec_store(out + r * LANES, type.load(in + r * stride));
    for (int64_t r = 0; r < rows && c < p->n; r++)
        vec_store(out + r * LANES, load_partial(type, in + r * stride, p->n - c));
    for (c = 0, out = p->out; c < p->n; c += LANES, out += tile_rows * LANES)
        for (int64_t r = rows; r < tile_rows; r++)
            vec_store(out + r * LANES, vec_set1(0));
}

TIER_INLINE void pack_rows(elem_type type, const gyre_pack *p) {
    if (p->rows == PRODUCT_ROWS && p->tile_rows == PRODUCT_ROWS)
        pack_tile(type, p, PRODUCT_ROWS, PRODUCT_ROWS);
    else if (p->rows == PRODUCT_OUTS && p->tile_rows == PRODUCT_OUTS)
        pack_tile(type, p, PRODUCT_OUTS, PRODUCT_OUTS);
    else
        pack_tile(type, p, p->rows, p->tile_rows);
}

KERNEL(pack_f32)(const gyre_pack *p) {
    pack_rows((elem_type){load_f32, store_f32, 4}, p);
}
KERNEL(pack_f16)(const gyre_pack *p) {
    pack_rows((elem_type){load_f16, store_f16, 2}, p);
}
KERNEL(pack_bf16)(const gyre_pack *p) {
    pack_rows((elem_type){load_bf16, store_bf16, 2}, p);
}
KERNEL(pack_rows_bf16)(const gyre_pack *p) {
    OF_TIER(pack_f32)(p);
}

/* -- products -- */
#ifndef VEC_REDUCE_HALF /* the other half is zeros */
TIER_INLINE vec vec_reduce_add_half(const vec *a) {
    return vec_reduce_add_each(a);
}
#endif
/* sums[r * PRODUCT_OUTS + o] over `vecs` vectors of channels. */
TIER_INLINE void product_tile(const float *x, const float *w, int64_t vecs, float *sums) {
    vec sum[PRODUCT_VECS * LANES];
    DECODE_UNROLL
    for (int i = 0; i < PRODUCT_VECS * LANES; i++)
        sum[i] = vec_set1(0);
    for (int64_t c = 0; c < vecs; c++, x += PRODUCT_ROWS * LANES, w += PRODUCT_OUTS * LANES) {
        vec a[PRODUCT_ROWS];
        DECODE_UNROLL
        for (int r = 0; r < PRODUCT_ROWS; r++)
            a[r] = vec_in_register(vec_load(x + r * LANES));
        DECODE_UNROLL
        for (int o = 0; o < PRODUCT_OUTS; o++) {
            const vec b = PRODUCT_OPERAND(vec_load(w + o * LANES));
            DECODE_UNROLL
            for (int r = 0; r < PRODUCT_ROWS; r++)
                sum[r * PRODUCT_OUTS + o] = vec_fma(a[r], b, sum[r * PRODUCT_OUTS + o]);
        }
    }
    DECODE_UNROLL
    for (int i = 0; i < PRODUCT_VECS; i++)
        vec_store(sums + i * LANES, PRODUCT_TILE - i * LANES > LANES / 2 ? vec_reduce_add_each(sum + i * LANES)
                                                                         : vec_reduce_add_half(sum + i * LANES));
}

/* Rows and outs are constants after inlining, except at the edges. */
TIER_INLINE void product_store(const gyre_product_tiles *p, const float *sums, float *y, int64_t rows, int64_t outs) {
    for (int64_t r = 0; r < rows; r++, y += p->y_row_stride) {
        float row[PRODUCT_OUTS];
        memcpy(row, sums + r * PRODUCT_OUTS, sizeof row);
        if (p->bias)
            for (int64_t o = 0; o < outs; o++)
                row[o] += p->bias[o];
        if (p->accumulate)
            for (int64_t o = 0; o < outs; o++)
                row[o] = y[o] + row[o];
        memcpy(y, row, (size_t)outs * sizeof *row);
    }
}

/* The lines of the next rows of w, prefetched a few after each tile. */
typedef struct line_cursor {
    const char *row;
    int64_t rows, line; /* rows: left; line: next one of the row, in bytes */
} line_cursor;

TIER_INLINE void prefetch_lines(const gyre_product_tiles *p, line_cursor *at, int64_t lines) {
    for (; lines > 0 && at->rows > 0; lines--) {
        prefetch_line(at->row + at->line, 0);
        at->line += CACHE_LINE_BYTES;
        if (at->line < p->next_bytes + CACHE_LINE_BYTES) continue;
        at->line = 0;
        at->row += p->next_row_stride;
        at->rows--;
    }
}

KERNEL(product_tiles_f32)(const gyre_product_tiles *p) {
    const int64_t vecs = (p->n + LANES - 1) / LANES, tile = PRODUCT_ROWS * LANES * vecs;
    const int64_t next_lines = p->next ? (p->next_bytes / CACHE_LINE_BYTES + 2) * p->next_rows : 0;
    const int64_t lines_per_tile = next_lines * PRODUCT_ROWS / p->rows + 1;
    line_cursor next = {p->next, p->next ? p->next_rows : 0, 0};
    const float *x = p->x;
    float *partial = p->partial, sums[PRODUCT_VECS * LANES];
    for (int64_t r = 0; r < p->rows; r += PRODUCT_ROWS, x += tile, partial += partial ? PRODUCT_TILE : 0) {
        const int64_t rows = p->rows - r;
        prefetch_lines(p, &next, lines_per_tile);
        product_tile(x, p->w, vecs, sums);
        if (!p->first)
            for (int i = 0; i < PRODUCT_TILE; i++)
                sums[i] = partial[i] + sums[i];
        if (!p->last)
            memcpy(partial, sums, sizeof *sums * PRODUCT_TILE);
        else if (rows >= PRODUCT_ROWS && p->outs == PRODUCT_OUTS)
            product_store(p, sums, p->y + r * p->y_row_stride, PRODUCT_ROWS, PRODUCT_OUTS);
        else
            product_store(p, sums, p->y + r * p->y_row_stride, rows < PRODUCT_ROWS ? rows : PRODUCT_ROWS, p->outs);
    }
}

KERNEL(product_tiles_bf16)(const gyre_product_tiles *p) {
    OF_TIER(product_tiles_f32)(p);
}

#endif
