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
        assert_int_equal(access(in_folder("journal.lock"), F_OK), -1);
        keyed_journal_close(&j);
        read_whole(in_folder("journal"), after, sizeof after);
        assert_string_equal(after, before);
    }
    assert_ok(keyed_journal_open(&j, in_folder("journal"), 1, &err));
    for (int i = 0; i < LINES; i++)
        assert_non_null(keyed_journal_find(&j, cell_of(i)));
    keyed_journal_close(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_without_memory)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
