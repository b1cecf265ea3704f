/* numbers.h: random numbers and conversions of types. It does not need cmocka. */
#ifndef GYRE_TESTS_NUMBERS_H
#define GYRE_TESTS_NUMBERS_H
#include "gyre/gyre.h"

#include <stddef.h>
#include <stdint.h>

/* A fixed sequence for each seed; the state is never 0. */
typedef struct test_random {
    uint64_t state;
} test_random;
uint64_t test_next(test_random *random);
double test_uniform(test_random *random); /* in [-1, 1) */
void test_fill(test_random *random, float *x, size_t n);
void test_fill_f64(test_random *random, double *x, size_t n);

/* Element i of a float type. test_put rounds x to nearest even (independent of the library's code); test_get reads
 * exactly. */
void test_put(void *data, gyre_dtype dtype, size_t i, double x);
double test_get(const void *data, gyre_dtype dtype, size_t i);
/* Half the distance between neighbours of the type near x. */
double test_half_ulp(gyre_dtype dtype, double x);

#endif
