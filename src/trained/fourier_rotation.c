/* fourier_rotation.c: pairs that are multiplied by a Fourier series of their position, and the gradient to its coefficients.
 *
 * A task is a few tokens, so that each row of coefficients is read once for all of them, and every sum over terms goes in
 * their order. */
#include "core/convert.h"
#include "core/exec.h"
#include "core/rotation/angles.h"
#include "core/sized.h"
#include "core/view.h"
#include "trained/trained_angles.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

enum { TOKENS = 8, TERMS = 16, KEPT_TERMS = 64 /* whose angles all heads share */ };

/* -- the caller's rotation -- */

static gyre_status check_rest(const gyre_fourier_rotation *r, const char *where, gyre_error *err) {
    if ((unsigned)r->rest > GYRE_FOURIER_REST_RELEASED)
        return gyre_fail(err, GYRE_EINVAL, "rest: %d is not a gyre_fourier_rest (%s)", (int)r->rest, where);
    if (r->pairs != 0 && r->pairs < r->cosines.shape[3])
        return gyre_fail(err, GYRE_EINVAL, "pairs: %" PRId64 " are fewer than the %" PRId64 " with a series (%s)", r->pairs,
                         r->cosines.shape[3], where);
    return GYRE_OK;
}

/* *own = the caller's rotation, whatever its version, checked for views with `heads` heads; pairs filled in. */
static gyre_status read_rotation(const gyre_fourier_rotation *given, int64_t heads, gyre_fourier_rotation *own,
                                 const char *where, gyre_error *err) {
    if (!given) return gyre_fail(err, GYRE_EINVAL, "rotation: is NULL (%s)", where);
    if (gyre_sized_read(own, sizeof *own, given, "gyre_fourier_rotation", err)) return GYRE_EINVAL;
    const int64_t terms = own->frequencies.shape[3], *is = own->cosines.shape;
    const int64_t of_terms[4] = {1, 1, 1, terms}, shape[4] = {1, is[1] == 1 ? 1 : heads, terms, is[3]};
    gyre_status status = gyre_trained_shape_check(&own->frequencies, of_terms, "frequencies", where, err);
    if (!status) status = gyre_trained_shape_check(&own->cosines, shape, "cosines", where, err);
    if (!status) status = gyre_trained_shape_check(&own->sines, shape, "sines", where, err);
    if (!status) status = check_rest(own, where, err);
    if (!status && own->pairs == 0) own->pairs = is[3];
    return status;
}

static gyre_status check_finite(const gyre_fourier_rotation *own, const char *where, gyre_error *err) {
    gyre_status status = gyre_trained_finite_check(&own->frequencies, "frequencies", where, err);
    if (!status) status = gyre_trained_finite_check(&own->cosines, "cosines", where, err);
    return status ? status : gyre_trained_finite_check(&own->sines, "sines", where, err);
}

static gyre_pair_layout layout_of(const gyre_fourier_rotation *r) {
    return (gyre_pair_layout){r->layout, r->first_channel, r->pairs};
}

/* out[i] = coefficient of pair first + i in a term, i < count. */
static void load_coefficients(const gyre_cview *view, int64_t head, int64_t term, int64_t first, int64_t count,
                              double *out) {
    gyre_load_row_f64(gyre_cview_at(view, 0, view->shape[1] == 1 ? 0 : head, term, first), view->dtype, view->stride[3],
                      count, out);
}

static double position_of(const gyre_positions *positions, int64_t batch, int64_t token) {
    double position[GYRE_MAX_AXES];
    gyre_trained_positions(positions, batch, token, 1, position);
    return position[0];
}

/* cosine[j], sine[j] of `position` times frequency first + j, j < count. */
static void cos_sin_of_terms(const gyre_fourier_rotation *r, double position, int64_t first, int64_t count, double *cosine,
                             double *sine) {
    double frequency[TERMS];
    gyre_load_row_f64(gyre_cview_at(&r->frequencies, 0, 0, 0, first), r->frequencies.dtype, r->frequencies.stride[3], count,
                      frequency);
    for (int64_t j = 0; j < count; j++)
        gyre_angle((gyre_frequency){frequency[j], 0}, position, &cosine[j], &sine[j]);
}

/* -- rotation -- */

typedef struct rotate_call {
    gyre_fourier_rotation rotation;
    gyre_pair_layout layout;
    gyre_direction direction;
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
    int64_t blocks; /* of tokens, per batch row */
    int in_place;
} rotate_call;

/* The numbers C and S of some pairs of some tokens. */
typedef struct series {
    double c[TOKENS][GYRE_TRAINED_CHUNK], s[TOKENS][GYRE_TRAINED_CHUNK];
} series;

static int64_t at_most(int64_t n, int64_t most) {
    return n < most ? n : most;
}

/* The tokens of a task, with the cos and sin of the first KEPT_TERMS terms. */
typedef struct token_block {
    int64_t tokens;
    double position[TOKENS], cosine[TOKENS][KEPT_TERMS], sine[TOKENS][KEPT_TERMS];
} token_block;

static void fill_block(const gyre_fourier_rotation *r, const gyre_positions *positions, const gyre_pair_place *at,
                       int64_t tokens, token_block *out) {
    const int64_t terms = at_most(r->frequencies.shape[3], KEPT_TERMS);
    out->tokens = tokens;
    for (int64_t t = 0; t < tokens; t++) {
        out->position[t] = position_of(positions, at->batch, at->token + t);
        for (int64_t first = 0; first < terms; first += TERMS)
            cos_sin_of_terms(r, out->position[t], first, at_most(terms - first, TERMS), out->cosine[t] + first,
                             out->sine[t] + first);
    }
}

static void add_terms(const gyre_fourier_rotation *r, const token_block *block, const gyre_pair_place *at, int64_t count,
                      series *out) {
    const int64_t tokens = block->tokens;
    double cosine[TOKENS][TERMS], sine[TOKENS][TERMS], a[GYRE_TRAINED_CHUNK], b[GYRE_TRAINED_CHUNK];
    for (int64_t first = 0, n; first < r->frequencies.shape[3]; first += n) {
        n = at_most(r->frequencies.shape[3] - first, TERMS);
        for (int64_t t = 0; t < tokens; t++) {
            if (first >= KEPT_TERMS) {
                cos_sin_of_terms(r, block->position[t], first, n, cosine[t], sine[t]);
                continue;
            }
            memcpy(cosine[t], block->cosine[t] + first, (size_t)n * sizeof(double));
            memcpy(sine[t], block->sine[t] + first, (size_t)n * sizeof(double));
        }
        for (int64_t j = 0; j < n; j++) {
            load_coefficients(&r->cosines, at->head, first + j, at->pair, count, a);
            load_coefficients(&r->sines, at->head, first + j, at->pair, count, b);
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t i = 0; i < count; i++) {
                    out->c[t][i] += a[i] * cosine[t][j];
                    out->s[t][i] += b[i] * sine[t][j];
                }
        }
    }
}

/* Pairs at->pair .. at->pair + count - 1, all with a series or all without. */
static void compute_series(const gyre_fourier_rotation *r, const token_block *block, const gyre_pair_place *at,
                           int64_t count, series *out) {
    const int has_series = at->pair < r->cosines.shape[3];
    const double sine = r->rest == GYRE_FOURIER_REST_RELEASED ? 1 : 0;
    for (int64_t t = 0; t < block->tokens; t++)
        for (int64_t i = 0; i < count; i++) {
            out->c[t][i] = has_series ? 0 : 1;
            out->s[t][i] = has_series ? 0 : sine;
        }
    if (has_series) add_terms(r, block, at, count, out);
}

/* x[i] + i y[i], multiplied by c + i s or its conjugate, or divided by it. */
static void multiply(gyre_direction direction, const double *c, const double *s, int64_t count, double *x, double *y) {
    const double sign = direction == GYRE_DIRECTION_FORWARD ? 1 : -1;
    for (int64_t i = 0; i < count; i++) {
        const double u = x[i], v = y[i], sine = sign * s[i];
        x[i] = u * c[i] - v * sine;
        y[i] = u * sine + v * c[i];
    }
    if (direction != GYRE_DIRECTION_INVERSE) return;
    for (int64_t i = 0; i < count; i++) {
        const double size = c[i] * c[i] + s[i] * s[i];
        x[i] /= size;
        y[i] /= size;
    }
}

static void rotate_pairs(const rotate_call *c, const gyre_pair_place *first, int64_t count, const token_block *block) {
    series numbers;
    double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK];
    gyre_pair_place at = *first;
    const int shared = c->rotation.cosines.shape[1] == 1;
    for (at.head = 0; at.head < c->in->shape[2]; at.head++) {
        if (at.head == 0 || !shared) compute_series(&c->rotation, block, &at, count, &numbers);
        for (int64_t t = 0; t < block->tokens; t++) {
            at.token = first->token + t;
            gyre_pairs_load(c->in, &c->layout, &at, count, x, y);
            multiply(c->direction, numbers.c[t], numbers.s[t], count, x, y);
            gyre_pairs_store(x, y, c->out, &c->layout, &at, count);
        }
    }
}

static void copy_channels(const rotate_call *c, const gyre_pair_place *at, int64_t tokens, int64_t first, int64_t end) {
    if (c->in_place || first >= end) return;
    for (int64_t t = at->token; t < at->token + tokens; t++)
        for (int64_t h = 0; h < c->in->shape[2]; h++)
            gyre_copy_row(gyre_cview_at(c->in, at->batch, t, h, first), c->in->stride[3],
                          gyre_view_at(c->out, at->batch, t, h, first), c->out->stride[3], c->in->dtype, end - first);
}

static void rotate_block(void *arg, int64_t task) {
    const rotate_call *c = arg;
    gyre_pair_place at = {.batch = task / c->blocks, .token = task % c->blocks * TOKENS};
    const int64_t tokens = at_most(c->in->shape[1] - at.token, TOKENS), with = c->rotation.cosines.shape[3];
    token_block block;
    fill_block(&c->rotation, c->positions, &at, tokens, &block);
    for (int64_t n; at.pair < c->layout.pairs; at.pair += n) {
        n = at_most((at.pair < with ? with : c->layout.pairs) - at.pair, GYRE_TRAINED_CHUNK);
        if (at.pair >= with && c->rotation.rest == GYRE_FOURIER_REST_STILL) break;
        rotate_pairs(c, &at, n, &block);
    }
    /* Copies the rest bit for bit: pairs that do not rotate, and other channels. */
    const int interleaved = c->layout.layout == GYRE_LAYOUT_INTERLEAVED;
    const int64_t begin = c->layout.first_channel, half = begin + c->layout.pairs, end = begin + 2 * c->layout.pairs;
    copy_channels(c, &at, tokens, 0, begin);
    copy_channels(c, &at, tokens, begin + (interleaved ? 2 : 1) * at.pair, interleaved ? end : half);
    if (!interleaved) copy_channels(c, &at, tokens, half + at.pair, end);
    copy_channels(c, &at, tokens, end, c->in->shape[3]);
}

gyre_status gyre_fourier_rotate(const gyre_fourier_rotation *rotation, const gyre_rotate_args *given, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_rotate_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    static const char where[] = "gyre_fourier_rotate";
    rotate_call c = {.direction = args.direction, .positions = args.positions, .in = &args.in, .out = &args.out};
    gyre_status status = gyre_direction_check(args.direction, where, err);
    if (!status) status = gyre_in_out_check(&args.in, &args.out, where, err);
    if (!status) status = read_rotation(rotation, args.in.shape[2], &c.rotation, where, err);
    if (status) return status;
    c.layout = layout_of(&c.rotation);
    status = gyre_pair_layout_check(&c.layout, args.in.shape[3], "frequencies", where, err);
    if (!status) status = check_finite(&c.rotation, where, err);
    if (!status) status = gyre_trained_positions_check(args.positions, args.in.shape, 1, where, err);
    if (!status) status = gyre_in_out_apart_check(&args.in, &args.out, where, err);
    if (status || gyre_view_elements(args.in.shape) == 0) return status;
    c.in_place = gyre_same_memory(&args.in, &args.out);
    c.blocks = (args.in.shape[1] + TOKENS - 1) / TOKENS;
    gyre_parallel(exec, rotate_block, &c, args.in.shape[0] * c.blocks);
    return GYRE_OK;
}

/* -- gradient -- */

/* A task is some terms of one head of coefficients, or of all, and of some pairs; or some frequencies.  Then no two tasks
 * write one number, and the order of a sum does not depend on threads. */
typedef struct gradient_call {
    gyre_fourier_rotation rotation;
    gyre_pair_layout layout;
    const gyre_positions *positions;
    const gyre_cview *in, *dout;
    gyre_fourier_gradients to;
    int64_t chunks, term_chunks; /* of pairs with a series, of terms */
} gradient_call;

/* dc[i], ds[i] = gradients to C and S of some pairs of one token and head. */
static void load_gradients(const gradient_call *c, const gyre_pair_place *at, int64_t count, double *dc, double *ds) {
    double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK], dx[GYRE_TRAINED_CHUNK], dy[GYRE_TRAINED_CHUNK];
    gyre_pairs_load(c->in, &c->layout, at, count, x, y);
    gyre_pairs_load(c->dout, &c->layout, at, count, dx, dy);
    for (int64_t i = 0; i < count; i++) {
        dc[i] = dx[i] * x[i] + dy[i] * y[i];
        ds[i] = dy[i] * x[i] - dx[i] * y[i];
    }
}

typedef struct coefficient_sums {
    double cosines[TERMS][GYRE_TRAINED_CHUNK], sines[TERMS][GYRE_TRAINED_CHUNK];
} coefficient_sums;

/* head < 0: all heads. */
static void add_tokens(const gradient_call *c, int64_t head, int64_t term, int64_t terms, int64_t pair, int64_t count,
                       coefficient_sums *sums) {
    const int64_t *shape = c->in->shape, first = head < 0 ? 0 : head, end = head < 0 ? shape[2] : head + 1;
    double cosine[TERMS], sine[TERMS], dc[GYRE_TRAINED_CHUNK], ds[GYRE_TRAINED_CHUNK];
    memset(sums, 0, sizeof *sums);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++) {
            cos_sin_of_terms(&c->rotation, position_of(c->positions, b, t), term, terms, cosine, sine);
            for (int64_t h = first; h < end; h++) {
                load_gradients(c, &(gyre_pair_place){b, t, h, pair}, count, dc, ds);
                for (int64_t j = 0; j < terms; j++)
                    for (int64_t i = 0; i < count; i++) {
                        sums->cosines[j][i] += cosine[j] * dc[i];
                        sums->sines[j][i] += sine[j] * ds[i];
                    }
            }
        }
}

static void coefficients_task(void *arg, int64_t task) {
    const gradient_call *c = arg;
    const int64_t row = task / (c->chunks * c->term_chunks), term = task / c->chunks % c->term_chunks * TERMS;
    const int64_t pair = task % c->chunks * GYRE_TRAINED_CHUNK, *shape = c->rotation.cosines.shape;
    const int64_t count = at_most(shape[3] - pair, GYRE_TRAINED_CHUNK), terms = at_most(shape[2] - term, TERMS);
    coefficient_sums sums;
    add_tokens(c, shape[1] == 1 ? -1 : row, term, terms, pair, count, &sums);
    for (int64_t j = 0; j < terms; j++) {
        const gyre_pair_place at = {0, row, term + j, pair};
        if (c->to.cosines.data) gyre_trained_add(sums.cosines[j], &c->to.cosines, &at, count);
        if (c->to.sines.data) gyre_trained_add(sums.sines[j], &c->to.sines, &at, count);
    }
}

/* sum[j] += the gradient to the angle of term `term` + j, from one token and head. */
static void add_angle_gradients(const gradient_call *c, gyre_pair_place at, int64_t term, int64_t terms,
                                const double *cosine, const double *sine, double *sum) {
    double dc[GYRE_TRAINED_CHUNK], ds[GYRE_TRAINED_CHUNK], a[GYRE_TRAINED_CHUNK], b[GYRE_TRAINED_CHUNK];
    const int64_t with = c->rotation.cosines.shape[3];
    for (int64_t n; at.pair < with; at.pair += n) {
        n = at_most(with - at.pair, GYRE_TRAINED_CHUNK);
        load_gradients(c, &at, n, dc, ds);
        for (int64_t j = 0; j < terms; j++) {
            load_coefficients(&c->rotation.cosines, at.head, term + j, at.pair, n, a);
            load_coefficients(&c->rotation.sines, at.head, term + j, at.pair, n, b);
            for (int64_t i = 0; i < n; i++)
                sum[j] += cosine[j] * b[i] * ds[i] - sine[j] * a[i] * dc[i];
        }
    }
}

static void frequencies_task(void *arg, int64_t task) {
    const gradient_call *c = arg;
    const int64_t *shape = c->in->shape, term = task * TERMS;
    const int64_t terms = at_most(c->rotation.frequencies.shape[3] - term, TERMS);
    double cosine[TERMS], sine[TERMS], sums[TERMS] = {0};
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++) {
            const double position = position_of(c->positions, b, t);
            double of_token[TERMS] = {0};
            cos_sin_of_terms(&c->rotation, position, term, terms, cosine, sine);
            for (int64_t h = 0; h < shape[2]; h++)
                add_angle_gradients(c, (gyre_pair_place){b, t, h, 0}, term, terms, cosine, sine, of_token);
            for (int64_t j = 0; j < terms; j++)
                sums[j] += position * of_token[j];
        }
    gyre_trained_add(sums, &c->to.frequencies, &(gyre_pair_place){.pair = term}, terms);
}

static gyre_status read_gradients(gradient_call *c, const gyre_fourier_gradients *given, const char *where,
                                  gyre_error *err) {
    if (!given) return gyre_fail(err, GYRE_EINVAL, "gradients: is NULL (%s)", where);
    if (gyre_sized_read(&c->to, sizeof c->to, given, "gyre_fourier_gradients", err)) return GYRE_EINVAL;
    const int64_t *shape = c->rotation.cosines.shape;
    gyre_status status =
        gyre_trained_gradient_check(&c->to.frequencies, c->rotation.frequencies.shape, "gradients.frequencies", where, err);
    if (!status) status = gyre_trained_gradient_check(&c->to.cosines, shape, "gradients.cosines", where, err);
    return status ? status : gyre_trained_gradient_check(&c->to.sines, shape, "gradients.sines", where, err);
}

gyre_status gyre_fourier_rotate_gradient(const gyre_fourier_rotation *rotation, const gyre_rotate_gradient_args *given,
                                         const gyre_fourier_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    gyre_rotate_gradient_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_gradient_args", err)) return GYRE_EINVAL;
    const gyre_positions *positions = args.positions;
    const gyre_cview *in = &args.in, *dout = &args.dout;
    static const char where[] = "gyre_fourier_rotate_gradient";
    gradient_call c = {.positions = positions, .in = in, .dout = dout};
    gyre_status status = gyre_trained_real_check(in, "in", where, err);
    if (!status) status = gyre_trained_real_check(dout, "dout", where, err);
    if (!status) status = gyre_shape_check(dout->shape, in->shape, "dout", where, err);
    if (!status) status = read_rotation(rotation, in->shape[2], &c.rotation, where, err);
    if (!status) status = read_gradients(&c, gradients, where, err);
    if (status) return status;
    c.layout = layout_of(&c.rotation);
    status = gyre_pair_layout_check(&c.layout, in->shape[3], "frequencies", where, err);
    if (!status) status = check_finite(&c.rotation, where, err);
    if (!status) status = gyre_trained_positions_check(positions, in->shape, 1, where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    const int64_t *shape = c.rotation.cosines.shape;
    c.chunks = (shape[3] + GYRE_TRAINED_CHUNK - 1) / GYRE_TRAINED_CHUNK;
    c.term_chunks = (shape[2] + TERMS - 1) / TERMS;
    if (c.to.cosines.data || c.to.sines.data)
        gyre_parallel(exec, coefficients_task, &c, shape[1] * c.term_chunks * c.chunks);
    if (c.to.frequencies.data) gyre_parallel(exec, frequencies_task, &c, c.term_chunks);
    return GYRE_OK;
}
