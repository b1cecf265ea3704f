/* angle_table.h: rows of cos and sin, computed on first use and then stored.
 *
 * A row holds exactly what gyre_angles_f32 computes, so either can be used.  A reader never waits while another thread fills
 * in a block: it gets NULL and computes its own row. */
#ifndef GYRE_CORE_ANGLE_TABLE_H
#define GYRE_CORE_ANGLE_TABLE_H
#include "core/rotation/angles.h"

/* encoding->angles = a table for positions 0 .. rows - 1 and the encoding's `pairs` frequencies, which may be set later.
 * Takes all memory at once and does not touch it until it is needed.  Errors: ENOMEM. */
gyre_status gyre_angle_table_make(gyre_encoding *encoding, int64_t pairs, int64_t rows, gyre_error *err);
/* A table of default size: up to `length` positions (0 = unknown: 32768), at most 64 MiB of floats.  Makes no table with the
 * caller's own allocator, or without memory. */
void gyre_angle_table_make_default(gyre_encoding *encoding, int64_t pairs, int64_t length);
/* out = [2][pairs]: cos, then sin of all pairs at position m, forward, attention factor included.  NULL if m is outside the
 * table or another thread is filling in its block. */
const float *gyre_angle_table_row(const gyre_encoding *encoding, int64_t m);
/* out = the adjacent rows of positions m .. m + count - 1; NULL if any of them is. */
const float *gyre_angle_table_span(const gyre_encoding *encoding, int64_t m, int64_t count);
/* gyre_angle_table_row in double, as gyre_angles_f64 computes it. */
const double *gyre_angle_table_row_f64(const gyre_encoding *encoding, int64_t m);
/* Rows of cos and of sin in the caller's memory, row_stride floats apart. */
typedef struct gyre_cos_sin_rows {
    float *cosine, *sine;
    int64_t row_stride;
} gyre_cos_sin_rows;
/* Computes the rows of positions m .. m + count - 1, of any sign, inside the table or not, from the table's steps.  Returns
 * count, or 0 if it did nothing (no table, several axes, or another thread is making the steps). */
int64_t gyre_angle_table_fill_rows(const gyre_encoding *encoding, int64_t m, int64_t count, const gyre_cos_sin_rows *out);
/* out = the number of positions, from 0, that the table is for; 0 without a table. */
int64_t gyre_angle_table_length(const gyre_encoding *encoding);
/* out = bytes of the blocks that are filled in. */
size_t gyre_angle_table_bytes(const gyre_encoding *encoding);

/* Rows of consecutive positions at any context length, from steps made once per call in the caller's memory:
 * gyre_angle_steps_bytes bytes, aligned for doubles.  Same bits as gyre_angles_f32. */
typedef struct gyre_angle_steps {
    gyre_angles angles;
    const gyre_frequency *frequency; /* [pairs] */
    const double *step;              /* [2][64][pairs]: cos, then sin of 0 .. 63 positions */
    int64_t pairs;
} gyre_angle_steps;
size_t gyre_angle_steps_bytes(int64_t pairs);
void gyre_angle_steps_make(const gyre_encoding *encoding, int64_t length, void *memory, gyre_angle_steps *out);
void gyre_angle_steps_fill_rows(const gyre_angle_steps *by, int64_t m, int64_t count, const gyre_cos_sin_rows *out);

#endif
