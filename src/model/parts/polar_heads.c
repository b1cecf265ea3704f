/* polar_heads.c: PoPE: channels become complex numbers, and keys have trained phases. */
#include "gyre/gyre_trained.h"
#include "model/parts/head_parts.h"

/* Frequencies of 0: the encoding rotates by the position. */
static gyre_trained_rotation phases_of(const gyre_trained_heads *t, int keys) {
    static const float still = 0;
    gyre_trained_rotation rotation = GYRE_INIT(gyre_trained_rotation);
    rotation.layout = t->layout;
    rotation.frequencies = gyre_cdense(&still, GYRE_DTYPE_F32, 1, 1, 1, t->pairs);
    rotation.frequencies.stride[3] = 0;
    if (keys) rotation.phases = gyre_cdense(t->data, GYRE_DTYPE_F32, 1, 1, t->kv_heads, t->pairs);
    return rotation;
}

/* Positions are not in the angles: the model's encoding rotates what this writes. */
static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    const gyre_positions still = {0};
    (void)positions;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_trained_rotation rotation = phases_of(t, i);
        const gyre_cview from = gyre_const(heads->in[i]);
        status = gyre_polar_rotate(
            &rotation, GYRE_ARGS(gyre_rotate_args, .positions = &still, .in = from, .out = heads->out[i]), work->exec, err);
    }
    return status;
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    const gyre_positions still = {0};
    (void)positions, (void)work;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_trained_rotation rotation = phases_of(t, i);
        const gyre_cview from = gyre_const(heads->in[i]), to = gyre_const(d->out[i]);
        gyre_trained_gradients phases = GYRE_INIT(gyre_trained_gradients);
        if (i) phases.phases = gyre_dense(numbers, GYRE_DTYPE_F32, 1, 1, t->kv_heads, t->pairs);
        status = gyre_polar_rotate_gradient(
            &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &still, .in = from, .dout = to, .din = d->in[i]),
            i ? &phases : NULL, NULL, err);
    }
    return status;
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    (void)encoding;
    out[0][0] = c->kv_heads;
    out[0][1] = c->head_dim;
}

/* The bound is just inside -2 pi, so that a phase at it still has a gradient. */
const gyre_head_part gyre_head_part_polar = {
    .part = GYRE_LAYER_PART_POLAR,
    .facts = &gyre_head_part_facts_polar,
    .variants = {{.name = "pope", .layer_parts = GYRE_LAYER_PART_POLAR}},
    .needs = GYRE_PART_NEEDS_WHOLE,
    .tensors = {{.name = "self_attn.key_phases", .minimum = -6.283185F, .maximum = 0}},
    .shapes = shapes,
    .reads_in = 1,
    .forward = forward,
    .gradient = gradient};
