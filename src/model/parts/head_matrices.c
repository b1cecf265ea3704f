/* head_matrices.c: HARoPE: a trained matrix of each key head in front of the rotation, and its inverse transposed for keys.
 *
 *     M = U S V^T,  M^-T = U S^-1 V^T,   U = exp(skew A),  V = exp(skew B),  S = diag(softplus c + 1e-6),
 *     skew A = (A - A^T) / 2;  A, B [dim][dim] and c [dim] are trained */
#include "model/parts/head_parts.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_SCALE = 1e-6; /* the released code's */

/* -- matrices of doubles [n][n] -- */

/* out += a b, not in place. */
static void add_product(int64_t n, const double *restrict a, const double *restrict b, double *restrict out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            const double x = a[i * n + k];
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += x * b[k * n + j];
        }
}

/* out = a b. */
static void multiply(int64_t n, const double *a, const double *b, double *out) {
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    add_product(n, a, b, out);
}

static void transpose(int64_t n, const double *a, double *out) {
    for (int64_t i = 0; i < n * n; i++)
        out[i % n * n + i / n] = a[i];
}

/* A matrix and the change of it with another one, [2][n][n]: a number x + dx e with e e = 0, so that what is computed of x
 * has its derivative beside it. */
static void multiply_dual(int64_t n, const double *a, const double *b, double *out) {
    multiply(n, a, b, out);
    multiply(n, a, b + n * n, out + n * n);
    add_product(n, a + n * n, b, out + n * n);
}

/* out = the polynomial of the terms first .. first + 3 of exp, without their factor x^first; x[0 .. 2] are x, x^2, x^3. */
static void four_terms(int64_t n, int parts, const double *const x[3], int first, double *out) {
    double factor[4] = {1};
    for (int i = 2; i <= first; i++)
        factor[0] /= i;
    for (int i = 1; i < 4; i++)
        factor[i] = factor[i - 1] / (first + i);
    for (int64_t i = 0; i < parts * n * n; i++) {
        const double one = i < n * n && i % (n + 1) == 0;
        out[i] = factor[0] * one + factor[1] * x[0][i] + factor[2] * x[1][i] + factor[3] * x[2][i];
    }
}

/* x = exp x, [parts][n][n]: 1 = a matrix, 2 = a dual one.  small: a bound on the norm of the matrix; if it is not finite,
 * neither is the result.
 * work [5][parts][n][n].  16 terms, four at a time (Paterson and Stockmeyer): 0.5^16 / 16! is 7e-19. */
static void exponential(int64_t n, int parts, double *x, double small, double *work) {
    void (*const product)(int64_t, const double *, const double *, double *) = parts == 1 ? multiply : multiply_dual;
    const int64_t count = parts * n * n;
    double *square = work, *cube = square + count, *fourth = cube + count, *sum = fourth + count, *next = sum + count;
    const double *const powers[3] = {x, square, cube};
    int squarings = 0;
    if (small > 0.5 && isfinite(small)) {
        const double fraction = frexp(small, &squarings);
        squarings += fraction > 0.5;
    }
    for (int64_t i = 0; i < count; i++)
        x[i] = ldexp(x[i], -squarings);
    product(n, x, x, square);
    product(n, square, x, cube);
    product(n, square, square, fourth);
    four_terms(n, parts, powers, 12, sum);
    for (int first = 8; first >= 0; first -= 4) {
        product(n, fourth, sum, next);
        four_terms(n, parts, powers, first, sum);
        for (int64_t i = 0; i < count; i++)
            sum[i] += next[i];
    }
    for (; squarings > 0; squarings--) {
        product(n, sum, sum, next);
        memcpy(sum, next, (size_t)count * sizeof *sum);
    }
    memcpy(x, sum, (size_t)count * sizeof *x);
}

/* out = skew a.  Returns a bound on its norm: its largest sum of a row. */
static double skew(int64_t n, const float *a, double *out) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double row = 0;
        for (int64_t j = 0; j < n; j++)
            row += fabs(out[i * n + j] = ((double)a[i * n + j] - (double)a[j * n + i]) / 2);
        largest = row > largest ? row : largest;
    }
    return largest;
}

/* gradient += that of a loss to a, given dout, that to exp(skew a): the derivative of exp at -skew a, its transpose, in
 * the direction dout.  work [12][n][n]. */
static void exponential_gradient(int64_t n, const float *a, const double *dout, double *work, float *gradient) {
    const double small = skew(n, a, work), *derivative = work + n * n;
    for (int64_t i = 0; i < n * n; i++) {
        work[i] = -work[i];
        work[n * n + i] = dout[i];
    }
    exponential(n, 2, work, small, work + 2 * n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            gradient[i * n + j] += (float)((derivative[i * n + j] - derivative[j * n + i]) / 2);
}

/* -- the matrices of a head -- */

typedef struct factors {
    double *u, *v, *s; /* [dim][dim], [dim][dim], [dim] */
    double *work;      /* [12][dim][dim] */
    double *memory;    /* holds the above */
    int64_t dim;
} factors;

static gyre_status open_factors(factors *f, int64_t dim, gyre_error *err) {
    const int64_t square = dim * dim;
    *f = (factors){.memory = calloc((size_t)(14 * square + dim), sizeof(double)), .dim = dim};
    if (!f->memory) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for matrices of %lld channels", (long long)dim);
    f->u = f->memory;
    f->v = f->u + square;
    f->work = f->v + square;
    f->s = f->work + 12 * square;
    return GYRE_OK;
}

static const float *left_of(const gyre_trained_heads *t, int64_t dim, int64_t h) {
    return t->data + h * dim * dim;
}
static const float *right_of(const gyre_trained_heads *t, int64_t dim, int64_t h) {
    return t->data + (t->kv_heads + h) * dim * dim;
}
static const float *scales_of(const gyre_trained_heads *t, int64_t dim, int64_t h) {
    return t->data + 2 * t->kv_heads * dim * dim + h * dim;
}

static void factorize(const gyre_trained_heads *t, int64_t h, factors *f) {
    const int64_t n = f->dim;
    const double left = skew(n, left_of(t, n, h), f->u), right = skew(n, right_of(t, n, h), f->v);
    exponential(n, 1, f->u, left, f->work);
    exponential(n, 1, f->v, right, f->work);
    for (int64_t i = 0; i < n; i++) {
        const double c = (double)scales_of(t, n, h)[i];
        f->s[i] = (c > 0 ? c + log1p(exp(-c)) : log1p(exp(c))) + LEAST_SCALE;
    }
}

/* out = U diag(s) V^T, or of 1 / s. */
static void compose(const factors *f, int inverse, double *out) {
    const int64_t n = f->dim;
    double *scaled = f->work, *v = f->work + n * n;
    for (int64_t i = 0; i < n * n; i++)
        scaled[i] = inverse ? f->u[i] / f->s[i % n] : f->u[i] * f->s[i % n];
    transpose(n, f->v, v);
    multiply(n, scaled, v, out);
}

/* [kv_heads][2][dim][dim]: of queries and of keys. */
static int64_t prepared_floats(const gyre_trained_heads *t) {
    const int64_t dim = 2 * t->pairs;
    return 2 * t->kv_heads * dim * dim;
}

/* out [2][dim][dim] = those of a head. */
static void write_matrices(const factors *f, int transposed, float *out) {
    const int64_t n = f->dim;
    double *matrix = f->work + 2 * n * n;
    for (int i = 0; i < 2; i++, out += n * n) {
        compose(f, i, matrix);
        for (int64_t j = 0; j < n * n; j++)
            out[transposed ? j % n * n + j / n : j] = (float)matrix[j];
    }
}

/* Transposed, as map_row takes them. */
static gyre_status prepare(const gyre_trained_heads *t, float *out, gyre_error *err) {
    const int64_t n = 2 * t->pairs;
    factors f;
    const gyre_status status = open_factors(&f, n, err);
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        factorize(t, h, &f);
        write_matrices(&f, 1, out + 2 * h * n * n);
    }
    free(f.memory);
    return status;
}

/* -- heads -- */

enum { MOST_CHANNELS = 256 }; /* of a head */

/* out[i] = sum over j of in[j] matrix[j][i].  out may be in. */
static void map_row(int64_t n, const float *matrix, const float *in, float *out) {
    float sum[MOST_CHANNELS] = {0};
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += in[j] * matrix[j * n + i];
    memcpy(out, sum, (size_t)n * sizeof *out);
}

/* to from `from`, row by row, by the matrix of the row's key head.  keys: of keys, not of queries. */
static void map_heads(const gyre_trained_heads *t, const float *prepared, int keys, const gyre_view *from,
                      const gyre_view *to) {
    const int64_t n = from->shape[3], group = from->shape[2] / t->kv_heads;
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t token = 0; token < from->shape[1]; token++)
            for (int64_t h = 0; h < from->shape[2]; h++)
                map_row(n, prepared + (2 * (h / group) + keys) * n * n, gyre_view_at(from, b, token, h, 0),
                        gyre_view_at(to, b, token, h, 0));
}

/* out = room for the matrices, which the caller frees. */
static float *make_room(const gyre_trained_heads *t) {
    return calloc((size_t)prepared_floats(t), sizeof(float));
}

static gyre_status no_room(gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "model: no memory for the matrices of heads");
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    float *made = t->prepared ? NULL : make_room(t);
    const gyre_status status = t->prepared ? GYRE_OK : made ? prepare(t, made, err) : no_room(err);
    (void)positions, (void)work;
    for (int i = 0; i < 2 && !status; i++)
        map_heads(t, made ? made : t->prepared, i, &heads->in[i], &heads->out[i]);
    free(made);
    return status;
}

/* sum[i][j] = over the rows of a key head dout[i] in[j]. */
static void sum_outer(const gyre_trained_heads *t, int64_t h, const gyre_view *in, const gyre_view *dout, double *sum) {
    const int64_t n = in->shape[3], group = in->shape[2] / t->kv_heads;
    memset(sum, 0, (size_t)(n * n) * sizeof *sum);
    for (int64_t b = 0; b < in->shape[0]; b++)
        for (int64_t token = 0; token < in->shape[1]; token++)
            for (int64_t head = h * group; head < (h + 1) * group; head++) {
                const float *x = gyre_view_at(in, b, token, head, 0), *dx = gyre_view_at(dout, b, token, head, 0);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < n; j++)
                        sum[i * n + j] += (double)dx[i] * (double)x[j];
            }
}

/* dfactor += dmatrix other diag(s), or 1 / s: the gradient to U (other V), or with dmatrix transposed to V (other U). */
static void factor_gradient(const factors *f, const double *dmatrix, int transposed, int inverse, double *dfactor) {
    const int64_t n = f->dim;
    double *product = f->work + 3 * n * n, *turned = f->work + 4 * n * n;
    if (transposed) transpose(n, dmatrix, turned);
    multiply(n, transposed ? turned : dmatrix, transposed ? f->u : f->v, product);
    for (int64_t i = 0; i < n * n; i++)
        dfactor[i] += inverse ? product[i] / f->s[i % n] : product[i] * f->s[i % n];
}

/* ds[i] += (U^T dmatrix V)[i][i]. */
static void scale_gradient(const factors *f, const double *dmatrix, int inverse, double *ds) {
    const int64_t n = f->dim;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t a = 0; a < n; a++)
            for (int64_t b = 0; b < n; b++)
                sum += f->u[a * n + i] * dmatrix[a * n + b] * f->v[b * n + i];
        ds[i] += inverse ? -sum / (f->s[i] * f->s[i]) : sum;
    }
}

/* The gradients to A, B and c of a key head, from those to its matrices. */
static void numbers_gradient(const gyre_trained_heads *t, int64_t h, factors *f, const gyre_head_views *heads,
                             const gyre_head_views *d, float *gradient) {
    const int64_t n = f->dim, square = n * n;
    double *dmatrix = f->work, *du = f->work + square, *dv = du + square, ds[MOST_CHANNELS] = {0};
    memset(du, 0, (size_t)(2 * square) * sizeof *du);
    for (int i = 0; i < 2; i++) {
        sum_outer(t, h, &heads->in[i], &d->out[i], dmatrix);
        factor_gradient(f, dmatrix, 0, i, du);
        factor_gradient(f, dmatrix, 1, i, dv);
        scale_gradient(f, dmatrix, i, ds);
    }
    memcpy(f->u, du, (size_t)square * sizeof *du); /* the factors have been used; work is needed */
    memcpy(f->v, dv, (size_t)square * sizeof *dv);
    exponential_gradient(n, left_of(t, n, h), f->u, f->work, gradient + (left_of(t, n, h) - t->data));
    exponential_gradient(n, right_of(t, n, h), f->v, f->work, gradient + (right_of(t, n, h) - t->data));
    for (int64_t i = 0; i < n; i++)
        gradient[scales_of(t, n, h) + i - t->data] += (float)(ds[i] / (1 + exp(-(double)scales_of(t, n, h)[i])));
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    const int64_t n = 2 * t->pairs;
    float *made = make_room(t);
    factors f = {0};
    const gyre_status status = made ? open_factors(&f, n, err) : no_room(err);
    (void)positions, (void)work;
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        factorize(t, h, &f);
        write_matrices(&f, 0, made + 2 * h * n * n);
        numbers_gradient(t, h, &f, heads, d, numbers);
    }
    for (int i = 0; i < 2 && !status; i++)
        map_heads(t, made, i, &d->out[i], &d->in[i]);
    free(f.memory);
    free(made);
    return status;
}

/* -- what the list says of it -- */
static gyre_status check(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    (void)encoding;
    if (c->head_dim <= MOST_CHANNELS) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "layer_parts: head_matrices of %lld channels are past %d (model)",
                     (long long)c->head_dim, MOST_CHANNELS);
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    (void)encoding;
    out[0][0] = out[1][0] = c->kv_heads * c->head_dim;
    out[2][0] = c->kv_heads;
    for (int i = 0; i < 3; i++)
        out[i][1] = c->head_dim;
}

/* Its softplus is 1. */
static double start_scale(const gyre_part_start *at) {
    (void)at;
    return log(expm1(1));
}

const gyre_head_part gyre_head_part_matrices = {
    .part = GYRE_LAYER_PART_HEAD_MATRICES,
    .facts = &gyre_head_part_facts_matrices,
    .variants = {{.name = "harope", .layer_parts = GYRE_LAYER_PART_HEAD_MATRICES}},
    .needs = GYRE_PART_NEEDS_WHOLE,
    .check = check,
    .tensors = {{.name = "self_attn.head_matrices.left"},
                {.name = "self_attn.head_matrices.right"},
                {.name = "self_attn.head_matrices.scales", .start = start_scale}},
    .shapes = shapes,
    .reads_in = 1,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .forward = forward,
    .gradient = gradient};
