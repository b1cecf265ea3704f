/* search_gain.h: confidence interval for the difference between two methods on the same windows. */
#ifndef GYRE_TOOLS_SEARCH_GAIN_H
#define GYRE_TOOLS_SEARCH_GAIN_H
#include "gyre/gyre.h"

enum { SEARCH_RESAMPLES = 10000 };

/* In nats per prediction. */
typedef struct search_interval {
    double mean, low, high;
} search_interval;

/* *out = the mean of before[w] - after[w] over `windows` windows, and its paired bootstrap interval (Efron 1979): the 2.5
 * and 97.5 percentiles of the mean over SEARCH_RESAMPLES samples of windows drawn with replacement.  With one window, low =
 * high = mean.  Errors: ENOMEM. */
gyre_status search_gain(const double *before, const double *after, int64_t windows, uint64_t seed, search_interval *out,
                        gyre_error *err);

#endif
