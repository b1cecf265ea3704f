/* test_journal.c: a journal that cannot be read to its end is an error: what it holds would be measured again, and be in it
 * twice. */
#define _XOPEN_SOURCE 700 /* getdelim */
#include "run_command.h"
#include "tools/common/keyed_journal.h"

#include <errno.h>

static int lines_left = -1; /* how many lines are read until one finds no memory; -1: all */

/* In place of that of the C library, in this program alone. */
ssize_t getline(char **text, size_t *room, FILE *file) {
    if (lines_left == 0) {
        errno = ENOMEM;
        return -1;
    }
    lines_left -= lines_left > 0;
    return getdelim(text, room, '\n', file);
}

static json_t *cell_of(int i) {
    return json_pack("{s:i}", "n", i);
}

static void lines_without_memory(void **state) {
    (void)state;
    enum { LINES = 3 };
    static char before[4096], after[4096];
    keyed_journal j;
    gyre_error err = {0, ""};
    assert_ok(keyed_journal_open(&j, in_folder("journal"), 0, &err));
    for (int i = 0; i < LINES; i++)
        assert_ok(keyed_journal_add(&j, cell_of(i), json_pack("{s:i}", "nats", i), &err));
    keyed_journal_close(&j);
    read_whole(in_folder("journal"), before, sizeof before);
    for (int n = 0; n <= LINES; n++) {
        lines_left = n;
        const gyre_status status = keyed_journal_open(&j, in_folder("journal"), 1, &err);
        lines_left = -1;
        assert_int_equal(status, GYRE_EIO);
        assert_non_null(strstr(err.text, "journal: cannot be read to its end ("));
        assert_int_equal(access(in_folder("journal.gyre-lock"), F_OK), -1);
        keyed_journal_close(&j);
        read_whole(in_folder("journal"), after, sizeof after);
        assert_string_equal(after, before);
    }
    assert_ok(keyed_journal_open(&j, in_folder("journal"), 1, &err));
    for (int i = 0; i < LINES; i++)
        assert_non_null(keyed_journal_find(&j, cell_of(i)));
    keyed_journal_close(&j);
}

/* Characters that command a terminal or reverse a line are spelled in the file, and read back as they were. */
static void lines_of_any_text(void **state) {
    (void)state;
    static const char says[] = "a\xc2\x9b"
                               "31m\xe2\x80\xae\x7f\x1b \\u009b \xe6\x97\xa5";
    static char text[4096];
    keyed_journal j;
    gyre_error err = {0, ""};
    assert_ok(keyed_journal_open(&j, in_folder("said"), 0, &err));
    assert_ok(keyed_journal_add(&j, json_pack("{s:s}", "label", says), json_pack("{s:s}", "says", says), &err));
    keyed_journal_close(&j);
    read_whole(in_folder("said"), text, sizeof text);
    assert_non_null(strstr(text, "\"a\\u009b31m\\u202e\\u007f\\u001B \\\\u009b \xe6\x97\xa5\""));
    assert_null(strstr(text, "\xc2\x9b"));
    assert_ok(keyed_journal_open(&j, in_folder("said"), 1, &err));
    const json_t *figures = keyed_journal_find(&j, json_pack("{s:s}", "label", says));
    assert_non_null(figures);
    assert_string_equal(json_string_value(json_object_get(figures, "says")), says);
    keyed_journal_close(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_without_memory), cmocka_unit_test(lines_of_any_text)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
