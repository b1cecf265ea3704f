/* project_quants_tier.h: a few rows of x times a matrix of blocks, which is read in place.  The numbers of a block stay in
 * registers, and a sum has the order of product_tier.h, so its bits are those of project_f32 over dequantized rows.
 *
 * A few rows of the matrix are read at once, because each sum waits for the one before it.  They are several streams, of
 * which hardware prefetches few, so the lines are prefetched some kilobytes ahead, on Intel's processors into the
 * first-level cache (on others that is not measured). */
#ifndef GYRE_KERNELS_PROJECT_QUANTS_TIER_H
#define GYRE_KERNELS_PROJECT_QUANTS_TIER_H
#include "kernels/project_tier.h"
#include "kernels/quants/quants_tier.h"

#if LANES == 1
/* -- plain C -- */
/* Numbers of a block are no vector, so a block of channels of a few rows goes through memory, in the first-level cache. */
TIER_INLINE void project_blocks(block_format format, const gyre_projection *p) {
    enum { ROWS = 4 };
    float rows[ROWS * GYRE_PRODUCT_BLOCK];
    gyre_projection job = *p;
    job.w = rows;
    job.w_row_stride = GYRE_PRODUCT_BLOCK;
    for (int64_t first = 0; first < p->outs; first += ROWS) {
        const unsigned char *w = (const unsigned char *)p->w + first * p->w_row_stride;
        job.outs = p->outs - first < ROWS ? p->outs - first : ROWS;
        job.y = p->y + first;
        for (int64_t c = 0; c < p->in; c += GYRE_PRODUCT_BLOCK) {
            job.in = p->in - c < GYRE_PRODUCT_BLOCK ? p->in - c : GYRE_PRODUCT_BLOCK;
            job.x = p->x + c;
            for (int64_t i = 0; i < job.outs; i++)
                dequantize(format, w + i * p->w_row_stride + c / format.count * format.bytes, rows + i * GYRE_PRODUCT_BLOCK,
                           job.in);
            OF_TIER(project_cached_f32)(&job, c > 0);
        }
    }
}
#else
/* -- in registers -- */
/* BLOCK_SUMS: of rows of x and rows of the matrix at once.  SUMMED_OUTS: rows of the matrix whose lanes are added
 * together. */
enum { BLOCK_SUMS = 8, BLOCK_OUTS = 4, SUMMED_OUTS = LANES < BLOCK_OUTS ? BLOCK_OUTS : LANES, AHEAD_BYTES = 6 << 10 };

/* A few rows of x and a few of the matrix; both numbers are constants after inlining. */
typedef struct block_rows {
    const float *x;
    const unsigned char *w;
    int64_t x_row_stride, w_row_stride;
    int rows, outs;
    int64_t ahead; /* bytes from a row to the one that is prefetched meanwhile */
    int near;      /* 1: into the first-level cache */
} block_rows;

/* Prefetches the lines that begin in bytes at .. at + n - 1 of later rows.  They may be past the end of the matrix. */
TIER_INLINE void prefetch_later(const block_rows *t, int64_t at, int64_t n) {
    for (int64_t line = (at + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES; line < at + n;
         line += CACHE_LINE_BYTES)
        for (int o = 0; o < t->outs; o++) {
            const uintptr_t address = (uintptr_t)t->w + (uintptr_t)(o * t->w_row_stride + t->ahead + line);
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): never read */
            prefetch_line((const char *)address, t->near);
        }
}

/* sum[r][SUMMED_OUTS] of n channels from `first` on. */
TIER_INLINE void block_sums(block_format format, const block_rows *t, int64_t first, int64_t n, vec *to) {
    vec sum[PROJECT_ROWS * BLOCK_OUTS];
    DECODE_UNROLL
    for (int i = 0; i < t->rows * t->outs; i++)
        sum[i] = vec_set1(0);
    for (int64_t c = first; c < first + n; c += format.count) {
        const int64_t at = c / format.count * format.bytes;
        block_scales s[BLOCK_OUTS];
        prefetch_later(t, at, format.bytes);
        DECODE_UNROLL
        for (int o = 0; o < t->outs; o++)
            format.scales(t->w + o * t->w_row_stride + at, &s[o]);
        for (int group = 0; group < format.count; group += format.group) {
            const float *x = t->x + c + group;
            DECODE_UNROLL
            for (int o = 0; o < t->outs; o++) {
                vec numbers[MOST_GROUP / LANES];
                format.numbers(t->w + o * t->w_row_stride + at, &s[o], group, numbers);
                DECODE_UNROLL
                for (int i = 0; i < format.group; i += LANES) {
                    DECODE_UNROLL
                    for (int r = 0; r < t->rows; r++)
                        sum[r * t->outs + o] =
                            vec_fma(vec_load(x + r * t->x_row_stride + i), numbers[i / LANES], sum[r * t->outs + o]);
                }
            }
        }
    }
    DECODE_UNROLL
    for (int r = 0; r < t->rows; r++) {
        DECODE_UNROLL
        for (int o = 0; o < t->outs; o++)
            to[r * SUMMED_OUTS + o] = sum[r * t->outs + o];
    }
}

/* y (+)= the lanes of `outs` sums of each row, added.  Not inlined, so that the loops of products have all registers. */
__attribute__((noinline)) static void add_block_sums(const vec *sums, float *y, int64_t y_row_stride, int rows, int64_t outs,
                                                     int add) {
    for (int r = 0; r < rows; r++, y += y_row_stride, sums += SUMMED_OUTS) {
        int64_t o = 0;
        for (; o + LANES <= outs; o += LANES) {
            const vec total = vec_reduce_add_each(sums + o);
            vec_store(y + o, add ? vec_add(vec_load(y + o), total) : total);
        }
        for (; o < outs; o++)
            y[o] = add ? y[o] + vec_reduce_add(sums[o]) : vec_reduce_add(sums[o]);
    }
}

/* `rows` rows of x from `first` on, and `outs` <= SUMMED_OUTS rows of the matrix from `row` on. */
TIER_INLINE void project_block_rows(block_format format, const gyre_projection *p, int64_t first, int rows, int64_t row,
                                    int64_t outs) {
    const int at_once = rows * BLOCK_OUTS <= BLOCK_SUMS ? BLOCK_OUTS : BLOCK_SUMS / rows;
    const int64_t ahead = (AHEAD_BYTES / (p->w_row_stride * BLOCK_OUTS) + 1) * BLOCK_OUTS * p->w_row_stride;
    vec sums[PROJECT_ROWS * SUMMED_OUTS];
    for (int64_t c = 0; c < p->in; c += GYRE_PRODUCT_BLOCK) {
        const int64_t n = p->in - c < GYRE_PRODUCT_BLOCK ? p->in - c : GYRE_PRODUCT_BLOCK;
        block_rows t = {p->x + first * p->x_row_stride,
                        (const unsigned char *)p->w + row * p->w_row_stride,
                        p->x_row_stride,
                        p->w_row_stride,
                        rows,
                        at_once,
                        ahead,
                        is_intel()};
        int64_t o = 0;
        for (; o + at_once <= outs; o += at_once, t.w += at_once * p->w_row_stride)
            block_sums(format, &t, c, n, sums + o);
        for (t.outs = 1; o < outs; o++, t.w += p->w_row_stride)
            block_sums(format, &t, c, n, sums + o);
        add_block_sums(sums, p->y + first * p->y_row_stride + row, p->y_row_stride, rows, outs, c > 0);
    }
}

TIER_INLINE void project_blocks(block_format format, const gyre_projection *p) {
    for (int64_t row = 0, n; row < p->outs; row += n) {
        int64_t r = 0;
        n = p->outs - row < SUMMED_OUTS ? p->outs - row : SUMMED_OUTS;
        for (; r + 4 <= p->rows; r += 4)
            project_block_rows(format, p, r, 4, row, n);
        if (r + 2 <= p->rows) project_block_rows(format, p, r, 2, row, n), r += 2;
        if (r < p->rows) project_block_rows(format, p, r, 1, row, n);
    }
}
#endif

#define PROJECT(NAME, name, scales, numbers, group)                                                                         \
    KERNEL(project_##name)(const gyre_projection *p) {                                                                      \
        project_blocks(FORMAT_OF(NAME, scales, numbers, group), p);                                                         \
    }
BLOCK_FORMATS(PROJECT)
#undef PROJECT

#endif
