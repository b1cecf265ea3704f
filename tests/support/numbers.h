/* numbers.h: what tests compute with, where there is no cmocka either. */
#ifndef GYRE_TESTS_NUMBERS_H
#define GYRE_TESTS_NUMBERS_H
#include "gyre/gyre.h"

#include <stddef.h>
#include <stdint.h>

/* A fixed sequence for each seed; never 0. */
typedef struct test_random {
    uint64_t state;
} test_random;
uint64_t test_next(test_random *random);
double test_uniform(test_random *random); /* in [-1, 1) */
void test_fill(test_random *random, float *x, size_t n);
void test_fill_f64(test_random *random, double *x, size_t n);

/* n elements of a real type: written by rounding x to nearest even (an oracle that shares no code with the library), read
 * exactly. */
void test_put(void *data, gyre_dtype dtype, size_t i, double x);
double test_get(const void *data, gyre_dtype dtype, size_t i);
/* Half the distance between neighbours of the type near x. */
double test_half_ulp(gyre_dtype dtype, double x);

#endif
