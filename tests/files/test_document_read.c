/* test_document_read.c: files of a model's folder that strangers made: pipes, huge files, sizes that overflow. */
#include "files/file_read.h"
#include "gyre/gyre_model.h"
#include "temp_folder.h"

#include <sys/stat.h>

static void check(const char *name, gyre_status status, const char *says) {
    char *text = NULL;
    size_t bytes = 0;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_document_read(in_folder(name), &text, &bytes, &err), status);
    if (status)
        assert_non_null(strstr(err.text, says));
    else
        free(text);
}

/* A pipe that nobody writes must not be waited for: an alarm would end the program. */
static void kinds_of_files(void **state) {
    (void)state;
    alarm(20);
    write_file("plain", "{}", 2);
    check("plain", GYRE_OK, "");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    check("pipe", GYRE_EIO, "not a regular file");
    check("none", GYRE_EIO, "No such file");
    check("", GYRE_EIO, "directory");
    write_file("huge", "{", 1);
    assert_int_equal(truncate(in_folder("huge"), (off_t)5 << 30), 0); /* sparse */
    check("huge", GYRE_EFORMAT, "longer than 64 MiB");
    alarm(0);
}

static void pipes_in_a_folder(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"llama\", \"vocab_size\": 300}";
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    gyre_tokenizer *tokenizer = NULL;
    alarm(20);
    assert_int_equal(mkdir(in_folder("a"), 0700) | mkdir(in_folder("b"), 0700) | mkdir(in_folder("c"), 0700), 0);
    assert_int_equal(mkfifo(in_folder("a/config.json"), 0600), 0);
    assert_int_equal(gyre_reading_open(&reading, in_folder("a"), GYRE_PROFILE_DEFAULT, 0, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(gyre_tokenizer_open(&tokenizer, in_folder("a"), &err), GYRE_EIO);
    write_file("b/config.json", config, sizeof config - 1);
    assert_int_equal(mkfifo(in_folder("b/tokenizer.json"), 0600), 0);
    assert_int_equal(gyre_tokenizer_open(&tokenizer, in_folder("b"), &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "not a regular file"));
    write_file("c/tokenizer.json", "{", 1);
    assert_int_equal(truncate(in_folder("c/tokenizer.json"), (off_t)5 << 30), 0);
    assert_int_equal(gyre_tokenizer_open(&tokenizer, in_folder("c"), &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "longer than"));
    alarm(0);
}

/* A config with n keys beside its own three, in objects of 100. */
static char *config_of(int keys, size_t *bytes) {
    char *text = malloc((size_t)keys * 16 + 4096), *at = text;
    assert_non_null(text);
    at += sprintf(at, "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 2, \"n_layer\": 2, \"n_positions\": 64");
    for (int i = 0; i < keys; i++)
        at += i % 100 ? sprintf(at, "\"k%d\": 1%s", i, i % 100 == 99 ? "}" : ", ") : sprintf(at, ", \"o%d\": {", i);
    *bytes = (size_t)(at - text) + (size_t)sprintf(at, "}");
    return text;
}

static void many_keys(void **state) {
    (void)state;
    static const int keys[] = {45000, 60000};
    for (int i = 0; i < 2; i++) {
        gyre_reading *reading = NULL;
        gyre_error err = {0, ""};
        size_t bytes;
        char *text = config_of(keys[i], &bytes);
        const gyre_status status = gyre_reading_parse(&reading, text, bytes, "many", GYRE_PROFILE_DEFAULT, 0, &err);
        assert_int_equal(status, i ? GYRE_EFORMAT : GYRE_OK);
        if (i) assert_non_null(strstr(err.text, "more than 50000 keys and"));
        gyre_reading_free(reading);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds_of_files), cmocka_unit_test(pipes_in_a_folder),
                                       cmocka_unit_test(many_keys)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
