/* support.c: what several test programs share. */
#include "support.h"

#include <math.h>
#include <stdio.h>

json_t *test_reference(const char *name) {
    char path[1024];
    json_error_t why;
    snprintf(path, sizeof path, "%s/reference/%s", GYRE_TEST_DATA, name);
    json_t *root = json_load_file(path, 0, &why);
    if (!root) fail_msg("%s: %s", path, why.text);
    assert_true(json_array_size(root) > 0);
    return root;
}

double test_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

double test_number_or(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

int64_t test_integer(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("%s is no integer", key);
    return (int64_t)json_integer_value(value);
}

const char *test_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("%s is no string", key);
    return text;
}

size_t test_numbers(const json_t *object, const char *key, double *out, size_t limit) {
    const json_t *array = json_object_get(object, key);
    const size_t n = json_array_size(array);
    if (!json_is_array(array) || n > limit) fail_msg("%s is no array of at most %zu numbers", key, limit);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(array, i));
    return n;
}

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

/* Significand bits, least exponent of a last bit, largest finite number. */
static const struct {
    int bits, least;
    double most;
} formats[] = {[GYRE_F32] = {24, -149, 0x1.fffffep127},
               [GYRE_F16] = {11, -24, 65504},
               [GYRE_BF16] = {8, -133, 0x1.fep127},
               [GYRE_F64] = {53, -1074, 0x1.fffffffffffffp1023}};

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
    const uint16_t sign = signbit(x) ? 0x8000 : 0, infinity = dtype == GYRE_F16 ? 0x7c00 : 0x7f80;
    if (isnan(x)) return sign | infinity | (uint16_t)(1u << (fraction - 1));
    if (isinf(x)) return sign | infinity;
    const int last = last_bit(dtype, x), biased = last - formats[dtype].least;
    const unsigned significand = (unsigned)ldexp(fabs(x), -last); /* its leading bit raises the exponent by one */
    return (uint16_t)(sign | (((unsigned)biased << fraction) + significand));
}

void test_put(void *data, gyre_dtype dtype, size_t i, double x) {
    if (dtype == GYRE_F64)
        ((double *)data)[i] = x;
    else if (dtype == GYRE_F32)
        ((float *)data)[i] = (float)x;
    else
        ((uint16_t *)data)[i] = small_bits(dtype, rounded(dtype, x));
}

double test_get(const void *data, gyre_dtype dtype, size_t i) {
    if (dtype == GYRE_F64) return ((const double *)data)[i];
    if (dtype == GYRE_F32) return (double)((const float *)data)[i];
    const unsigned bits = ((const uint16_t *)data)[i], fraction = (unsigned)formats[dtype].bits - 1;
    const unsigned exponent = (bits & 0x7fffu) >> fraction, rest = bits & ((1u << fraction) - 1u);
    const double sign = bits & 0x8000u ? -1.0 : 1.0;
    if (exponent == (dtype == GYRE_F16 ? 31u : 255u)) return rest ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(rest, formats[dtype].least);
    return sign * ldexp(rest + (1u << fraction), formats[dtype].least + (int)exponent - 1);
}

gyre_encoding *test_encoding(const gyre_config *config) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    if (gyre_encoding_create(&encoding, config, NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    return encoding;
}

gyre_config test_rope_config(int64_t head_dim, gyre_layout layout) {
    gyre_config config = GYRE_CONFIG_INIT;
    config.kind = GYRE_ROPE;
    config.head_dim = head_dim;
    config.rope.layout = layout;
    return config;
}

void test_close(long double got, long double want, long double bound, const char *what) {
    if (!(fabsl(got - want) <= bound)) fail_msg("%s: %.20Lg is not within %.3Lg of %.20Lg", what, got, bound, want);
}
