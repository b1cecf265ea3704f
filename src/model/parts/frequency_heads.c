/* frequency_heads.c: frequencies of a rotation that each key head trains, with the query heads that share it. */
#include "gyre/gyre_trained.h"
#include "model/parts/head_parts.h"

static gyre_trained_rotation rotation_of(const gyre_trained_heads *t, int64_t h) {
    gyre_trained_rotation rotation = GYRE_INIT(gyre_trained_rotation);
    rotation.layout = t->layout;
    rotation.frequencies = gyre_cdense(t->data + h * t->pairs, GYRE_DTYPE_F32, 1, 1, 1, t->pairs);
    return rotation;
}

static gyre_status rotate_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                                const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads; h++) {
        const gyre_trained_rotation rotation = rotation_of(t, h);
        for (int i = 0; i < 2 && !status; i++) {
            const gyre_cview from = gyre_const(gyre_heads_of_key(t, &in[i], h));
            const gyre_view to = gyre_heads_of_key(t, &out[i], h);
            status = gyre_trained_rotate(
                &rotation,
                GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = positions, .in = from, .out = to), exec,
                err);
        }
    }
    return status;
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    return rotate_heads(t, GYRE_DIRECTION_FORWARD, positions, heads->in, heads->out, work->exec, err);
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads; h++) {
        const gyre_trained_rotation rotation = rotation_of(t, h);
        gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
        to.frequencies = gyre_dense(numbers + h * t->pairs, GYRE_DTYPE_F32, 1, 1, 1, t->pairs);
        for (int i = 0; i < 2 && !status; i++) {
            const gyre_cview rotated = gyre_const(gyre_heads_of_key(t, &heads->out[i], h)),
                             dout = gyre_const(gyre_heads_of_key(t, &d->out[i], h));
            status = gyre_trained_rotate_gradient(
                &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = positions, .in = rotated, .dout = dout), &to,
                NULL, err);
        }
    }
    return status ? status : rotate_heads(t, GYRE_DIRECTION_ADJOINT, positions, d->out, d->in, work->exec, err);
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    out[0][0] = c->kv_heads;
    out[0][1] = gyre_encoding_get_config(encoding)->rope.dim / 2;
}

/* Every key head begins with the frequencies of the encoding. */
static double start(const gyre_part_start *at) {
    return at->inv_freq[at->i % at->shape[1]];
}

const gyre_head_part gyre_head_part_frequencies = {
    .part = GYRE_LAYER_PART_FREQUENCIES,
    .facts = &gyre_head_part_facts_frequencies,
    .variants = {{.name = "trained-frequencies", .layer_parts = GYRE_LAYER_PART_FREQUENCIES}},
    .needs = GYRE_PART_NEEDS_PLAIN,
    .tensors = {{.name = "self_attn.frequencies", .start = start}},
    .shapes = shapes,
    .forward = forward,
    .gradient = gradient};
