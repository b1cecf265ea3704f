#include "model/parts/token_angles.h"
#include "gyre/gyre_trained.h"

#include <string.h>

/* The angles of the kept numbers, [batch, token, kv_heads, pairs]. */
static gyre_view angles_of(const gyre_trained_heads *t, const gyre_view *kept) {
    gyre_view angles = *kept;
    angles.shape[2] = t->kv_heads;
    angles.shape[3] = t->pairs;
    angles.stride[2] = t->pairs;
    return angles;
}

/* Those of key head h. */
static gyre_angle_rotation rotation_of(const gyre_trained_heads *t, const gyre_view *kept, int64_t h) {
    gyre_angle_rotation rotation = GYRE_INIT(gyre_angle_rotation);
    gyre_view angles = angles_of(t, kept);
    angles.data = gyre_view_at(&angles, 0, 0, h, 0);
    angles.shape[2] = 1;
    rotation.layout = t->layout;
    rotation.angles = gyre_const(angles);
    return rotation;
}

gyre_status gyre_turn_key_head(const gyre_trained_heads *t, int64_t h, const gyre_angle_rotation *rotation,
                               gyre_direction direction, const gyre_view in[2], const gyre_view out[2],
                               const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_cview from = gyre_const(gyre_heads_of_key(t, &in[i], h));
        const gyre_view to = gyre_heads_of_key(t, &out[i], h);
        status = gyre_angle_rotate(rotation, GYRE_ARGS(gyre_rotate_args, .direction = direction, .in = from, .out = to),
                                   exec, err);
    }
    return status;
}

gyre_status gyre_turn_key_head_gradient(const gyre_trained_heads *t, int64_t h, const gyre_angle_rotation *rotation,
                                        const gyre_view rotated[2], const gyre_view dout[2], const gyre_view *dangles,
                                        gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_cview in = gyre_const(gyre_heads_of_key(t, &rotated[i], h)),
                         d = gyre_const(gyre_heads_of_key(t, &dout[i], h));
        status = gyre_angle_rotate_gradient(rotation, GYRE_ARGS(gyre_rotate_gradient_args, .in = in, .dout = d), dangles,
                                            NULL, err);
    }
    return status;
}

static gyre_status rotate(const gyre_trained_heads *t, gyre_direction direction, const gyre_view *kept,
                          const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        const gyre_angle_rotation rotation = rotation_of(t, kept, h);
        status = gyre_turn_key_head(t, h, &rotation, direction, in, out, exec, err);
    }
    return status;
}

gyre_status gyre_token_angles_forward(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_exec *exec,
                                      gyre_error *err) {
    const gyre_view sums = angles_of(t, &heads->kept);
    gyre_cview before = heads->before;
    before.shape[2] = t->kv_heads;
    before.shape[3] = t->pairs;
    before.stride[2] = t->pairs;
    const gyre_status status = gyre_gate_sums(
        GYRE_ARGS(gyre_gate_sums_args, .log_gates = gyre_const(sums), .before = before, .sums = sums), exec, err);
    return status ? status : rotate(t, GYRE_DIRECTION_FORWARD, &heads->kept, heads->in, heads->out, exec, err);
}

/* angles += the gradient to them. */
static gyre_status add_gradient(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d,
                                const gyre_view *angles, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        const gyre_angle_rotation rotation = rotation_of(t, &heads->kept, h);
        gyre_view of_head = *angles;
        of_head.data = gyre_view_at(angles, 0, 0, h, 0);
        of_head.shape[2] = 1;
        status = gyre_turn_key_head_gradient(t, h, &rotation, heads->out, d->out, &of_head, err);
    }
    return status;
}

gyre_status gyre_token_angles_gradient(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d,
                                       double *sums, double *made, gyre_error *err) {
    const int64_t *shape = heads->kept.shape;
    const gyre_view of_sums = gyre_dense(sums, GYRE_DTYPE_F64, shape[0], shape[1], t->kv_heads, t->pairs),
                    of_made = gyre_dense(made, GYRE_DTYPE_F64, shape[0], shape[1], t->kv_heads, t->pairs);
    memset(sums, 0, (size_t)(shape[0] * shape[1] * gyre_token_angles(t)) * sizeof *sums);
    gyre_status status = add_gradient(t, heads, d, &of_sums, err);
    const gyre_cview dsums[2] = {gyre_const(of_sums), {.data = NULL}};
    if (!status) status = gyre_gate_sums_gradient(dsums, NULL, 0, &of_made, NULL, err);
    return status ? status : rotate(t, GYRE_DIRECTION_ADJOINT, &heads->kept, d->out, d->in, NULL, err);
}
