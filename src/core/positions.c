/* positions.c: reading and checking gyre_positions. */
#include "core/positions.h"
#include "core/encoding.h"
#include "core/view.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>
#include <stdio.h>

gyre_positions gyre_positions_of_row(const gyre_positions *positions, int64_t batch) {
    gyre_positions row = *positions;
    if (row.data) row.data = (const char *)row.data + batch * row.stride_batch * (int64_t)gyre_dtype_size(row.dtype);
    return row;
}

int64_t gyre_position_at(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axis) {
    if (!positions->data) return positions->base + token;
    const int64_t at = batch * positions->stride_batch + token * positions->stride_token + axis * positions->stride_axis;
    return positions->dtype == GYRE_DTYPE_I32 ? ((const int32_t *)positions->data)[at]
                                              : ((const int64_t *)positions->data)[at];
}

/* The range a call allows, and the names for its messages. */
typedef struct position_check {
    int64_t first, last; /* both allowed */
    int64_t last_scaled; /* after this one the encoding needs a length in use, which the call does not have */
    const char *name, *where;
    gyre_error *err;
} position_check;

/* batch: the row of the token, or -1 where all rows have the same positions. */
static gyre_status refuse_position(const position_check *c, int64_t batch, int64_t token, int64_t position) {
    char row[40] = "";
    if (!c->err) return position > c->last_scaled && position <= c->last ? GYRE_EINVAL : GYRE_ERANGE;
    if (batch >= 0) snprintf(row, sizeof row, " of row %" PRId64, batch);
    if (position > c->last_scaled && position <= c->last)
        return gyre_fail(c->err, GYRE_EINVAL,
                         "%s: %" PRId64 " of token %" PRId64 "%s is past the trained length, %" PRId64
                         ", and this scaling depends on the length in use: set context_length in the call or the config, or "
                         "length_policy in the config (%s)",
                         c->name, position, token, row, c->last_scaled + 1, c->where);
    if (c->first == -GYRE_MAX_POSITION && c->last == GYRE_MAX_POSITION)
        return gyre_fail(c->err, GYRE_ERANGE, "%s: %" PRId64 " of token %" PRId64 "%s is past 2^31 (%s)", c->name, position,
                         token, row, c->where);
    return gyre_fail(c->err, GYRE_ERANGE,
                     "%s: %" PRId64 " of token %" PRId64 "%s is outside %" PRId64 " .. %" PRId64
                     ", the positions of this encoding (%s)",
                     c->name, position, token, row, c->first, c->last, c->where);
}

/* Positions base, base + 1, ...: written so that nothing overflows, whatever base and tokens are. */
static gyre_status check_consecutive(const position_check *c, int64_t base, int64_t tokens) {
    const int64_t last = gyre_min_i64(c->last, c->last_scaled);
    if (base < c->first || base > last) return refuse_position(c, -1, 0, base);
    if (tokens - 1 <= last - base) return GYRE_OK;
    return refuse_position(c, -1, last - base + 1, last + 1);
}

gyre_status gyre_positions_memory_check(const gyre_positions *positions, const gyre_positions_extent *extent,
                                        const char *name, const char *where, gyre_error *err) {
    gyre_reach reach = {0, 0};
    if (positions->one_position && (!positions->data || positions->stride_token != 0 || positions->one_position != 1))
        return gyre_fail(err, GYRE_EINVAL, "%s.one_position: is %d, beside %s (%s)", name, positions->one_position,
                         positions->data ? "a stride_token" : "no data", where);
    if (!positions->data) return GYRE_OK;
    if (!gyre_axis_reach(extent->batch, positions->stride_batch, positions->dtype, &reach) ||
        !gyre_axis_reach(extent->tokens, positions->stride_token, positions->dtype, &reach) ||
        !gyre_axis_reach(extent->axes, positions->stride_axis, positions->dtype, &reach) ||
        !gyre_axis_reach(extent->heads, extent->head_stride, positions->dtype, &reach))
        return gyre_fail(err, GYRE_EINVAL,
                         "%s: its strides %" PRId64 " (batch), %" PRId64 " (token), %" PRId64 " (axis) and %" PRId64
                         " (head) reach further than memory does (%s)",
                         name, positions->stride_batch, positions->stride_token, positions->stride_axis, extent->head_stride,
                         where);
    if (extent->batch == 0 || extent->tokens == 0) return GYRE_OK;
    if (extent->tokens > 1 && positions->stride_token == 0 && !positions->one_position)
        return gyre_fail(err, GYRE_EINVAL,
                         "%s.stride_token: is 0 over %" PRId64
                         " tokens, so all have one position; set it to 1 for dense data, or set one_position (%s)",
                         name, extent->tokens, where);
    if (positions->dtype != GYRE_DTYPE_I32 && positions->dtype != GYRE_DTYPE_I64)
        return gyre_fail(err, GYRE_EDTYPE, "%s.dtype: %s is neither I32 nor I64 (%s)", name,
                         gyre_dtype_text(positions->dtype), where);
    return gyre_alignment_check(positions->data, positions->dtype, name, where, err);
}

/* 1: all positions of a row are first .. last, found without a branch for each.  0: some may not be. */
static int row_in_range(const gyre_positions *positions, int64_t batch, int64_t tokens, int64_t first, int64_t last) {
    if (positions->dtype != GYRE_DTYPE_I64 || first > last) return 0;
    const int64_t *at = (const int64_t *)positions->data + batch * positions->stride_batch;
    const uint64_t most = (uint64_t)last - (uint64_t)first;
    int outside = 0;
    for (int64_t i = 0; i < tokens; i++)
        outside |= (uint64_t)at[i * positions->stride_token] - (uint64_t)first > most;
    return !outside;
}

gyre_status gyre_positions_check(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch,
                                 int64_t tokens, const char *name, const char *where, gyre_error *err) {
    if (!positions) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", name, where);
    if (positions->context_length < 0)
        return gyre_fail(err, GYRE_EINVAL, "%s.context_length: %" PRId64 " is negative (%s)", name,
                         positions->context_length, where);
    if (batch <= 0 || tokens <= 0) return GYRE_OK;
    const position_check check = {encoding ? encoding->first_position : -GYRE_MAX_POSITION,
                                  encoding ? encoding->last_position : GYRE_MAX_POSITION,
                                  encoding && positions->context_length == 0 ? encoding->last_scaled : GYRE_MAX_POSITION,
                                  name,
                                  where,
                                  err};
    if (!positions->data && !positions->one_position) return check_consecutive(&check, positions->base, tokens);
    const int64_t rows = positions->stride_batch == 0 ? 1 : batch;
    const int64_t axes = encoding && positions->stride_axis != 0 ? gyre_axes_of(encoding) : 1;
    const gyre_positions_extent extent = {batch, tokens, axes, 1, 0};
    const gyre_status status = gyre_positions_memory_check(positions, &extent, name, where, err);
    if (status) return status;
    const int64_t last = gyre_min_i64(check.last, check.last_scaled);
    for (int64_t b = 0; b < rows; b++) {
        if (axes == 1 && row_in_range(positions, b, tokens, check.first, last)) continue;
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t a = 0; a < axes; a++) {
                const int64_t position = gyre_position_at(positions, b, i, a);
                if (position < check.first || position > last)
                    return refuse_position(&check, rows > 1 ? b : -1, i, position);
            }
    }
    return GYRE_OK;
}

void gyre_positions_read(const gyre_positions *positions, int64_t batch, int64_t first, int64_t count, int64_t *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = gyre_position_at(positions, batch, first + i, 0);
}

void gyre_positions_read_axes(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch, int64_t first,
                              int64_t count, double *out) {
    const int64_t axes = gyre_axes_of(encoding);
    for (int64_t a = 0; a < axes; a++)
        for (int64_t i = 0; i < count; i++)
            out[i * axes + a] = (double)gyre_position_at(positions, batch, first + i, a);
}

gyre_status gyre_positions_from_mask(const unsigned char *mask, int64_t batch, int64_t tokens, int64_t *out) {
    if (batch < 0 || tokens < 0) return GYRE_EINVAL;
    if (batch == 0 || tokens == 0) return GYRE_OK;
    if (!mask || !out) return GYRE_EINVAL;
    for (int64_t b = 0; b < batch; b++, mask += tokens, out += tokens)
        for (int64_t t = 0, before = 0; t < tokens; t++)
            out[t] = mask[t] ? before++ : -1;
    return GYRE_OK;
}
