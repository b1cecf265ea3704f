/* test_two_writers.c: two runs that write one folder at once. */
#include "files/replace_folder.h"
#include "support.h"
#include "temp_folder.h"

/* Another run makes this folder between the last look at it and the rename to it; "" = none. */
static char made_meanwhile[PATH_MAX];

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_rename(const char *from, const char *to);
int __real_rename(const char *from, const char *to);

int __wrap_rename(const char *from, const char *to) {
    if (*made_meanwhile && strcmp(to, made_meanwhile) == 0) {
        *made_meanwhile = 0;
        assert_int_equal(mkdir(to, 0755), 0);
        write_file("both/config.json", "theirs", 6);
    }
    return __real_rename(from, to);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void the_second_says_what_to_do(void **state) {
    (void)state;
    gyre_folder_replacement f;
    gyre_error err = {0, ""};
    char kept[16] = "";
    assert_ok(gyre_folder_begin(&f, in_folder("both"), NULL));
    assert_ok(gyre_folder_write(&f, "config.json", "mine", NULL));
    snprintf(made_meanwhile, sizeof made_meanwhile, "%s", f.final);
    assert_int_equal(gyre_folder_commit(&f, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "folder: another run wrote it meanwhile"));
    assert_non_null(strstr(err.text, "run again, or name another"));
    gyre_folder_discard(&f);
    FILE *file = fopen(in_folder("both/config.json"), "r");
    assert_non_null(file);
    assert_int_equal(fread(kept, 1, sizeof kept - 1, file), 6);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(kept, "theirs");
    assert_int_equal(access(f.temporary, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_second_says_what_to_do)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
