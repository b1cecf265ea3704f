/* project_tier.h: a few rows of x times a matrix, which is read in place, once, in one stream.
 *
 The speed is that of memory: the matrix is read row by row, each vector once for up to PROJECT_ROWS rows of x.  There is no
 software prefetch, because hardware prefetches a single stream best.  The order of a sum is that of product_tier.h. */
#ifndef GYRE_KERNELS_PROJECT_TIER_H
#define GYRE_KERNELS_PROJECT_TIER_H
#include "kernels/decode_tier.h"
#include "kernels/quants/quant_blocks.h"

enum { PROJECT_ROWS = 4 };

/* A few rows of x and one row of the matrix.  The number of rows is a constant after inlining. */
typedef struct project_rows {
    const float *x;
    const char *w;
    int64_t x_row_stride;
    int rows;
} project_rows;

/* sum[r] = the products of row r over n channels from `first` on.  Always inlined. */
typedef void project_sums(const project_rows *p, int64_t first, int64_t n, vec *sum);

TIER_INLINE void project_clear(const project_rows *p, vec *sum) {
    DECODE_UNROLL
    for (int r = 0; r < p->rows; r++)
        sum[r] = vec_set1(0);
}

/* Adds LANES channels from c on. */
TIER_INLINE void project_add(const project_rows *p, int64_t c, vec y, vec *sum) {
    DECODE_UNROLL
    for (int r = 0; r < p->rows; r++)
        sum[r] = vec_fma(vec_load(p->x + r * p->x_row_stride + c), y, sum[r]);
}

TIER_INLINE void sums_of(elem_type type, const project_rows *p, int64_t first, int64_t n, vec *sum) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    int64_t c = first;
    project_clear(p, sum);
    for (; c + LANES <= first + n; c += LANES)
        project_add(p, c, vec_in_register(type.load(p->w + c * type.size)), sum);
    const int64_t left = first + n - c;
    if (left <= 0) return;
    const vec y = load_partial(type, p->w + c * type.size, left);
    for (int r = 0; r < p->rows; r++)
        sum[r] = vec_fma(load_partial(table, (const char *)(p->x + r * p->x_row_stride + c), left), y, sum[r]);
}

TIER_INLINE void sums_of_f32(const project_rows *p, int64_t first, int64_t n, vec *sum) {
    sums_of((elem_type){load_f32, store_f32, 4}, p, first, n, sum);
}
TIER_INLINE void sums_of_f16(const project_rows *p, int64_t first, int64_t n, vec *sum) {
    sums_of((elem_type){load_f16, store_f16, 2}, p, first, n, sum);
}
TIER_INLINE void sums_of_bf16(const project_rows *p, int64_t first, int64_t n, vec *sum) {
    sums_of((elem_type){load_bf16, store_bf16, 2}, p, first, n, sum);
}

/* Q8_0: 32 integers and their scale.  An integer of 8 bits times a scale of 11 is exact in float, so the weights are those
 * of dequantize_q8_0. */
TIER_INLINE void sums_of_q8_0(const project_rows *p, int64_t first, int64_t n, vec *sum) {
    const char *block = p->w + first / GYRE_Q_BLOCK * GYRE_Q8_0_BYTES;
    project_clear(p, sum);
    for (int64_t b = first; b < first + n; b += GYRE_Q_BLOCK, block += GYRE_Q8_0_BYTES) {
        const vec scale = vec_broadcast_f16(block + GYRE_Q8_0_SCALE);
        DECODE_UNROLL
        for (int c = 0; c < GYRE_Q_BLOCK; c += LANES)
            project_add(p, b + c, vec_in_register(vec_mul(vec_load_q8((const int8_t *)block + 2 + c), scale)), sum);
    }
}

/* y[r * y_row_stride] = the product of row r of x and one row of the matrix. */
TIER_INLINE void project_one(project_sums *sums, const gyre_projection *p, const project_rows *at, float *y) {
    float total[PROJECT_ROWS] = {0};
    for (int64_t first = 0; first < p->in; first += GYRE_PRODUCT_BLOCK) {
        const int64_t left = p->in - first;
        vec sum[PROJECT_ROWS];
        sums(at, first, left < GYRE_PRODUCT_BLOCK ? left : GYRE_PRODUCT_BLOCK, sum);
        DECODE_UNROLL
        for (int r = 0; r < at->rows; r++)
            total[r] = first == 0 ? vec_reduce_add(sum[r]) : total[r] + vec_reduce_add(sum[r]);
    }
    for (int r = 0; r < at->rows; r++)
        y[r * p->y_row_stride] = total[r];
}

/* LANES rows of the matrix of at most one block of channels: their sums are reduced together. */
TIER_INLINE void project_short(project_sums *sums, const gyre_projection *p, const project_rows *from, int64_t w_bytes,
                               float *y) {
    project_rows at = *from;
    vec sum[PROJECT_ROWS * LANES], one[PROJECT_ROWS];
    for (int j = 0; j < LANES; j++, at.w += w_bytes) {
        sums(&at, 0, p->in, one);
        DECODE_UNROLL
        for (int r = 0; r < at.rows; r++)
            sum[r * LANES + j] = one[r];
    }
    for (int r = 0; r < at.rows; r++)
        vec_store(y + r * p->y_row_stride, vec_reduce_add_each(sum + r * LANES));
}

/* Rows of x from `first` on, and n <= LANES rows of the matrix from `row` on. */
TIER_INLINE void project_block(project_sums *sums, const gyre_projection *p, int64_t w_bytes, int64_t first, int rows,
                               int64_t row, int64_t n) {
    project_rows at = {p->x + first * p->x_row_stride, (const char *)p->w + row * w_bytes, p->x_row_stride, rows};
    float *y = p->y + first * p->y_row_stride + row;
    if (n == LANES && p->in <= GYRE_PRODUCT_BLOCK)
        project_short(sums, p, &at, w_bytes, y);
    else
        for (int64_t j = 0; j < n; j++, at.w += w_bytes)
            project_one(sums, p, &at, y + j);
}

TIER_INLINE void project(project_sums *sums, const gyre_projection *p, int64_t w_bytes) {
    for (int64_t row = 0, n; row < p->outs; row += n) {
        int64_t r = 0;
        n = p->outs - row < LANES ? p->outs - row : LANES;
        for (; r + 4 <= p->rows; r += 4)
            project_block(sums, p, w_bytes, r, 4, row, n);
        if (r + 2 <= p->rows) project_block(sums, p, w_bytes, r, 2, row, n), r += 2;
        if (r < p->rows) project_block(sums, p, w_bytes, r, 1, row, n);
    }
}

KERNEL(project_f32)(const gyre_projection *p) {
    project(sums_of_f32, p, p->w_row_stride * 4);
}
KERNEL(project_f16)(const gyre_projection *p) {
    project(sums_of_f16, p, p->w_row_stride * 2);
}
KERNEL(project_bf16)(const gyre_projection *p) {
    project(sums_of_bf16, p, p->w_row_stride * 2);
}
KERNEL(project_q8_0)(const gyre_projection *p) {
    project(sums_of_q8_0, p, p->w_row_stride);
}

#endif
