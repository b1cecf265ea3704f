#include "model/ops/outer.h"

#include "model/ops/cache_size.h"
#include "util/integers.h"

#include <string.h>

/* DEPTH rows of up to MAX_COLUMNS columns of b are packed at a time, in panels, into a quarter of the second-level cache.  A
 * panel and the rows of a that are multiplied with it fit the first-level cache. */
enum { DEPTH = 128, MIN_COLUMNS = 512, MAX_COLUMNS = 1024, MAX_PANEL = 32, MAX_ROWS = 16, USUAL_ROWS = 8, STREAMS = 8 };

typedef struct outer_memory {
    float *b;    /* [MAX_COLUMNS / panel][DEPTH][panel] */
    float *a;    /* [DEPTH][MAX_ROWS] */
    float *edge; /* [MAX_ROWS][MAX_PANEL]: sums of a panel that ends past the last column */
} outer_memory;

enum { B_FLOATS = MAX_COLUMNS * DEPTH, A_FLOATS = DEPTH * MAX_ROWS, EDGE_FLOATS = MAX_ROWS * MAX_PANEL };

int64_t gyre_outer_scratch(void) {
    return B_FLOATS + A_FLOATS + EDGE_FLOATS;
}

/* to = a panel [k][panel] of n columns, zeros past the last one. */
static void pack_panel(const float *b, int64_t b_row_stride, int64_t k, int64_t n, int64_t panel, float *to) {
    for (int64_t l = 0; l < k; l++, b += b_row_stride, to += panel)
        if (n == MAX_PANEL) { /* a constant size, which the compiler copies in vectors */
            memcpy(to, b, MAX_PANEL * sizeof *to);
        } else {
            memcpy(to, b, (size_t)n * sizeof *to);
            memset(to + n, 0, (size_t)(panel - n) * sizeof *to);
        }
}

/* to = panels [n / panel][k][panel] of n columns, zeros past the last one.  A few rows of b are read at a time, in the order
 * of memory: as many streams as hardware follows.  Panels are whole powers of two apart, so row by row they would share the
 * places of the first-level cache. */
static void pack_panels(const float *b, int64_t b_row_stride, int64_t k, int64_t n, int64_t panel, float *to) {
    for (int64_t l = 0; l < k; l += STREAMS, b += STREAMS * b_row_stride, to += STREAMS * panel)
        for (int64_t j = 0; j < n; j += panel)
            pack_panel(b + j, b_row_stride, gyre_min_i64(STREAMS, k - l), gyre_min_i64(panel, n - j), panel, to + j * k);
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
    const int64_t fit = gyre_second_level_cache() / (4 * DEPTH * (int64_t)sizeof(float)) / MAX_PANEL * MAX_PANEL;
    const int64_t columns = gyre_clamp_i64(fit, MIN_COLUMNS, MAX_COLUMNS);
    for (int64_t first = 0; first < p->n; first += columns)
        for (int64_t l = 0; l < p->k; l += DEPTH)
            multiply_block(p, kernels, first, gyre_min_i64(columns, p->n - first), l, gyre_min_i64(DEPTH, p->k - l), &m);
}
