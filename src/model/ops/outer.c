#include "model/ops/outer.h"

#include "util/integers.h"

#include <string.h>

/* DEPTH x COLUMNS numbers of b are packed at a time, in panels: 256 KiB, for the second-level cache.  A panel and the rows
 * of a that are multiplied with it fit the first-level cache. */
enum { DEPTH = 128, COLUMNS = 512, MAX_PANEL = 32, MAX_ROWS = 16, USUAL_ROWS = 8 };

typedef struct outer_memory {
    float *b;    /* [COLUMNS / panel][DEPTH][panel] */
    float *a;    /* [DEPTH][MAX_ROWS] */
    float *edge; /* [MAX_ROWS][MAX_PANEL]: sums of a panel that ends past the last column */
} outer_memory;

enum { B_FLOATS = COLUMNS * DEPTH, A_FLOATS = DEPTH * MAX_ROWS, EDGE_FLOATS = MAX_ROWS * MAX_PANEL };

int64_t gyre_outer_scratch(void) {
    return B_FLOATS + A_FLOATS + EDGE_FLOATS;
}

/* to = panels [n / panel][k][panel] of n columns, zeros past the last one.  Rows of b are read whole, in the order of
 * memory. */
static void pack_panels(const float *b, int64_t b_row_stride, int64_t k, int64_t n, int64_t panel, float *to) {
    for (int64_t l = 0; l < k; l++, b += b_row_stride, to += panel) {
        int64_t j = 0;
        if (panel == MAX_PANEL) /* a constant size, which the compiler copies in vectors */
            for (; j + MAX_PANEL <= n; j += MAX_PANEL)
                memcpy(to + j * k, b + j, MAX_PANEL * sizeof *to);
        for (; j < n; j += panel) {
            const int64_t some = gyre_min_i64(panel, n - j);
            memcpy(to + j * k, b + j, (size_t)some * sizeof *to);
            memset(to + j * k + some, 0, (size_t)(panel - some) * sizeof *to);
        }
    }
}

/* Rows of `a` side by side, unless the channels of a row are adjacent already. */
static void pack_a(gyre_matmul *tile, float *to) {
    const float *a = tile->a;
    const int64_t m = tile->m;
    if (tile->a_col_stride == 1) return;
    for (int64_t l = 0; l < tile->k; l++, a += tile->a_col_stride)
        if (m == USUAL_ROWS && tile->a_row_stride == 1)
            memcpy(to + l * USUAL_ROWS, a, USUAL_ROWS * sizeof *to);
        else
            for (int64_t i = 0; i < m; i++)
                to[l * m + i] = a[i * tile->a_row_stride];
    tile->a = to;
    tile->a_row_stride = 1;
    tile->a_col_stride = tile->m;
}

static void multiply_edge(gyre_matmul tile, int64_t n, const gyre_kernels *kernels, float *edge) {
    float *c = tile.c;
    const int64_t c_row_stride = tile.c_row_stride;
    const int accumulate = tile.accumulate;
    tile.c = edge;
    tile.c_row_stride = tile.n;
    tile.accumulate = 0;
    kernels->matmul_f32(&tile);
    for (int64_t i = 0; i < tile.m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row_stride + j] = accumulate ? c[i * c_row_stride + j] + edge[i * tile.n + j] : edge[i * tile.n + j];
}

/* Columns first .. first + n - 1 and terms l .. l + k - 1 of the sums. */
static void multiply_block(const gyre_matmul *p, const gyre_kernels *kernels, int64_t first, int64_t n, int64_t l, int64_t k,
                           const outer_memory *m) {
    const int64_t panel = kernels->matmul_columns, step = kernels->matmul_rows;
    pack_panels(p->b + l * p->b_row_stride + first, p->b_row_stride, k, n, panel, m->b);
    for (int64_t i = 0; i < p->m; i += step) {
        gyre_matmul tile = {.m = gyre_min_i64(step, p->m - i),
                            .n = panel,
                            .k = k,
                            .a = p->a + i * p->a_row_stride + l * p->a_col_stride,
                            .a_row_stride = p->a_row_stride,
                            .a_col_stride = p->a_col_stride,
                            .b_row_stride = panel,
                            .c_row_stride = p->c_row_stride,
                            .accumulate = p->accumulate || l > 0,
                            .prefetch_c = p->accumulate || l > 0};
        pack_a(&tile, m->a);
        for (int64_t j = 0; j < n; j += panel) {
            tile.b = m->b + j * k;
            tile.c = p->c + i * p->c_row_stride + first + j;
            if (n - j < panel)
                multiply_edge(tile, n - j, kernels, m->edge);
            else
                kernels->matmul_f32(&tile);
        }
    }
}

void gyre_outer_run(const gyre_matmul *p, const gyre_kernels *kernels, float *scratch) {
    const outer_memory m = {scratch, scratch + B_FLOATS, scratch + B_FLOATS + A_FLOATS};
    for (int64_t first = 0; first < p->n; first += COLUMNS)
        for (int64_t l = 0; l < p->k; l += DEPTH)
            multiply_block(p, kernels, first, gyre_min_i64(COLUMNS, p->n - first), l, gyre_min_i64(DEPTH, p->k - l), &m);
}
