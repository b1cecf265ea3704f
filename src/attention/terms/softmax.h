/* softmax.h: the online softmax of rows of scores, and sums weighted by it (Milakov and Gimelshein 2018, arXiv 1805.02867).
 *
 * A row carries its largest score so far, the sum of exp(score - largest) and the weighted sum of values.  When a tile
 * brings a larger score, both sums are multiplied by exp(old - new). */
#ifndef GYRE_ATTENTION_SOFTMAX_H
#define GYRE_ATTENTION_SOFTMAX_H
#include "attention/plan/buffers.h"
#include <math.h>

typedef struct gyre_online_softmax {
    int64_t rows, columns;
    float *scores;   /* [rows][KEY_TILE] */
    float *row_max;  /* [rows]: the largest score so far */
    double *row_sum; /* [rows] */
    float *out;      /* [rows][value_pad] */
} gyre_online_softmax;
/* scores -> weights relative to the new row_max; row_sum and out follow. */
void gyre_online_softmax_update(const gyre_attention_plan *plan, const gyre_online_softmax *softmax);

/* row_max[i] = max(row_max[i], scores of row i). */
void gyre_row_max_update(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* scores of row i -> exp(score - row_max[i]); out = their sum. */
float gyre_row_exp(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair, int64_t i);
/* row[value_pad] *= factor.  A factor of 0 clears, whatever stands there. */
void gyre_row_rescale(const gyre_attention_plan *plan, float *row, float factor);

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
/* out: with the sink logit of the head, if it has one. */
gyre_row_normalizer gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state);

/* out = sink_logits of the call for a query head; -infinity if there are none.  It has no key and is not relative to
 * a row's bias: subtract the bias before comparing it with scores.  The log-sum-exp of a row includes it, so weights formed
 * from that need nothing more. */
float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head);

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

/* The product with weights in `a`.  A weight of exactly 0 adds nothing, even for an infinite or NaN b.  finite: b has
 * neither, and the kernel gives the same result. */
void gyre_weighted_product(const gyre_kernels *kernels, const gyre_matmul *product, int finite);
static inline void gyre_weighted_sum(const gyre_attention_plan *plan, const gyre_matmul *product, int finite) {
    gyre_weighted_product(plan->kernels, product, finite);
}

#endif
