/* rerotate.c: keys rotated under one encoding become those of another, in one rotation by the difference of the angles.
 *
 * E'(p') E(p)^-1 of a pair is the quotient of two complex numbers, factors included, so factors that both encodings have
 * cancel.  It is formed in double, and each key is rounded once. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/sized.h"
#include "core/view.h"
#include "gyre/gyre_cache.h"
#include "util/error.h"

#include <string.h>

enum { TOKENS_PER_ITEM = 32 }; /* tokens of one call of the parallel loop */
static const char name[] = "gyre_rerotate";

typedef struct rerotation {
    gyre_angles before, after;
    int alike; /* 1 = the same frequencies and factor, so that only the displacement counts */
    const gyre_positions *old_positions, *new_positions;
    const gyre_cview *in;
    const gyre_view *out;
    int64_t blocks, first, dim;
} rerotation;

/* What takes the pairs of one token from one encoding to the other. */
typedef struct rotation_pairs {
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
} rotation_pairs;

static void divide_rotations(const rerotation *r, int64_t first, int64_t count, const double *before, const double *after,
                             rotation_pairs *out) {
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    gyre_angles_f64(&r->before, gyre_angles_frequencies(&r->before, first, count, buffer), first, count, before, c, s);
    gyre_angles_f64(&r->after, gyre_angles_frequencies(&r->after, first, count, buffer), first, count, after, out->cosine,
                    out->sine);
    for (int64_t i = 0; i < count; i++) {
        const double size = c[i] * c[i] + s[i] * s[i], x = out->cosine[i], y = out->sine[i];
        out->cosine[i] = (x * c[i] + y * s[i]) / size;
        out->sine[i] = (y * c[i] - x * s[i]) / size;
    }
}

static void displace(const rerotation *r, int64_t first, int64_t count, const double *before, const double *after,
                     rotation_pairs *out) {
    double by[GYRE_MAX_AXES];
    gyre_angles unscaled = r->after;
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    unscaled.factor = 1;
    for (int64_t a = 0; a < gyre_axes_of(r->after.encoding); a++)
        by[a] = after[a] - before[a];
    gyre_angles_f64(&unscaled, gyre_angles_frequencies(&unscaled, first, count, buffer), first, count, by, out->cosine,
                    out->sine);
}

/* Rotates pairs first .. first + count - 1 of one head of one token. */
static void rotate_row(const rerotation *r, int64_t b, int64_t t, int64_t h, int64_t first, int64_t count,
                       const rotation_pairs *by) {
    const int half = r->before.encoding->config.rope.layout != GYRE_LAYOUT_INTERLEAVED;
    const int64_t pairs = r->dim / 2, x = r->first + (half ? first : 2 * first), y = half ? x + pairs : x + 1;
    const int64_t step = half ? 1 : 2, in = r->in->stride[3] * step, out = r->out->stride[3] * step;
    double p[GYRE_PAIR_CHUNK], q[GYRE_PAIR_CHUNK];
    gyre_load_row_f64(gyre_cview_at(r->in, b, t, h, x), r->in->dtype, in, count, p);
    gyre_load_row_f64(gyre_cview_at(r->in, b, t, h, y), r->in->dtype, in, count, q);
    for (int64_t i = 0; i < count; i++) {
        const double u = p[i], w = q[i];
        p[i] = u * by->cosine[i] - w * by->sine[i];
        q[i] = u * by->sine[i] + w * by->cosine[i];
    }
    gyre_store_row_f64(p, count, gyre_view_at(r->out, b, t, h, x), r->out->dtype, out);
    gyre_store_row_f64(q, count, gyre_view_at(r->out, b, t, h, y), r->out->dtype, out);
}

/* Channels that do not rotate. */
static void copy_rest(const rerotation *r, int64_t b, int64_t t, int64_t h) {
    const int64_t end = r->first + r->dim, rest = r->in->shape[3] - end;
    gyre_copy_row(gyre_cview_at(r->in, b, t, h, 0), r->in->stride[3], gyre_view_at(r->out, b, t, h, 0), r->out->stride[3],
                  r->in->dtype, r->first);
    if (rest > 0)
        gyre_copy_row(gyre_cview_at(r->in, b, t, h, end), r->in->stride[3], gyre_view_at(r->out, b, t, h, end),
                      r->out->stride[3], r->in->dtype, rest);
}

static void rotate_block(void *arg, int64_t block) {
    const rerotation *r = arg;
    const int64_t b = block / r->blocks, from = block % r->blocks * TOKENS_PER_ITEM;
    const int64_t left = r->in->shape[1] - from, tokens = left < TOKENS_PER_ITEM ? left : TOKENS_PER_ITEM;
    const int same_memory = gyre_same_memory(r->in, r->out);
    double before[TOKENS_PER_ITEM * GYRE_MAX_AXES], after[TOKENS_PER_ITEM * GYRE_MAX_AXES];
    const int64_t old_axes = gyre_axes_of(r->before.encoding), new_axes = gyre_axes_of(r->after.encoding);
    gyre_positions_read_axes(r->before.encoding, r->old_positions, b, from, tokens, before);
    gyre_positions_read_axes(r->after.encoding, r->new_positions, b, from, tokens, after);
    rotation_pairs by;
    for (int64_t first = 0, count; first < r->dim / 2; first += count) {
        count = r->dim / 2 - first < GYRE_PAIR_CHUNK ? r->dim / 2 - first : GYRE_PAIR_CHUNK;
        for (int64_t t = 0; t < tokens; t++) {
            const double *const old_at = before + t * old_axes, *const new_at = after + t * new_axes;
            (r->alike ? displace : divide_rotations)(r, first, count, old_at, new_at, &by);
            for (int64_t h = 0; h < r->in->shape[2]; h++)
                rotate_row(r, b, from + t, h, first, count, &by);
        }
    }
    for (int64_t t = 0; t < tokens && !same_memory; t++)
        for (int64_t h = 0; h < r->in->shape[2]; h++)
            copy_rest(r, b, from + t, h);
}

/* -- the call -- */

static gyre_status check_encoding(const gyre_encoding *encoding, const char *argument, int64_t head_dim, gyre_error *err) {
    if (!encoding->frequency || !gyre_encoding_rotates(encoding))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: %s rotates nothing (%s)", argument,
                         gyre_kind_name(encoding->scheme->kind), name);
    if (encoding->xpos_log2_decay)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: xPos scales keys by their position (%s)", argument, name);
    if (encoding->config.head_dim != head_dim)
        return gyre_fail(err, GYRE_ESHAPE, "in: %" PRId64 " channels a head, %s has %" PRId64 " (%s)", head_dim, argument,
                         encoding->config.head_dim, name);
    return GYRE_OK;
}

static gyre_status check_pairs(const gyre_encoding *before, const gyre_encoding *after, gyre_error *err) {
    const struct gyre_rope_config *a = &before->config.rope, *b = &after->config.rope;
    if (a->dim != b->dim || a->first_channel != b->first_channel)
        return gyre_fail(err, GYRE_ESHAPE,
                         "after: rotates %" PRId64 " channels from %" PRId64 " on, but the keys are rotated in %" PRId64
                         " from %" PRId64 " on (%s)",
                         b->dim, b->first_channel, a->dim, a->first_channel, name);
    if (a->layout == b->layout) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "after: rope.layout %d, but the keys are rotated in %d (%s)", (int)b->layout,
                     (int)a->layout, name);
}

static gyre_status check(const gyre_encoding *before, const gyre_encoding *after, const gyre_positions *old_positions,
                         const gyre_positions *new_positions, const gyre_cview *in, const gyre_view *out, gyre_error *err) {
    if (!before || !after) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", before ? "after" : "before", name);
    if (!old_positions || !new_positions)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", old_positions ? "new_positions" : "old_positions", name);
    gyre_status status = gyre_in_out_check(in, out, name, err);
    if (!status) status = check_encoding(before, "before", in->shape[3], err);
    if (!status) status = check_encoding(after, "after", in->shape[3], err);
    if (!status) status = check_pairs(before, after, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    status = gyre_positions_check(before, old_positions, in->shape[0], in->shape[1], "old_positions", name, err);
    if (!status) status = gyre_positions_check(after, new_positions, in->shape[0], in->shape[1], "new_positions", name, err);
    return status ? status : gyre_in_out_apart_check(in, out, name, err);
}

gyre_status gyre_rerotate(const gyre_rerotate_args *given, const gyre_exec *exec, gyre_error *err) {
    gyre_rerotate_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rerotate_args", err)) return GYRE_EINVAL;
    const gyre_encoding *before = args.before, *after = args.after;
    const gyre_positions *old_positions = args.old_positions, *new_positions = args.new_positions;
    const gyre_cview *in = &args.in;
    const gyre_view *out = &args.out;
    const gyre_status status = check(before, after, old_positions, new_positions, in, out, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    const int64_t length = new_positions->context_length;
    rerotation r = {.before = gyre_angles_of(before, GYRE_DIRECTION_FORWARD, old_positions->context_length),
                    .after = gyre_angles_of(after, GYRE_DIRECTION_FORWARD, length),
                    .alike = before == after && before->config.rope.angles == GYRE_ANGLE_PATH_EXACT &&
                             (length == old_positions->context_length ||
                              gyre_rope_same_frequencies(&after->config, length, old_positions->context_length)) &&
                             !after->start_frequency,
                    .old_positions = old_positions,
                    .new_positions = new_positions,
                    .in = in,
                    .out = out,
                    .blocks = (in->shape[1] + TOKENS_PER_ITEM - 1) / TOKENS_PER_ITEM,
                    .first = after->config.rope.first_channel,
                    .dim = after->config.rope.dim};
    gyre_parallel(exec, rotate_block, &r, r.blocks * in->shape[0]);
    return GYRE_OK;
}
