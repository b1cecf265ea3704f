/* rotate_rows.c: attention's rotation of rows in place. */
#include "core/rotation/rotate_rows.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/cached_angles.h"
#include "core/rotation/far_variants.h"
#include "kernels/places/place_kernels.h"

#include <math.h>
#include <string.h>

/* Pairs first .. first + count - 1 of one angle row. */
static void fill_row(const gyre_angles *angles, const gyre_rotation_spec *spec, const gyre_frequency *frequency,
                     int64_t first, int64_t count, const double *position, float *row) {
    const gyre_encoding *encoding = angles->encoding;
    const int64_t pairs = encoding->config.rope.dim / 2;
    float buffer[2 * GYRE_PAIR_CHUNK];
    const gyre_cos_sin_view cos_sin = gyre_angles_f32(angles, frequency, first, count, position, buffer);
    memcpy(row + first, cos_sin.cosine, (size_t)count * sizeof *row);
    memcpy(row + pairs + first, cos_sin.sine, (size_t)count * sizeof *row);
    if (!encoding->xpos_log2_decay) return;
    const double distance = spec->role == GYRE_ROLE_QUERY ? position[0] - spec->center : spec->center - position[0];
    for (int64_t j = first; j < first + count; j++) {
        const double size = exp2(encoding->xpos_log2_decay[j] * distance);
        row[j] = (float)(size * (double)row[j]);
        row[pairs + j] = (float)(size * (double)row[pairs + j]);
    }
}

/* out = length of the run of consecutive positions at the start. */
static int64_t consecutive_run(const double *positions, int64_t n) {
    int64_t run = 1;
    while (run < n && positions[run] == positions[0] + (double)run)
        run++;
    return run;
}

/* Fills the leading run of consecutive positions by steps, if it is long enough to pay for the anchor.  out = rows
 * filled. */
static int64_t fill_row_by_steps(const gyre_rotation_spec *spec, const double *positions, int64_t n, float *rows) {
    enum { MIN_RUN = 8 };
    const int64_t pairs = spec->steps ? spec->steps->pairs : 0, run = pairs > 0 ? consecutive_run(positions, n) : 0;
    if (run < MIN_RUN) return 0;
    const gyre_cos_sin_rows out = {rows, rows + pairs, 2 * pairs};
    gyre_angle_steps_fill_rows(spec->steps, (int64_t)positions[0], run, &out);
    return run;
}

size_t gyre_rotation_steps_bytes(const gyre_encoding *encoding) {
    return gyre_angle_steps_bytes(encoding->config.rope.dim / 2);
}

int gyre_rotation_steps_worthwhile(const gyre_encoding *encoding, int64_t length, int64_t highest, int64_t tokens) {
    enum { MIN_TOKENS = 256 };
    const struct gyre_rope_config *rope = &encoding->config.rope;
    if (encoding->axis || encoding->xpos_log2_decay || rope->far != GYRE_FAR_AS_NEAR ||
        rope->angles != GYRE_ANGLE_PATH_EXACT)
        return 0;
    const int own = gyre_rope_same_frequencies(&encoding->config, length, 0);
    return tokens >= MIN_TOKENS && !(own && highest < gyre_angle_table_length(encoding));
}

const float *gyre_rotation_cached_rows(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t count) {
    const gyre_positions *positions = spec->positions;
    if (encoding->axis || encoding->xpos_log2_decay || encoding->config.rope.far != GYRE_FAR_AS_NEAR || count == 0)
        return NULL;
    if (!gyre_rope_same_frequencies(&encoding->config, spec->length, 0)) return NULL;
    const int64_t first = gyre_position_at(positions, spec->batch, 0, 0);
    for (int64_t i = 1; positions->data && i < count; i++)
        if (gyre_position_at(positions, spec->batch, i, 0) != first + i) return NULL;
    return gyre_angle_table_span(encoding, first, count);
}

static gyre_angles variant_angles(const gyre_encoding *encoding, const gyre_rotation_spec *spec) {
    gyre_angles angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, spec->length);
    angles.slower = gyre_variant_is_slower(&encoding->config.rope, spec->variant);
    return angles;
}

/* positions[i * axes + a] = what axis a of token first + i rotates by. */
static void read_variant_positions(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t first,
                                   int64_t count, double *positions) {
    const int moved = spec->variant > 0 || gyre_is_chunked(&encoding->config.rope);
    gyre_positions_read_axes(encoding, spec->positions, spec->batch, first, count, positions);
    for (int64_t i = 0; moved && i < count; i++)
        positions[i] = gyre_variant_position(&encoding->config, spec->role, spec->variant, (int64_t)positions[i]);
}

void gyre_rotation_angles_f64(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t token, double *row) {
    gyre_angles angles = variant_angles(encoding, spec);
    const int64_t pairs = encoding->config.rope.dim / 2;
    double position[GYRE_MAX_AXES];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    gyre_angle_walk walk = {0, 0};
    angles.walk = &walk;
    read_variant_positions(encoding, spec, token, 1, position);
    for (int64_t first = 0; first < pairs; first += GYRE_PAIR_CHUNK) {
        const int64_t n = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&angles, first, n, buffer);
        gyre_angles_f64(&angles, frequency, first, n, position, row + first, row + pairs + first);
    }
}

void gyre_rotate_row_f64(const gyre_encoding *encoding, const double *row, double *x, int negate_sine) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    const int half = encoding->config.rope.layout == GYRE_LAYOUT_HALF;
    double *const at = x + encoding->config.rope.first_channel;
    const gyre_rotate_job job = {at, at, 1, pairs, 0, 0, half, half, negate_sine, row, row + pairs, 0, 0};
    encoding->kernels->rotate_f64(&job);
}

void gyre_rotation_angles(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t first, int64_t count,
                          float *rows) {
    enum { ROWS = 128 };
    const gyre_angles angles = variant_angles(encoding, spec);
    const int64_t pairs = encoding->config.rope.dim / 2, axes = gyre_axes_of(encoding);
    double positions[ROWS * GYRE_MAX_AXES];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    for (int64_t done = 0; done < count; done += ROWS, rows += ROWS * 2 * pairs) {
        const int64_t n = count - done < ROWS ? count - done : ROWS;
        read_variant_positions(encoding, spec, first + done, n, positions);
        const int64_t filled = fill_row_by_steps(spec, positions, n, rows);
        /* Skipped if the steps filled all rows: the powers in the frequencies cost more than the rows. */
        for (int64_t pair = 0; filled < n && pair < pairs; pair += GYRE_PAIR_CHUNK) {
            const int64_t some = pairs - pair < GYRE_PAIR_CHUNK ? pairs - pair : GYRE_PAIR_CHUNK;
            const gyre_frequency *frequency = gyre_angles_frequencies(&angles, pair, some, buffer);
            for (int64_t i = filled; i < n; i++)
                fill_row(&angles, spec, frequency, pair, some, positions + i * axes, rows + i * 2 * pairs);
        }
    }
}

/* The kernels pair (i, i + pairs) or (2i, 2i + 1).  INTERLEAVED_TO_HALF is rotated as interleaved: scores are products of
 * two rows in the same order, so the order does not matter. */
void gyre_rotate_rows(const gyre_encoding *encoding, const float *angles, int64_t rows, float *x, int64_t stride,
                      int negate_sine) {
    const gyre_rotate_rows_job job = {.rows = rows,
                                      .pairs = encoding->config.rope.dim / 2,
                                      .stride = stride,
                                      .x = x + encoding->config.rope.first_channel,
                                      .angles = angles,
                                      .half = encoding->config.rope.layout == GYRE_LAYOUT_HALF,
                                      .negate_sine = negate_sine};
    encoding->kernels->rotate_rows_f32(&job);
}

/* Rotates pairs first .. first + count - 1 of every row; c and s hold one angle per pair. */
static void rotate_strided_pairs(const gyre_encoding *encoding, int64_t first, int64_t count, const double *c,
                                 const double *s, const gyre_strided_rows *to) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    const int half = encoding->config.rope.layout == GYRE_LAYOUT_HALF;
    for (int64_t i = 0; i < to->rows; i++) {
        float *x = to->x + i * to->stride + encoding->config.rope.first_channel;
        for (int64_t j = 0; j < count; j++) {
            float *a = x + (half ? first + j : 2 * (first + j)), *b = half ? a + pairs : a + 1;
            const float cosine = (float)c[j], sine = (float)s[j], u = *a, v = *b;
            *a = u * cosine - v * sine;
            *b = v * cosine + u * sine;
        }
    }
}

void gyre_rotate_rows_by_shift(const gyre_encoding *encoding, int64_t length, const int64_t *shift, int sign,
                               const gyre_strided_rows *to) {
    gyre_angles angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length);
    const int64_t pairs = encoding->config.rope.dim / 2, axes = gyre_axes_of(encoding);
    double position[GYRE_MAX_AXES], cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    gyre_angle_walk walk = {0, 0};
    angles.walk = &walk;
    angles.factor = 1; /* the rows have the attention factor already */
    for (int64_t a = 0; a < axes; a++)
        position[a] = (double)shift[a] * sign;
    for (int64_t first = 0; first < pairs; first += GYRE_PAIR_CHUNK) {
        const int64_t n = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&angles, first, n, buffer);
        gyre_angles_f64(&angles, frequency, first, n, position, cosine, sine);
        rotate_strided_pairs(encoding, first, n, cosine, sine, to);
    }
}

void gyre_xpos_decay_factors(const gyre_encoding *encoding, int64_t distance, int64_t channels, float *factor) {
    enum { MAX_LOG2 = 120 }; /* keeps the factor finite: infinity times a channel of 0 would be a NaN */
    const struct gyre_rope_config *rope = &encoding->config.rope;
    const int64_t pairs = rope->dim / 2, half = rope->layout == GYRE_LAYOUT_HALF;
    for (int64_t c = 0; c < channels; c++)
        factor[c] = 1;
    for (int64_t i = 0; i < pairs; i++) {
        const double power = encoding->xpos_log2_decay[i] * (double)distance;
        const float size = (float)exp2(power > MAX_LOG2 ? MAX_LOG2 : power);
        factor[rope->first_channel + (half ? i : 2 * i)] = size;
        factor[rope->first_channel + (half ? i + pairs : 2 * i + 1)] = size;
    }
}
