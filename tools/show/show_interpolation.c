/* show_interpolation.c: the bounds of Chen et al. 2023 (arXiv 2306.15595), section 2.3, and what they bound.
 *
 * A score at distance s is a(s) = Re sum h_j e^(i s theta_j), h_j from the pairs of a query and a key.  Between two
 * whole distances it is within d max|h| / (32 ln c) of the line between them (c: the base).  Past the trained distances
 * all that is known is 2 max|h| B(s), B(s) = sum over k of |A_k(s)|, A_k(s) = sum of the first k of e^(i s theta_j).
 *
 * Scores are computed by gyre_rotate with linear scaling by 2: its odd positions lie between whole ones. */
#include "tools/common/variants.h"
#include "tools/show/show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DISTANCES = 4096, SCORES = 64 };

typedef struct interpolation_result {
    double bound, least_b, ratio; /* of max|h|: d / (32 ln c); least B(s); 2 B(s) / bound at that s */
    int64_t least_at;
    double error, value; /* largest error between whole distances, and largest |a(s)|, both / max|h| */
} interpolation_result;

/* Finds the least B(s) over s = 1 .. distances. */
static gyre_status extrapolate(const show_options *o, const gyre_encoding *rope, int64_t distances, interpolation_result *r,
                               gyre_error *err) {
    const int64_t pairs = o->dim / 2;
    double *c = cli_alloc(o->dim, sizeof *c);
    const gyre_view cosine = gyre_dense(c, GYRE_DTYPE_F64, 1, 1, 1, pairs),
                    sine = gyre_dense(c + pairs, GYRE_DTYPE_F64, 1, 1, 1, pairs);
    gyre_status status = GYRE_OK;
    r->least_b = INFINITY;
    for (int64_t s = 1; s <= distances && !status; s++) {
        const gyre_positions at = {.base = 2 * s}; /* the scaling halves it */
        double real = 0, imaginary = 0, b = 0;
        status = gyre_cos_sin(rope, &at, &cosine, &sine, NULL, err);
        for (int64_t j = 0; j < pairs && !status; j++) {
            real += c[j], imaginary += c[pairs + j];
            b += hypot(real, imaginary);
        }
        if (b < r->least_b) r->least_b = b, r->least_at = s;
    }
    free(c);
    return status;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* out = max |h_j| of a query and a key. */
static double largest_h(const double *q, const double *k, int64_t dim) {
    double most = 0;
    for (int64_t c = 0; c < dim; c += 2)
        most = fmax(most, hypot(q[c], q[c + 1]) * hypot(k[c], k[c + 1]));
    return most;
}

/* One random query and key: a(0), a(1/2), a(1), ...  x: [2 distances + 1][dim]. */
static gyre_status score(const show_options *o, const gyre_encoding *rope, int64_t distances, uint64_t *random, double *x,
                         interpolation_result *r, gyre_error *err) {
    const int64_t rows = 2 * distances + 1, dim = o->dim;
    double *const k = x + rows * dim, *const a = k + dim;
    for (int64_t c = 0; c < dim; c++)
        x[c] = show_random(random), k[c] = show_random(random);
    for (int64_t i = 1; i < rows; i++)
        memcpy(x + i * dim, x, (size_t)dim * sizeof *x);
    const double h = largest_h(x, k, dim);
    const gyre_positions positions = {.base = 0};
    const gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 1, rows, 1, dim);
    const gyre_cview in = gyre_const(out);
    const gyre_status status = gyre_rotate(
        rope, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out), &o->exec,
        err);
    for (int64_t i = 0; i < rows && !status; i++)
        a[i] = dot(x + i * dim, k, dim);
    for (int64_t i = 1; i + 1 < rows && !status; i++) {
        r->value = fmax(r->value, fabs(a[i]) / h);
        if (i % 2) r->error = fmax(r->error, fabs(a[i] - (a[i - 1] + a[i + 1]) / 2) / h);
    }
    return status;
}

static void print(const show_options *o, int64_t distances, const interpolation_result *r, FILE *text) {
    fprintf(text, "Interpolation's bound is %.0f times smaller than extrapolation's, or more: d = %lld, base %g.\n\n",
            r->ratio, (long long)o->dim, o->base);
    fprintf(text, "  per max|h|                       bound      reached by %d random scores\n", SCORES);
    fprintf(text, "  interpolated, d / (32 ln c)      %-9.4f  %.4f   between s and s + 1\n", r->bound, r->error);
    fprintf(text, "  extrapolated, 2 B(s), least      %-9.2f  %.2f     |a(s)|\n", 2 * r->least_b, r->value);
    fprintf(text,
            "\nB(s) is least at s = %lld of 1 .. %lld, B(s) / d = %.3f; the paper takes B(s) > d, hence 2 x 32 ln c = %.0f. "
            "The bounds are %.0f times apart; the error between whole distances and the scores themselves %.0f times.\n",
            (long long)r->least_at, (long long)distances, r->least_b / (double)o->dim, 64 * log(o->base), r->ratio,
            r->value / r->error);
}

gyre_status show_interpolation(const show_options *o, FILE *text, json_t **out, gyre_error *err) {
    const int64_t distances = o->positions ? o->positions : DISTANCES, rows = 2 * distances + 1;
    double *x = cli_alloc((rows + 1) * o->dim + rows, sizeof *x);
    gyre_encoding *rope = NULL;
    interpolation_result r = {.bound = (double)o->dim / (32 * log(o->base))};
    uint64_t random = 1;
    gyre_status status = shift_create(&rope, o->dim, o->base, 0, 2, err);
    if (!status) status = extrapolate(o, rope, distances, &r, err);
    for (int i = 0; i < SCORES && !status; i++)
        status = score(o, rope, distances, &random, x, &r, err);
    r.ratio = 2 * r.least_b / r.bound;
    if (!status && text)
        print(o, distances, &r, text);
    else if (!status)
        *out = JSON_OBJECT("question", JSON("interpolation-error"), "dim", JSON(o->dim), "base", JSON(o->base), "distances",
                           JSON(distances), "interpolation_bound", JSON(r.bound), "least_b", JSON(r.least_b), "least_b_at",
                           JSON(r.least_at), "bounds_ratio", JSON(r.ratio), "interpolation_error", JSON(r.error),
                           "largest_score", JSON(r.value));
    gyre_encoding_free(rope);
    free(x);
    return status;
}
