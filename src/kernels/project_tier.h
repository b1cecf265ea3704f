/* project_tier.h: a few rows of x times a matrix, which is read once, in one stream.
 *
 * The speed is that of memory: the matrix is read row by row, each vector once for up to PROJECT_ROWS rows of x.  There is no
 * software prefetch, because hardware prefetches a single stream best.  Each sum runs in two vectors, over the vectors of
 * even and of odd number, so its order does not depend on the other sums. */
#ifndef GYRE_KERNELS_PROJECT_TIER_H
#define GYRE_KERNELS_PROJECT_TIER_H
#include "kernels/decode_tier.h"

enum { PROJECT_ROWS = 4 };

/* Adds the channels from c on, at most one vector. */
TIER_INLINE void project_rest(elem_type type, const gyre_projection *p, const float *x, const char *w, int64_t c, int rows,
                              vec *sum) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    const vec y = load_up_to(type, w + c * type.size, p->in - c);
    for (int r = 0; r < rows; r++)
        sum[r] = vec_fma(load_up_to(table, (const char *)(x + r * p->x_row_stride + c), p->in - c), y, sum[r]);
}

/* One row of the matrix: out[r * LANES] = the sum of row r of x, as a vector. */
TIER_INLINE void project_one(elem_type type, const gyre_projection *p, const float *x, const char *w, int rows, vec *out) {
    vec even[PROJECT_ROWS], odd[PROJECT_ROWS];
    int64_t c = 0;
    DECODE_UNROLL
    for (int r = 0; r < rows; r++)
        even[r] = odd[r] = vec_set1(0);
    for (; c + 2 * LANES <= p->in; c += 2 * LANES) {
        const vec y = vec_in_register(type.load(w + c * type.size)),
                  z = vec_in_register(type.load(w + (c + LANES) * type.size));
        DECODE_UNROLL
        for (int r = 0; r < rows; r++)
            even[r] = vec_fma(vec_load(x + r * p->x_row_stride + c), y, even[r]);
        DECODE_UNROLL
        for (int r = 0; r < rows; r++)
            odd[r] = vec_fma(vec_load(x + r * p->x_row_stride + c + LANES), z, odd[r]);
    }
    if (c < p->in) project_rest(type, p, x, w, c, rows, even);
    if (c + LANES < p->in) project_rest(type, p, x, w, c + LANES, rows, odd);
    DECODE_UNROLL
    for (int r = 0; r < rows; r++)
        out[r * LANES] = vec_add(even[r], odd[r]);
}

/* Rows first .. first + rows - 1 of x and rows row .. row + n - 1 of the matrix, n <= LANES. */
TIER_INLINE void project_block(elem_type type, const gyre_projection *p, int64_t first, int64_t row, int64_t n, int rows) {
    vec sum[PROJECT_ROWS * LANES];
    for (int j = 0; j < LANES; j++)
        if (j < n)
            project_one(type, p, p->x + first * p->x_row_stride,
                        (const char *)p->w + (row + j) * p->w_row_stride * type.size, rows, sum + j);
        else
            for (int r = 0; r < rows; r++)
                sum[r * LANES + j] = vec_set1(0);
    for (int r = 0; r < rows; r++) {
        float total[LANES];
        vec_store(total, vec_reduce_add_each(sum + r * LANES));
        memcpy(p->y + (first + r) * p->y_row_stride + row, total, (size_t)n * sizeof *total);
    }
}

TIER_INLINE void project(elem_type type, const gyre_projection *p) {
    for (int64_t row = 0, n; row < p->outs; row += n) {
        int64_t r = 0;
        n = p->outs - row < LANES ? p->outs - row : LANES;
        for (; r + 4 <= p->rows; r += 4)
            project_block(type, p, r, row, n, 4);
        if (r + 2 <= p->rows) project_block(type, p, r, row, n, 2), r += 2;
        if (r < p->rows) project_block(type, p, r, row, n, 1);
    }
}

static void project_f32(const gyre_projection *p) {
    project((elem_type){load_f32, store_f32, 4}, p);
}
static void project_f16(const gyre_projection *p) {
    project((elem_type){load_f16, store_f16, 2}, p);
}
static void project_bf16(const gyre_projection *p) {
    project((elem_type){load_bf16, store_bf16, 2}, p);
}

#endif
