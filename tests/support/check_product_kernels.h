/* check_product_kernels.h: the requirements on kernels that multiply rows by a matrix.  One row, a few rows in place and
 * many rows in tiles give the same bits, because all add in one order. */
#ifndef GYRE_TESTS_CHECK_PRODUCT_KERNELS_H
#define GYRE_TESTS_CHECK_PRODUCT_KERNELS_H
#include "kernels/kernels.h"
#include "make_quant_blocks.h"

#include <math.h>
#include <string.h>

/* Outputs: whole vectors of every tier and a rest, which are added up by different operations.  Inputs: up to three
 * blocks. */
enum { PRODUCT_MOST_ROWS = 14, PRODUCT_MOST_OUTS = 37, PRODUCT_MOST_IN = 1600, PRODUCT_MOST_TILE = 32 };
enum { PRODUCT_VALUES = PRODUCT_MOST_ROWS * PRODUCT_MOST_OUTS };

typedef struct row_product {
    gyre_dtype dtype; /* of w */
    int64_t rows, outs, in;
    const float *x; /* [rows][in] */
    const void *w;  /* [outs][in] */
} row_product;

/* y[rows][outs], from tiles, one of the matrix at a time. */
static inline void multiply_in_tiles(const gyre_kernels *k, const row_product *p, float *y) {
    enum { PADDED = GYRE_PRODUCT_BLOCK, ROWS = PRODUCT_MOST_ROWS + PRODUCT_MOST_TILE };
    static float x[ROWS * PADDED], w[PRODUCT_MOST_TILE * PADDED], partial[ROWS * PRODUCT_MOST_TILE];
    const int is_bf16 = p->dtype == GYRE_DTYPE_BF16;
    const gyre_product_tiling *t = is_bf16 ? &k->tiles_bf16 : &k->tiles_f32;
    void (*const pack)(const gyre_pack *) = is_bf16 ? k->pack_bf16 : p->dtype == GYRE_DTYPE_F16 ? k->pack_f16 : k->pack_f32;
    for (int64_t o = 0; o < p->outs; o += t->outs)
        for (int64_t c = 0; c < p->in; c += t->block) {
            const int64_t n = p->in - c < t->block ? p->in - c : t->block;
            const int64_t outs = p->outs - o < t->outs ? p->outs - o : t->outs;
            const int64_t row_bytes = (n + t->channels - 1) / t->channels * t->channels * t->x_bytes;
            const char *from = (const char *)p->w + o * p->in * (int64_t)gyre_dtype_size(p->dtype);
            const gyre_projection in_place = {p->rows, outs, p->in, p->x, p->in, from, p->in, NULL, 0};
            for (int64_t r = 0; r < p->rows; r += t->rows)
                (is_bf16 ? k->pack_rows_bf16
                         : k->pack_f32)(&(gyre_pack){p->rows - r < t->rows ? p->rows - r : t->rows, t->rows, n,
                                                     p->x + r * p->in + c, p->in, (char *)x + r * row_bytes});
            pack(&(gyre_pack){outs, t->outs, n, from + c * (int64_t)gyre_dtype_size(p->dtype), p->in, w});
            const gyre_product_tiles job = {.rows = p->rows,
                                            .outs = outs,
                                            .n = n,
                                            .x = x,
                                            .w = w,
                                            .partial = partial,
                                            .first = c == 0,
                                            .last = c + n == p->in,
                                            .y = y + o,
                                            .y_row_stride = p->outs,
                                            .in_place = &in_place};
            (is_bf16 ? k->product_tiles_bf16 : k->product_tiles_f32)(&job);
        }
}

/* y[rows][outs], from the matrix in place, `rows_at_once` rows and `outs_at_once` outputs in a call. */
static inline void multiply_in_place(const gyre_kernels *k, const row_product *p, int64_t rows_at_once, int64_t outs_at_once,
                                     float *y) {
    void (*const project)(const gyre_projection *) = p->dtype == GYRE_DTYPE_F32   ? k->project_f32
                                                     : p->dtype == GYRE_DTYPE_F16 ? k->project_f16
                                                                                  : k->project_bf16;
    for (int64_t r = 0; r < p->rows; r += rows_at_once)
        for (int64_t o = 0; o < p->outs; o += outs_at_once) {
            const int64_t rows = p->rows - r < rows_at_once ? p->rows - r : rows_at_once;
            const int64_t outs = p->outs - o < outs_at_once ? p->outs - o : outs_at_once;
            const char *w = (const char *)p->w + o * p->in * (int64_t)gyre_dtype_size(p->dtype);
            project(&(gyre_projection){rows, outs, p->in, p->x + r * p->in, p->in, w, p->in, y + r * p->outs + o, p->outs});
        }
}

/* The same, one block of channels after another, for floats. */
static inline void multiply_cached(const gyre_kernels *k, const row_product *p, int64_t rows_at_once, int64_t outs_at_once,
                                   float *y) {
    for (int64_t r = 0; r < p->rows; r += rows_at_once)
        for (int64_t o = 0; o < p->outs; o += outs_at_once)
            for (int64_t c = 0; c < p->in; c += GYRE_PRODUCT_BLOCK) {
                const int64_t rows = p->rows - r < rows_at_once ? p->rows - r : rows_at_once;
                const int64_t outs = p->outs - o < outs_at_once ? p->outs - o : outs_at_once;
                const int64_t n = p->in - c < GYRE_PRODUCT_BLOCK ? p->in - c : GYRE_PRODUCT_BLOCK;
                const float *w = (const float *)p->w + o * p->in + c;
                k->project_cached_f32(
                    &(gyre_projection){rows, outs, n, p->x + r * p->in + c, p->in, w, p->in, y + r * p->outs + o, p->outs},
                    c > 0);
            }
}

/* out = the largest error as a fraction of gamma_(in + 1) sum |x w|. */
static inline double product_error(const row_product *p, const float *y) {
    double worst = 0;
    for (int64_t i = 0; i < p->rows * p->outs; i++) {
        double exact = 0, size = 0;
        for (int64_t c = 0; c < p->in; c++) {
            const double w = test_get(p->w, p->dtype, (size_t)(i % p->outs * p->in + c));
            const double term = (double)p->x[i / p->outs * p->in + c] * w;
            exact += term;
            size += fabs(term);
        }
        const double share = fabs((double)y[i] - exact) / ((double)(p->in + 1) * 0x1p-24 * 1.001 * size);
        worst = share <= worst ? worst : isnan(share) ? (double)INFINITY : share;
    }
    return worst;
}

/* out = NULL or what is wrong. */
static inline const char *check_row_product(const gyre_kernels *k, const row_product *p) {
    static float tiled[PRODUCT_VALUES], placed[PRODUCT_VALUES];
    static const int64_t cuts[][2] = {{1, 1}, {1, PRODUCT_MOST_OUTS}, {2, 5}, {3, 16}, {4, 18}, {7, PRODUCT_MOST_OUTS}};
    const size_t bytes = (size_t)(p->rows * p->outs) * sizeof *tiled;
    memset(tiled, 0xFF, sizeof tiled);
    multiply_in_tiles(k, p, tiled);
    if (product_error(p, tiled) > 1) return "product_tiles exceeds its bound";
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        memset(placed, 0xFF, sizeof placed);
        multiply_in_place(k, p, cuts[i][0], cuts[i][1], placed);
        if (memcmp(tiled, placed, bytes) != 0) return "project and product_tiles add in different orders";
        if (p->dtype != GYRE_DTYPE_F32) continue;
        memset(placed, 0xFF, sizeof placed);
        multiply_cached(k, p, cuts[i][0], cuts[i][1], placed);
        if (memcmp(tiled, placed, bytes) != 0) return "project_cached and product_tiles add in different orders";
    }
    return NULL;
}

static inline const char *check_row_products(const gyre_kernels *k) {
    static const int64_t inputs[] = {1, 15, 16, 33, 70, 768, 769, PRODUCT_MOST_IN};
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static float x[PRODUCT_MOST_ROWS * PRODUCT_MOST_IN], w[PRODUCT_MOST_OUTS * PRODUCT_MOST_IN];
    test_random random = {77};
    for (int i = 0; i < 2; i++) {
        const gyre_product_tiling *tiling = i ? &k->tiles_bf16 : &k->tiles_f32;
        if (tiling->rows > PRODUCT_MOST_TILE || tiling->outs > PRODUCT_MOST_TILE) return "larger tiles than the test's";
    }
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            const int64_t in = inputs[i], most_rows = in > 100 ? 9 : PRODUCT_MOST_ROWS;
            const row_product p = {dtypes[t], 1 + (int64_t)i * 5 % most_rows, PRODUCT_MOST_OUTS, in, x, w};
            test_fill(&random, x, sizeof x / sizeof *x);
            for (int64_t j = 0; j < p.outs * in; j++)
                test_put(w, p.dtype, (size_t)j, test_uniform(&random));
            const char *wrong = check_row_product(k, &p);
            if (wrong) return wrong;
        }
    return NULL;
}

typedef void block_projection(const gyre_projection *);

/* Sums over blocks in place are those over their numbers, for rows and outputs in any groups.  out = NULL or what is
 * wrong. */
static inline const char *check_block_projection(const gyre_kernels *k, const quant_format *format,
                                                 block_projection *project,
                                                 void (*dequantize)(const void *, float *, int64_t), test_random *random) {
    enum { ROWS = 7, OUTS = 39, MOST_IN = 1024 };
    static unsigned char blocks[OUTS * MOST_IN / 32 * 36];
    static float x[ROWS * MOST_IN], w[OUTS * MOST_IN], in_place[ROWS * OUTS], of_floats[ROWS * OUTS];
    for (int64_t in = format->numbers; in <= MOST_IN; in *= 2) {
        const int64_t row_bytes = in / format->numbers * format->bytes;
        fill_quant_blocks(random, format, 1.0 / 64, OUTS * in / format->numbers, blocks);
        test_fill(random, x, ROWS * (size_t)in);
        dequantize(blocks, w, OUTS * in);
        k->project_f32(&(gyre_projection){ROWS, OUTS, in, x, in, w, in, of_floats, OUTS});
        for (int rows = 1; rows <= ROWS; rows++) {
            memset(in_place, 0xFF, sizeof in_place);
            project(&(gyre_projection){rows, OUTS, in, x, in, blocks, row_bytes, in_place, OUTS});
            if (memcmp(in_place, of_floats, (size_t)(rows * OUTS) * sizeof *in_place) != 0)
                return "a product with blocks: not the bits of project_f32";
        }
    }
    return NULL;
}

/* Every tier gives the numbers of the scalar one to the bit, and multiplies them as stored. */
static inline const char *check_quant_blocks(const gyre_kernels *k, const gyre_kernels *scalar) {
    enum { COUNT = 4, NUMBERS = COUNT * GYRE_QK_K };
#define GYRE_STORED_BLOCK(NAME, name, ...) {k->dequantize_##name, scalar->dequantize_##name, k->project_##name},
    const struct {
        void (*of_tier)(const void *, float *, int64_t), (*of_scalar)(const void *, float *, int64_t);
        block_projection *project;
    } kernels[] = {
#include "kernels/quants/stored_types.def"
    };
    static unsigned char blocks[COUNT * QUANT_MOST_BYTES];
    static float got[NUMBERS], want[NUMBERS];
    test_random random = {78};
    for (int type = 0; type < QUANT_FORMATS; type++) {
        for (int round = 0; round < 50; round++) {
            const int64_t n = COUNT * quant_formats[type].numbers;
            fill_quant_blocks(&random, &quant_formats[type], 1.0 / 64, COUNT, blocks);
            kernels[type].of_tier(blocks, got, n);
            kernels[type].of_scalar(blocks, want, n);
            if (memcmp(got, want, (size_t)n * sizeof *got) != 0) return "dequantize: not the bits of the scalar tier";
        }
        const char *wrong =
            check_block_projection(k, &quant_formats[type], kernels[type].project, kernels[type].of_tier, &random);
        if (wrong) return wrong;
    }
    return NULL;
}

#endif
