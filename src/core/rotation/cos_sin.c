/* cos_sin.c: cos and sin of positions, for callers with a rotation of their own. */
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/angles.h"
#include "core/scheme.h"
#include "core/view.h"
#include "util/error.h"

enum { TOKENS_PER_ITEM = 256 }; /* tokens of one call of the parallel loop */

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
    gyre_angle_walk walk = {0, 0};
    gyre_angles angles = call->angles;
    angles.walk = &walk;
    gyre_positions_read_axes(call->angles.encoding, call->positions, b, t, 1, position);
    for (int64_t first = 0, count; first < call->pairs; first += count) {
        count = call->pairs - first < GYRE_PAIR_CHUNK ? call->pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&angles, first, count, buffer);
        gyre_angles_f64(&angles, frequency, first, count, position, c, s);
        store_row(call->cosine, b, t, first, count, c);
        store_row(call->sine, b, t, first, count, s);
    }
}

/* Consecutive positions into contiguous floats, by steps.  out = 1 if done. */
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

static gyre_status check_views(const gyre_encoding *encoding, const gyre_view *cosine, const gyre_view *sine,
                               gyre_error *err) {
    if (cosine->dtype != GYRE_DTYPE_F32 && cosine->dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "cosine: is %s, neither F32 nor F64 (gyre_cos_sin)",
                         gyre_dtype_text(cosine->dtype));
    if (cosine->dtype != sine->dtype)
        return gyre_fail(err, GYRE_EDTYPE, "sine: is %s, but cosine is %s (gyre_cos_sin)", gyre_dtype_text(sine->dtype),
                         gyre_dtype_text(cosine->dtype));
    gyre_status status = gyre_output_check(cosine, "cosine", "gyre_cos_sin", err);
    if (!status) status = gyre_output_check(sine, "sine", "gyre_cos_sin", err);
    if (status) return status;
    if (!gyre_same_shape(cosine->shape, sine->shape))
        return gyre_fail(err, GYRE_ESHAPE,
                         "sine: " GYRE_SHAPE_FORMAT " is not the shape of cosine, " GYRE_SHAPE_FORMAT " (gyre_cos_sin)",
                         GYRE_SHAPE_ARGS(sine->shape), GYRE_SHAPE_ARGS(cosine->shape));
    const int64_t pairs = encoding->config.rope.dim / 2;
    if (cosine->shape[2] != 1 || cosine->shape[3] != pairs)
        return gyre_fail(err, GYRE_ESHAPE,
                         "cosine: " GYRE_SHAPE_FORMAT " is not [batch, tokens, 1, rope.dim / 2 = %" PRId64
                         "] (gyre_cos_sin)",
                         GYRE_SHAPE_ARGS(cosine->shape), pairs);
    const gyre_cview written = gyre_const(*cosine), other = gyre_const(*sine);
    return gyre_apart_check(&written, "cosine", &other, "sine", "gyre_cos_sin", err);
}

gyre_status gyre_cos_sin(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_view *cosine,
                         const gyre_view *sine, const gyre_exec *exec, gyre_error *err) {
    if (!encoding || !positions)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_cos_sin)", encoding ? "positions" : "encoding");
    if (!cosine || !sine) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_cos_sin)", cosine ? "sine" : "cosine");
    if (!encoding->frequency || !gyre_encoding_rotates(encoding))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s rotates nothing (gyre_cos_sin)",
                         gyre_kind_name(encoding->scheme->kind));
    gyre_status status = check_views(encoding, cosine, sine, err);
    if (status || gyre_view_elements(cosine->shape) == 0) return status;
    status = gyre_positions_check(encoding, positions, cosine->shape[0], cosine->shape[1], "positions", "gyre_cos_sin", err);
    if (status) return status;
    angle_call call = {.angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, positions->context_length),
                       .positions = positions,
                       .cosine = cosine,
                       .sine = sine,
                       .blocks = (cosine->shape[1] + TOKENS_PER_ITEM - 1) / TOKENS_PER_ITEM,
                       .pairs = cosine->shape[3]};
    gyre_parallel(exec, compute_block, &call, call.blocks * cosine->shape[0]);
    return GYRE_OK;
}
