/* tile_rows.h: rows of queries and tiles of keys as floats, and rows of an online softmax.
 *
 * Tiles of keys are counted from the first key of a sequence and always have KEY_TILE rows, zeros past the last key.  A key
 * that a row does not see has score -infinity, hence weight 0, and adding that changes nothing.  So the bits of a row do not
 * depend on the other rows of a call, nor on later keys. */
#ifndef GYRE_TILING_TILE_ROWS_H
#define GYRE_TILING_TILE_ROWS_H
#include "attention/plan/buffers.h"
#include "attention/plan/key_source.h"
#include "kernels/kernels.h"
#include "tiling/call_sequences.h"

/* out = n rounded up to a multiple of 16, of which kernels want rows. */
static inline int64_t gyre_pad16(int64_t n) {
    return (n + 15) / 16 * 16;
}
static inline int64_t gyre_tiles_of(int64_t n, int64_t tile) {
    return (n + tile - 1) / tile;
}

/* -- rows in and out -- */
/* to[pad] = the row of `view` that begins at `from`, and zeros. */
void gyre_tile_read_row(const gyre_kernels *kernels, const void *from, const gyre_cview *view, float *to, int64_t pad);
/* Where keys or values are read. */
typedef struct gyre_tile_input {
    const gyre_cview *view;        /* with a source: its shape alone */
    const gyre_key_source *source; /* the pages of a cache, with keys as they are multiplied; NULL = view */
    int values;                    /* of the source: 1 = values, 0 = keys */
} gyre_tile_input;
/* to[KEY_TILE][pad] = tile `tile` of the keys of a sequence. */
void gyre_tile_read_keys(const gyre_kernels *kernels, const gyre_tile_input *input, const gyre_call_sequence *sequence,
                         int64_t head, int64_t tile, float *to, int64_t pad);
/* columns[c][j] = rows[j][c] of a tile of keys. */
void gyre_tile_transpose(const gyre_kernels *kernels, const float *rows, int64_t pad, float *columns);
/* out = 1 if all of x[n] are finite. */
int gyre_tile_finite(const gyre_kernels *kernels, const float *x, int64_t n);
/* view = zeros. */
void gyre_tile_clear_view(const gyre_view *view);

/* -- the softmax of rows -- */
typedef struct gyre_tile_softmax {
    const gyre_kernels *kernels;
    int64_t pad;     /* channels of values, padded */
    float *out;      /* [rows][pad]: weighted sums of values */
    float *row_max;  /* [rows]: the largest score so far */
    double *row_sum; /* [rows] */
} gyre_tile_softmax;
/* Rows that have seen no key. */
void gyre_tile_softmax_begin(const gyre_tile_softmax *softmax, int64_t rows);
/* scores[KEY_TILE] of row r become weights relative to its largest score so far; its sums follow. */
void gyre_tile_softmax_update(const gyre_tile_softmax *softmax, int64_t r, float *scores);
/* Adds infinite and NaN values of a tile to rows first .. first + count - 1 that give them weight, and puts zeros in their
 * place: then the product with the others rounds alike for all rows.  weights: [count][KEY_TILE].  out = 1 if there were
 * such values. */
int gyre_tile_softmax_take_nonfinite(const gyre_tile_softmax *softmax, int64_t first, int64_t count, const float *weights,
                                     float *values);
/* Row r after its last key, into out and lse (data NULL = not wanted) of a query and head. */
typedef struct gyre_tile_place {
    int64_t batch, query, head;
} gyre_tile_place;
void gyre_tile_softmax_write(const gyre_tile_softmax *softmax, int64_t r, const gyre_tile_place *place, const gyre_view *out,
                             const gyre_view *lse);

/* -- its gradient -- */
/* p: scores -> weights; dp: dweights -> dscores, of KEY_TILE keys of a row with log-sum-exp lse and delta = dout . out. */
void gyre_tile_softmax_backward(const gyre_kernels *kernels, float *p, float *dp, float lse, float delta);

#endif
