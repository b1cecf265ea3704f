/* window_statistics.c: variance, and the width of an interval. */
#include "tools/common/window_statistics.h"

double student_t(double freedom) {
    return 1.959964 + (2.372271 + (2.822499 + 2.555852 / freedom) / freedom) / freedom;
}

double sample_variance(const double *values, int64_t count) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        mean += values[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? squares / (double)(count - 1) : 0;
}
