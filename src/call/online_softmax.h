/* online_softmax.h: the online softmax of rows of scores, and sums weighted by it (Milakov and Gimelshein 2018, arXiv
 * 1805.02867).
 *
 * A row carries its largest score so far, the sum of exp(score - largest) and the weighted sum of values.  When a tile
 * brings a larger score, both sums are multiplied by exp(old - new). */
#ifndef GYRE_CALL_ONLINE_SOFTMAX_H
#define GYRE_CALL_ONLINE_SOFTMAX_H
#include "call/tile_rows.h"
#include <math.h>

typedef struct gyre_online_softmax {
    const gyre_kernels *kernels;
    int64_t pad;     /* channels of values, padded */
    float *out;      /* [rows][pad]: weighted sums of values */
    float *row_max;  /* [rows]: the largest score so far */
    double *row_sum; /* [rows] */
} gyre_online_softmax;
/* Rows that have seen no key. */
void gyre_softmax_begin(const gyre_online_softmax *softmax, int64_t rows);
/* scores[count][KEY_TILE] of rows first .. first + count - 1 become weights relative to the new row_max; row_sum and out
 * follow. */
void gyre_softmax_update(const gyre_online_softmax *softmax, int64_t first, int64_t count, int64_t columns, float *scores);
/* out += weights[count][KEY_TILE] values[KEY_TILE][pad] of those rows.  Infinite and NaN values are added to rows that give
 * them weight, and are zeros from then on: so the product with the others rounds alike for all rows.  out = 1 if there were
 * such values. */
int gyre_softmax_add_values(const gyre_online_softmax *softmax, int64_t first, int64_t count, const float *weights,
                            float *values);
/* Rows after their last key, into out and lse (data NULL = not wanted).  Overwrites the rows and row_sum. */
void gyre_softmax_write(const gyre_online_softmax *softmax, const gyre_query_rows *rows, const gyre_view *out,
                        const gyre_view *lse);

/* row[n] *= factor.  A factor of 0 clears the row, even infinities and NaNs. */
void gyre_row_rescale(const gyre_kernels *kernels, float *row, int64_t n, float factor);
/* out = what scores are relative to in a row with that largest score.  One that has seen no key: any shift keeps its weights
 * at 0. */
static inline float gyre_softmax_shift(float row_max) {
    return row_max == -INFINITY ? 0 : row_max;
}
/* row[c] += weight * value[c] for the infinite and NaN value[c].  A weight of 0 adds nothing. */
void gyre_row_add_nonfinite(float weight, const float *value, int64_t n, float *row);

/* -- a row after its last key -- */
typedef struct gyre_row_state {
    float row_max;        /* -infinity: no key was visible */
    double row_sum, bias; /* of exp(score - row_max); what the scores are relative to */
    float *out;           /* [value_pad]: the weighted sum of values */
} gyre_row_state;
typedef struct gyre_row_normalizer {
    float out_scale; /* factor of out */
    double lse;      /* log-sum-exp of the row */
} gyre_row_normalizer;
/* out: with a score `sink` that has no key; -infinity = none. */
gyre_row_normalizer gyre_row_normalize(const gyre_row_state *state, double sink);

/* out = x, with one zero and one NaN.  Which keys a tile has beside the visible ones changes no bit of a sum but the sign of
 * a zero, and the bits of a NaN. */
static inline float gyre_canonical(float x) {
    const float positive = x + 0.0F; /* of a zero; other numbers stay */
    return isnan(positive) ? NAN : positive;
}
static inline double gyre_canonical_f64(double x) {
    const double positive = x + 0.0;
    return isnan(positive) ? (double)NAN : positive;
}

/* -- the gradient -- */
/* delta[r] = dout . out of rows [count][pad]. */
void gyre_softmax_deltas(const gyre_kernels *kernels, const float *dout, const float *out, int64_t count, int64_t pad,
                         float *delta);
/* What the gradient of a tile of rows begins with. */
typedef struct gyre_gradient_rows {
    float *dout, *out;  /* [count][value_pad]: the rows */
    float *lse, *delta; /* [count]: as gyre_softmax_weights takes it; dout . out */
    float *dq;          /* [count][head_pad]: zeros */
    int64_t value_pad, head_pad;
} gyre_gradient_rows;
void gyre_gradient_rows_begin(const gyre_kernels *kernels, const gyre_query_rows *rows, const gyre_cview *dout,
                              const gyre_view *out, const gyre_view *lse, const gyre_gradient_rows *to);
/* scores[n] of a row with that log-sum-exp -> weights.  Where that is a NaN, the weights of visible keys are NaN and all
 * others are 0. */
void gyre_softmax_weights(const gyre_kernels *kernels, float *scores, int64_t n, float lse);
/* p: scores -> weights; dp: dweights -> dscores, of KEY_TILE keys of a row. */
void gyre_softmax_backward(const gyre_kernels *kernels, float *p, float *dp, float lse, float delta);

/* -- products with weights -- */
/* The product with weights in `a`.  A weight of exactly 0 adds nothing, even for an infinite or NaN b.  finite: b has
 * neither, and the kernel gives the same result. */
void gyre_weighted_product(const gyre_kernels *kernels, const gyre_matmul *product, int finite);
/* Weights [count][KEY_TILE], and the rows that they belong to, [count][pad]. */
typedef struct gyre_tile_weights {
    const float *weights, *rows;
    int64_t count, pad;
    int finite; /* of rows */
} gyre_tile_weights;
/* to[key] += sum over rows of weights[row][key] rows[row]. */
void gyre_weighted_to_keys(const gyre_kernels *kernels, const gyre_tile_weights *w, float *to);
/* to[row] += sum over keys of weights[row][key] keys[key]. */
void gyre_weighted_to_queries(const gyre_kernels *kernels, const gyre_tile_weights *w, const float *keys, float *to);

#endif
