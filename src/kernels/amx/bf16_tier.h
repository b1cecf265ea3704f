/* bf16_tier.h: kernels of this room on tiers without AMX.
 *
 * A product whose other operand is rounded to bf16 rounds it first, and is then one of product_tier.h or project_tier.h. */
#ifndef GYRE_KERNELS_BF16_TIER_H
#define GYRE_KERNELS_BF16_TIER_H
#include "kernels/product_tier.h"
#include "kernels/project_tier.h"

KERNEL(matmul_bf16)(const gyre_matmul *p) {
    OF_TIER(matmul_f32)(p);
}

/* to[rows][GYRE_PRODUCT_BLOCK] = n numbers of each row of x, n <= GYRE_PRODUCT_BLOCK, rounded. */
TIER_INLINE void round_rows(const float *x, int64_t row_stride, int64_t rows, int64_t n, float *to) {
    uint16_t rounded[GYRE_PRODUCT_BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        OF_TIER(narrow_bf16)(x + r * row_stride, rounded, n);
        OF_TIER(widen_bf16)(rounded, to + r * GYRE_PRODUCT_BLOCK, n);
    }
}

KERNEL(pack_rounded_rows_bf16)(const gyre_pack *p) {
    float x[PRODUCT_ROWS * GYRE_PRODUCT_BLOCK];
    gyre_pack job = *p;
    round_rows(p->in, p->in_row_stride, p->rows, p->n, x);
    job.in = x;
    job.in_row_stride = GYRE_PRODUCT_BLOCK;
    OF_TIER(pack_f32)(&job);
}

KERNEL(product_rounded_tiles_bf16)(const gyre_product_tiles *p) {
    OF_TIER(product_tiles_f32)(p);
}

enum { ROUNDED_OUTS = 64 };

/* Rounded rows x and a block of channels from `first` on: y = the sums, or y += the sums of a later block. */
static void project_rounded_block(const gyre_projection *p, const float *x, int64_t first, int64_t n, float *y) {
    float sums[PROJECT_ROWS * ROUNDED_OUTS];
    for (int64_t o = 0; o < p->outs; o += ROUNDED_OUTS) {
        const int64_t outs = p->outs - o < ROUNDED_OUTS ? p->outs - o : ROUNDED_OUTS;
        const uint16_t *w = (const uint16_t *)p->w + o * p->w_row_stride + first;
        OF_TIER(project_bf16)
        (&(gyre_projection){p->rows, outs, n, x, GYRE_PRODUCT_BLOCK, w, p->w_row_stride, sums, ROUNDED_OUTS});
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t i = 0; i < outs; i++) {
                float *to = y + r * p->y_row_stride + o + i;
                *to = first == 0 ? sums[r * ROUNDED_OUTS + i] : *to + sums[r * ROUNDED_OUTS + i];
            }
    }
}

KERNEL(project_rounded_bf16)(const gyre_projection *p) {
    float x[PROJECT_ROWS * GYRE_PRODUCT_BLOCK];
    gyre_projection some = *p;
    for (int64_t r = 0; r < p->rows; r += PROJECT_ROWS) {
        some.rows = p->rows - r < PROJECT_ROWS ? p->rows - r : PROJECT_ROWS;
        for (int64_t c = 0; c == 0 || c < p->in; c += GYRE_PRODUCT_BLOCK) {
            const int64_t n = p->in - c < GYRE_PRODUCT_BLOCK ? p->in - c : GYRE_PRODUCT_BLOCK;
            round_rows(p->x + r * p->x_row_stride + c, p->x_row_stride, some.rows, n, x);
            project_rounded_block(&some, x, c, n, p->y + r * p->y_row_stride);
        }
    }
}

#endif
