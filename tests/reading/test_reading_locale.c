/* test_reading_locale.c: what a model is said to have, and what is written, in a program whose locale has a decimal comma. A
 * description in the locale C is what is expected. ci/run locale makes the locale; elsewhere it may be missing. */
#include "gyre/gyre_reading.h"
#include "temp_folder.h"

#include <locale.h>

enum { TEXT = 1 << 16 };
static const char yarn[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32,\n"
                           "\"num_hidden_layers\": 2, \"max_position_embeddings\": 16384, \"rope_theta\": 10000.5,\n"
                           "\"rms_norm_eps\": 1.5e-05, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 3.5,\n"
                           "\"beta_fast\": 31.25, \"original_max_position_embeddings\": 4096}}";

static int enter_locale(void) {
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) return 0;
    assert_string_equal(localeconv()->decimal_point, ",");
    return 1;
}

/* Every text of a description: fields, notes and warnings. */
static void describe(const char *path, char text[TEXT]) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_4_51), &err))
        fail_msg("%s", err.text);
    text[0] = '\0';
    for (int64_t g = 0; g < reading->groups_count; g++)
        for (int64_t i = 0; i < reading->groups[g]->fields_count; i++) {
            const gyre_reading_field *field = &reading->groups[g]->fields[i];
            const size_t used = strlen(text);
            snprintf(text + used, TEXT - used, "%s=%s (%s)\n", field->name, field->value, field->note ? field->note : "");
        }
    for (int64_t i = 0; i < reading->warnings_count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, TEXT - used, "%s\n", reading->warnings[i].text);
    }
    gyre_reading_free(reading);
}

static void read_text(const char *name, char text[TEXT]) {
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t got = fread(text, 1, TEXT - 1, file);
    text[got] = '\0';
    fclose(file);
}

static void describes_with_points(void **state) {
    (void)state;
    static char expected[TEXT], got[TEXT];
    write_file("config.json", yarn, strlen(yarn));
    describe(in_folder("config.json"), expected);
    assert_non_null(strstr(expected, "base=10000.5"));
    assert_non_null(strstr(expected, "4, and not 3.5")); /* a warning */
    if (!enter_locale()) skip();
    describe(in_folder("config.json"), got);
    setlocale(LC_ALL, "C");
    assert_string_equal(got, expected);
}

static void fails_with_points(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 1,"
                               "\"num_hidden_layers\": 1, \"max_position_embeddings\": 64, \"rope_theta\": 0.5}";
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *encoding = NULL;
    gyre_reading *reading = NULL;
    gyre_error of_file = {0, ""}, of_call = {0, ""};
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = 64;
    config.rope.base = 0.5;
    write_file("small.json", text, strlen(text));
    const char *path = in_folder("small.json");
    if (!enter_locale()) skip();
    assert_int_equal(
        gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), &of_file),
        GYRE_EFORMAT);
    assert_int_equal(gyre_encoding_create(&encoding, &config, NULL, &of_call), GYRE_EINVAL);
    setlocale(LC_ALL, "C");
    if (!strstr(of_file.text, "rope_theta: the base, 0.5, is not above 1")) fail_msg("%s", of_file.text);
    if (!strstr(of_call.text, "rope.base: 0.5 is not above 1")) fail_msg("%s", of_call.text);
}

static void writes_with_points(void **state) {
    (void)state;
    static char expected[TEXT], got[TEXT];
    gyre_error err = {0, ""};
    gyre_config position = GYRE_INIT(gyre_config);
    position.kind = GYRE_KIND_ROPE;
    position.head_dim = 128;
    position.trained_length = 4096;
    position.rope.base = 12345.75;
    position.rope.scaling = GYRE_SCALING_LINEAR;
    position.rope.factor = 2.5;
    write_file("in.json", yarn, strlen(yarn));
    if (gyre_reading_write(in_folder("in.json"), &position, 10240, in_folder("c.json"), &err)) fail_msg("%s", err.text);
    if (!enter_locale()) skip();
    const gyre_status status = gyre_reading_write(in_folder("in.json"), &position, 10240, in_folder("de.json"), &err);
    setlocale(LC_ALL, "C");
    if (status) fail_msg("%s", err.text);
    read_text("c.json", expected);
    read_text("de.json", got);
    assert_non_null(strstr(expected, "12345.75"));
    assert_string_equal(got, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_with_points),
        cmocka_unit_test(fails_with_points),
        cmocka_unit_test(writes_with_points),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
