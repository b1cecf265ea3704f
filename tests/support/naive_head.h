/* naive_head.h: RoPE of one head in double, given its frequencies. */
#ifndef GYRE_TESTS_NAIVE_HEAD_H
#define GYRE_TESTS_NAIVE_HEAD_H
#include "gyre/gyre.h"

#include <math.h>

/* Rotates the first 2 * pairs channels of x by position * inv_freq[i], in place, and multiplies them by `factor`. */
static inline void naive_rotate_head(double *x, int64_t pairs, gyre_layout layout, const double *inv_freq, double position,
                                     double factor) {
    for (int64_t i = 0; i < pairs; i++) {
        const int half = layout == GYRE_LAYOUT_HALF;
        const int64_t a = half ? i : 2 * i, b = half ? i + pairs : 2 * i + 1;
        const double c = factor * cos(position * inv_freq[i]), s = factor * sin(position * inv_freq[i]);
        const double low = x[a], high = x[b];
        x[a] = low * c - high * s;
        x[b] = low * s + high * c;
    }
}

#endif
