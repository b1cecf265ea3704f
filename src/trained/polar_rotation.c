/* polar_rotation.c: channels as complex numbers: softplus makes the magnitude, position and a trained phase the angle. */
#include "core/convert.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "trained/row_math.h"
#include "trained/trained_angles.h"
#include "util/error.h"

#include <inttypes.h>

enum { TOKENS = 8 }; /* of a task */
static const double LOWEST_PHASE = -6.283185307179586476925286766559, HIGHEST_PHASE = 0;

typedef struct polar_call {
    gyre_trained_rotation rotation;
    gyre_pair_layout layout; /* of the pairs in out and dout */
    const gyre_positions *positions;
    const gyre_cview *in, *dout;
    const gyre_view *out; /* or din */
} polar_call;

static int64_t blocks_of(const polar_call *c) {
    return (c->in->shape[1] + TOKENS - 1) / TOKENS;
}

static void load_channels(const gyre_cview *in, const gyre_pair_place *at, int64_t count, double *x) {
    gyre_load_row_f64(gyre_cview_at(in, at->batch, at->token, at->head, at->pair), in->dtype, in->stride[3], count, x);
}

static void load_phases(const gyre_trained_rotation *r, const gyre_pair_place *at, int64_t count, double *phase) {
    gyre_trained_phases(r, at, count, phase);
    for (int64_t i = 0; i < count; i++)
        phase[i] = phase[i] < LOWEST_PHASE ? LOWEST_PHASE : phase[i] > HIGHEST_PHASE ? HIGHEST_PHASE : phase[i];
}

/* -- angles -- */

/* Angles of some pairs of some tokens. */
typedef struct token_angles {
    double cosine[TOKENS][GYRE_TRAINED_CHUNK], sine[TOKENS][GYRE_TRAINED_CHUNK];
} token_angles;

typedef struct angle_block {
    double position[TOKENS][GYRE_MAX_AXES];
    token_angles positions, head; /* head: with the phases of a head */
} angle_block;

static void turn_by_phases(const token_angles *in, const double *phase, int64_t tokens, int64_t count, token_angles *out) {
    double cosine[GYRE_TRAINED_CHUNK], sine[GYRE_TRAINED_CHUNK];
    gyre_row_cos_sin(phase, count, cosine, sine);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < count; i++) {
            const double c = in->cosine[t][i], s = in->sine[t][i];
            out->cosine[t][i] = c * cosine[i] - s * sine[i];
            out->sine[t][i] = s * cosine[i] + c * sine[i];
        }
}

/* out = the angles of pairs at->pair .. at->pair + count - 1 of the head of `at`; heads come in order.  Heads that share
 * frequencies share cos and sin of the positions too, and each rotates them by its phases: a row for all the tokens. */
static const token_angles *angles_of_head(const gyre_trained_rotation *r, const gyre_pair_place *at, int64_t tokens,
                                          int64_t count, angle_block *block) {
    const int shared = r->frequencies.shape[2] == 1;
    double phase[GYRE_TRAINED_CHUNK] = {0};
    if (!shared) load_phases(r, at, count, phase);
    for (int64_t t = 0; t < tokens && (at->head == 0 || !shared); t++)
        gyre_trained_cos_sin(r, phase, block->position[t], at, count, block->positions.cosine[t], block->positions.sine[t]);
    if (!shared || !r->phases.data) return &block->positions;
    load_phases(r, at, count, phase);
    turn_by_phases(&block->positions, phase, tokens, count, &block->head);
    return &block->head;
}

/* -- rotation -- */

typedef void run_row(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *cosine,
                     const double *sine);

/* Some pairs of every head of a block of tokens. */
static void for_heads(const polar_call *c, const gyre_pair_place *first, int64_t tokens, int64_t count, run_row *run,
                      angle_block *block) {
    gyre_pair_place at = *first;
    for (at.head = 0; at.head < c->in->shape[2]; at.head++) {
        const token_angles *angles = angles_of_head(&c->rotation, &at, tokens, count, block);
        for (int64_t t = 0; t < tokens; t++) {
            at.token = first->token + t;
            run(c, &at, count, angles->cosine[t], angles->sine[t]);
        }
    }
}

static void for_block(const polar_call *c, int64_t task, run_row *run) {
    const int64_t blocks = blocks_of(c), axes = c->rotation.frequencies.shape[1], all = c->in->shape[1];
    gyre_pair_place at = {.batch = task / blocks, .token = task % blocks * TOKENS};
    const int64_t tokens = all - at.token < TOKENS ? all - at.token : TOKENS;
    angle_block block;
    for (int64_t t = 0; t < tokens; t++)
        gyre_trained_positions(c->positions, at.batch, at.token + t, axes, block.position[t]);
    for (; at.pair < c->layout.pairs; at.pair += GYRE_TRAINED_CHUNK) {
        const int64_t left = c->layout.pairs - at.pair;
        for_heads(c, &at, tokens, left < GYRE_TRAINED_CHUNK ? left : GYRE_TRAINED_CHUNK, run, &block);
    }
}

static void rotate_row(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *cosine,
                       const double *sine) {
    double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK];
    load_channels(c->in, at, count, y);
    gyre_row_softplus(y, count, y);
    for (int64_t i = 0; i < count; i++) {
        x[i] = y[i] * cosine[i];
        y[i] *= sine[i];
    }
    gyre_pairs_store(x, y, c->out, &c->layout, at, count);
}

static void rotate_block(void *arg, int64_t task) {
    for_block(arg, task, rotate_row);
}

static void gradient_row(const polar_call *c, const gyre_pair_place *at, int64_t count, const double *cosine,
                         const double *sine) {
    double slope[GYRE_TRAINED_CHUNK], dx[GYRE_TRAINED_CHUNK], dy[GYRE_TRAINED_CHUNK];
    load_channels(c->in, at, count, slope);
    gyre_row_sigmoid(slope, count, slope);
    gyre_pairs_load(c->dout, &c->layout, at, count, dx, dy);
    for (int64_t i = 0; i < count; i++)
        slope[i] *= dx[i] * cosine[i] + dy[i] * sine[i];
    gyre_store_row_f64(slope, count, gyre_view_at(c->out, at->batch, at->token, at->head, at->pair), c->out->dtype,
                       c->out->stride[3]);
}

static void gradient_block(void *arg, int64_t task) {
    for_block(arg, task, gradient_row);
}

/* The pairs that gyre_polar_rotate wrote. */
static void load_rotated(const gyre_trained_sums *sums, const gyre_pair_place *at, int64_t count, const double *position,
                         double *x, double *y) {
    double magnitude[GYRE_TRAINED_CHUNK], phase[GYRE_TRAINED_CHUNK];
    load_channels(sums->in, at, count, magnitude);
    gyre_row_softplus(magnitude, count, magnitude);
    load_phases(sums->rotation, at, count, phase);
    gyre_trained_cos_sin(sums->rotation, phase, position, at, count, x, y);
    for (int64_t i = 0; i < count; i++) {
        x[i] *= magnitude[i];
        y[i] *= magnitude[i];
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
    status = gyre_pair_layout_check(&c->layout, wide[3], "frequencies", where, err);
    if (!status) status = gyre_trained_rotation_finite(&c->rotation, where, err);
    if (status) return status;
    return gyre_trained_positions_check(c->positions, in, c->rotation.frequencies.shape[1], where, err);
}

/* An output of a real type. */
static gyre_status check_output(const gyre_view *view, const char *name, const char *where, gyre_error *err) {
    const gyre_cview own = gyre_const(*view);
    const gyre_status status = gyre_trained_real_check(&own, name, where, err);
    return status ? status : gyre_output_check(view, name, where, err);
}

gyre_status gyre_polar_rotate(const gyre_trained_rotation *rotation, const gyre_rotate_args *given, const gyre_exec *exec,
                              gyre_error *err) {
    gyre_rotate_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    static const char where[] = "gyre_polar_rotate";
    if (args.direction != GYRE_DIRECTION_FORWARD)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "direction: %d is not FORWARD, the only one of polar coordinates (%s)",
                         (int)args.direction, where);
    polar_call c = {.positions = args.positions, .in = &args.in, .out = &args.out};
    gyre_status status = gyre_trained_real_check(&args.in, "in", where, err);
    if (!status) status = check_output(&args.out, "out", where, err);
    if (!status) status = check_shapes(&c, rotation, args.out.shape, "out", where, err);
    const gyre_cview written = gyre_const(args.out);
    if (!status) status = gyre_apart_check(&written, "out", &args.in, "in", where, err);
    if (status || gyre_view_elements(args.in.shape) == 0) return status;
    gyre_parallel(exec, rotate_block, &c, args.in.shape[0] * blocks_of(&c));
    return GYRE_OK;
}

static gyre_status check_din(const gyre_view *din, const gyre_cview *in, const char *where, gyre_error *err) {
    if (!din->data) return GYRE_OK;
    const gyre_status status = check_output(din, "din", where, err);
    return status ? status : gyre_shape_check(din->shape, in->shape, "din", where, err);
}

static gyre_status check_din_apart(const gyre_view *din, const gyre_cview *in, const gyre_cview *dout, const char *where,
                                   gyre_error *err) {
    const gyre_cview written = gyre_const(*din);
    const gyre_status status = gyre_apart_check(&written, "din", in, "in", where, err);
    return status ? status : gyre_apart_check(&written, "din", dout, "dout", where, err);
}

gyre_status gyre_polar_rotate_gradient(const gyre_trained_rotation *rotation, const gyre_rotate_gradient_args *given,
                                       const gyre_trained_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    gyre_rotate_gradient_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_gradient_args", err)) return GYRE_EINVAL;
    const gyre_positions *positions = args.positions;
    const gyre_cview *in = &args.in, *dout = &args.dout;
    const gyre_view *din = &args.din;
    static const char where[] = "gyre_polar_rotate_gradient";
    gyre_trained_gradients to;
    polar_call c = {.positions = positions, .in = in, .dout = dout, .out = din};
    gyre_status status = gyre_trained_real_check(in, "in", where, err);
    if (!status) status = gyre_trained_real_check(dout, "dout", where, err);
    if (!status) status = check_din(din, in, where, err);
    if (!status) status = check_shapes(&c, rotation, dout->shape, "dout", where, err);
    if (!status && gradients) status = gyre_trained_gradients_read(&c.rotation, gradients, &to, where, err);
    if (!status) status = check_din_apart(din, in, dout, where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    if (din->data) gyre_parallel(exec, gradient_block, &c, in->shape[0] * blocks_of(&c));
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
