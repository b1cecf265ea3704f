/* growth_fit.c: the exponent of a value that grows with a size. */
#include "tools/bench/growth/growth.h"
#include <math.h>
#include <stdlib.h>

enum { FITTED = 4, PAIRS = FITTED * (FITTED - 1) / 2 };

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* out = the median slope over all pairs of the last FITTED points; NAN for fewer than two. */
static double median_slope(const double *x, const double *y, int count) {
    double slopes[PAIRS];
    int pairs = 0;
    for (int i = count > FITTED ? count - FITTED : 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            slopes[pairs++] = (y[j] - y[i]) / (x[j] - x[i]);
    if (!pairs) return NAN;
    qsort(slopes, (size_t)pairs, sizeof *slopes, ascending);
    return (slopes[(pairs - 1) / 2] + slopes[pairs / 2]) / 2;
}

double growth_exponent(const int64_t *sizes, const double *values, int count) {
    double x[GROWTH_SIZES], y[GROWTH_SIZES], least = INFINITY;
    int grown = 0;
    for (int i = 0; i < count; i++)
        least = fmin(least, values[i]);
    for (int i = 0; i < count; i++) {
        if (values[i] <= 2 * least) continue;
        x[grown] = log((double)sizes[i]);
        y[grown++] = log(values[i] - least);
    }
    if (grown >= 2) return median_slope(x, y, grown);
    for (int i = 0; i < count; i++) { /* hardly any growth: a constant and noise */
        x[i] = log((double)sizes[i]);
        y[i] = log(values[i]);
    }
    return median_slope(x, y, count);
}

int growth_is_above(double exponent, double expected) {
    return isfinite(exponent) && exponent > expected + GROWTH_MARGIN;
}
