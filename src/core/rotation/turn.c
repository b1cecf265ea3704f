/* turn.c: rows of queries and keys turned in place, for attention: angles once a call, turns once a row. */
#include "core/rotation/angle_table.h"
#include "core/rotation/angles.h"

#include <math.h>
#include <string.h>

/* Pairs first .. first + count - 1 of one row. */
static void fill_row(const gyre_angles *angles, const gyre_turn *turn, const gyre_frequency *frequency, int64_t first,
                     int64_t count, const double *position, float *row) {
    const gyre_encoding *encoding = angles->encoding;
    const int64_t pairs = encoding->config.rope.dim / 2;
    float buffer[2 * GYRE_PAIR_CHUNK];
    const gyre_cos_sin turned = gyre_angles_f32(angles, frequency, first, count, position, buffer);
    memcpy(row + first, turned.cosine, (size_t)count * sizeof *row);
    memcpy(row + pairs + first, turned.sine, (size_t)count * sizeof *row);
    if (!encoding->decay) return;
    const double distance = turn->role == GYRE_QUERY ? position[0] - turn->center : turn->center - position[0];
    for (int64_t j = first; j < first + count; j++) {
        const double size = exp2(encoding->decay[j] * distance);
        row[j] = (float)(size * (double)row[j]);
        row[pairs + j] = (float)(size * (double)row[pairs + j]);
    }
}

/* How many from the first on are consecutive. */
static int64_t run_of(const double *positions, int64_t n) {
    int64_t run = 1;
    while (run < n && positions[run] == positions[0] + (double)run)
        run++;
    return run;
}

/* Consecutive positions by steps, where they are longer than what an anchor costs; out = tokens done, from the first on. */
static int64_t fill_by_steps(const gyre_turn *turn, const double *positions, int64_t n, float *rows) {
    enum { WORTH_IT = 8 };
    const int64_t pairs = turn->steps ? turn->steps->pairs : 0, run = pairs > 0 ? run_of(positions, n) : 0;
    if (run < WORTH_IT) return 0;
    const gyre_cos_sin_rows out = {rows, rows + pairs, 2 * pairs};
    gyre_angle_steps_rows(turn->steps, (int64_t)positions[0], run, &out);
    return run;
}

size_t gyre_turn_steps_bytes(const gyre_encoding *encoding) {
    return gyre_angle_steps_bytes(encoding->config.rope.dim / 2);
}

int gyre_turn_steps_pay(const gyre_encoding *encoding, int64_t length, int64_t highest, int64_t tokens) {
    enum { WORTH_IT = 256 };
    const struct gyre_rope_config *rope = &encoding->config.rope;
    if (encoding->axis || encoding->decay || rope->far != GYRE_FAR_AS_NEAR || rope->angles == GYRE_ANGLES_TORCH) return 0;
    const int own = gyre_rope_same_frequencies(&encoding->config, length, 0);
    return tokens >= WORTH_IT && !(own && highest < gyre_angle_table_end(encoding));
}

const float *gyre_turn_kept(const gyre_encoding *encoding, const gyre_turn *turn, int64_t count) {
    const gyre_positions *positions = turn->positions;
    if (encoding->axis || encoding->decay || turn->far || count == 0) return NULL;
    if (!gyre_rope_same_frequencies(&encoding->config, turn->length, 0)) return NULL;
    const int64_t first = gyre_position_at(positions, turn->batch, 0, 0);
    for (int64_t i = 1; positions->data && i < count; i++)
        if (gyre_position_at(positions, turn->batch, i, 0) != first + i) return NULL;
    return gyre_angle_table_span(encoding, first, count);
}

void gyre_turn_angles(const gyre_encoding *encoding, const gyre_turn *turn, int64_t first, int64_t count, float *rows) {
    enum { ROWS = 128 };
    gyre_angles angles = gyre_angles_of(encoding, GYRE_FORWARD, turn->length);
    const int64_t pairs = encoding->config.rope.dim / 2, axes = gyre_axes_of(encoding);
    double positions[ROWS * GYRE_MAX_AXES];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    angles.far = turn->far;
    for (int64_t done = 0; done < count; done += ROWS, rows += ROWS * 2 * pairs) {
        const int64_t n = count - done < ROWS ? count - done : ROWS;
        gyre_positions_read_axes(encoding, turn->positions, turn->batch, first + done, n, positions);
        for (int64_t i = 0; turn->far && i < n; i++)
            positions[i] = gyre_far_position(encoding, turn->role, (int64_t)positions[i]);
        const int64_t filled = fill_by_steps(turn, positions, n, rows);
        /* frequencies of a length are powers, which cost more than the rows that steps have filled */
        for (int64_t pair = 0; filled < n && pair < pairs; pair += GYRE_PAIR_CHUNK) {
            const int64_t some = pairs - pair < GYRE_PAIR_CHUNK ? pairs - pair : GYRE_PAIR_CHUNK;
            const gyre_frequency *frequency = gyre_angles_frequencies(&angles, pair, some, buffer);
            for (int64_t i = filled; i < n; i++)
                fill_row(&angles, turn, frequency, pair, some, positions + i * axes, rows + i * 2 * pairs);
        }
    }
}

/* The kernels pair (i, i + pairs) or (2i, 2i + 1).  Where the layout moves channels on the way out, a product of two rows
 * turned alike does not notice that they stay. */
void gyre_turn_rows(const gyre_encoding *encoding, const float *angles, int64_t rows, float *x, int64_t stride, int back) {
    const gyre_row_turns turns = {.rows = rows,
                                  .pairs = encoding->config.rope.dim / 2,
                                  .stride = stride,
                                  .x = x + encoding->config.rope.first,
                                  .angles = angles,
                                  .half = encoding->config.rope.layout == GYRE_HALF,
                                  .back = back};
    encoding->kernels->turn_rows_f32(&turns);
}

/* Pairs first .. first + count - 1 of every row, by one angle each. */
static void shift_pairs(const gyre_encoding *encoding, int64_t first, int64_t count, const double *c, const double *s,
                        const gyre_shifted *to) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    const int half = encoding->config.rope.layout == GYRE_HALF;
    for (int64_t i = 0; i < to->rows; i++) {
        float *x = to->x + i * to->stride + encoding->config.rope.first;
        for (int64_t j = 0; j < count; j++) {
            float *a = x + (half ? first + j : 2 * (first + j)), *b = half ? a + pairs : a + 1;
            const float cosine = (float)c[j], sine = (float)s[j], u = *a, v = *b;
            *a = u * cosine - v * sine;
            *b = v * cosine + u * sine;
        }
    }
}

void gyre_turn_shift(const gyre_encoding *encoding, int64_t length, const int64_t *shift, int sign, const gyre_shifted *to) {
    gyre_angles angles = gyre_angles_of(encoding, GYRE_FORWARD, length);
    const int64_t pairs = encoding->config.rope.dim / 2, axes = gyre_axes_of(encoding);
    double position[GYRE_MAX_AXES], cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    angles.factor = 1; /* a pure rotation: the rows have the factor already */
    for (int64_t a = 0; a < axes; a++)
        position[a] = (double)shift[a] * sign;
    for (int64_t first = 0; first < pairs; first += GYRE_PAIR_CHUNK) {
        const int64_t n = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&angles, first, n, buffer);
        gyre_angles_f64(&angles, frequency, first, n, position, cosine, sine);
        shift_pairs(encoding, first, n, cosine, sine, to);
    }
}

void gyre_turn_fade(const gyre_encoding *encoding, int64_t distance, int64_t channels, float *factor) {
    enum { MOST = 120 }; /* of either sign: a product with 0 or infinity would be a NaN */
    const struct gyre_rope_config *rope = &encoding->config.rope;
    const int64_t pairs = rope->dim / 2, half = rope->layout == GYRE_HALF;
    for (int64_t c = 0; c < channels; c++)
        factor[c] = 1;
    for (int64_t i = 0; i < pairs; i++) {
        const double power = encoding->decay[i] * (double)distance;
        const float size = (float)exp2(power > MOST ? MOST : power);
        factor[rope->first + (half ? i : 2 * i)] = size;
        factor[rope->first + (half ? i + pairs : 2 * i + 1)] = size;
    }
}
