/* angle_audit.h: a table of angles while it is audited. */
#ifndef GYRE_READING_ANGLE_AUDIT_H
#define GYRE_READING_ANGLE_AUDIT_H
#include "gyre/gyre_angles.h"

/* A view as rows of positions.  A row is `outer` runs of `inner` numbers. */
typedef struct gyre_angle_rows {
    const gyre_cview *view;
    int64_t rows, row_stride;
    int64_t outer, outer_stride, inner, inner_stride;
    int64_t width; /* outer * inner */
} gyre_angle_rows;
/* *out = the rows of a view; a view of one extent above 1 is one row.  Errors: ESHAPE. */
gyre_status gyre_angle_rows_open(gyre_angle_rows *out, const gyre_cview *view, gyre_error *err);
/* out[width] = row t, in double. */
void gyre_angle_row(const gyre_angle_rows *rows, int64_t t, double *out);

/* Which column of a row is the cos or sin of which pair: that of pair i is cos_at + i * step; -1 = there is none. */
typedef struct gyre_angle_plan {
    gyre_angle_form form;
    gyre_angle_columns columns;
    int64_t pairs, cos_at, sin_at, step;
} gyre_angle_plan;
/* *out = the plan, from the first rows alone.  row[2 * width]: scratch. */
void gyre_angle_plan_find(gyre_angle_plan *out, const gyre_angle_rows *rows, double *row);

/* What the table holds itself.  frequencies[pairs] */
typedef struct gyre_angle_measure {
    double factor, base, *frequencies;
    gyre_dtype rounded;
} gyre_angle_measure;
/* Fills in *out, whose frequencies have their memory.  row[width]: scratch. */
void gyre_angle_measure_table(gyre_angle_measure *out, const gyre_angle_rows *rows, const gyre_angle_plan *plan,
                              double *row);

/* One set of frequencies that a reading means. */
typedef struct gyre_angle_wanted {
    const double *frequencies, *slack; /* [pairs]; slack: gyre_angle_f32_slack of each */
    int64_t pairs;
    double factor;
} gyre_angle_wanted;
/* out = the relative error of a frequency in f32: some units in the last place from its power, product and quotient, and the
 * rounding of the exponent times its logarithm. */
double gyre_angle_f32_slack(double frequency);
/* Fills in precision, first_position, first_pair, positions_off and largest_error.  row[width]: scratch. */
void gyre_angle_match_table(gyre_angle_match *out, const gyre_angle_rows *rows, const gyre_angle_plan *plan,
                            gyre_dtype rounded, const gyre_angle_wanted *wanted, double *row);
/* out = 1 if the rows from `from` on are those from 0 on, as far as a few of them say.  row[2 * width]: scratch. */
int gyre_angle_restarts(const gyre_angle_rows *rows, const gyre_angle_plan *plan, int64_t from, double *row);

/* out = the verdict, which the caller frees; NULL without memory. */
char *gyre_angle_verdict(const gyre_angle_audit *audit);

#endif
