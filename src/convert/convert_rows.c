/* convert_rows.c: one tensor, a block of rows at a time: fetched in the new order, converted to float, converted to the
 * new type. */
#include "convert/conversion.h"
#include "core/convert.h"
#include "core/rotation/permute.h"
#include "kernels/kernels.h"
#include "util/error.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20, Q8_NUMBERS = 32, Q8_BYTES = 34 };
static const float Q8_TOO_LARGE = 127 * 65520.0f; /* f16 rounds 65520, and no smaller number, to infinity */

/* A tensor as rows.  Of a vector whose elements move, each element is a row. */
typedef struct rows {
    const gyre_convert_tensor *tensor;
    const gyre_file_tensor *source;
    const gyre_kernels *kernels;
    int64_t count, width;
    size_t in_bytes, out_bytes; /* of a row */
    float *f32_row;             /* [width] */
} rows;

static rows rows_of(const gyre_kernels *kernels, const gyre_convert_tensor *t) {
    rows r = {.tensor = t, .source = t->source ? t->source : &t->generated, .kernels = kernels};
    const gyre_file_tensor *s = r.source;
    r.width = s->rank > 0 ? s->shape[s->rank - 1] : 1;
    if (s->rank == 1 && t->head_rows > 0) r.width = 1;
    r.count = r.width > 0 ? s->count / r.width : 0;
    r.in_bytes = (size_t)gyre_stored_row_bytes(s->type, r.width);
    r.out_bytes = (size_t)gyre_stored_row_bytes(t->type, r.width);
    return r;
}

/* out = the row of the source that becomes row `row` of the result. */
static int64_t source_row(const gyre_convert_tensor *t, int64_t row) {
    if (t->head_rows == 0 || t->from == t->to) return row;
    const int64_t channel = row % t->head_rows, rotated = channel - t->first, half = t->dim / 2;
    if (rotated < 0 || rotated >= t->dim) return row;
    const int64_t pair = t->to == GYRE_LAYOUT_HALF ? rotated % half : rotated / 2;
    const int member = (int)(t->to == GYRE_LAYOUT_HALF ? rotated / half : rotated % 2);
    return row - rotated + gyre_member_channel(t->from, t->dim, pair, member);
}

/* -- numbers -- */
static void store_scale(unsigned char *to, float scale) {
    const uint16_t half = gyre_f32_to_f16(scale);
    to[0] = (unsigned char)half;
    to[1] = (unsigned char)(half >> 8);
}

/* ggml's Q8_0: blocks of 32 finite numbers with a scale of f16.  The largest absolute value becomes 127; where it is too
 * small for a scale of f16, the block stands for zeros. */
static void quantize_q8_0(const float *in, int64_t n, unsigned char *out) {
    for (int64_t block = 0; block < n / Q8_NUMBERS; block++, in += Q8_NUMBERS, out += Q8_BYTES) {
        float abs_max = 0;
        for (int i = 0; i < Q8_NUMBERS; i++)
            abs_max = fmaxf(abs_max, fabsf(in[i]));
        const float scale = abs_max / 127.0f, inverse = scale >= FLT_MIN ? 1.0f / scale : 0.0f;
        store_scale(out, scale);
        for (int i = 0; i < Q8_NUMBERS; i++)
            out[2 + i] = (unsigned char)(signed char)roundf(in[i] * inverse);
    }
}

static gyre_status check_finite(const rows *r, int64_t row, const unsigned char *stored, gyre_error *err) {
    const gyre_stored_type type = r->tensor->type;
    const int has_infinity = type == GYRE_STORED_F16 || type == GYRE_STORED_BF16;
    for (int64_t i = 0; i < r->width; i++) {
        uint16_t bits = 0;
        if (has_infinity) memcpy(&bits, stored + 2 * i, sizeof bits);
        const uint16_t exponent = type == GYRE_STORED_F16 ? 0x7C00 : 0x7F80;
        const int has_scale = type != GYRE_STORED_Q8_0 || fabsf(r->f32_row[i]) < Q8_TOO_LARGE;
        if (isfinite(r->f32_row[i]) && has_scale && (!has_infinity || (bits & exponent) != exponent)) continue;
        return gyre_fail(err, isfinite(r->f32_row[i]) ? GYRE_EINVAL : GYRE_EFORMAT,
                         "%s: element %" PRId64 ", %g, is not finite in %s (%s)", r->source->name, row * r->width + i,
                         (double)r->f32_row[i], gyre_stored_type_name(type), r->source->file);
    }
    return GYRE_OK;
}

static gyre_status narrow(const rows *r, int64_t row, unsigned char *out, gyre_error *err) {
    switch (r->tensor->type) {
    case GYRE_STORED_F32:
        memcpy(out, r->f32_row, r->out_bytes);
        break;
    case GYRE_STORED_F16:
        gyre_store_row(r->f32_row, r->width, out, GYRE_DTYPE_F16, 1);
        break;
    case GYRE_STORED_BF16:
        gyre_store_row(r->f32_row, r->width, out, GYRE_DTYPE_BF16, 1);
        break;
    default: {
        const gyre_status status = check_finite(r, row, out, err); /* what is not finite has no place in a block */
        if (!status) quantize_q8_0(r->f32_row, r->width, out);
        return status;
    }
    }
    return check_finite(r, row, out, err);
}

/* -- rows -- */
static gyre_status convert_block(const rows *r, int64_t begin, int64_t count, unsigned char *block, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        const unsigned char *in = r->source->data + (size_t)source_row(r->tensor, begin + i) * r->in_bytes;
        unsigned char *out = block + (size_t)i * r->out_bytes;
        if (r->source->type == r->tensor->type) {
            memcpy(out, in, r->out_bytes);
        } else {
            gyre_stored_dequantize(r->kernels, r->source->type, in, r->f32_row, r->width);
            status = narrow(r, begin + i, out, err);
        }
    }
    return status;
}

static gyre_status convert_blocks(gyre_conversion *c, const rows *r, gyre_convert_write_fn *put, void *sink,
                                  gyre_error *err) {
    const int64_t block_rows = r->out_bytes < BLOCK_BYTES ? BLOCK_BYTES / (int64_t)r->out_bytes : 1;
    unsigned char *block = malloc((size_t)(block_rows < r->count ? block_rows : r->count) * r->out_bytes);
    gyre_status status =
        block && r->f32_row ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "%s: no memory (converting)", r->source->name);
    for (int64_t begin = 0; begin < r->count && !status; begin += block_rows) {
        if (c->options->watcher.stop && c->options->watcher.stop(c->options->watcher.ctx)) {
            status = gyre_fail(err, GYRE_EIO, "converting: stopped, and nothing is written (%s)", c->target);
            break;
        }
        const int64_t count = block_rows < r->count - begin ? block_rows : r->count - begin;
        status = convert_block(r, begin, count, block, err);
        if (!status) status = put(sink, block, (size_t)count * r->out_bytes, err);
        if (!status && c->options->watcher.progress)
            c->options->watcher.progress(c->options->watcher.ctx, count * (int64_t)r->in_bytes, c->total_bytes);
    }
    free(block);
    return status;
}

gyre_status gyre_convert_rows(gyre_conversion *c, const gyre_convert_tensor *tensor, gyre_convert_write_fn *put, void *sink,
                              gyre_error *err) {
    rows r = rows_of(c->kernels, tensor);
    if (r.count == 0) return GYRE_OK;
    r.f32_row = malloc((size_t)r.width * sizeof *r.f32_row);
    const gyre_status status = convert_blocks(c, &r, put, sink, err);
    free(r.f32_row);
    if (tensor->source) gyre_stored_release_pages(tensor->source);
    return status;
}
