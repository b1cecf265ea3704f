/* project_tier.h: a few rows of x times a matrix, which is read in place, once, in one stream.
 *
 * The speed is that of memory: the matrix is read row by row, each vector once for up to PROJECT_ROWS rows of x, in one
 * stream, which processors prefetch best.  The order of a sum is that of product_tier.h. */
#ifndef GYRE_KERNELS_PROJECT_TIER_H
#define GYRE_KERNELS_PROJECT_TIER_H
#include "kernels/decode_tier.h"

enum { PROJECT_ROWS = 4, CACHED_SUMS = 8 };

/* A few rows of x and one row of the matrix.  The number of rows is a constant after inlining. */
typedef struct project_rows {
    const float *x;
    const char *w;
    int64_t x_row_stride;
    int rows;
    int64_t ahead; /* read_ahead */
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
    const int64_t line = READ_LINE_BYTES / type.size;
    int64_t c = first;
    project_clear(p, sum);
    for (; c + line <= first + n; c += line) {
        prefetch_ahead(p->w + c * type.size, p->ahead);
        DECODE_UNROLL
        for (int64_t v = 0; v < line; v += LANES)
            project_add(p, c + v, vec_in_register(type.load(p->w + (c + v) * type.size)), sum);
    }
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
    project_rows at = {p->x + first * p->x_row_stride, (const char *)p->w + row * w_bytes, p->x_row_stride, rows,
                       read_ahead()};
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

/* -- a matrix in the caches -- */
/* Adds the channels of `sums` after the last whole vector, then its lanes.  Not inlined, so that the loop of the products
 * has all registers. */
__attribute__((noinline)) static void project_cached_end(const gyre_projection *p, const float *sums, int64_t row, int rows,
                                                         int64_t out, int outs, int add) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    const int64_t whole = p->in / LANES * LANES, left = p->in - whole;
    for (int i = 0; i < rows * outs; i++) {
        const int64_t r = row + i / outs, o = out + i % outs;
        const char *x = (const char *)(p->x + r * p->x_row_stride + whole);
        const char *w = (const char *)((const float *)p->w + o * p->w_row_stride + whole);
        vec sum = vec_load(sums + i * LANES);
        if (left > 0) sum = vec_fma(load_partial(table, x, left), load_partial(table, w, left), sum);
        float *y = p->y + r * p->y_row_stride + o;
        *y = add ? *y + vec_reduce_add(sum) : vec_reduce_add(sum);
    }
}

/* The sums of `rows` rows of x and `outs` of the matrix, both constants after inlining: each vector of either is loaded once
 * for all, and no sum waits for another. */
TIER_INLINE void project_cached_tile(const gyre_projection *p, int64_t row, int rows, int64_t out, int outs, int add) {
    const float *x = p->x + row * p->x_row_stride, *w = (const float *)p->w + out * p->w_row_stride;
    float sums[CACHED_SUMS * LANES];
    vec sum[CACHED_SUMS];
    DECODE_UNROLL
    for (int i = 0; i < rows * outs; i++)
        sum[i] = vec_set1(0);
    for (int64_t c = 0; c + LANES <= p->in; c += LANES) {
        DECODE_UNROLL
        for (int o = 0; o < outs; o++) {
            const vec b = vec_in_register(vec_load(w + o * p->w_row_stride + c));
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * outs + o] = vec_fma(vec_load(x + r * p->x_row_stride + c), b, sum[r * outs + o]);
        }
    }
    DECODE_UNROLL
    for (int i = 0; i < rows * outs; i++)
        vec_store(sums + i * LANES, sum[i]);
    project_cached_end(p, sums, row, rows, out, outs, add);
}

TIER_INLINE void project_cached_rows(const gyre_projection *p, int64_t row, int rows, int add) {
    const int outs = rows * 4 <= CACHED_SUMS ? 4 : CACHED_SUMS / rows;
    int64_t o = 0;
    for (; o + outs <= p->outs; o += outs)
        project_cached_tile(p, row, rows, o, outs, add);
    for (; o < p->outs; o++)
        project_cached_tile(p, row, rows, o, 1, add);
}

KERNEL(project_cached_f32)(const gyre_projection *p, int add) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4)
        project_cached_rows(p, r, 4, add);
    if (r + 2 <= p->rows) project_cached_rows(p, r, 2, add), r += 2;
    if (r < p->rows) project_cached_rows(p, r, 1, add);
}

#endif
