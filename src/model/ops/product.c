#include "model/ops/product.h"

#include "model/ops/cache_size.h"
#include "model/ops/float_buffer.h"

#include <string.h>

/* TILES: a multiple of the rows of every tier's tiles, as GYRE_PRODUCT_OUTS is of their outputs. */
enum { MIN_ROWS = 48, MAX_ROWS = 192, TILES = 48, MAX_TILE_OUTS = 6 };

typedef struct product_memory {
    float *x;           /* [rows][channels], packed */
    float *w;           /* the group of tiles that is packed */
    float *dequantized; /* [MAX_TILE_OUTS][channels] */
    float *partial;     /* [rows][GYRE_PRODUCT_OUTS], in tiles; only with several blocks of channels */
} product_memory;

const gyre_product_tiling *gyre_product_tiling_of(const gyre_kernels *kernels, gyre_stored_type type) {
    return type == GYRE_STORED_BF16 ? &kernels->tiles_bf16 : &kernels->tiles_f32;
}

/* out = rows of x packed at once.  With a block of channels they fill a little more than half of the second-level cache, so
 * that weights are packed as seldom as possible. */
static int64_t max_block_rows(void) {
    const int64_t rows = gyre_second_level_cache() / 16 * 9 / (GYRE_PRODUCT_BLOCK * (int64_t)sizeof(float)) / TILES * TILES;
    return rows < MIN_ROWS ? MIN_ROWS : gyre_min_i64(rows, MAX_ROWS);
}

/* *m = offsets into the scratch; out = its floats, which are enough on every tier: with weights of bf16, AMX packs twelve
 * tiles of 32 rows of w, in blocks of 128 channels, and x in 6 bytes. */
static int64_t layout(gyre_stored_type type, int64_t rows, int64_t in, float *scratch, product_memory *m) {
    const int64_t block_rows = gyre_min_i64(gyre_round_up_i64(rows, TILES), max_block_rows());
    const int64_t channels = gyre_min_i64(gyre_round_up_floats(in), GYRE_PRODUCT_BLOCK);
    int64_t x = block_rows * channels, w = MAX_TILE_OUTS * channels, blocks = GYRE_PRODUCT_BLOCK;
    if (type == GYRE_STORED_BF16) {
        const int64_t amx_channels = gyre_min_i64(gyre_round_up_i64(in, GYRE_TILE_CHANNELS), GYRE_TILE_BLOCK);
        x = gyre_max_i64(x, block_rows * amx_channels * 3 / 2);
        w = gyre_max_i64(w, GYRE_PRODUCT_OUTS * amx_channels / 2);
        blocks = GYRE_TILE_BLOCK;
    }
    const int64_t dequantized = MAX_TILE_OUTS * channels;
    const int64_t partial = in > blocks ? gyre_round_up_floats(block_rows * GYRE_PRODUCT_OUTS) : 0;
    if (m) *m = (product_memory){scratch, scratch + x, scratch + x + w, scratch + x + w + dequantized};
    return gyre_round_up_floats(x + w + dequantized + partial);
}

int64_t gyre_product_scratch(gyre_stored_type type, int64_t rows, int64_t in) {
    return layout(type, rows, in, NULL, NULL);
}

/* A block of a product: rows row .. row + rows - 1 and channels channel .. channel + channels - 1. */
typedef struct product_block {
    int64_t row, rows, channel, channels;
} product_block;

static void pack_x(const gyre_gemm *p, const gyre_kernels *kernels, const product_block *b, void *to) {
    const gyre_product_tiling *t = gyre_product_tiling_of(kernels, p->w->type);
    const int64_t row_bytes = gyre_round_up_i64(b->channels, t->channels) * t->x_bytes;
    for (int64_t r = 0; r < b->rows; r += t->rows) {
        const gyre_pack job = {gyre_min_i64(t->rows, b->rows - r),
                               t->rows,
                               b->channels,
                               p->x + (b->row + r) * p->x_row_stride + b->channel,
                               p->x_row_stride,
                               (unsigned char *)to + r * row_bytes};
        (p->w->type == GYRE_STORED_BF16 ? kernels->pack_rows_bf16 : kernels->pack_f32)(&job);
    }
}

/* out = row `row` of the matrix, from the block's first channel on. */
static const unsigned char *w_row(const gyre_matrix *w, const product_block *b, int64_t row) {
    const int64_t block = gyre_stored_block_size(w->type);
    return (const unsigned char *)w->data + row * w->row_bytes + b->channel / block * gyre_stored_row_bytes(w->type, block);
}

/* to = a tile of rows first .. first + n - 1 of the matrix. */
static void pack_w_tile(const gyre_gemm *p, const gyre_kernels *kernels, const product_block *b, int64_t first, int64_t n,
                        const product_memory *m, void *to) {
    const gyre_matrix *w = p->w;
    const unsigned char *rows = w_row(w, b, first);
    const int64_t element = w->type == GYRE_STORED_F32 ? 4 : 2;
    gyre_pack job = {n, gyre_product_tiling_of(kernels, w->type)->outs, b->channels, rows, w->row_bytes / element, to};
    if (w->type == GYRE_STORED_F32) {
        kernels->pack_f32(&job);
    } else if (w->type == GYRE_STORED_F16) {
        kernels->pack_f16(&job);
    } else if (w->type == GYRE_STORED_BF16) {
        kernels->pack_bf16(&job);
    } else {
        for (int64_t i = 0; i < n; i++)
            gyre_stored_dequantize(kernels, w->type, rows + i * w->row_bytes, m->dequantized + i * b->channels, b->channels);
        job.in = m->dequantized;
        job.in_row_stride = b->channels;
        kernels->pack_f32(&job);
    }
}

/* m->w = a group of tiles of n rows from `first` on. */
static void pack_w(const gyre_gemm *p, const gyre_kernels *kernels, const product_block *b, int64_t first, int64_t n,
                   const product_memory *m) {
    const gyre_product_tiling *t = gyre_product_tiling_of(kernels, p->w->type);
    const int64_t row_bytes = gyre_round_up_i64(b->channels, t->channels) * t->w_bytes;
    for (int64_t o = 0; o < n; o += t->outs)
        pack_w_tile(p, kernels, b, first + o, gyre_min_i64(t->outs, n - o), m, (unsigned char *)m->w + o * row_bytes);
}

/* Rows of a block and outputs as they lie in memory. */
static gyre_projection in_place_of(const gyre_gemm *p, const product_block *b, int64_t first, int64_t n) {
    return (gyre_projection){.rows = b->rows,
                             .outs = n,
                             .in = p->w->in,
                             .x = p->x + b->row * p->x_row_stride,
                             .x_row_stride = p->x_row_stride,
                             .w = (const unsigned char *)p->w->data + first * p->w->row_bytes,
                             .w_row_stride = p->w->row_bytes / 2};
}

static void multiply_block(const gyre_gemm *p, const gyre_kernels *kernels, const product_block *b, int64_t first, int64_t n,
                           const product_memory *m) {
    const gyre_product_tiling *t = gyre_product_tiling_of(kernels, p->w->type);
    const int64_t tile_rows = gyre_round_up_i64(b->rows, t->rows), group = t->tiles * t->outs;
    gyre_product_tiles tiles = {.rows = b->rows,
                                .n = b->channels,
                                .x = m->x,
                                .w = m->w,
                                .first = b->channel == 0,
                                .last = b->channel + b->channels == p->w->in,
                                .accumulate = p->accumulate,
                                .y_row_stride = p->y_row_stride,
                                .next_bytes = gyre_stored_row_bytes(p->w->type, b->channels),
                                .next_row_stride = p->w->row_bytes};
    pack_x(p, kernels, b, m->x);
    for (int64_t o = 0; o < n; o += group) {
        tiles.outs = gyre_min_i64(group, n - o);
        pack_w(p, kernels, b, first + o, tiles.outs, m);
        const gyre_projection in_place = in_place_of(p, b, first + o, tiles.outs);
        tiles.in_place = &in_place;
        tiles.partial = tiles.first && tiles.last ? NULL : m->partial + tile_rows * o;
        tiles.bias = p->bias ? p->bias + first + o : NULL;
        tiles.y = p->y + b->row * p->y_row_stride + first + o;
        const int64_t next = o + tiles.outs;
        tiles.next = next < n ? w_row(p->w, b, first + next) : NULL;
        tiles.next_rows = gyre_min_i64(group, n - next);
        (p->w->type == GYRE_STORED_BF16 ? kernels->product_tiles_bf16 : kernels->product_tiles_f32)(&tiles);
    }
}

void gyre_product_run(const gyre_gemm *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
    product_memory m;
    const int64_t rows = max_block_rows(), channels = gyre_product_tiling_of(kernels, p->w->type)->block;
    layout(p->w->type, p->rows, p->w->in, scratch, &m);
    for (int64_t row = 0; row < p->rows; row += rows)
        for (int64_t channel = 0; channel < p->w->in; channel += channels) {
            const product_block block = {row, gyre_min_i64(rows, p->rows - row), channel,
                                         gyre_min_i64(channels, p->w->in - channel)};
            multiply_block(p, kernels, &block, first, n, &m);
        }
}
