/* angle_rotation.c: pairs that rotate by angles of the caller, one for each token, and the gradient to them. */
#include "core/convert.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "trained/trained_angles.h"
#include "util/error.h"

#include <string.h>

/* *own = the caller's rotation, whatever its version. */
static gyre_status read_rotation(const gyre_angle_rotation *given, gyre_angle_rotation *own, const char *where,
                                 gyre_error *err) {
    if (!given) return gyre_fail(err, GYRE_EINVAL, "rotation: is NULL (%s)", where);
    return gyre_sized_read(own, sizeof *own, given, "gyre_angle_rotation", err);
}

/* Angles, or a gradient to them, for rows of this shape; and their place in a row. */
static gyre_status check_pairs(const gyre_angle_rotation *own, const int64_t *angles, const int64_t *rows,
                               gyre_pair_layout *layout, const char *name, const char *where, gyre_error *err) {
    const int64_t shape[4] = {rows[0], rows[1], angles[2] == 1 ? 1 : rows[2], angles[3]};
    const gyre_status status = gyre_shape_check(angles, shape, name, where, err);
    *layout = (gyre_pair_layout){own->layout, own->first_channel, angles[3]};
    return status ? status : gyre_pair_layout_check(layout, rows[3], name, where, err);
}

/* -- rotation -- */

typedef struct rotate_call {
    gyre_pair_rotation pairs; /* first: `angles` gets the call from it */
    gyre_angle_rotation rotation;
} rotate_call;

static void load_angles(const gyre_pair_rotation *pairs, const gyre_pair_place *at, int64_t count, double *angle) {
    const gyre_cview *angles = &((const rotate_call *)pairs)->rotation.angles;
    gyre_load_row_f64(gyre_cview_at(angles, at->batch, at->token, pairs->shared ? 0 : at->head, at->pair), angles->dtype,
                      angles->stride[3], count, angle);
}

gyre_status gyre_angle_rotate(const gyre_angle_rotation *rotation, const gyre_rotate_args *given, const gyre_exec *exec,
                              gyre_error *err) {
    static const char where[] = "gyre_angle_rotate";
    gyre_rotate_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    rotate_call c = {.pairs = {.in = &args.in,
                               .out = &args.out,
                               .sign = args.direction == GYRE_DIRECTION_FORWARD ? 1 : -1,
                               .angles = load_angles}};
    const gyre_cview *angles = &c.rotation.angles, out = gyre_const(args.out);
    gyre_status status = gyre_direction_check(args.direction, where, err);
    if (!status) status = gyre_in_out_check(&args.in, &args.out, where, err);
    if (!status) status = read_rotation(rotation, &c.rotation, where, err);
    if (!status) status = check_pairs(&c.rotation, angles->shape, args.in.shape, &c.pairs.layout, "angles", where, err);
    if (!status) status = gyre_trained_shape_check(angles, angles->shape, "angles", where, err);
    if (!status) status = gyre_in_out_apart_check(&args.in, &args.out, where, err);
    if (!status) status = gyre_apart_check(&out, "out", angles, "angles", where, err);
    c.pairs.shared = angles->shape[2] == 1;
    if (!status) gyre_pair_rotation_run(&c.pairs, exec);
    return status;
}

/* -- gradient -- */

typedef struct gradient_call {
    gyre_pair_layout layout;
    const gyre_cview *in, *dout;
    const gyre_view *dangles;
} gradient_call;

/* dangle[i] += that of pair at->pair + i. */
static void add_head(const gradient_call *c, const gyre_pair_place *at, int64_t count, double *dangle) {
    double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK], dx[GYRE_TRAINED_CHUNK], dy[GYRE_TRAINED_CHUNK];
    gyre_pairs_load(c->in, &c->layout, at, count, x, y);
    gyre_pairs_load(c->dout, &c->layout, at, count, dx, dy);
    for (int64_t i = 0; i < count; i++)
        dangle[i] += dy[i] * x[i] - dx[i] * y[i];
}

static void gradient_of_token(void *arg, int64_t task) {
    const gradient_call *c = arg;
    const int64_t heads = c->in->shape[2], own_heads = c->dangles->shape[2], pairs = c->layout.pairs;
    gyre_pair_place at = {.batch = task / c->in->shape[1], .token = task % c->in->shape[1]};
    for (int64_t n; at.pair < pairs; at.pair += n) {
        double sum[GYRE_TRAINED_CHUNK];
        n = pairs - at.pair < GYRE_TRAINED_CHUNK ? pairs - at.pair : GYRE_TRAINED_CHUNK;
        for (int64_t own = 0; own < own_heads; own++) {
            const int64_t end = own_heads == 1 ? heads : own + 1;
            memset(sum, 0, sizeof sum);
            for (at.head = own; at.head < end; at.head++)
                add_head(c, &at, n, sum);
            at.head = own;
            gyre_trained_add(sum, c->dangles, &at, n);
        }
    }
}

gyre_status gyre_angle_rotate_gradient(const gyre_angle_rotation *rotation, const gyre_rotate_gradient_args *given,
                                       const gyre_view *dangles, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_angle_rotate_gradient";
    gyre_rotate_gradient_args args;
    gyre_angle_rotation own;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_gradient_args", err)) return GYRE_EINVAL;
    if (!dangles || !dangles->data) return gyre_fail(err, GYRE_EINVAL, "dangles: is NULL (%s)", where);
    gradient_call c = {.in = &args.in, .dout = &args.dout, .dangles = dangles};
    gyre_status status = gyre_trained_real_check(c.in, "in", where, err);
    if (!status) status = gyre_trained_real_check(c.dout, "dout", where, err);
    if (!status) status = gyre_shape_check(c.dout->shape, c.in->shape, "dout", where, err);
    if (!status) status = read_rotation(rotation, &own, where, err);
    if (!status) status = check_pairs(&own, dangles->shape, c.in->shape, &c.layout, "dangles", where, err);
    if (!status) status = gyre_trained_gradient_check(dangles, dangles->shape, "dangles", where, err);
    const gyre_cview written = gyre_const(*dangles);
    if (!status) status = gyre_apart_check(&written, "dangles", c.in, "in", where, err);
    if (!status) status = gyre_apart_check(&written, "dangles", c.dout, "dout", where, err);
    if (!status && gyre_view_elements(c.in->shape) > 0)
        gyre_parallel(exec, gradient_of_token, &c, c.in->shape[0] * c.in->shape[1]);
    return status;
}
