/* test_rope_reference.c: the exact values of tests/reference/rope.json, read through a config.json. */
#include "gyre/gyre_model.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_entry(const json_t *entry, gyre_profile profile) {
    const char *name = test_string(entry, "name");
    const json_t *length = json_object_get(entry, "seq_len");
    const int64_t n = json_is_integer(length) ? (int64_t)json_integer_value(length) : 0;
    char *text = json_dumps(json_object_get(entry, "config"), JSON_REAL_PRECISION(17) | JSON_INDENT(1));
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text),
                           GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = n, .name = "config.json"),
                           &err) != GYRE_OK)
        fail_msg("%s: %s", name, err.text);
    free(text);
    assert_int_equal(reading->groups_count, 1);
    assert_string_equal(reading->groups[0]->name, "all");
    gyre_encoding *encoding = test_encoding(&reading->groups[0]->config);
    double wanted[256], got[256], factor;
    const size_t pairs = test_numbers(entry, "inv_freq", wanted, 256);
    assert_int_equal(reading->groups[0]->config.rope.dim, test_integer(entry, "rotary_dim"));
    assert_int_equal(reading->groups[0]->config.rope.dim, 2 * pairs);
    /* 0: the length of the reading. */
    assert_ok(gyre_encoding_frequencies(encoding, 0, got, &factor));
    for (size_t i = 0; i < pairs; i++)
        test_close((long double)got[i], (long double)wanted[i], 1e-12L * fabsl((long double)wanted[i]), name);
    test_close((long double)factor, (long double)test_number(entry, "attention_factor"), 1e-12L, name);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void check_all(gyre_profile profile) {
    json_t *entries = test_reference("rope.json"), *entry;
    size_t i;
    assert_true(json_array_size(entries) >= 24);
    json_array_foreach(entries, i, entry) check_entry(entry, profile);
    json_decref(entries);
}

static void test_transformers_5(void **state) {
    (void)state;
    check_all(GYRE_PROFILE_HF_5);
}

static void test_default_profile(void **state) {
    (void)state;
    check_all(GYRE_PROFILE_DEFAULT);
}

static void test_papers(void **state) {
    (void)state;
    check_all(GYRE_PROFILE_REFERENCE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transformers_5), cmocka_unit_test(test_default_profile),
                                       cmocka_unit_test(test_papers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
