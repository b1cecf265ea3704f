/* turn.c: rows of queries and keys turned in place, for attention. */
#include "core/angles.h"
#include "core/view.h"

static void turn_wide_row(const gyre_encoding *encoding, const gyre_turn *turn, int64_t i, float *x) {
    const gyre_view out = gyre_dense(x, GYRE_F32, 1, 1, 1, encoding->config.head_dim);
    const gyre_cview in = gyre_const(out);
    const gyre_positions at = {.base = turn->positions[i], .length = turn->length};
    const gyre_status status = gyre_rotate(encoding, turn->direction, turn->role, &at, &in, &out, NULL);
    (void)status; /* all was checked before */
}

void gyre_turn_rows(const gyre_encoding *encoding, const gyre_turn *turn, int64_t rows, float *x, int64_t stride) {
    if (!(encoding->scheme->places & GYRE_AT_QUERY_KEY)) return;
    const gyre_angles angles = gyre_angles_of(encoding, turn->direction, turn->length);
    const int64_t pairs = encoding->config.rope.dim / 2;
    const gyre_heads one = {1, pairs, 0, 0};
    gyre_frequency frequencies[GYRE_PAIR_CHUNK];
    float buffer[2 * GYRE_PAIR_CHUNK];
    if (pairs > GYRE_PAIR_CHUNK) {
        for (int64_t i = 0; i < rows; i++)
            turn_wide_row(encoding, turn, i, x + i * stride);
        return;
    }
    const gyre_frequency *frequency = gyre_angles_frequencies(&angles, 0, pairs, frequencies);
    for (int64_t i = 0; i < rows; i++) {
        const double position[1] = {(double)turn->positions[i]};
        if (gyre_angles_identity(&angles, position)) continue;
        const gyre_cos_sin turned = gyre_angles_f32(&angles, frequency, 0, pairs, position, buffer);
        if (encoding->config.rope.layout == GYRE_HALF)
            encoding->kernels->rotate_half_f32(x + i * stride, x + i * stride, &one, turned.cosine, turned.sine);
        else
            encoding->kernels->rotate_interleaved_f32(x + i * stride, x + i * stride, &one, turned.cosine, turned.sine);
    }
}
