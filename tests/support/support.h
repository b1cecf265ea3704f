/* support.h: reference files, configs and assertions for every test program. */
#ifndef GYRE_TESTS_SUPPORT_H
#define GYRE_TESTS_SUPPORT_H
#include "numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

/* The array in tests/reference/<name>.  The test fails where it cannot be read.  The caller releases it with json_decref. */
json_t *test_reference(const char *name);
double test_number(const json_t *object, const char *key); /* fails if absent */
double test_number_or(const json_t *object, const char *key, double otherwise);
int64_t test_integer(const json_t *object, const char *key);
const char *test_string(const json_t *object, const char *key);
/* Copies the array `key`, of at most `limit` numbers. Returns the count. */
size_t test_numbers(const json_t *object, const char *key, double *out, size_t limit);

/* The encoding of a valid config. The test fails with the error if it cannot be created. */
gyre_encoding *test_encoding(const gyre_config *config);
gyre_config test_rope_config(int64_t head_dim, gyre_layout layout);

/* Fails unless creation is refused with GYRE_EINVAL, leaves its output alone, and the message is "FIELD...
 * (gyre_config)". */
void assert_config_refused(const gyre_config *config, const char *field);
/* Fails unless creation is refused with GYRE_EINVAL, leaves its output alone, and the message is `text`. */
void assert_config_error(const gyre_config *config, const char *text);
/* assert_config_refused of `good` with one field changed. */
#define ASSERT_CONFIG_REFUSED(good, field_path, value)                                                                      \
    do {                                                                                                                    \
        gyre_config broken = good;                                                                                          \
        broken.field_path = value;                                                                                          \
        assert_config_refused(&broken, #field_path);                                                                        \
    } while (0)

/* An allocator that fails once `left` allocations are made. */
typedef struct test_budget {
    int left, live; /* live: allocations not yet freed */
    size_t bytes;   /* allocated in all */
} test_budget;
gyre_alloc test_budget_alloc(test_budget *budget);

/* out = 1 if GYRE_TEST_ALL is set, as ci/run nightly sets it: also the cases that repeat others of their kind. */
int test_all(void);

/* Every type of activations: queries, keys, values, inputs. */
enum { TEST_DTYPES = 4 };
static const gyre_dtype test_dtypes[TEST_DTYPES] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};

/* Fails with both numbers unless |got - want| <= bound. */
void test_close(long double got, long double want, long double bound, const char *what);
#define assert_ok(call) assert_int_equal((call), GYRE_OK)

#endif
