/* integers.h: the smaller, the larger, and rounding up. */
#ifndef GYRE_UTIL_INTEGERS_H
#define GYRE_UTIL_INTEGERS_H
#include <stdint.h>

static inline int64_t gyre_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t gyre_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
/* out = n rounded up to a multiple of `to`; n >= 0, to > 0, and the result must fit. */
static inline int64_t gyre_round_up_i64(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

#endif
