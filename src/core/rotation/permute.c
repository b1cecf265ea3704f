/* permute.c: moves channels, or the rows of a projection, between the half and the interleaved layout. */
#include "core/rotation/permute.h"
#include "core/convert.h"
#include "core/encoding.h"
#include "core/scheme.h"
#include "core/view.h"
#include "util/error.h"

#include <string.h>

/* -- in place -- */

/* Up to so many pairs are moved through a buffer on the stack; longer rows are split in two. */
enum { BUFFERED_PAIRS = 256 };

typedef struct row {
    char *data;
    gyre_dtype dtype;
    int64_t size, stride; /* bytes of an element; from one to the next */
} row;

static row row_at(const row *r, int64_t first) {
    const row out = {r->data + first * r->stride, r->dtype, r->size, r->stride};
    return out;
}

static void reverse(const row *r, int64_t count) {
    char *low = r->data, *high = r->data + (count - 1) * r->stride;
    for (int64_t i = 0; i < count / 2; i++, low += r->stride, high -= r->stride) {
        char saved[sizeof(double)];
        memcpy(saved, low, (size_t)r->size);
        memcpy(low, high, (size_t)r->size);
        memcpy(high, saved, (size_t)r->size);
    }
}

/* [left][right] becomes [right][left], by three reversals. */
static void swap_blocks(const row *r, int64_t left, int64_t right) {
    const row rest = row_at(r, left);
    reverse(r, left);
    reverse(&rest, right);
    reverse(r, left + right);
}

static void move_buffered(const row *r, int64_t pairs, gyre_layout from, gyre_layout to) {
    double memory[2 * BUFFERED_PAIRS];
    char *buffer = (char *)memory;
    const int64_t stride = r->stride / r->size;
    for (int m = 0; m < 2; m++)
        gyre_copy_row(r->data + gyre_member_channel(from, 2 * pairs, 0, m) * r->stride, gyre_member_stride(from) * stride,
                      buffer + gyre_member_channel(to, 2 * pairs, 0, m) * r->size, gyre_member_stride(to), r->dtype, pairs);
    gyre_copy_row(buffer, 1, r->data, stride, r->dtype, 2 * pairs);
}

/* Splits the row in two halves of the pairs.  For 4 pairs with members c and s:
 *
 *     c s c s . c s c s
 *     c c s s . c c s s     each half deinterleaved
 *     c c c c . s s s s     the two blocks in the middle swapped */
static void deinterleave(const row *r, int64_t pairs) {
    const int64_t left = pairs / 2, right = pairs - left;
    const row middle = row_at(r, left), rest = row_at(r, 2 * left);
    if (pairs <= BUFFERED_PAIRS) {
        move_buffered(r, pairs, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF);
        return;
    }
    deinterleave(r, left);
    deinterleave(&rest, right);
    swap_blocks(&middle, left, right);
}

/* The steps of deinterleave in reverse. */
static void interleave(const row *r, int64_t pairs) {
    const int64_t left = pairs / 2, right = pairs - left;
    const row middle = row_at(r, left), rest = row_at(r, 2 * left);
    if (pairs <= BUFFERED_PAIRS) {
        move_buffered(r, pairs, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED);
        return;
    }
    swap_blocks(&middle, right, left);
    interleave(r, left);
    interleave(&rest, right);
}

void gyre_deinterleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs) {
    const int64_t size = (int64_t)gyre_dtype_size(dtype);
    const row r = {data, dtype, size, stride * size};
    deinterleave(&r, pairs);
}

void gyre_interleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs) {
    const int64_t size = (int64_t)gyre_dtype_size(dtype);
    const row r = {data, dtype, size, stride * size};
    interleave(&r, pairs);
}

/* -- the rows of a projection -- */

static void copy_rows(const gyre_cview *in, int64_t from, const gyre_view *out, int64_t to, int64_t head) {
    gyre_copy_row(gyre_cview_at(in, 0, head, from, 0), in->stride[3], gyre_view_at(out, 0, head, to, 0), out->stride[3],
                  in->dtype, in->shape[3]);
}

static void permute_head(const struct gyre_rope_config *rope, gyre_layout from, gyre_layout to, const gyre_cview *in,
                         const gyre_view *out, int64_t head) {
    for (int64_t c = 0; c < in->shape[2]; c++)
        if (c < rope->first_channel || c >= rope->first_channel + rope->dim) copy_rows(in, c, out, c, head);
    for (int64_t i = 0; i < rope->dim / 2; i++)
        for (int m = 0; m < 2; m++)
            copy_rows(in, rope->first_channel + gyre_member_channel(from, rope->dim, i, m), out,
                      rope->first_channel + gyre_member_channel(to, rope->dim, i, m), head);
}

static int is_pair_layout(gyre_layout layout) {
    return layout == GYRE_LAYOUT_HALF || layout == GYRE_LAYOUT_INTERLEAVED;
}

static gyre_status check_views(const gyre_encoding *encoding, const gyre_cview *in, const gyre_view *out, gyre_error *err) {
    static const char where[] = "gyre_permute_rows";
    gyre_status status = gyre_in_out_alike_check(in, out, where, err);
    if (status) return status;
    if (in->shape[0] != 1 || in->shape[2] != encoding->config.head_dim)
        return gyre_fail(err, GYRE_ESHAPE,
                         "in: " GYRE_SHAPE_FORMAT " is not [1, heads, head_dim = %" PRId64 ", inputs] (%s)",
                         GYRE_SHAPE_ARGS(in->shape), encoding->config.head_dim, where);
    const gyre_cview written = gyre_const(*out);
    return gyre_apart_check(&written, "out", in, "in", where, err); /* rows cannot be moved in place */
}

gyre_status gyre_permute_rows(const gyre_encoding *encoding, gyre_layout from, gyre_layout to, const gyre_cview *in,
                              const gyre_view *out, gyre_error *err) {
    if (!encoding || !in || !out)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_permute_rows)", !encoding ? "encoding" : !in ? "in" : "out");
    if (!(encoding->scheme->places & GYRE_PLACE_QUERY_KEY))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s rotates nothing (gyre_permute_rows)",
                         gyre_kind_name(encoding->scheme->kind));
    if (!is_pair_layout(from) || !is_pair_layout(to))
        return gyre_fail(err, GYRE_EINVAL, "%s: %d is neither HALF nor INTERLEAVED (gyre_permute_rows)",
                         is_pair_layout(from) ? "to" : "from", (int)(is_pair_layout(from) ? to : from));
    const gyre_status status = check_views(encoding, in, out, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    for (int64_t head = 0; head < in->shape[1]; head++)
        permute_head(&encoding->config.rope, from, to, in, out, head);
    return GYRE_OK;
}
