/* integers.h: the smaller, the larger, the nearest within bounds, and rounding up. */
#ifndef GYRE_UTIL_INTEGERS_H
#define GYRE_UTIL_INTEGERS_H
#include <stdint.h>

static inline int64_t gyre_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t gyre_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
/* out = what is nearest to x in least .. most. */
static inline int64_t gyre_clamp_i64(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}
/* out = a + b, wrapped around where 64 bits do not hold it: for sums that are checked afterwards. */
static inline int64_t gyre_wrapping_add_i64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
/* out = n rounded up to a multiple of `to`; n >= 0, to > 0, and the result must fit. */
static inline int64_t gyre_round_up_i64(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

#endif
