/* cached_angles.c: angles in float, from the angle table where it has them. */
#include "core/rotation/cached_angles.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"

/* The row of position m, or NULL.  The table holds the forward attention factor, so an inverse that divides by it cannot use
 * the table. */
static const float *table_row(const gyre_angles *angles, double m) {
    const gyre_encoding *e = angles->encoding;
    if (!e->angles || !angles->uses_stored || angles->slower || angles->factor != e->attention_factor) return NULL;
    return m >= 0 && m <= (double)GYRE_MAX_POSITION ? gyre_angle_table_row(e, (int64_t)m) : NULL;
}

/* 1 for text, where all axes have the same position. */
static int same_on_all_axes(const gyre_angles *angles, const double *position) {
    for (int64_t a = 1; a < gyre_axes_of(angles->encoding); a++)
        if (position[a] != position[0]) return 0;
    return 1;
}

/* Axes with different positions: takes each pair from the table row of its axis.  out = 1, or 0 if a row is missing. */
static int gather_table_rows(const gyre_angles *angles, int64_t first, int64_t count, const double *position,
                             float *buffer) {
    const gyre_encoding *e = angles->encoding;
    const float *row[GYRE_MAX_AXES];
    for (int64_t a = 0; a < gyre_axes_of(e); a++)
        if (!(row[a] = table_row(angles, position[a]))) return 0;
    for (int64_t j = 0; j < count; j++) {
        const float *own = row[e->axis[first + j]] + first + j;
        buffer[j] = own[0];
        buffer[count + j] = own[e->config.rope.dim / 2];
    }
    return 1;
}

gyre_cos_sin_view gyre_angles_f32(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                                  const double *position, float *buffer) {
    const int one = same_on_all_axes(angles, position), negate_sine = angles->direction != GYRE_DIRECTION_FORWARD;
    const float *row = one ? table_row(angles, position[0]) : NULL;
    if (row) return (gyre_cos_sin_view){row + first, row + angles->encoding->config.rope.dim / 2 + first, negate_sine};
    if (!one && gather_table_rows(angles, first, count, position, buffer))
        return (gyre_cos_sin_view){buffer, buffer + count, negate_sine};
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    gyre_angles_f64(angles, frequency, first, count, position, c, s);
    for (int64_t j = 0; j < count; j++) {
        buffer[j] = (float)c[j];
        buffer[count + j] = (float)s[j];
    }
    return (gyre_cos_sin_view){buffer, buffer + count, 0};
}
