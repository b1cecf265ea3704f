/* call_views.c: checks of the views of a call. */
#include "tiling/call_views.h"
#include "core/view.h"
#include "util/error.h"

#include <float.h>
#include <math.h>

gyre_status gyre_call_check_type(gyre_dtype dtype, int wide_alone, const char *name, const char *where, gyre_error *err) {
    const int fits = wide_alone ? dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F64 : gyre_is_real(dtype);
    return fits ? GYRE_OK
                : gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not %s (%s)", name, gyre_dtype_text(dtype),
                            wide_alone ? "F32 or F64" : "F32, F16, BF16 or F64", where);
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

gyre_status gyre_call_check_qkv(const gyre_cview *q, const gyre_cview *k, const gyre_cview *v, const char *where,
                                gyre_error *err) {
    const gyre_named_view inputs[] = {{"q", *q}, {"k", *k}, {"v", *v}};
    for (int i = 0; i < 3; i++) {
        gyre_status status = gyre_call_check_type(inputs[i].view.dtype, 0, inputs[i].name, where, err);
        if (!status) status = gyre_call_check_extents(inputs[i].view.shape, INT32_MAX, 0, inputs[i].name, where, err);
        if (status) return status;
    }
    const int64_t keys[4] = {q->shape[0], k->shape[1], k->shape[2], q->shape[3]},
                  values[4] = {k->shape[0], k->shape[1], k->shape[2], v->shape[3]};
    if (q->shape[2] % k->shape[2] != 0)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " heads are not a multiple of the %" PRId64 " key heads (%s)",
                         q->shape[2], k->shape[2], where);
    const gyre_status status = gyre_shape_check(k->shape, keys, "k", where, err);
    return status ? status : gyre_shape_check(v->shape, values, "v", where, err);
}

gyre_status gyre_call_check_factor(double value, const char *name, const char *where, gyre_error *err) {
    if (fabs(value) <= (double)FLT_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: %g is not finite as a float (%s)", name, value, where);
}

gyre_status gyre_call_check_result(const gyre_view *view, const int64_t shape[4], int wide_alone, const char *name,
                                   const char *where, gyre_error *err) {
    gyre_status status = gyre_call_check_type(view->dtype, wide_alone, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_output_check(view, name, where, err);
}

gyre_status gyre_call_check_out(const gyre_view *out, const gyre_view *lse, const gyre_cview *q, const gyre_cview *v,
                                int gradient, const char *where, gyre_error *err) {
    const int64_t rows[4] = {q->shape[0], q->shape[1], q->shape[2], 1},
                  values[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    const gyre_status status = gyre_call_check_result(out, values, 0, "out", where, err);
    if (status) return status;
    if (gradient && !lse->data) return gyre_fail(err, GYRE_EINVAL, "lse: is NULL (%s)", where);
    return lse->data ? gyre_call_check_result(lse, rows, 1, "lse", where, err) : GYRE_OK;
}

gyre_status gyre_call_check_apart(const gyre_view *output, const char *name, const gyre_named_view *others, int count,
                                  const char *where, gyre_error *err) {
    const gyre_cview own = gyre_const(*output);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < count && !status; i++)
        status = gyre_apart_check(&own, name, &others[i].view, others[i].name, where, err);
    return status;
}

gyre_status gyre_call_check_out_apart(const gyre_view *out, const gyre_view *lse, gyre_named_view *others, int count,
                                      const char *where, gyre_error *err) {
    const gyre_status status = gyre_call_check_apart(out, "out", others, count, where, err);
    if (status || !lse->data) return status;
    others[count++] = (gyre_named_view){"out", gyre_const(*out)};
    return gyre_call_check_apart(lse, "lse", others, count, where, err);
}

gyre_status gyre_call_check_dout(const gyre_cview *dout, const gyre_view *out, const char *where, gyre_error *err) {
    if (!dout) return gyre_fail(err, GYRE_EINVAL, "dout: is NULL (%s)", where);
    gyre_status status = gyre_call_check_type(dout->dtype, 0, "dout", where, err);
    if (!status) status = gyre_shape_check(dout->shape, out->shape, "dout", where, err);
    return status ? status : gyre_cview_check(dout, "dout", where, err);
}

gyre_status gyre_call_check_results(const gyre_named_result *results, int results_count, gyre_named_view *others, int count,
                                    const char *where, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < results_count && !status; i++) {
        const gyre_named_result *r = &results[i];
        if (r->view->data) status = gyre_call_check_result(r->view, r->shape, r->wide_alone, r->name, where, err);
    }
    for (int i = 0; i < results_count && !status; i++) {
        const gyre_named_result *r = &results[i];
        if (!r->view->data) continue;
        status = gyre_call_check_apart(r->view, r->name, others, count, where, err);
        others[count++] = (gyre_named_view){r->name, gyre_const(*r->view)};
    }
    return status;
}
