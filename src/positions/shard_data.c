/* shard_data.c: data of the tokens of a batch, dealt out to ranks and put together; labels. */
#include "core/view.h"
#include "positions/shards.h"
#include "util/error.h"

#include <string.h>

/* -- the tokens of a rank -- */

/* Both views agree except in their tokens. */
static gyre_status check(const gyre_shards *s, int64_t rank, const gyre_cview *whole, const gyre_cview *part,
                         const char *where, gyre_error *err) {
    if (rank < 0 || rank >= s->ranks)
        return gyre_fail(err, GYRE_EINVAL, "rank: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", rank, s->ranks - 1, where);
    const int64_t tokens = s->first_token[rank + 1] - s->first_token[rank];
    const int64_t wanted[4] = {s->batch->rows, s->batch->tokens, part->shape[2], part->shape[3]};
    const int64_t own[4] = {s->batch->rows, tokens, part->shape[2], part->shape[3]};
    if (gyre_dtype_size(part->dtype) == 0 || part->dtype == GYRE_DTYPE_Q8)
        return gyre_fail(err, GYRE_EDTYPE, "part: %s cannot be dealt out (%s)", gyre_dtype_text(part->dtype), where);
    if (whole->dtype != part->dtype)
        return gyre_fail(err, GYRE_EDTYPE, "whole: %s is not %s, as the part is (%s)", gyre_dtype_text(whole->dtype),
                         gyre_dtype_text(part->dtype), where);
    const gyre_status status = gyre_shape_check(part->shape, own, "part", where, err);
    return status ? status : gyre_shape_check(whole->shape, wanted, "whole", where, err);
}

/* Copies token `from` of a row to token `to` of it. */
static void copy_token(const gyre_cview *in, int64_t from, const gyre_view *out, int64_t to, int64_t row) {
    const size_t size = gyre_dtype_size(in->dtype);
    const int64_t dense = in->stride[3] == 1 && out->stride[3] == 1, run = dense ? in->shape[3] : 1;
    for (int64_t h = 0; h < in->shape[2]; h++)
        for (int64_t c = 0; c < in->shape[3]; c += run)
            memcpy(gyre_view_at(out, row, to, h, c), gyre_cview_at(in, row, from, h, c), (size_t)run * size);
}

static gyre_status arguments(const void *a, const void *b, const void *c, const char *where, gyre_error *err) {
    return a && b && c ? GYRE_OK : gyre_fail(err, GYRE_EINVAL, "arguments: one is NULL (%s)", where);
}

gyre_status gyre_shards_take(const gyre_shards *s, int64_t rank, const gyre_cview *whole, const gyre_view *out,
                             gyre_error *err) {
    static const char where[] = "gyre_shards_take";
    gyre_status status = arguments(s, whole, out, where, err);
    if (status) return status;
    const gyre_cview part = gyre_const(*out);
    status = check(s, rank, whole, &part, where, err);
    if (status || gyre_view_elements(out->shape) == 0) return status;
    status = gyre_cview_check(whole, "whole", where, err);
    if (!status) status = gyre_output_check(out, "out", where, err);
    if (!status) status = gyre_apart_check(&part, "out", whole, "whole", where, err);
    for (int64_t r = 0; !status && r < out->shape[0]; r++)
        for (int64_t i = 0; i < out->shape[1]; i++)
            copy_token(whole, s->index[s->first_token[rank] + i], out, i, r);
    return status;
}

gyre_status gyre_shards_put(const gyre_shards *s, int64_t rank, const gyre_cview *part, const gyre_view *whole,
                            gyre_error *err) {
    static const char where[] = "gyre_shards_put";
    gyre_status status = arguments(s, part, whole, where, err);
    if (status) return status;
    const gyre_cview all = gyre_const(*whole);
    status = check(s, rank, &all, part, where, err);
    if (status || gyre_view_elements(part->shape) == 0) return status;
    status = gyre_cview_check(part, "part", where, err);
    if (!status) status = gyre_output_check(whole, "whole", where, err);
    if (!status) status = gyre_apart_check(&all, "whole", part, "part", where, err);
    for (int64_t r = 0; !status && r < part->shape[0]; r++)
        for (int64_t i = 0; i < part->shape[1]; i++)
            copy_token(part, i, whole, s->index[s->first_token[rank] + i], r);
    return status;
}

/* -- labels -- */

static int64_t read_label(const gyre_cview *view, int64_t r, int64_t t) {
    const void *at = gyre_cview_at(view, r, t, 0, 0);
    return view->dtype == GYRE_DTYPE_I32 ? *(const int32_t *)at : *(const int64_t *)at;
}

static void write_label(const gyre_view *view, int64_t r, int64_t t, int64_t label) {
    void *at = gyre_view_at(view, r, t, 0, 0);
    if (view->dtype == GYRE_DTYPE_I32)
        *(int32_t *)at = (int32_t)label;
    else
        *(int64_t *)at = label;
}

static gyre_status check_labels(const gyre_batch *b, const gyre_cview *labels, int64_t ignore, const gyre_view *out,
                                gyre_error *err) {
    static const char where[] = "gyre_batch_shift_labels";
    const int64_t wanted[4] = {b->rows, b->tokens, 1, 1};
    if ((labels->dtype != GYRE_DTYPE_I32 && labels->dtype != GYRE_DTYPE_I64) || out->dtype != labels->dtype)
        return gyre_fail(err, GYRE_EDTYPE, "labels: %s and out: %s are not one of I32 and I64 (%s)",
                         gyre_dtype_text(labels->dtype), gyre_dtype_text(out->dtype), where);
    if (labels->dtype == GYRE_DTYPE_I32 && (ignore < INT32_MIN || ignore > INT32_MAX))
        return gyre_fail(err, GYRE_EINVAL, "ignore: %" PRId64 " is no I32 (%s)", ignore, where);
    if (!gyre_same_shape(labels->shape, wanted) || !gyre_same_shape(out->shape, wanted))
        return gyre_fail(err, GYRE_ESHAPE, "labels, out: not both " GYRE_SHAPE_FORMAT " (%s)", GYRE_SHAPE_ARGS(wanted),
                         where);
    if (b->rows * b->tokens == 0) return GYRE_OK;
    gyre_status status = gyre_cview_check(labels, "labels", where, err);
    if (!status) status = gyre_output_check(out, "out", where, err);
    return status ? status : gyre_in_out_apart_check(labels, out, where, err);
}

gyre_status gyre_batch_shift_labels(const gyre_batch *b, const gyre_cview *labels, int64_t ignore, const gyre_view *out,
                                    gyre_error *err) {
    gyre_status status = arguments(b, labels, out, "gyre_batch_shift_labels", err);
    if (!status) status = check_labels(b, labels, ignore, out, err);
    for (int64_t r = 0; !status && r < b->rows; r++)
        for (int64_t t = 0; t < b->tokens; t++) {
            const int64_t *d = b->document_of + r * b->tokens + t;
            const int next = d[0] >= 0 && t + 1 < b->tokens && d[1] == d[0];
            write_label(out, r, t, next ? read_label(labels, r, t + 1) : ignore);
        }
    return status;
}
