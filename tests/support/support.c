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

gyre_encoding *test_encoding(const gyre_config *config) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    if (gyre_encoding_create(&encoding, config, NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    return encoding;
}

gyre_config test_rope_config(int64_t head_dim, gyre_layout layout) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = head_dim;
    config.rope.layout = layout;
    return config;
}

void test_close(long double got, long double want, long double bound, const char *what) {
    if (!(fabsl(got - want) <= bound)) fail_msg("%s: %.20Lg is not within %.3Lg of %.20Lg", what, got, bound, want);
}
