/* window_statistics.h: the mean of the losses of windows, with its interval. */
#ifndef GYRE_TOOLS_WINDOW_STATISTICS_H
#define GYRE_TOOLS_WINDOW_STATISTICS_H
#include <stdint.h>

/* out = the 97.5 % point of Student's t, by its expansion about the normal distribution: within 1 % from three degrees of
 * freedom on, within 4 % for two. */
double student_t(double freedom);
/* out = the variance of values[0 .. count - 1] about their mean; 0 for fewer than two. */
double sample_variance(const double *values, int64_t count);

#endif
