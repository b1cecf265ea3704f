/* search_gain.h: how sure a difference between two ways to read the same windows is. */
#ifndef GYRE_TOOLS_SEARCH_GAIN_H
#define GYRE_TOOLS_SEARCH_GAIN_H
#include "gyre/gyre.h"

enum { SEARCH_RESAMPLES = 10000 };

/* In nats per prediction. */
typedef struct search_interval {
    double mean, low, high;
} search_interval;

/* *out = the mean of before[w] - after[w] over `windows` windows, and the paired bootstrap's interval for it: the 2.5 and
 * 97.5 percent points of that mean over windows drawn anew, with replacement, SEARCH_RESAMPLES times (Efron 1979).  One
 * window has no spread: low = high = mean.  ENOMEM. */
gyre_status search_gain(const double *before, const double *after, int64_t windows, uint64_t seed, search_interval *out,
                        gyre_error *err);

#endif
