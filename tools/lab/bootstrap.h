/* bootstrap.h: how far a mean over seeds and windows may be from that of other seeds and windows. */
#ifndef GYRE_TOOLS_LAB_BOOTSTRAP_H
#define GYRE_TOOLS_LAB_BOOTSTRAP_H
#include <stdint.h>

enum { BOOTSTRAP_RESAMPLES = 2000, BOOTSTRAP_ROWS = 8, BOOTSTRAP_COLUMNS = 1024 };

/* *low, *high = the 2.5 and 97.5 percentiles of the mean of values[rows][columns] over BOOTSTRAP_RESAMPLES samples, each of
 * which draws `rows` rows and `columns` columns with replacement and takes every row at every column (Owen 2007, "the
 * pigeonhole bootstrap").  Tables of one shape draw the same samples.  rows, columns: 1 or more, within the limits
 * above.  A table of one value: low = high = it. */
void bootstrap_interval(const double *values, int64_t rows, int64_t columns, double *low, double *high);

/* The same by hand.  counts[0 .. n - 1] = how often each of n is drawn, n times with replacement.  The generator starts at
 * BOOTSTRAP_START. */
enum { BOOTSTRAP_START = 1 };
void bootstrap_draw(uint64_t *state, int64_t n, int *counts);
/* out = the mean of values[rows][columns], each as often as its row and its column are drawn. */
double bootstrap_mean(const double *values, int64_t rows, int64_t columns, const int *row_counts, const int *column_counts);
/* *low, *high = the 2.5 and 97.5 percentiles of values[0 .. count - 1], count >= 1, which are sorted. */
void bootstrap_percentiles(double *values, int64_t count, double *low, double *high);

#endif
