/* attention_merge.c: gyre_attention_merge, the sum of rows whose keys were split over calls or machines. */
#include "attention/attention_check.h"
#include "attention/forward/row_states.h"
#include "call/call_views.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

#include <math.h>

static const char where[] = "gyre_attention_merge";

/* -- checks -- */

static gyre_status check_states(const gyre_attention_merge_args *args, gyre_error *err) {
    gyre_status status = GYRE_OK;
    if (args->parts < 1) return gyre_fail(err, GYRE_EINVAL, "parts: %" PRId64 " is below 1 (%s)", args->parts, where);
    if (!args->states) return gyre_fail(err, GYRE_EINVAL, "states: is NULL (%s)", where);
    if (args->states[0].shape[3] <= GYRE_STATE_VALUES)
        return gyre_fail(err, GYRE_ESHAPE, "states: %" PRId64 " numbers a row are not 2 and the channels of v (%s)",
                         args->states[0].shape[3], where);
    for (int64_t p = 0; p < args->parts && !status; p++) {
        const gyre_cview *state = &args->states[p];
        status = gyre_call_check_input(state, args->states[0].shape, GYRE_TYPES_F64, "states", where, err);
        if (!status && state->stride[3] != 1)
            status =
                gyre_fail(err, GYRE_EINVAL, "states: the last stride is %" PRId64 ", not 1 (%s)", state->stride[3], where);
    }
    return status;
}

static gyre_status check_outputs(const gyre_attention_merge_args *args, gyre_error *err) {
    const int64_t *s = args->states[0].shape, out[4] = {s[0], s[1], s[2], s[3] - GYRE_STATE_VALUES},
                  lse[4] = {s[0], s[1], s[2], 1}, sinks[4] = {1, 1, s[2], 1};
    gyre_status status = GYRE_OK;
    if (args->out.data) status = gyre_call_check_result(&args->out, out, GYRE_TYPES_FLOATS, "out", where, err);
    if (!status && args->lse.data) status = gyre_call_check_result(&args->lse, lse, GYRE_TYPES_WIDE, "lse", where, err);
    if (!status && args->sink_logits.data)
        status = gyre_call_check_input(&args->sink_logits, sinks, GYRE_TYPES_F32, "sink_logits", where, err);
    return status;
}

static gyre_status check_apart(const gyre_attention_merge_args *args, gyre_error *err) {
    const gyre_cview outputs[2] = {gyre_const(args->out), gyre_const(args->lse)};
    static const char *const names[2] = {"out", "lse"};
    gyre_status status = gyre_apart_check(&outputs[0], "out", &outputs[1], "lse", where, err);
    for (int i = 0; i < 2; i++) {
        if (!status) status = gyre_apart_check(&outputs[i], names[i], &args->sink_logits, "sink_logits", where, err);
        for (int64_t p = 0; p < args->parts && !status; p++)
            if (gyre_views_overlap(&outputs[i], &args->states[p]))
                return gyre_fail(err, GYRE_EINVAL, "%s: overlaps states[%" PRId64 "] (%s)", names[i], p, where);
    }
    return status;
}

/* -- rows -- */

/* Channels first .. first + count - 1 of a row, added over the parts.  The largest score and the sum come out alike for any
 * channels. */
static void add_parts(const gyre_attention_merge_args *args, int64_t b, int64_t q, int64_t h, int64_t first, int64_t count,
                      double *sum) {
    enum { MOST = 64 };
    double part[GYRE_STATE_VALUES + MOST];
    for (int64_t i = 0; i < GYRE_STATE_VALUES + count; i++)
        sum[i] = 0;
    for (int64_t p = 0; p < args->parts; p++) {
        const double *from = gyre_cview_at(&args->states[p], b, q, h, 0);
        part[GYRE_STATE_LARGEST] = from[GYRE_STATE_LARGEST];
        part[GYRE_STATE_SUM] = from[GYRE_STATE_SUM];
        for (int64_t c = 0; c < count; c++)
            part[GYRE_STATE_VALUES + c] = from[GYRE_STATE_VALUES + first + c];
        gyre_row_state_add(sum, part, count);
    }
}

static void merge_row(const gyre_attention_merge_args *args, int64_t b, int64_t q, int64_t h) {
    enum { CHUNK = 64 };
    const int64_t channels = args->states[0].shape[3] - GYRE_STATE_VALUES;
    const double sink =
        args->sink_logits.data ? (double)*(const float *)gyre_cview_at(&args->sink_logits, 0, 0, h, 0) : (double)-INFINITY;
    for (int64_t first = 0; first < channels; first += CHUNK) {
        const int64_t left = channels - first, n = left < CHUNK ? left : CHUNK;
        double sum[GYRE_STATE_VALUES + CHUNK];
        float out[CHUNK];
        add_parts(args, b, q, h, first, n, sum);
        gyre_row_state row = {.bias = sum[GYRE_STATE_LARGEST], .out = out};
        gyre_row_state_load(sum, n, &row);
        const gyre_row_normalizer by = gyre_row_normalize(&row, sink);
        for (int64_t c = 0; c < n; c++)
            out[c] = gyre_canonical(by.out_scale == 0 ? 0 : out[c] * by.out_scale);
        if (args->out.data)
            gyre_store_row(out, n, gyre_view_at(&args->out, b, q, h, first), args->out.dtype, args->out.stride[3]);
        if (first > 0 || !args->lse.data) continue;
        void *lse = gyre_view_at(&args->lse, b, q, h, 0);
        if (args->lse.dtype == GYRE_DTYPE_F64)
            *(double *)lse = by.lse;
        else
            *(float *)lse = (float)by.lse;
    }
}

static void merge_token(void *arg, int64_t index) {
    const gyre_attention_merge_args *args = arg;
    const int64_t *shape = args->states[0].shape;
    for (int64_t h = 0; h < shape[2]; h++)
        merge_row(args, index / shape[1], index % shape[1], h);
}

gyre_status gyre_attention_merge_check(const gyre_attention_merge_args *args, gyre_error *err) {
    gyre_status status = check_states(args, err);
    if (!status) status = check_outputs(args, err);
    return status ? status : check_apart(args, err);
}

gyre_status gyre_attention_merge(const gyre_attention_merge_args *given, const gyre_exec *exec, gyre_error *err) {
    gyre_attention_merge_args args;
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_attention_merge_args", err);
    if (!status) status = gyre_attention_merge_check(&args, err);
    if (!status && gyre_view_elements(args.states[0].shape) > 0)
        gyre_parallel(exec, merge_token, &args, args.states[0].shape[0] * args.states[0].shape[1]);
    return status;
}
