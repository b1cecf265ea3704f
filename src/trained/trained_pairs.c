/* trained_pairs.c: pairs of channels, positions and numbers of the caller as doubles. */
#include "trained/trained_pairs.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/permute.h"
#include "core/view.h"
#include "trained/row_math.h"
#include "util/error.h"

#include <math.h>

void gyre_pairs_load(const gyre_cview *view, const gyre_pair_layout *layout, const gyre_pair_place *at, int64_t count,
                     double *x, double *y) {
    double *const members[2] = {x, y};
    const int64_t step = gyre_member_stride(layout->layout) * view->stride[3];
    for (int m = 0; m < 2; m++) {
        const int64_t channel = layout->first_channel + gyre_member_channel(layout->layout, 2 * layout->pairs, at->pair, m);
        gyre_load_row_f64(gyre_cview_at(view, at->batch, at->token, at->head, channel), view->dtype, step, count,
                          members[m]);
    }
}

void gyre_pairs_store(const double *x, const double *y, const gyre_view *view, const gyre_pair_layout *layout,
                      const gyre_pair_place *at, int64_t count) {
    const double *const members[2] = {x, y};
    const int64_t step = gyre_member_stride(layout->layout) * view->stride[3];
    for (int m = 0; m < 2; m++) {
        const int64_t channel = layout->first_channel + gyre_member_channel(layout->layout, 2 * layout->pairs, at->pair, m);
        gyre_store_row_f64(members[m], count, gyre_view_at(view, at->batch, at->token, at->head, channel), view->dtype,
                           step);
    }
}

void gyre_trained_positions(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axes,
                            double out[GYRE_MAX_AXES]) {
    for (int64_t a = 0; a < axes; a++)
        out[a] = (double)gyre_position_at(positions, batch, token, a);
}

/* -- rotation -- */

static void copy_channels(const gyre_pair_rotation *r, const gyre_pair_place *at, int64_t first, int64_t end) {
    if (first >= end) return;
    gyre_copy_row(gyre_cview_at(r->in, at->batch, at->token, at->head, first), r->in->stride[3],
                  gyre_view_at(r->out, at->batch, at->token, at->head, first), r->out->stride[3], r->in->dtype, end - first);
}

static void rotate_token(void *arg, int64_t task) {
    const gyre_pair_rotation *r = arg;
    double angle[GYRE_TRAINED_CHUNK], cosine[GYRE_TRAINED_CHUNK], sine[GYRE_TRAINED_CHUNK];
    gyre_pair_place at = {.batch = task / r->in->shape[1], .token = task % r->in->shape[1]};
    for (int64_t n; at.pair < r->layout.pairs; at.pair += n) {
        n = r->layout.pairs - at.pair < GYRE_TRAINED_CHUNK ? r->layout.pairs - at.pair : GYRE_TRAINED_CHUNK;
        for (at.head = 0; at.head < r->in->shape[2]; at.head++) {
            double x[GYRE_TRAINED_CHUNK], y[GYRE_TRAINED_CHUNK];
            if (at.head == 0 || !r->shared) {
                r->angles(r, &at, n, angle);
                gyre_row_cos_sin(angle, n, cosine, sine);
            }
            gyre_pairs_load(r->in, &r->layout, &at, n, x, y);
            for (int64_t i = 0; i < n; i++) {
                const double u = x[i], v = y[i], s = r->sign * sine[i];
                x[i] = u * cosine[i] - v * s;
                y[i] = u * s + v * cosine[i];
            }
            gyre_pairs_store(x, y, r->out, &r->layout, &at, n);
        }
    }
    for (at.head = 0; at.head < r->in->shape[2] && !gyre_same_memory(r->in, r->out); at.head++) {
        copy_channels(r, &at, 0, r->layout.first_channel);
        copy_channels(r, &at, r->layout.first_channel + 2 * r->layout.pairs, r->in->shape[3]);
    }
}

void gyre_pair_rotation_run(const gyre_pair_rotation *r, const gyre_exec *exec) {
    if (gyre_view_elements(r->in->shape) > 0)
        gyre_parallel(exec, rotate_token, (void *)r, r->in->shape[0] * r->in->shape[1]);
}

/* -- checks -- */

gyre_status gyre_trained_positions_check(const gyre_positions *positions, const int64_t shape[4], int64_t axes,
                                         const char *where, gyre_error *err) {
    if (!positions) return gyre_fail(err, GYRE_EINVAL, "positions: is NULL (%s)", where);
    gyre_positions of_axis = *positions;
    gyre_status status = GYRE_OK;
    for (int64_t a = 0; a < (positions->data ? axes : 1) && !status; a++) {
        if (a > 0)
            of_axis.data = (const char *)of_axis.data + positions->stride_axis * (int64_t)gyre_dtype_size(positions->dtype);
        status = gyre_positions_check(NULL, &of_axis, shape[0], shape[1], "positions", where, err);
    }
    return status;
}

static gyre_status check_dtype(gyre_dtype dtype, const char *name, const char *where, gyre_error *err) {
    if (dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F64) return GYRE_OK;
    return gyre_fail(err, GYRE_EDTYPE, "%s: is %s, not F32 or F64 (%s)", name, gyre_dtype_text(dtype), where);
}

gyre_status gyre_trained_shape_check(const gyre_cview *view, const int64_t shape[4], const char *name, const char *where,
                                     gyre_error *err) {
    gyre_status status = check_dtype(view->dtype, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_cview_check(view, name, where, err);
}

gyre_status gyre_trained_finite_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err) {
    const int64_t *shape = view->shape;
    if (!view->data) return GYRE_OK;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++)
            for (int64_t h = 0; h < shape[2]; h++)
                for (int64_t c = 0; c < shape[3]; c++) {
                    double x;
                    gyre_load_row_f64(gyre_cview_at(view, b, t, h, c), view->dtype, 1, 1, &x);
                    if (!isfinite(x))
                        return gyre_fail(err, GYRE_EINVAL,
                                         "%s: %g at [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is not finite (%s)",
                                         name, x, b, t, h, c, where);
                }
    return GYRE_OK;
}

gyre_status gyre_trained_gradient_check(const gyre_view *view, const int64_t shape[4], const char *name, const char *where,
                                        gyre_error *err) {
    if (!view->data) return GYRE_OK;
    gyre_status status = check_dtype(view->dtype, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_output_check(view, name, where, err);
}

gyre_status gyre_pair_layout_check(const gyre_pair_layout *layout, int64_t channels, const char *name, const char *where,
                                   gyre_error *err) {
    if (layout->layout != GYRE_LAYOUT_HALF && layout->layout != GYRE_LAYOUT_INTERLEAVED)
        return gyre_fail(err, GYRE_EINVAL, "layout: %d is neither HALF nor INTERLEAVED (%s)", (int)layout->layout, where);
    if (layout->first_channel < 0 || layout->first_channel > channels ||
        layout->pairs > (channels - layout->first_channel) / 2)
        return gyre_fail(err, GYRE_ESHAPE,
                         "%s: %" PRId64 " pairs from channel %" PRId64 " on end past the %" PRId64
                         " channels of a head (%s)",
                         name, layout->pairs, layout->first_channel, channels, where);
    return GYRE_OK;
}

void gyre_trained_add(const double *x, const gyre_view *view, const gyre_pair_place *at, int64_t count) {
    double sum[GYRE_TRAINED_CHUNK];
    void *row = gyre_view_at(view, at->batch, at->token, at->head, at->pair);
    gyre_load_row_f64(row, view->dtype, view->stride[3], count, sum);
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i];
    gyre_store_row_f64(sum, count, row, view->dtype, view->stride[3]);
}
