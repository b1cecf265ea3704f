/* test_document_read.c: files of a model's folder that strangers made: pipes, huge files, sizes that overflow. */
#include "files/file_read.h"
#include "gyre/gyre_model.h"
#include "temp_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    assert_int_equal(gyre_reading_open(&reading, in_folder("a"), NULL, &err), GYRE_EIO);
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

/* A pipe that never ends is read up to the limit: the writer counts what was taken from it. */
enum { MIB = 1 << 20, ROOM_OF_A_PIPE = 2 * MIB };
typedef enum endless { ENDLESS_FILE, ENDLESS_CONFIG, ENDLESS_IDS } endless;

static gyre_status read_endless(endless as, int64_t limit, gyre_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    gyre_reading *reading = NULL;
    gyre_text ids;
    if (as == ENDLESS_CONFIG) return gyre_reading_open(&reading, in_folder("endless"), NULL, err);
    if (as == ENDLESS_IDS) return gyre_text_open_ids(&ids, in_folder("endless"), 10, 1, err);
    return gyre_file_read(in_folder("endless"), (size_t)limit, &text, &bytes, err);
}

static void check_endless(endless as, int64_t limit, const char *says) {
    static char ones[MIB / 16];
    int counted[2];
    gyre_error err = {0, ""};
    memset(ones, '1', sizeof ones);
    for (size_t i = 1; i < sizeof ones; i += 2)
        ones[i] = ' ';
    alarm(60);
    assert_int_equal(mkfifo(in_folder("endless"), 0600) | pipe(counted), 0);
    const pid_t writer = fork();
    if (writer == 0) {
        int64_t taken = 0;
        signal(SIGPIPE, SIG_IGN);
        const int out = open(in_folder("endless"), O_WRONLY);
        for (ssize_t n; taken < 256 * (int64_t)MIB && (n = write(out, ones, sizeof ones)) > 0;)
            taken += n;
        _exit(write(counted[1], &taken, sizeof taken) != sizeof taken);
    }
    int64_t taken = 0;
    assert_int_equal(read_endless(as, limit, &err), GYRE_EFORMAT);
    if (!strstr(err.text, says)) fail_msg("%s", err.text);
    assert_int_equal(read(counted[0], &taken, sizeof taken), sizeof taken);
    assert_in_range(taken, limit, limit + ROOM_OF_A_PIPE);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    close(counted[0]);
    close(counted[1]);
    assert_int_equal(unlink(in_folder("endless")), 0);
    alarm(0);
}

static void a_pipe_is_read_to_the_limit(void **state) {
    (void)state;
    check_endless(ENDLESS_FILE, 3 * MIB, "longer than 3 MiB");
    check_endless(ENDLESS_FILE, 100001, "longer than 100001 bytes");
    check_endless(ENDLESS_CONFIG, 64 * MIB, "longer than 64 MiB");
    check_endless(ENDLESS_IDS, 64 * MIB, "longer than 64 MiB, the bound of a pipe; save it to a file");
}

static void limits_are_exact(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    gyre_error err = {0, ""};
    write_file("seven", "1234567", 7);
    assert_int_equal(gyre_file_read(in_folder("seven"), 6, &text, &bytes, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "longer than 6 bytes"));
    assert_ok(gyre_file_read(in_folder("seven"), 7, &text, &bytes, &err));
    assert_int_equal(bytes, 7);
    assert_string_equal(text, "1234567");
    free(text);
}

/* Longer than any text may be: told from the size, before a byte is read. */
static void long_files_of_ids(void **state) {
    (void)state;
    gyre_text ids;
    gyre_error err = {0, ""};
    write_file("ids", "1", 1);
    assert_int_equal(truncate(in_folder("ids"), (off_t)5 << 30), 0);
    assert_int_equal(gyre_text_open_ids(&ids, in_folder("ids"), 10, 1, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "longer than 2147483646 bytes"));
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
        const gyre_status status =
            gyre_reading_parse(&reading, text, bytes, GYRE_ARGS(gyre_reading_options, .name = "many"), &err);
        assert_int_equal(status, i ? GYRE_EFORMAT : GYRE_OK);
        if (i) assert_non_null(strstr(err.text, "more than 50000 keys and"));
        gyre_reading_free(reading);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds_of_files),   cmocka_unit_test(pipes_in_a_folder),
                                       cmocka_unit_test(many_keys),        cmocka_unit_test(a_pipe_is_read_to_the_limit),
                                       cmocka_unit_test(limits_are_exact), cmocka_unit_test(long_files_of_ids)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
