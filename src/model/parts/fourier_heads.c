/* fourier_heads.c: FoPE: a trained Fourier series for each of the first pairs of a key head, with the query heads that share
 * it.  Its frequencies are those of the encoding that make a whole revolution within the trained length. */
#include "core/encoding.h"
#include "gyre/gyre_trained.h"
#include "model/parts/head_parts.h"
#include "util/error.h"

#include <math.h>

/* The terms of a series, and the pairs that have one: as the released code of FoPE chooses them. */
typedef struct fourier_size {
    int64_t terms, series;
} fourier_size;

/* out = zeros where no pair can have a series. */
static fourier_size size_of(const gyre_encoding *encoding) {
    const gyre_config *c = &encoding->config;
    const double slowest = c->trained_length > 0 ? 2 * acos(-1) / (double)c->trained_length : INFINITY;
    const int64_t pairs = c->rope.dim / 2, most = c->rope.dim / 4;
    fourier_size size = {0, 0};
    for (int64_t i = 0; i < pairs && encoding->frequency[i].high >= slowest; i++)
        size.terms++;
    size.series = size.terms < most ? size.terms : most;
    return size.series > 0 ? size : (fourier_size){0, 0};
}

/* How many calls a view takes: heads that share numbers take one each. */
static int64_t calls_of(const gyre_trained_heads *t, const gyre_view *view) {
    return view->shape[2] == t->kv_heads ? 1 : t->kv_heads;
}

static gyre_view view_of(const gyre_trained_heads *t, const gyre_view *view, int64_t call) {
    return calls_of(t, view) == 1 ? *view : gyre_heads_of_key(t, view, call);
}

/* out = the place of the numbers of a call in `data`, or in gradients to it; sines 1: those of the sines. */
static int64_t offset_of(const gyre_trained_heads *t, fourier_size size, int64_t call, int sines) {
    return ((sines ? t->kv_heads : 0) + call) * size.terms * size.series;
}

static gyre_fourier_rotation series_of(const gyre_trained_heads *t, int64_t calls, int64_t call) {
    const fourier_size f = size_of(t->encoding);
    const int64_t heads = calls == 1 ? t->kv_heads : 1;
    gyre_fourier_rotation rotation = GYRE_INIT(gyre_fourier_rotation);
    rotation.layout = t->layout;
    rotation.pairs = t->pairs;
    rotation.rest = t->layer_parts & GYRE_LAYER_PART_FOURIER_STILL ? GYRE_FOURIER_REST_STILL : GYRE_FOURIER_REST_RELEASED;
    rotation.frequencies = gyre_cdense(&t->encoding->frequency->high, GYRE_DTYPE_F64, 1, 1, 1, f.terms);
    rotation.frequencies.stride[3] = sizeof *t->encoding->frequency / sizeof(double);
    rotation.cosines = gyre_cdense(t->data + offset_of(t, f, call, 0), GYRE_DTYPE_F32, 1, heads, f.terms, f.series);
    rotation.sines = gyre_cdense(t->data + offset_of(t, f, call, 1), GYRE_DTYPE_F32, 1, heads, f.terms, f.series);
    return rotation;
}

static gyre_status multiply_heads(const gyre_trained_heads *t, gyre_direction direction, const gyre_positions *positions,
                                  const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2; i++) {
        const int64_t calls = calls_of(t, &in[i]);
        for (int64_t call = 0; call < calls && !status; call++) {
            const gyre_fourier_rotation rotation = series_of(t, calls, call);
            const gyre_cview from = gyre_const(view_of(t, &in[i], call));
            const gyre_view to = view_of(t, &out[i], call);
            status = gyre_fourier_rotate(
                &rotation,
                GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = positions, .in = from, .out = to), exec,
                err);
        }
    }
    return status;
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    return multiply_heads(t, GYRE_DIRECTION_FORWARD, positions, heads->in, heads->out, work->exec, err);
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    const fourier_size f = size_of(t->encoding);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2; i++) {
        const int64_t calls = calls_of(t, &heads->in[i]);
        for (int64_t call = 0; call < calls && !status; call++) {
            const gyre_fourier_rotation rotation = series_of(t, calls, call);
            const int64_t *shape = rotation.cosines.shape;
            const gyre_cview x = gyre_const(view_of(t, &heads->in[i], call)), dx = gyre_const(view_of(t, &d->out[i], call));
            gyre_fourier_gradients to = GYRE_INIT(gyre_fourier_gradients);
            to.cosines = gyre_dense(numbers + offset_of(t, f, call, 0), GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
            to.sines = gyre_dense(numbers + offset_of(t, f, call, 1), GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
            status = gyre_fourier_rotate_gradient(
                &rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = positions, .in = x, .dout = dx), &to, NULL,
                err);
        }
    }
    return status ? status : multiply_heads(t, GYRE_DIRECTION_ADJOINT, positions, d->out, d->in, work->exec, err);
}

/* -- what the list says of it -- */
static gyre_status check(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    (void)c;
    if (size_of(encoding).series > 0) return GYRE_OK;
    return gyre_fail(
        err, GYRE_EINVAL,
        "layer_parts: fourier needs 4 channels that rotate, and a whole revolution within the trained length (model)");
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    const fourier_size size = size_of(encoding);
    for (int i = 0; i < 2; i++) {
        out[i][0] = c->kv_heads * size.terms;
        out[i][1] = size.series;
    }
}

/* As in the released code (eye_xavier_norm): term i step of pair i is 1.  The gain is that of its smallest models.  Xavier's
 * normal sees the first two of [heads][terms][series], and takes the last for a receptive field. */
static double start(const gyre_part_start *at) {
    const fourier_size size = size_of(at->encoding);
    if (size.series == 0) return 0; /* a config that is refused */
    const int64_t heads = at->config->kv_heads, step = (size.terms + size.series - 1) / size.series;
    const double deviation = 0.3 * sqrt(2 / (double)((size.terms + heads) * size.series));
    const int64_t term = at->i / size.series % size.terms, pair = at->i % size.series;
    return (term == pair * step ? 1 : 0) + deviation * at->normal;
}

const gyre_head_part gyre_head_part_fourier = {
    .part = GYRE_LAYER_PART_FOURIER,
    .facts = &gyre_head_part_facts_fourier,
    .option = GYRE_LAYER_PART_FOURIER_STILL,
    .variants = {{.name = "fope", .layer_parts = GYRE_LAYER_PART_FOURIER},
                 {.name = "fope-paper", .layer_parts = GYRE_LAYER_PART_FOURIER | GYRE_LAYER_PART_FOURIER_STILL}},
    .needs = GYRE_PART_NEEDS_PLAIN,
    .check = check,
    .tensors = {{.name = "self_attn.fourier_cosines", .start = start}, {.name = "self_attn.fourier_sines", .start = start}},
    .shapes = shapes,
    .reads_in = 1,
    .forward = forward,
    .gradient = gradient};
