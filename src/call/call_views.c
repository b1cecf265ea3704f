/* call_views.c: checks of the views of a call. */
#include "call/call_views.h"
#include "core/view.h"
#include "kernels/quants/quant_blocks.h"
#include "util/error.h"

#include <float.h>
#include <math.h>

/* -- one view -- */

gyre_status gyre_call_check_type(gyre_dtype dtype, gyre_call_types types, const char *name, const char *where,
                                 gyre_error *err) {
    static const char *const texts[] = {[GYRE_TYPES_F32] = "F32",
                                        [GYRE_TYPES_F64] = "F64",
                                        [GYRE_TYPES_WIDE] = "F32 or F64",
                                        [GYRE_TYPES_FLOATS] = "F32, F16 or BF16",
                                        [GYRE_TYPES_REALS] = "F32, F16, BF16 or F64",
                                        [GYRE_TYPES_KEYS] = "F32, F16, BF16, Q8_0 or Q4_0"};
    if ((unsigned)dtype < 16 && ((unsigned)types >> dtype & 1)) return GYRE_OK;
    return gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not %s (%s)", name, gyre_dtype_text(dtype), texts[types],
                     where);
}

gyre_status gyre_call_check_blocks(const gyre_cview *view, gyre_call_types types, const char *name, const char *where,
                                   gyre_error *err) {
    const gyre_status status = gyre_call_check_type(view->dtype, types, name, where, err);
    if (status || !gyre_is_block(view->dtype) || view->shape[3] % GYRE_Q_BLOCK == 0) return status;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " channels are not a multiple of %d, as blocks of %s are (%s)", name,
                     view->shape[3], GYRE_Q_BLOCK, gyre_dtype_text(view->dtype), where);
}

gyre_status gyre_call_check_extents(const int64_t shape[4], int64_t most_tokens, int64_t least_tokens, const char *name,
                                    const char *where, gyre_error *err) {
    for (int i = 0; i < 4; i++) {
        const int64_t least = i == 0 ? 0 : i == 1 ? least_tokens : 1;
        const int64_t most = i == 3 ? GYRE_MAX_CALL_CHANNELS : i == 1 ? most_tokens : INT32_MAX;
        if (shape[i] < least || shape[i] > most)
            return gyre_fail(err, GYRE_ESHAPE, "%s: shape[%d] = %" PRId64 " is not in %" PRId64 " .. %" PRId64 " (%s)", name,
                             i, shape[i], least, most, where);
    }
    if (gyre_view_elements(shape) < 0)
        return gyre_fail(err, GYRE_ESHAPE, "%s: more elements than can be counted (%s)", name, where);
    return GYRE_OK;
}

gyre_status gyre_call_check_input(const gyre_cview *view, const int64_t shape[4], gyre_call_types types, const char *name,
                                  const char *where, gyre_error *err) {
    gyre_status status = gyre_call_check_type(view->dtype, types, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_cview_check(view, name, where, err);
}

gyre_status gyre_call_check_result(const gyre_view *view, const int64_t shape[4], gyre_call_types types, const char *name,
                                   const char *where, gyre_error *err) {
    gyre_status status = gyre_call_check_type(view->dtype, types, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_output_check(view, name, where, err);
}

gyre_status gyre_call_check_factor(double value, const char *name, const char *where, gyre_error *err) {
    if (fabs(value) <= (double)FLT_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: %g is not finite as a float (%s)", name, value, where);
}

/* -- of a call -- */

gyre_status gyre_call_check_qkv(const gyre_cview *q, const gyre_cview *k, const gyre_cview *v, gyre_call_types types,
                                const char *where, gyre_error *err) {
    const gyre_named_view inputs[] = {{"q", *q}, {"k", *k}, {"v", *v}};
    for (int i = 0; i < 3; i++) {
        gyre_status status = gyre_call_check_type(inputs[i].view.dtype, types, inputs[i].name, where, err);
        if (!status) status = gyre_call_check_extents(inputs[i].view.shape, INT32_MAX, 0, inputs[i].name, where, err);
        if (status) return status;
    }
    const int64_t values[4] = {k->shape[0], k->shape[1], k->shape[2], v->shape[3]};
    if (k->shape[0] != q->shape[0])
        return gyre_fail(err, GYRE_ESHAPE, "k: %" PRId64 " batch rows, but q has %" PRId64 " (%s)", k->shape[0], q->shape[0],
                         where);
    if (k->shape[3] != q->shape[3])
        return gyre_fail(err, GYRE_ESHAPE, "k: %" PRId64 " channels, but q has %" PRId64 " (%s)", k->shape[3], q->shape[3],
                         where);
    if (q->shape[2] % k->shape[2] != 0)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " heads are not a multiple of the %" PRId64 " key heads (%s)",
                         q->shape[2], k->shape[2], where);
    return gyre_shape_check(v->shape, values, "v", where, err);
}

gyre_status gyre_call_check_dout(const gyre_cview *dout, const gyre_view *out, gyre_call_types types, const char *where,
                                 gyre_error *err) {
    if (!dout) return gyre_fail(err, GYRE_EINVAL, "dout: is NULL (%s)", where);
    return gyre_call_check_input(dout, out->shape, types, "dout", where, err);
}

/* -- memory that is written -- */

void gyre_named_views_add(gyre_named_views *views, const char *name, gyre_cview view) {
    views->at[views->count++] = (gyre_named_view){name, view};
}

static gyre_status check_pair(const gyre_named_view *written, const gyre_named_view *other, const char *where,
                              gyre_error *err) {
    return gyre_apart_check(&written->view, written->name, &other->view, other->name, where, err);
}

gyre_status gyre_call_check_apart(const gyre_named_views *written, const gyre_named_views *read, const char *where,
                                  gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < written->count; i++) {
        for (int j = i + 1; j < written->count && !status; j++)
            status = check_pair(&written->at[i], &written->at[j], where, err);
        for (int j = 0; j < read->count && !status; j++)
            status = check_pair(&written->at[i], &read->at[j], where, err);
    }
    return status;
}

gyre_status gyre_call_check_inputs(const gyre_named_views *views, const char *where, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < views->count && !status; i++)
        status = gyre_cview_check(&views->at[i].view, views->at[i].name, where, err);
    return status;
}

static gyre_status check_out(const gyre_call_results *r, int gradient, const char *where, gyre_error *err) {
    const int64_t *q = r->q->shape, rows[4] = {q[0], q[1], q[2], 1}, values[4] = {q[0], q[1], q[2], r->v->shape[3]};
    const gyre_status status = gyre_call_check_result(r->out, values, GYRE_TYPES_REALS, "out", where, err);
    if (status) return status;
    if (gradient && !r->lse->data) return gyre_fail(err, GYRE_EINVAL, "lse: is NULL (%s)", where);
    return r->lse->data ? gyre_call_check_result(r->lse, rows, GYRE_TYPES_WIDE, "lse", where, err) : GYRE_OK;
}

gyre_status gyre_call_check_results(const gyre_call_results *r, int gradient, gyre_named_views *read, const char *where,
                                    gyre_error *err) {
    const gyre_cview out = gyre_const(*r->out), lse = gyre_const(*r->lse);
    gyre_named_views written = {.count = 0};
    gyre_status status = check_out(r, gradient, where, err);
    if (!status && gradient) status = gyre_call_check_dout(r->dout, r->out, GYRE_TYPES_REALS, where, err);
    for (int i = 0; gradient && i < r->count && !status; i++) {
        const gyre_named_result *to = &r->gradients[i];
        if (to->view->data) status = gyre_call_check_result(to->view, to->shape, to->types, to->name, where, err);
    }
    if (status) return status;
    for (int i = gradient ? r->count - 1 : -1; i >= 0; i--)
        if (r->gradients[i].view->data)
            gyre_named_views_add(&written, r->gradients[i].name, gyre_const(*r->gradients[i].view));
    gyre_named_views_add(gradient ? read : &written, "lse", lse);
    gyre_named_views_add(gradient ? read : &written, "out", out);
    if (gradient) gyre_named_views_add(read, "dout", *r->dout);
    return gyre_call_check_apart(&written, read, where, err);
}
