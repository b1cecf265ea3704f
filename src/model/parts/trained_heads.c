#include "model/parts/trained_heads.h"

#include "core/view.h"
#include "model/architecture/weight_layout.h"

/* -- frequencies -- */

/* out = the heads of `view` that key head h serves. */
static gyre_view heads_of(const gyre_trained_heads *t, const gyre_view *view, int64_t h) {
    gyre_view part = *view;
    const int64_t group = view->shape[2] / t->kv_heads;
    part.data = gyre_view_at(view, 0, 0, h * group, 0);
    part.shape[2] = group;
    return part;
}

static gyre_trained_rotation rotation_of(const gyre_trained_heads *t, int64_t h) {
    gyre_trained_rotation rotation = GYRE_INIT(gyre_trained_rotation);
    rotation.layout = t->layout;
    rotation.frequencies = gyre_cdense(t->data + h * t->numbers, GYRE_DTYPE_F32, 1, 1, 1, t->numbers);
    return rotation;
}

static gyre_status rotate_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                                const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads; h++) {
        const gyre_trained_rotation rotation = rotation_of(t, h);
        for (int i = 0; i < 2 && !status; i++) {
            const gyre_cview from = gyre_const(heads_of(t, &in[i], h));
            const gyre_view to = heads_of(t, &out[i], h);
            status = gyre_trained_rotate(
                &rotation,
                GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = positions, .in = from, .out = to), exec,
                err);
        }
    }
    return status;
}

static gyre_status frequencies_forward(const gyre_trained_heads *t, const gyre_positions *positions,
                                       const gyre_head_views *heads, const gyre_exec *exec, gyre_error *err) {
    return rotate_heads(t, GYRE_DIRECTION_FORWARD, positions, heads->in, heads->out, exec, err);
}

static gyre_status frequencies_gradient(const gyre_trained_heads *t, const gyre_positions *positions,
                                        const gyre_head_views *heads, const gyre_head_views *d, float *gradient,
                                        gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads; h++) {
        const gyre_trained_rotation rotation = rotation_of(t, h);
        gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
        to.frequencies = gyre_dense(gradient + h * t->numbers, GYRE_DTYPE_F32, 1, 1, 1, t->numbers);
        for (int i = 0; i < 2 && !status; i++) {
            const gyre_cview rotated = gyre_const(heads_of(t, &heads->out[i], h)),
                             dout = gyre_const(heads_of(t, &d->out[i], h));
            status = gyre_trained_rotate_gradient(
                &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = positions, .in = rotated, .dout = dout), &to,
                NULL, err);
        }
    }
    return status ? status : rotate_heads(t, GYRE_DIRECTION_ADJOINT, positions, d->out, d->in, NULL, err);
}

/* -- polar coordinates -- */

/* Frequencies of 0: the encoding rotates by the position. */
static gyre_trained_rotation phases_of(const gyre_trained_heads *t, int keys) {
    static const float still = 0;
    gyre_trained_rotation rotation = GYRE_INIT(gyre_trained_rotation);
    rotation.layout = t->layout;
    rotation.frequencies = gyre_cdense(&still, GYRE_DTYPE_F32, 1, 1, 1, t->numbers);
    rotation.frequencies.stride[3] = 0;
    if (keys) rotation.phases = gyre_cdense(t->data, GYRE_DTYPE_F32, 1, 1, t->kv_heads, t->numbers);
    return rotation;
}

/* Positions are not in the angles: the model's encoding rotates what this writes. */
static gyre_status polar_forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                                 const gyre_exec *exec, gyre_error *err) {
    const gyre_positions still = {0};
    (void)positions;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_trained_rotation rotation = phases_of(t, i);
        const gyre_cview from = gyre_const(heads->in[i]);
        status = gyre_polar_rotate(
            &rotation, GYRE_ARGS(gyre_rotate_args, .positions = &still, .in = from, .out = heads->out[i]), exec, err);
    }
    return status;
}

static gyre_status polar_gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                                  const gyre_head_views *d, float *gradient, gyre_error *err) {
    const gyre_positions still = {0};
    (void)positions;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_trained_rotation rotation = phases_of(t, i);
        const gyre_cview from = gyre_const(heads->in[i]), to = gyre_const(d->out[i]);
        gyre_trained_gradients phases = GYRE_INIT(gyre_trained_gradients);
        if (i) phases.phases = gyre_dense(gradient, GYRE_DTYPE_F32, 1, 1, t->kv_heads, t->numbers);
        status = gyre_polar_rotate_gradient(
            &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &still, .in = from, .dout = to, .din = d->in[i]),
            i ? &phases : NULL, NULL, err);
    }
    return status;
}

/* -- Fourier series -- */

/* How many calls a view takes: heads that share numbers take one each. */
static int64_t fourier_calls(const gyre_trained_heads *t, const gyre_view *view) {
    return view->shape[2] == t->kv_heads ? 1 : t->kv_heads;
}

static gyre_view fourier_part(const gyre_trained_heads *t, const gyre_view *view, int64_t call) {
    return fourier_calls(t, view) == 1 ? *view : heads_of(t, view, call);
}

/* out = the place of the numbers of a call in `data`, or in gradients to it; sines 1: those of the sines. */
static int64_t fourier_offset(const gyre_trained_heads *t, int64_t call, int sines) {
    return ((sines ? t->kv_heads : 0) + call) * t->numbers;
}

static gyre_fourier_rotation series_of(const gyre_trained_heads *t, int64_t calls, int64_t call) {
    const gyre_fourier_terms *f = t->fourier;
    const int64_t heads = calls == 1 ? t->kv_heads : 1;
    gyre_fourier_rotation rotation = GYRE_INIT(gyre_fourier_rotation);
    rotation.layout = t->layout;
    rotation.pairs = f->pairs;
    rotation.rest = f->rest;
    rotation.frequencies = gyre_cdense(f->frequencies, GYRE_DTYPE_F64, 1, 1, 1, f->terms);
    rotation.cosines = gyre_cdense(t->data + fourier_offset(t, call, 0), GYRE_DTYPE_F32, 1, heads, f->terms, f->series);
    rotation.sines = gyre_cdense(t->data + fourier_offset(t, call, 1), GYRE_DTYPE_F32, 1, heads, f->terms, f->series);
    return rotation;
}

static gyre_status multiply_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                                  const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2; i++) {
        const int64_t calls = fourier_calls(t, &in[i]);
        for (int64_t call = 0; call < calls && !status; call++) {
            const gyre_fourier_rotation rotation = series_of(t, calls, call);
            const gyre_cview from = gyre_const(fourier_part(t, &in[i], call));
            const gyre_view to = fourier_part(t, &out[i], call);
            status = gyre_fourier_rotate(
                &rotation,
                GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = positions, .in = from, .out = to), exec,
                err);
        }
    }
    return status;
}

static gyre_status fourier_forward(const gyre_trained_heads *t, const gyre_positions *positions,
                                   const gyre_head_views *heads, const gyre_exec *exec, gyre_error *err) {
    return multiply_heads(t, GYRE_DIRECTION_FORWARD, positions, heads->in, heads->out, exec, err);
}

static gyre_status fourier_gradient(const gyre_trained_heads *t, const gyre_positions *positions,
                                    const gyre_head_views *heads, const gyre_head_views *d, float *gradient,
                                    gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2; i++) {
        const int64_t calls = fourier_calls(t, &heads->in[i]);
        for (int64_t call = 0; call < calls && !status; call++) {
            const gyre_fourier_rotation rotation = series_of(t, calls, call);
            const int64_t *shape = rotation.cosines.shape;
            const gyre_cview x = gyre_const(fourier_part(t, &heads->in[i], call)),
                             dx = gyre_const(fourier_part(t, &d->out[i], call));
            gyre_fourier_gradients to = GYRE_INIT(gyre_fourier_gradients);
            to.cosines = gyre_dense(gradient + fourier_offset(t, call, 0), GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
            to.sines = gyre_dense(gradient + fourier_offset(t, call, 1), GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
            status = gyre_fourier_rotate_gradient(
                &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = positions, .in = x, .dout = dx), &to, NULL,
                err);
        }
    }
    return status ? status : multiply_heads(t, GYRE_DIRECTION_ADJOINT, positions, d->out, d->in, NULL, err);
}

/* -- the list -- */

static const gyre_head_part frequencies = {GYRE_LAYER_PART_FREQUENCIES, GYRE_WEIGHT_FREQUENCIES,
                                           .forward = frequencies_forward, .gradient = frequencies_gradient};
static const gyre_head_part polar = {GYRE_LAYER_PART_POLAR, GYRE_WEIGHT_KEY_PHASES,   .resizes = 1,
                                     .reads_in = 1,         .forward = polar_forward, .gradient = polar_gradient};
static const gyre_head_part fourier = {GYRE_LAYER_PART_FOURIER, GYRE_WEIGHT_FOURIER_COSINES, .reads_in = 1,
                                       .forward = fourier_forward, .gradient = fourier_gradient};
static const gyre_head_part *const parts[] = {
    &frequencies, &polar, &fourier, &gyre_head_part_imaginary, &gyre_head_part_matrices, NULL};

const gyre_head_part *gyre_head_part_of(int64_t layer_parts) {
    const gyre_head_part *const *part = parts;
    while (*part && !(layer_parts & (*part)->part))
        part++;
    return *part;
}
