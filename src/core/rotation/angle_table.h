/* angle_table.h: rows of cos and sin that are made when they are first asked for and kept.
 *
 * A row holds what gyre_angles_f32 computes, to the last bit, so it makes no difference which of the two is used: a reader
 * never waits for another that is filling in a block, it computes its own. */
#ifndef GYRE_CORE_ANGLE_TABLE_H
#define GYRE_CORE_ANGLE_TABLE_H
#include "core/rotation/angles.h"

/* encoding->angles for `rows` positions from 0 of the `pairs` frequencies that the encoding has by then, or will; memory is
 * taken whole and not touched until it is needed. */
gyre_status gyre_angle_table_make(gyre_encoding *encoding, int64_t pairs, int64_t rows, gyre_error *err);
/* The same for as many positions as are worth it where nobody says how many: up to `length` (0 = unknown), bounded in rows
 * and bytes, and with malloc's memory alone.  Does without where there is no memory. */
void gyre_angle_table_make_default(gyre_encoding *encoding, int64_t pairs, int64_t length);
/* out = [2][pairs]: cos, then sin of all pairs at position m, forward, attention factor included; NULL where m is
 * outside the table, or somebody is at work on its block. */
const float *gyre_angle_table_row(const gyre_encoding *encoding, int64_t m);
/* The same of positions m .. m + count - 1, one after the other; NULL where that of any of them is. */
const float *gyre_angle_table_span(const gyre_encoding *encoding, int64_t m, int64_t count);
/* The same in double, as gyre_angles_f64 computes them, for rows of that type. */
const double *gyre_angle_table_row_f64(const gyre_encoding *encoding, int64_t m);
/* Rows of floats in the caller's memory, `row` elements from each to the next. */
typedef struct gyre_cos_sin_rows {
    float *cosine, *sine;
    int64_t row_stride;
} gyre_cos_sin_rows;
/* The same for positions m .. m + count - 1, of any sign and inside the table or not, computed into out; what the table
 * keeps is the steps from position to position.  out = count, or 0: nothing was done (no table, several axes, or somebody is
 * making the steps). */
int64_t gyre_angle_table_fill_rows(const gyre_encoding *encoding, int64_t m, int64_t count, const gyre_cos_sin_rows *out);
/* out = positions from 0 that the table is for. */
int64_t gyre_angle_table_length(const gyre_encoding *encoding);
/* out = bytes of memory in use by now. */
size_t gyre_angle_table_bytes(const gyre_encoding *encoding);

/* Rows of consecutive positions at any length in use, by steps made once in the caller's memory of gyre_angle_steps_bytes,
 * aligned for doubles.  Same bits as gyre_angles_f32. */
typedef struct gyre_angle_steps {
    gyre_angles angles;
    const gyre_frequency *frequency; /* [pairs] */
    const double *step;
    int64_t pairs;
} gyre_angle_steps;
size_t gyre_angle_steps_bytes(int64_t pairs);
void gyre_angle_steps_make(const gyre_encoding *encoding, int64_t length, void *memory, gyre_angle_steps *out);
void gyre_angle_steps_fill_rows(const gyre_angle_steps *by, int64_t m, int64_t count, const gyre_cos_sin_rows *out);

#endif
