/* random.h: random numbers that are the same on every machine.  They use integer steps and additions of doubles, no
 * libm. */
#ifndef GYRE_UTIL_RANDOM_H
#define GYRE_UTIL_RANDOM_H
#include <stdint.h>

/* splitmix64 (Steele, Lea and Flood 2014): any state, including zero, is a good seed. */
static inline uint64_t gyre_random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* out = a multiple of 2^-53 in [0, 1). */
static inline double gyre_random_uniform(uint64_t *state) {
    return (double)(gyre_random_next(state) >> 11) * 0x1p-53;
}

/* out = an integer in 0 .. n - 1. */
static inline int64_t gyre_random_below(uint64_t *state, int64_t n) {
    return (int64_t)(gyre_random_uniform(state) * (double)n);
}

/* out = approximately normal, mean 0, variance 1: twelve uniforms minus their mean (Irwin-Hall).  Box-Muller needs log
 * and cos, whose last bit differs between C libraries, so a seed would give different runs.  The tails end at 6 standard
 * deviations, which does not matter for initial weights. */
static inline double gyre_random_normal(uint64_t *state) {
    double sum = 0.0;
    for (int i = 0; i < 12; i++)
        sum += gyre_random_uniform(state);
    return sum - 6.0;
}

#endif
