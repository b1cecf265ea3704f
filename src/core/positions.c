/* positions.c: which position each token has. */
#include "core/positions.h"
#include "core/encoding.h"

int64_t gyre_position_at(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axis) {
    if (!positions->data) return positions->base + token;
    const int64_t at = batch * positions->stride_batch + token * positions->stride_token + axis * positions->stride_axis;
    return positions->dtype == GYRE_DTYPE_I32 ? ((const int32_t *)positions->data)[at]
                                              : ((const int64_t *)positions->data)[at];
}

gyre_status gyre_positions_check(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch,
                                 int64_t tokens) {
    if (!positions || positions->context_length < 0) return GYRE_EINVAL;
    if (batch <= 0 || tokens <= 0) return GYRE_OK;
    const int64_t first = encoding ? encoding->first_position : -GYRE_MAX_POSITION;
    const int64_t last = encoding ? encoding->last_position : GYRE_MAX_POSITION;
    if (!positions->data) /* written so that nothing overflows, whatever base and tokens are */
        return positions->base >= first && positions->base <= last && tokens - 1 <= last - positions->base ? GYRE_OK
                                                                                                           : GYRE_ERANGE;
    if (positions->dtype != GYRE_DTYPE_I32 && positions->dtype != GYRE_DTYPE_I64) return GYRE_EDTYPE;
    const int64_t rows = positions->stride_batch == 0 ? 1 : batch;
    const int64_t axes = encoding && positions->stride_axis != 0 ? gyre_axes_of(encoding) : 1;
    for (int64_t b = 0; b < rows; b++)
        for (int64_t i = 0; i < tokens * axes; i++) {
            const int64_t position = gyre_position_at(positions, b, i / axes, i % axes);
            if (position < first || position > last) return GYRE_ERANGE;
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
