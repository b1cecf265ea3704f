/* support.h: what several test programs share. */
#ifndef GYRE_TESTS_SUPPORT_H
#define GYRE_TESTS_SUPPORT_H
#include "gyre/gyre.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

/* The array in tests/reference/<name>; the test fails where it cannot be read.  json_decref it. */
json_t *test_reference(const char *name);
double test_number(const json_t *object, const char *key); /* fails where absent */
double test_number_or(const json_t *object, const char *key, double otherwise);
int64_t test_integer(const json_t *object, const char *key);
const char *test_string(const json_t *object, const char *key);
/* Copies the array `key` of at most `limit` numbers; returns how many. */
size_t test_numbers(const json_t *object, const char *key, double *out, size_t limit);

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

/* The encoding of a config that must be right. */
gyre_encoding *test_encoding(const gyre_config *config);
gyre_config test_rope_config(int64_t head_dim, gyre_layout layout);

/* Fails with both numbers unless |got - want| <= bound. */
void test_close(long double got, long double want, long double bound, const char *what);
#define assert_ok(call) assert_int_equal((call), GYRE_OK)

#endif
