/* tile_rows.h: rows of queries and tiles of keys as floats.
 *
 * Tiles of keys are counted from the first key of a sequence.  A key that a row does not see has score -infinity, hence
 * weight 0, and adding that changes nothing.  So the bits of a row do not depend on the other rows of a call, nor on later
 * keys. */
#ifndef GYRE_CALL_TILE_ROWS_H
#define GYRE_CALL_TILE_ROWS_H
#include "call/call_sequences.h"
#include "call/key_source.h"
#include "kernels/kernels.h"

/* 64 queries share the cost of reading a tile of keys, and of products with table rows, which need little more for 64
 * queries than for 32.  The softmax gains nothing from more than 128 keys. */
enum { QUERY_TILE = 64, KEY_TILE = 128 };

/* out = n rounded up to a multiple of 16, of which kernels want rows. */
static inline int64_t gyre_pad16(int64_t n) {
    return (n + 15) / 16 * 16;
}
static inline int64_t gyre_tiles_of(int64_t n, int64_t tile) {
    return (n + tile - 1) / tile;
}

/* -- rows in and out -- */
/* to[n] = n elements `step` apart, converted to float.  Q8: the whole numbers, without their scale.  Blocks: step is 1, n
 * a multiple of 32. */
void gyre_row_read(const gyre_kernels *kernels, const void *from, gyre_dtype dtype, int64_t step, int64_t n, float *to);
/* to[pad] = the row of `view` that begins at `from`, and zeros. */
void gyre_tile_read_row(const gyre_kernels *kernels, const void *from, const gyre_cview *view, float *to, int64_t pad);
/* row[from .. to - 1] = 0. */
static inline void gyre_row_clear_padding(float *row, int64_t from, int64_t to) {
    for (int64_t c = from; c < to; c++)
        row[c] = 0;
}
/* A tile of rows of several queries and heads. */
typedef struct gyre_query_rows {
    int64_t batch, query, head; /* of row 0 */
    int64_t first, count;       /* the tile has rows first .. first + count - 1 */
    int64_t heads, queries;     /* rows are so many heads of a query, then of the next; heads 0: so many queries of a head */
} gyre_query_rows;
/* to[count][pad] = those rows of a view, and zeros. */
void gyre_query_rows_read(const gyre_kernels *kernels, const gyre_query_rows *rows, const gyre_cview *view, float *to,
                          int64_t pad);
/* Those rows of a view = from[count][pad], or a number each = from[count]; nothing without memory. */
void gyre_query_rows_write(const gyre_query_rows *rows, const float *from, int64_t pad, const gyre_view *view);
void gyre_query_rows_write_f64(const gyre_query_rows *rows, const double *from, const gyre_view *view);
/* x[i] = 0 where it is infinite or NaN. */
void gyre_row_zero_nonfinite(float *x, int64_t n);
/* out = 1 if all of x[n] are finite. */
int gyre_tile_finite(const gyre_kernels *kernels, const float *x, int64_t n);

/* -- keys and values -- */
typedef enum gyre_key_side { GYRE_KEYS, GYRE_VALUES } gyre_key_side;
/* Which rows of a source are read, and as what: `channels` floats, and zeros up to `pad`. */
typedef struct gyre_key_reader {
    const gyre_kernels *kernels;
    const gyre_key_source *source;
    gyre_key_side side;
    int64_t channels, pad;
    int scales_apart; /* Q8: 1 = the whole numbers, without the scales of their rows */
} gyre_key_reader;
/* Prefetches a row that is read or written ROWS_AHEAD rows later: rows of a view are kilobytes apart, a step that hardware
 * does not follow.  The row need not exist. */
enum { ROWS_AHEAD = 4 };
static inline void gyre_row_prefetch(uintptr_t row, int64_t bytes) {
#ifdef __GNUC__
    for (int64_t b = 0; b < bytes; b += 64)
        __builtin_prefetch((const char *)(row + (uintptr_t)b)); /* NOLINT(performance-no-int-to-ptr) */
#else
    (void)row, (void)bytes;
#endif
}
/* to[count][pad] = the rows of a run. */
void gyre_key_run_read(const gyre_key_reader *reader, const gyre_key_run *run, float *to);
/* to[KEY_TILE][pad] = the rows of tile `tile` of a sequence, and zeros past the last key. */
void gyre_tile_read_keys(const gyre_key_reader *reader, const gyre_call_sequence *sequence, int64_t head, int64_t tile,
                         float *to);
/* columns[c][j] = rows[j][c] of a tile of keys. */
void gyre_tile_transpose(const gyre_kernels *kernels, const float *rows, int64_t pad, float *columns);
/* to[count][KEY_TILE] = products of rows [count][pad] with columns [channels][KEY_TILE]. */
void gyre_tile_products(const gyre_kernels *kernels, const float *rows, int64_t count, int64_t pad, int64_t channels,
                        const float *columns, float *to);

/* -- views -- */
/* view = zeros; nothing without memory. */
void gyre_view_clear(const gyre_view *view);
/* The element of a view, F32 or F64, += x. */
void gyre_view_add(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c, double x);

#endif
