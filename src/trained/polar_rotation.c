/* polar_rotation.c: channels as complex numbers: softplus makes the magnitude, position and a trained phase the angle. */
#include "core/convert.h"
#include "core/exec.h"
#include "core/view.h"
#include "trained/trained_angles.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

static const double LOWEST_PHASE = -6.283185307179586476925286766559, HIGHEST_PHASE = 0;

typedef struct polar_call {
    gyre_trained_rotation rotation;
    gyre_pair_layout layout; /* of the pairs in out and dout */
    const gyre_positions *positions;
    const gyre_cview *in, *dout;
    const gyre_view *out; /* or din */
} polar_call;

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* Its slope. */
static double sigmoid(double x) {
    return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static void load_channels(const gyre_cview *in, const gyre_pair_place *at, int64_t count, double *x) {
    gyre_load_row_f64(gyre_cview_at(in, at->batch, at->token, at->head, at->pair), in->dtype, in->stride[3], count, x);
}

static void cos_sin(const gyre_trained_rotation *r, const gyre_pair_place *at, int64_t count, const double *position,
                    double *cosine, double *sine) {
    double phase[GYRE_TRAINED_CHUNK];
    gyre_trained_phases(r, at, count, phase);
    for (int64_t i = 0; i < count; i++)
        phase[i] = fmin(fmax(phase[i], LOWEST_PHASE), HIGHEST_PHASE);
    gyre_trained_cos_sin(r, phase, position, at, count, cosine, sine);
}

/* Every chunk of pairs of every head of a token. */
static void for_chunks(const polar_call *c, int64_t task,
                       void (*run)(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *position)) {
    double position[GYRE_MAX_AXES];
    gyre_pair_place at = {.batch = task / c->in->shape[1], .token = task % c->in->shape[1]};
    gyre_trained_positions(c->positions, at.batch, at.token, c->rotation.frequencies.shape[1], position);
    for (at.head = 0; at.head < c->in->shape[2]; at.head++)
        for (at.pair = 0; at.pair < c->layout.pairs; at.pair += GYRE_TRAINED_CHUNK) {
            const int64_t left = c->layout.pairs - at.pair;
            run(c, &at, left < GYRE_TRAINED_CHUNK ? left : GYRE_TRAINED_CHUNK, position);
        }
}

static void rotate_chunk(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *position) {
    double x[GYRE_TRAINED_CHUNK], cosine[GYRE_TRAINED_CHUNK], sine[GYRE_TRAINED_CHUNK];
    load_channels(c->in, at, count, x);
    cos_sin(&c->rotation, at, count, position, cosine, sine);
    for (int64_t i = 0; i < count; i++) {
        const double magnitude = softplus(x[i]);
        cosine[i] *= magnitude;
        sine[i] *= magnitude;
    }
    gyre_pairs_store(cosine, sine, c->out, &c->layout, at, count);
}

static void rotate_token(void *arg, int64_t task) {
    for_chunks(arg, task, rotate_chunk);
}

static void gradient_chunk(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *position) {
    double x[GYRE_TRAINED_CHUNK], cosine[GYRE_TRAINED_CHUNK], sine[GYRE_TRAINED_CHUNK], dx[GYRE_TRAINED_CHUNK],
        dy[GYRE_TRAINED_CHUNK];
    load_channels(c->in, at, count, x);
    cos_sin(&c->rotation, at, count, position, cosine, sine);
    gyre_pairs_load(c->dout, &c->layout, at, count, dx, dy);
    for (int64_t i = 0; i < count; i++)
        x[i] = sigmoid(x[i]) * (dx[i] * cosine[i] + dy[i] * sine[i]);
    gyre_store_row_f64(x, count, gyre_view_at(c->out, at->batch, at->token, at->head, at->pair), c->out->dtype,
                       c->out->stride[3]);
}

static void gradient_token(void *arg, int64_t task) {
    for_chunks(arg, task, gradient_chunk);
}

/* The pairs that gyre_polar_rotate wrote. */
static void load_rotated(const gyre_trained_sums *sums, const gyre_pair_place *at, int64_t count, const double *position,
                         double *x, double *y) {
    double magnitude[GYRE_TRAINED_CHUNK];
    load_channels(sums->in, at, count, magnitude);
    cos_sin(sums->rotation, at, count, position, x, y);
    for (int64_t i = 0; i < count; i++) {
        const double m = softplus(magnitude[i]);
        x[i] *= m;
        y[i] *= m;
    }
}

/* -- checks -- */

/* wide: the view with two numbers for each channel. */
static gyre_status check_shapes(polar_call *c, const gyre_trained_rotation *rotation, const int64_t wide[4],
                                const char *name, const char *where, gyre_error *err) {
    const int64_t *in = c->in->shape, wanted[4] = {in[0], in[1], in[2], 2 * in[3]};
    gyre_status status = gyre_shape_check(wide, wanted, name, where, err);
    if (!status) status = gyre_trained_rotation_read(rotation, in[2], &c->rotation, where, err);
    if (status) return status;
    if (c->rotation.first_channel != 0)
        return gyre_fail(err, GYRE_EINVAL, "first_channel: %" PRId64 " is not 0 (%s)", c->rotation.first_channel, where);
    if (c->rotation.frequencies.shape[3] != in[3])
        return gyre_fail(err, GYRE_ESHAPE, "frequencies: %" PRId64 " of them, but %" PRId64 " channels (%s)",
                         c->rotation.frequencies.shape[3], in[3], where);
    c->layout = (gyre_pair_layout){c->rotation.layout, 0, in[3]};
    status = gyre_pair_layout_check(&c->layout, wide[3], where, err);
    if (!status) status = gyre_trained_rotation_finite(&c->rotation, where, err);
    if (status) return status;
    return gyre_trained_positions_check(c->positions, in, c->rotation.frequencies.shape[1], where, err);
}

/* An output of a real type that shares no byte with an input. */
static gyre_status check_output(const gyre_view *view, const char *name, const gyre_cview *input, const char *where,
                                gyre_error *err) {
    const gyre_cview read = gyre_const(*view);
    gyre_status status = gyre_trained_real_check(&read, name, where, err);
    if (!status) status = gyre_output_check(view, name, where, err);
    if (status || !gyre_views_overlap(&read, input)) return status;
    return gyre_fail(err, GYRE_EINVAL, "%s: overlaps what is read (%s)", name, where);
}

gyre_status gyre_polar_rotate(const gyre_trained_rotation *rotation, const gyre_positions *positions, const gyre_cview *in,
                              const gyre_view *out, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_polar_rotate";
    if (!in || !out) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", in ? "out" : "in", where);
    polar_call c = {.positions = positions, .in = in, .out = out};
    gyre_status status = gyre_trained_real_check(in, "in", where, err);
    if (!status) status = check_output(out, "out", in, where, err);
    if (!status) status = check_shapes(&c, rotation, out->shape, "out", where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    gyre_parallel(exec, rotate_token, &c, in->shape[0] * in->shape[1]);
    return GYRE_OK;
}

static gyre_status check_din(const gyre_view *din, const gyre_cview *in, const gyre_cview *dout, const char *where,
                             gyre_error *err) {
    gyre_status status = check_output(din, "din", in, where, err);
    if (!status) status = gyre_shape_check(din->shape, in->shape, "din", where, err);
    return status ? status : check_output(din, "din", dout, where, err);
}

gyre_status gyre_polar_rotate_gradient(const gyre_trained_rotation *rotation, const gyre_positions *positions,
                                       const gyre_cview *in, const gyre_cview *dout, const gyre_view *din,
                                       const gyre_trained_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_polar_rotate_gradient";
    gyre_trained_gradients to;
    if (!in || !dout || !din)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", !in ? "in" : !dout ? "dout" : "din", where);
    polar_call c = {.positions = positions, .in = in, .dout = dout, .out = din};
    gyre_status status = gyre_trained_real_check(in, "in", where, err);
    if (!status) status = gyre_trained_real_check(dout, "dout", where, err);
    if (!status && din->data) status = check_din(din, in, dout, where, err);
    if (!status) status = check_shapes(&c, rotation, dout->shape, "dout", where, err);
    if (!status && gradients) status = gyre_trained_gradients_read(&c.rotation, gradients, &to, where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    if (din->data) gyre_parallel(exec, gradient_token, &c, in->shape[0] * in->shape[1]);
    if (!gradients) return GYRE_OK;
    gyre_trained_sums sums = {.rotation = &c.rotation,
                              .layout = c.layout,
                              .positions = positions,
                              .in = in,
                              .dout = dout,
                              .gradients = &to,
                              .rotated = load_rotated,
                              .phase_low = LOWEST_PHASE,
                              .phase_high = HIGHEST_PHASE};
    gyre_trained_sums_run(&sums, exec);
    return GYRE_OK;
}
