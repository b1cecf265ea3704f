/* support.h: what several test programs share. */
#ifndef GYRE_TESTS_SUPPORT_H
#define GYRE_TESTS_SUPPORT_H
#include "numbers.h"

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

/* The encoding of a config that must be right. */
gyre_encoding *test_encoding(const gyre_config *config);
gyre_config test_rope_config(int64_t head_dim, gyre_layout layout);

/* Fails with both numbers unless |got - want| <= bound. */
void test_close(long double got, long double want, long double bound, const char *what);
#define assert_ok(call) assert_int_equal((call), GYRE_OK)

#endif
