/* numbers.c: random numbers, and the float types by their definition. */
#include "numbers.h"

#include <math.h>

uint64_t test_next(test_random *random) {
    random->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double test_uniform(test_random *random) {
    return (double)(test_next(random) >> 11) * 0x1p-52 - 1.0;
}

void test_fill(test_random *random, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)test_uniform(random);
}

void test_fill_f64(test_random *random, double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = test_uniform(random);
}

/* Significand bits, exponent of the smallest last bit, largest finite number. */
static const struct {
    int bits, least;
    double most;
} formats[] = {[GYRE_DTYPE_F32] = {24, -149, 0x1.fffffep127},
               [GYRE_DTYPE_F16] = {11, -24, 65504},
               [GYRE_DTYPE_BF16] = {8, -133, 0x1.fep127},
               [GYRE_DTYPE_F64] = {53, -1074, 0x1.fffffffffffffp1023}};

static int last_bit(gyre_dtype dtype, double x) {
    int exponent;
    frexp(x, &exponent);
    const int last = exponent - formats[dtype].bits;
    return x == 0 || last < formats[dtype].least ? formats[dtype].least : last;
}

double test_half_ulp(gyre_dtype dtype, double x) {
    return ldexp(0.5, last_bit(dtype, x));
}

static double rounded(gyre_dtype dtype, double x) {
    if (x == 0 || !isfinite(x)) return x;
    const int last = last_bit(dtype, x);
    const double y = ldexp(nearbyint(ldexp(x, -last)), last);
    return fabs(y) > formats[dtype].most ? copysign(INFINITY, x) : y;
}

/* The bits of a number that a 16-bit format holds exactly. */
static uint16_t small_bits(gyre_dtype dtype, double x) {
    const int fraction = formats[dtype].bits - 1;
    const uint16_t sign = signbit(x) ? 0x8000 : 0, infinity = dtype == GYRE_DTYPE_F16 ? 0x7c00 : 0x7f80;
    if (isnan(x)) return sign | infinity | (uint16_t)(1u << (fraction - 1));
    if (isinf(x)) return sign | infinity;
    const int last = last_bit(dtype, x), biased = last - formats[dtype].least;
    const unsigned significand = (unsigned)ldexp(fabs(x), -last); /* the leading bit adds one to the exponent */
    return (uint16_t)(sign | (((unsigned)biased << fraction) + significand));
}

void test_put(void *data, gyre_dtype dtype, size_t i, double x) {
    if (dtype == GYRE_DTYPE_F64)
        ((double *)data)[i] = x;
    else if (dtype == GYRE_DTYPE_F32)
        ((float *)data)[i] = (float)x;
    else
        ((uint16_t *)data)[i] = small_bits(dtype, rounded(dtype, x));
}

double test_get(const void *data, gyre_dtype dtype, size_t i) {
    if (dtype == GYRE_DTYPE_F64) return ((const double *)data)[i];
    if (dtype == GYRE_DTYPE_F32) return (double)((const float *)data)[i];
    const unsigned bits = ((const uint16_t *)data)[i], fraction = (unsigned)formats[dtype].bits - 1;
    const unsigned exponent = (bits & 0x7fffu) >> fraction, rest = bits & ((1u << fraction) - 1u);
    const double sign = bits & 0x8000u ? -1.0 : 1.0;
    if (exponent == (dtype == GYRE_DTYPE_F16 ? 31u : 255u)) return rest ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(rest, formats[dtype].least);
    return sign * ldexp(rest + (1u << fraction), formats[dtype].least + (int)exponent - 1);
}
