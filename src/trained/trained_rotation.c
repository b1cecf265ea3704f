/* trained_rotation.c: pairs that rotate by trained frequencies, and the gradient to them. */
#include "core/convert.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "trained/row_math.h"
#include "trained/trained_angles.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

/* -- angles -- */

gyre_status gyre_trained_rotation_read(const gyre_trained_rotation *given, int64_t heads, gyre_trained_rotation *own,
                                       const char *where, gyre_error *err) {
    if (!given) return gyre_fail(err, GYRE_EINVAL, "rotation: is NULL (%s)", where);
    if (gyre_sized_read(own, sizeof *own, given, "gyre_trained_rotation", err)) return GYRE_EINVAL;
    const int64_t *is = own->frequencies.shape, axes = is[1], shared = is[2] == 1 ? 1 : heads;
    const int64_t shape[4] = {1, axes, shared, is[3]}, of_phases[4] = {1, 1, own->phases.shape[2] == 1 ? 1 : heads, is[3]};
    if (axes < 1 || axes > GYRE_MAX_AXES)
        return gyre_fail(err, GYRE_ESHAPE, "frequencies: are of %" PRId64 " axes, not 1 .. %d (%s)", axes,
                         (int)GYRE_MAX_AXES, where);
    const gyre_status status = gyre_trained_shape_check(&own->frequencies, shape, "frequencies", where, err);
    if (status || !own->phases.data) return status;
    return gyre_trained_shape_check(&own->phases, of_phases, "phases", where, err);
}

gyre_status gyre_trained_rotation_finite(const gyre_trained_rotation *own, const char *where, gyre_error *err) {
    const gyre_status status = gyre_trained_finite_check(&own->frequencies, "frequencies", where, err);
    return status ? status : gyre_trained_finite_check(&own->phases, "phases", where, err);
}

static void add_products(const gyre_trained_rotation *r, const double *position, const gyre_pair_place *at, int64_t count,
                         double *angle) {
    double frequency[GYRE_TRAINED_CHUNK];
    const gyre_cview *f = &r->frequencies;
    for (int64_t a = 0; a < f->shape[1]; a++) {
        gyre_load_row_f64(gyre_cview_at(f, 0, a, f->shape[2] == 1 ? 0 : at->head, at->pair), f->dtype, f->stride[3], count,
                          frequency);
        for (int64_t i = 0; i < count; i++)
            angle[i] += position[a] * frequency[i];
    }
}

void gyre_trained_cos_sin(const gyre_trained_rotation *r, const double *phases, const double *position,
                          const gyre_pair_place *at, int64_t count, double *cosine, double *sine) {
    double angle[GYRE_TRAINED_CHUNK];
    memcpy(angle, phases, (size_t)count * sizeof *angle);
    add_products(r, position, at, count, angle);
    gyre_row_cos_sin(angle, count, cosine, sine);
}

void gyre_trained_phases(const gyre_trained_rotation *r, const gyre_pair_place *at, int64_t count, double *out) {
    const gyre_cview *p = &r->phases;
    if (p->data)
        gyre_load_row_f64(gyre_cview_at(p, 0, 0, p->shape[2] == 1 ? 0 : at->head, at->pair), p->dtype, p->stride[3], count,
                          out);
    else
        memset(out, 0, (size_t)count * sizeof *out);
}

/* -- rotation -- */

typedef struct rotate_call {
    gyre_pair_rotation pairs; /* first: `angles` gets the call from it */
    gyre_trained_rotation rotation;
    const gyre_positions *positions;
} rotate_call;

static gyre_pair_layout layout_of(const gyre_trained_rotation *r) {
    return (gyre_pair_layout){r->layout, r->first_channel, r->frequencies.shape[3]};
}

static void angles_of_token(const gyre_pair_rotation *pairs, const gyre_pair_place *at, int64_t count, double *angle) {
    const rotate_call *c = (const rotate_call *)pairs;
    double position[GYRE_MAX_AXES];
    gyre_trained_positions(c->positions, at->batch, at->token, c->rotation.frequencies.shape[1], position);
    gyre_trained_phases(&c->rotation, at, count, angle);
    add_products(&c->rotation, position, at, count, angle);
}

gyre_status gyre_trained_rotate(const gyre_trained_rotation *rotation, const gyre_rotate_args *given, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_rotate_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    static const char where[] = "gyre_trained_rotate";
    rotate_call c = {.pairs = {.in = &args.in,
                               .out = &args.out,
                               .sign = args.direction == GYRE_DIRECTION_FORWARD ? 1 : -1,
                               .angles = angles_of_token},
                     .positions = args.positions};
    gyre_status status = gyre_direction_check(args.direction, where, err);
    if (!status) status = gyre_in_out_check(&args.in, &args.out, where, err);
    if (!status) status = gyre_trained_rotation_read(rotation, args.in.shape[2], &c.rotation, where, err);
    if (status) return status;
    c.pairs.layout = layout_of(&c.rotation);
    c.pairs.shared = c.rotation.frequencies.shape[2] == 1 && (!c.rotation.phases.data || c.rotation.phases.shape[2] == 1);
    status = gyre_pair_layout_check(&c.pairs.layout, args.in.shape[3], "frequencies", where, err);
    if (!status) status = gyre_trained_rotation_finite(&c.rotation, where, err);
    if (!status)
        status = gyre_trained_positions_check(args.positions, args.in.shape, c.rotation.frequencies.shape[1], where, err);
    if (!status) status = gyre_in_out_apart_check(&args.in, &args.out, where, err);
    if (!status) gyre_pair_rotation_run(&c.pairs, exec);
    return status;
}

/* -- gradient -- */

/* A task is some pairs of a row of frequencies or phases: those of one head, or of all.  Then no two tasks write one number,
 * and the order of a sum does not depend on threads. */
/* sum[a][i] += m_a g[i]; the last row is that of phases. */
typedef struct angle_sums {
    double frequencies[GYRE_MAX_AXES][GYRE_TRAINED_CHUNK], phases[GYRE_TRAINED_CHUNK];
} angle_sums;

static void load_rotated(const gyre_trained_sums *c, const gyre_pair_place *at, int64_t count, const double *position,
                         double *x, double *y) {
    (void)position;
    gyre_pairs_load(c->in, &c->layout, at, count, x, y);
}

static void add_head(const gyre_trained_sums *c, const gyre_pair_place *at, int64_t count, const double *position,
                     angle_sums *sums) {
    double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK], dx[GYRE_TRAINED_CHUNK], dy[GYRE_TRAINED_CHUNK];
    c->rotated(c, at, count, position, x, y);
    gyre_pairs_load(c->dout, &c->layout, at, count, dx, dy);
    for (int64_t i = 0; i < count; i++) {
        const double dangle = dy[i] * x[i] - dx[i] * y[i];
        sums->phases[i] += dangle;
        for (int64_t a = 0; a < c->rotation->frequencies.shape[1]; a++)
            sums->frequencies[a][i] += position[a] * dangle;
    }
}

/* head < 0: all heads. */
static void add_tokens(const gyre_trained_sums *c, int64_t head, int64_t pair, int64_t count, angle_sums *sums) {
    const int64_t *shape = c->in->shape, first = head < 0 ? 0 : head, end = head < 0 ? shape[2] : head + 1;
    double position[GYRE_MAX_AXES];
    memset(sums, 0, sizeof *sums);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++) {
            gyre_trained_positions(c->positions, b, t, c->rotation->frequencies.shape[1], position);
            for (int64_t h = first; h < end; h++)
                add_head(c, &(gyre_pair_place){b, t, h, pair}, count, position, sums);
        }
}

static void put_sums(const gyre_trained_sums *c, const angle_sums *sums, int64_t row, int64_t pair, int64_t count,
                     int phases) {
    const gyre_trained_gradients *to = c->gradients;
    if (phases) {
        double x[GYRE_TRAINED_CHUNK], phase[GYRE_TRAINED_CHUNK];
        gyre_trained_phases(c->rotation, &(gyre_pair_place){.head = row, .pair = pair}, count, phase);
        for (int64_t i = 0; i < count; i++)
            x[i] = phase[i] >= c->phase_low && phase[i] <= c->phase_high ? sums->phases[i] : 0;
        gyre_trained_add(x, &to->phases, &(gyre_pair_place){.head = row, .pair = pair}, count);
        return;
    }
    for (int64_t a = 0; a < to->frequencies.shape[1]; a++)
        gyre_trained_add(sums->frequencies[a], &to->frequencies, &(gyre_pair_place){0, a, row, pair}, count);
}

/* One pass over the tokens computes both, if both have the same heads. */
static void gradient_task(void *arg, int64_t task) {
    const gyre_trained_sums *c = arg;
    const int64_t row = task / c->chunks, pair = task % c->chunks * GYRE_TRAINED_CHUNK;
    const int64_t count = c->layout.pairs - pair < GYRE_TRAINED_CHUNK ? c->layout.pairs - pair : GYRE_TRAINED_CHUNK;
    const gyre_view *const to[2] = {&c->gradients->frequencies, &c->gradients->phases};
    angle_sums sums = {.phases = {0}};
    int64_t summed = INT64_MIN; /* the head that `sums` are of */
    for (int i = 0; i < 2; i++) {
        if (!to[i]->data || row >= to[i]->shape[2]) continue;
        const int64_t head = to[i]->shape[2] == 1 ? -1 : row;
        if (head != summed) add_tokens(c, head, pair, count, &sums);
        summed = head;
        put_sums(c, &sums, row, pair, count, i);
    }
}

void gyre_trained_sums_run(gyre_trained_sums *c, const gyre_exec *exec) {
    c->chunks = (c->layout.pairs + GYRE_TRAINED_CHUNK - 1) / GYRE_TRAINED_CHUNK;
    gyre_parallel(exec, gradient_task, c, c->chunks * c->in->shape[2]);
}

gyre_status gyre_trained_gradients_read(const gyre_trained_rotation *r, const gyre_trained_gradients *given,
                                        gyre_trained_gradients *own, const char *where, gyre_error *err) {
    if (!given) return gyre_fail(err, GYRE_EINVAL, "gradients: is NULL (%s)", where);
    if (gyre_sized_read(own, sizeof *own, given, "gyre_trained_gradients", err)) return GYRE_EINVAL;
    if (own->phases.data && !r->phases.data)
        return gyre_fail(err, GYRE_EINVAL, "gradients.phases: is wanted, but there are no phases (%s)", where);
    const gyre_status status =
        gyre_trained_gradient_check(&own->frequencies, r->frequencies.shape, "gradients.frequencies", where, err);
    return status ? status : gyre_trained_gradient_check(&own->phases, r->phases.shape, "gradients.phases", where, err);
}

gyre_status gyre_trained_real_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err) {
    if (!gyre_is_real(view->dtype))
        return gyre_fail(err, GYRE_EDTYPE, "%s: is %s, not F32, F16, BF16 or F64 (%s)", name, gyre_dtype_text(view->dtype),
                         where);
    return gyre_cview_check(view, name, where, err);
}

gyre_status gyre_trained_rotate_gradient(const gyre_trained_rotation *rotation, const gyre_rotate_gradient_args *given,
                                         const gyre_trained_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    gyre_rotate_gradient_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_gradient_args", err)) return GYRE_EINVAL;
    const gyre_positions *positions = args.positions;
    const gyre_cview *in = &args.in, *dout = &args.dout;
    static const char where[] = "gyre_trained_rotate_gradient";
    gyre_trained_rotation own;
    gyre_trained_gradients to;
    gyre_status status = gyre_trained_real_check(in, "in", where, err);
    if (!status) status = gyre_trained_real_check(dout, "dout", where, err);
    if (!status) status = gyre_shape_check(dout->shape, in->shape, "dout", where, err);
    if (!status) status = gyre_trained_rotation_read(rotation, in->shape[2], &own, where, err);
    if (!status) status = gyre_trained_gradients_read(&own, gradients, &to, where, err);
    if (status) return status;
    gyre_trained_sums c = {.rotation = &own,
                           .layout = layout_of(&own),
                           .positions = positions,
                           .in = in,
                           .dout = dout,
                           .gradients = &to,
                           .rotated = load_rotated,
                           .phase_low = -INFINITY,
                           .phase_high = INFINITY};
    status = gyre_pair_layout_check(&c.layout, in->shape[3], "frequencies", where, err);
    if (!status) status = gyre_trained_rotation_finite(&own, where, err);
    if (!status) status = gyre_trained_positions_check(positions, in->shape, own.frequencies.shape[1], where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    gyre_trained_sums_run(&c, exec);
    return GYRE_OK;
}
