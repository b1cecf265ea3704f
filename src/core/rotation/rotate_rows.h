/* rotate_rows.h: attention's rotation of rows: angles once per token, rotation once per row. */
#ifndef GYRE_CORE_ROTATE_ROWS_H
#define GYRE_CORE_ROTATE_ROWS_H
#include "core/rotation/angle_table.h"
#include "gyre/gyre.h"

struct gyre_angle_steps; /* core/rotation/angle_table.h */

typedef struct gyre_rotation_spec {
    gyre_role role;
    int variant; /* which of the role's variants (far_variants.h) */
    int64_t length, batch;
    const gyre_positions *positions;
    double center;                        /* xPos: magnitudes are relative to this position */
    const struct gyre_angle_steps *steps; /* steps at `length`, for runs of consecutive positions; NULL = none */
} gyre_rotation_spec;

/* An angle row is [2][rope.dim / 2]: cos of every pair, then sin, attention factor included.  Positions were checked. */

/* rows[i] = the angle row of token first + i, i < count. */
void gyre_rotation_angles(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t first, int64_t count,
                          float *rows);
/* out = the angle rows of all `count` tokens, adjacent in the encoding's own table; NULL if they are not there. */
const float *gyre_rotation_cached_rows(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t count);
/* 1 if a call over `tokens` tokens with highest position `highest` gains from its own steps (gyre_angle_steps_make). */
int gyre_rotation_steps_worthwhile(const gyre_encoding *encoding, int64_t length, int64_t highest, int64_t tokens);
size_t gyre_rotation_steps_bytes(const gyre_encoding *encoding);

/* row = the angle row of a token in double, without xPos's magnitudes. */
void gyre_rotation_angles_f64(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t token, double *row);
/* Rotates x[head_dim] in place by it.  negate_sine 1: by the transpose. */
void gyre_rotate_row_f64(const gyre_encoding *encoding, const double *row, double *x, int negate_sine);

/* x[i * stride + c], c < head_dim: rotates row i in place by angles[i].  negate_sine 1: by the transpose. */
void gyre_rotate_rows(const gyre_encoding *encoding, const float *angles, int64_t rows, float *x, int64_t stride,
                      int negate_sine);

typedef struct gyre_strided_rows {
    int64_t rows, stride;
    float *x;
} gyre_strided_rows;
/* Moves rotated rows to other positions: rotates each in place by sign x shift[axis] positions, sign 1 or -1, without the
 * attention factor, which the rows have already. */
void gyre_rotate_rows_by_shift(const gyre_encoding *encoding, int64_t length, const int64_t *shift, int sign,
                               const gyre_strided_rows *to);
/* factor[c] = xPos decay of channel c over `distance`.  The product of a query row centred at a and a key row centred at b
 * needs it for distance a - b. */
void gyre_xpos_decay_factors(const gyre_encoding *encoding, int64_t distance, int64_t channels, float *factor);

#endif
