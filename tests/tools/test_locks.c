/* test_locks.c: locks that others spoil: a link in the place of a lock, and a folder that is taken away between its making
 * and its lock, as by another run that takes it for one of a killed process. */
#define _GNU_SOURCE /* SYS_mkdirat, mkdtemp */
#include "files/replace_folder.h"
#include "run_command.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/temporary_folder.h"

#include <errno.h>
#include <sys/syscall.h>

/* -- links -- */
static void check_victim(void) {
    char text[16];
    read_whole(in_folder("victim"), text, sizeof text);
    assert_string_equal(text, "mine");
}

/* Locked through a link, a file of another name would be held, and made where there is none. */
static void link_as_lock(void **state) {
    (void)state;
    static const char *const targets[] = {"victim", "nowhere"};
    static const struct {
        const char *lock, *line;
    } cases[] = {
        {"j.lock", "eval @rope --text @text --context 16 --journal @j"},
        {"work.lock", "lab --text @text --preset smoke --encodings nope --report @r.html --work @work"},
        {"work.lock", "lab --text @text --preset smoke --encodings nope --report @r.html --work @work/"},
        {"trained.lock", "train --text @text -o @trained --tokens 1k --context 16 --batch 1 --layers 1 --width 16"}};
    write_file("victim", "mine", 4);
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            assert_int_equal(symlink(targets[t], in_folder(cases[i].lock)), 0);
            assert_fails(cases[i].line, 1, "lock: a link is in its place");
            assert_fails(cases[i].line, 1, cases[i].lock);
            assert_int_equal(unlink(in_folder(cases[i].lock)), 0);
            assert_int_equal(access(in_folder("nowhere"), F_OK), -1);
            check_victim();
        }
}

/* What has taken the lock's name meanwhile is not the lock. */
static void another_file_of_its_name(void **state) {
    (void)state;
    cli_lock lock;
    write_file("other", "mine", 4);
    assert_int_equal(cli_lock_acquire(&lock, in_folder("run"), "journal", NULL), GYRE_OK);
    assert_int_equal(rename(in_folder("other"), in_folder("run.lock")), 0);
    cli_lock_release(&lock);
    assert_int_equal(access(in_folder("run.lock"), F_OK), 0);
    assert_int_equal(unlink(in_folder("run.lock")), 0);
    assert_int_equal(cli_lock_acquire(&lock, in_folder("run"), "journal", NULL), GYRE_OK);
    cli_lock_release(&lock);
    assert_int_equal(access(in_folder("run.lock"), F_OK), -1);
}

/* The lock of an abandoned folder, through which the file of somebody else would pass for one. */
static void link_in_a_temporary_folder(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("temporary"), 0700) | mkdir(in_folder("temporary/gyre-search-abcdef"), 0700), 0);
    write_file("empty-victim", "", 0);
    assert_int_equal(symlink("../../empty-victim", in_folder("temporary/gyre-search-abcdef/gyre.lock")), 0);
    assert_int_equal(setenv("TMPDIR", in_folder("temporary"), 1), 0);
    assert_int_equal(run("extend @rope --to 1k")->exit, 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_int_equal(access(in_folder("temporary/gyre-search-abcdef"), F_OK), 0);
    assert_int_equal(access(in_folder("empty-victim"), F_OK), 0);
    remove_tree(in_folder("temporary"));
}

/* -- folders that are taken away -- */
static int thefts; /* how many of the folders that this program makes next are taken away at once */

/* In place of those of the C library, in this program alone. */
int mkdir(const char *path, mode_t mode) {
    const int status = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (status == 0 && thefts > 0 && thefts--) (void)rmdir(path);
    return status;
}

char *mkdtemp(char *path) {
    static int made;
    snprintf(path + strlen(path) - 6, 7, "%04x%02x", (unsigned)getpid() & 0xffff, (unsigned)++made & 0xff);
    return mkdir(path, 0700) ? NULL : path;
}

static void folder_of_a_result(void **state) {
    (void)state;
    gyre_folder_replacement folder_of;
    gyre_error err = {0, ""};
    struct stat info;
    const int before = count_entries(folder);
    thefts = 3;
    assert_ok(gyre_folder_begin(&folder_of, in_folder("result"), &err));
    assert_int_equal(thefts, 0);
    assert_int_equal(stat(folder_of.temporary, &info), 0); /* made again, and held */
    assert_true(S_ISDIR(info.st_mode) && folder_of.lock >= 0);
    assert_ok(gyre_folder_commit(&folder_of, &err));
    assert_int_equal(access(in_folder("result"), F_OK), 0);
    assert_int_equal(count_entries(folder), before + 1);
}

static void temporary_folder_of_a_command(void **state) {
    (void)state;
    temporary_folder made;
    gyre_error err = {0, ""};
    assert_int_equal(mkdir(in_folder("tmp"), 0700), 0);
    assert_int_equal(setenv("TMPDIR", in_folder("tmp"), 1), 0);
    thefts = 1;
    assert_int_equal(temporary_folder_create(&made, "search", &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "no temporary folder can be made there: No such file or directory (search)"));
    assert_string_equal(made.path, "");
    assert_int_equal(made.lock, -1);
    assert_int_equal(count_entries(in_folder("tmp")), 0);
    assert_ok(temporary_folder_create(&made, "search", &err)); /* the next one works */
    assert_int_equal(count_entries(made.path), 1);
    temporary_folder_remove(&made);
    assert_int_equal(count_entries(in_folder("tmp")), 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(link_as_lock), cmocka_unit_test(another_file_of_its_name),
                                       cmocka_unit_test(link_in_a_temporary_folder), cmocka_unit_test(folder_of_a_result),
                                       cmocka_unit_test(temporary_folder_of_a_command)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
