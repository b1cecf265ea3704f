/* support.c: reference files, configs and assertions for every test program. */
#include "support.h"

#include "naive_schemes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int test_all(void) {
    return getenv("GYRE_TEST_ALL") != NULL;
}

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
    if (!json_is_number(value)) fail_msg("%s is not a number", key);
    return json_number_value(value);
}

double test_number_or(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

int64_t test_integer(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("%s is not an integer", key);
    return (int64_t)json_integer_value(value);
}

const char *test_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("%s is not a string", key);
    return text;
}

size_t test_numbers(const json_t *object, const char *key, double *out, size_t limit) {
    const json_t *array = json_object_get(object, key);
    const size_t n = json_array_size(array);
    if (!json_is_array(array) || n > limit) fail_msg("%s is not an array of at most %zu numbers", key, limit);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(array, i));
    return n;
}

gyre_encoding *test_encoding(const gyre_config *config) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    if (gyre_encoding_create(&encoding, config, NULL, &err)) fail_msg("%s", err.text);
    return encoding;
}

gyre_config test_rope_config(int64_t head_dim, gyre_layout layout) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = head_dim;
    config.rope.layout = layout;
    return config;
}

/* Creation must fail. *err = its error. */
static void refuse_config(const gyre_config *config, gyre_error *err) {
    static int untouched;
    gyre_encoding *const before = (gyre_encoding *)(void *)&untouched;
    gyre_encoding *encoding = before;
    const gyre_status status = gyre_encoding_create(&encoding, config, NULL, err);
    if (status != GYRE_EINVAL) fail_msg("status %d, text %s", (int)status, err->text);
    assert_ptr_equal(encoding, before);
    assert_int_equal(gyre_encoding_create(&encoding, config, NULL, NULL), GYRE_EINVAL); /* err is optional */
    assert_ptr_equal(encoding, before);
}

void assert_config_refused(const gyre_config *config, const char *field) {
    static const char suffix[] = " (gyre_config)";
    gyre_error err = {99, "untouched"};
    refuse_config(config, &err);
    if (strncmp(err.text, field, strlen(field)) != 0) fail_msg("%s: got \"%s\"", field, err.text);
    assert_non_null(strchr(err.text, ':'));
    assert_string_equal(err.text + strlen(err.text) - strlen(suffix), suffix);
}

void assert_config_error(const gyre_config *config, const char *text) {
    gyre_error err = {0, ""};
    refuse_config(config, &err);
    assert_string_equal(err.text, text);
}

static void *budget_alloc(void *ctx, size_t bytes, size_t align) {
    test_budget *budget = ctx;
    if (budget->left-- <= 0) return NULL;
    budget->live++;
    budget->bytes += bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void budget_free(void *ctx, void *memory) {
    test_budget *budget = ctx;
    assert_non_null(memory);
    budget->live--;
    free(memory);
}

gyre_alloc test_budget_alloc(test_budget *budget) {
    return (gyre_alloc){budget_alloc, budget_free, budget};
}

void test_close(long double got, long double want, long double bound, const char *what) {
    if (!(fabsl(got - want) <= bound)) fail_msg("%s: %.20Lg is not within %.3Lg of %.20Lg", what, got, bound, want);
}

int test_scheme_tried(int scheme, int64_t i, int64_t share) {
    return !test_schemes[scheme].is_variant || (scheme + i) % share == 0 || test_all();
}
