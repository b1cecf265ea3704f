/* cos_sin.c: cos and sin of positions for who rotates by himself. */
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/angles.h"
#include "core/view.h"

enum { TOKENS_PER_ITEM = 256 }; /* of a work item */

typedef struct angle_call {
    gyre_angles angles;
    const gyre_positions *positions;
    const gyre_view *cosine, *sine;
    int64_t blocks, pairs;
} angle_call;

static void store_row(const gyre_view *view, int64_t b, int64_t t, int64_t first, int64_t count, const double *values) {
    char *row = gyre_view_at(view, b, t, 0, first);
    for (int64_t i = 0; i < count; i++)
        if (view->dtype == GYRE_DTYPE_F64)
            ((double *)(void *)row)[i * view->stride[3]] = values[i];
        else
            ((float *)(void *)row)[i * view->stride[3]] = (float)values[i];
}

static void compute_token(const angle_call *call, int64_t b, int64_t t) {
    double position[GYRE_MAX_AXES], c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    gyre_positions_read_axes(call->angles.encoding, call->positions, b, t, 1, position);
    for (int64_t first = 0, count; first < call->pairs; first += count) {
        count = call->pairs - first < GYRE_PAIR_CHUNK ? call->pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&call->angles, first, count, buffer);
        gyre_angles_f64(&call->angles, frequency, first, count, position, c, s);
        store_row(call->cosine, b, t, first, count, c);
        store_row(call->sine, b, t, first, count, s);
    }
}

/* 1: the rows of consecutive positions are done. */
static int compute_run(const angle_call *call, int64_t b, int64_t first, int64_t count) {
    const gyre_view *c = call->cosine, *s = call->sine;
    if (call->positions->data || !call->angles.uses_stored || c->dtype != GYRE_DTYPE_F32 || c->stride[3] != 1 ||
        s->stride[3] != 1 || c->stride[1] != s->stride[1])
        return 0;
    const gyre_cos_sin_rows out = {gyre_view_at(c, b, first, 0, 0), gyre_view_at(s, b, first, 0, 0), c->stride[1]};
    return gyre_angle_table_fill_rows(call->angles.encoding, call->positions->base + first, count, &out) == count;
}

static void compute_block(void *arg, int64_t block) {
    const angle_call *call = arg;
    const int64_t b = block / call->blocks, first = block % call->blocks * TOKENS_PER_ITEM;
    const int64_t left = call->cosine->shape[1] - first, count = left < TOKENS_PER_ITEM ? left : TOKENS_PER_ITEM;
    if (compute_run(call, b, first, count)) return;
    for (int64_t t = 0; t < count; t++)
        compute_token(call, b, first + t);
}

gyre_status gyre_cos_sin(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_view *cosine,
                         const gyre_view *sine, const gyre_exec *exec, gyre_error *err) {
    (void)err;
    if (!encoding || !positions || !cosine || !sine) return GYRE_EINVAL;
    if (!encoding->frequency || encoding->config.kind != GYRE_KIND_ROPE) return GYRE_EUNSUPPORTED;
    if (cosine->dtype != sine->dtype || (cosine->dtype != GYRE_DTYPE_F32 && cosine->dtype != GYRE_DTYPE_F64))
        return GYRE_EDTYPE;
    gyre_status status = gyre_output_check(cosine);
    if (status == GYRE_OK) status = gyre_output_check(sine);
    if (status != GYRE_OK) return status;
    const int64_t pairs = encoding->config.rope.dim / 2;
    if (!gyre_same_shape(cosine->shape, sine->shape) || cosine->shape[2] != 1 || cosine->shape[3] != pairs)
        return GYRE_ESHAPE;
    if (gyre_view_elements(cosine->shape) == 0) return GYRE_OK;
    status = gyre_positions_check(encoding, positions, cosine->shape[0], cosine->shape[1]);
    if (status != GYRE_OK) return status;
    angle_call call = {.angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, positions->context_length),
                       .positions = positions,
                       .cosine = cosine,
                       .sine = sine,
                       .blocks = (cosine->shape[1] + TOKENS_PER_ITEM - 1) / TOKENS_PER_ITEM,
                       .pairs = pairs};
    gyre_parallel(exec, compute_block, &call, call.blocks * cosine->shape[0]);
    return GYRE_OK;
}
