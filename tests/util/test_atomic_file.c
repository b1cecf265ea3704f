/* test_atomic_file.c: src/util: files that are replaced whole, and the nearest of names. */
#define _GNU_SOURCE /* syscall */
#include "support.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/file_write.h"
#include "util/suggest.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/gyre-util-XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[4][320];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

/* out = how many files there are; removes them. */
static int empty_folder(void) {
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (*entry->d_name != '.') count += unlink(in_folder(entry->d_name)) == 0;
    closedir(entries);
    return count;
}

static int remove_folder(void **state) {
    (void)state;
    empty_folder();
    return rmdir(folder);
}

static void assert_contents(const char *path, const char *expected) {
    char text[32] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, expected);
}

static void whole_or_not_at_all(void **state) {
    (void)state;
    gyre_atomic_file file;
    const char *path = in_folder("a");
    assert_int_equal(gyre_atomic_write(path, "old", 3), 0);
    assert_int_equal(gyre_atomic_open(&file, path), 0);
    assert_int_equal(gyre_write_all(file.fd, "new", 3), 0);
    assert_contents(path, "old");
    assert_int_equal(gyre_atomic_close(&file), 0);
    assert_contents(file.temporary, "new");
    assert_int_equal(gyre_atomic_commit(&file), 0);
    assert_contents(path, "new");
    assert_int_equal(gyre_atomic_open(&file, path), 0);
    assert_non_null(gyre_atomic_stream(&file));
    assert_true(fputs("half", file.stream) >= 0);
    gyre_atomic_discard(&file);
    gyre_atomic_discard(&file);
    assert_contents(path, "new");
    assert_int_equal(empty_folder(), 1);
}

static void two_writers(void **state) {
    (void)state;
    gyre_atomic_file first, second;
    char name[GYRE_TEMPORARY_PATH_BYTES];
    const char *path = in_folder("a");
    assert_true(gyre_temporary_name(name, path, 0));
    assert_int_equal(gyre_atomic_open(&first, path), 0);
    assert_string_equal(first.temporary, name);
    assert_int_equal(gyre_atomic_open(&second, path), 0);
    assert_string_not_equal(first.temporary, second.temporary);
    assert_int_equal(gyre_atomic_commit(&second), 0);
    assert_int_equal(gyre_atomic_commit(&first), 0);
    assert_int_equal(empty_folder(), 1);
}

/* What a killed writer left is removed by the next one; what a living writer has, and files of other names, are not. */
static void killed_writers(void **state) {
    (void)state;
    static const char *const others[] = {"a.gyre-1-0.tmp.txt",
                                         "a.gyre-x-0.tmp",
                                         "ab.gyre-1-0.tmp",
                                         "a.gyre-1-.tmp",
                                         "a.2024-01.tmp",
                                         "a.gyre-4194305-0.tmp",
                                         "a.gyre-4194305-0-89abcdef.tmp"};
    gyre_atomic_file living;
    const pid_t child = fork();
    if (child == 0) {
        gyre_atomic_file file;
        if (gyre_atomic_open(&file, in_folder("a"))) _exit(1);
        (void)gyre_write_all(file.fd, "half", 4);
        _exit(0); /* as by a kill: nothing is discarded */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char left[GYRE_TEMPORARY_PATH_BYTES];
    assert_true(gyre_temporary_name_by(left, in_folder("a"), (long)child, 0));
    assert_int_equal(access(left, F_OK), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(gyre_file_write(in_folder(others[i]), "", 0), 0);
    assert_int_equal(gyre_atomic_open(&living, in_folder("a")), 0);
    assert_int_equal(access(left, F_OK), -1);
    /* Between close and commit it is still its writer's. */
    assert_int_equal(gyre_atomic_close(&living), 0);
    assert_int_equal(gyre_atomic_write(in_folder("a"), "other", 5), 0);
    assert_int_equal(access(living.temporary, F_OK), 0);
    assert_int_equal(gyre_atomic_commit(&living), 0);
    assert_contents(in_folder("a"), "");
    assert_int_equal(empty_folder(), 1 + sizeof others / sizeof *others);
}

static gyre_atomic_file interrupted;

static void remove_and_end(int number) {
    if (interrupted.has_temporary) unlink(interrupted.temporary);
    _exit(number);
}

/* Most of these signals arrive while the system creates or removes the file. */
static void ended_by_a_signal(void **state) {
    (void)state;
    const char *target = in_folder("target");
    for (int i = 0; i < 200; i++) {
        const pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0) {
            (void)signal(SIGTERM, remove_and_end);
            while (gyre_atomic_open(&interrupted, target) == 0)
                gyre_atomic_discard(&interrupted);
            _exit(0);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + i * 7000}, NULL);
        kill(writer, SIGTERM);
        int status;
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == SIGTERM); /* it may come before the handler is there */
        assert_int_equal(empty_folder(), 0);
    }
}

/* As another user, which only root can become. */
static void owner_and_permission(void **state) {
    (void)state;
    enum { NOBODY = 65534 };
    struct stat info;
    char path[320];
    snprintf(path, sizeof path, "%s", in_folder("owned"));
    if (geteuid() != 0) skip();
    assert_int_equal(gyre_atomic_write(path, "old", 3), 0);
    if (chown(path, NOBODY, NOBODY) != 0) skip(); /* a name space with root alone */
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(gyre_atomic_write(path, "new", 3), 0);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_uid == NOBODY && info.st_gid == NOBODY && (info.st_mode & 0777) == 0400);
    assert_int_equal(chmod(folder, 0777), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(1);
        const int refused = gyre_atomic_write(path, "lost", 4); /* its own, but not to be written */
        _exit(refused == EACCES && chmod(path, 0600) == 0 && gyre_atomic_write(path, "kept", 4) == 0 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_contents(path, "kept");
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(empty_folder(), 1);
}

static void mode_and_links(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(gyre_file_write(in_folder("a"), "old", 3), 0);
    assert_int_equal(chmod(in_folder("a"), 0640), 0);
    assert_int_equal(symlink("a", in_folder("link")), 0);
    assert_int_equal(gyre_atomic_write(in_folder("link"), "new", 3), 0);
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_contents(in_folder("a"), "new");
    assert_int_equal(stat(in_folder("a"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(empty_folder(), 2);
}

static void not_regular(void **state) {
    (void)state;
    struct stat info;
    gyre_atomic_file file;
    assert_int_equal(gyre_atomic_write("/dev/null", "gone", 4), 0);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(gyre_atomic_open(&file, folder), EISDIR);
    assert_int_equal(gyre_atomic_open(&file, in_folder("missing/a")), ENOENT);
    assert_false(file.has_temporary);
    if (access("/dev/full", W_OK) == 0) assert_int_equal(gyre_atomic_write("/dev/full", "lost", 4), ENOSPC);
    assert_int_equal(gyre_file_write(in_folder("missing/a"), "", 0), ENOENT);
    assert_int_equal(gyre_sync_parent(in_folder("missing/a")), ENOENT);
    assert_int_equal(gyre_sync_parent("/dev"), 0);
}

static void too_long(void **state) {
    (void)state;
    gyre_atomic_file file;
    static char path[PATH_MAX + 8];
    memset(path, 'a', sizeof path - 1);
    assert_int_equal(gyre_atomic_open(&file, path), ENAMETOOLONG);
    assert_int_equal(gyre_sync_parent(path), 0); /* of the working folder */
    path[PATH_MAX + 2] = '/';
    assert_int_equal(gyre_sync_parent(path), ENAMETOOLONG);
}

static void nearest(void **state) {
    (void)state;
    static const char *const names[] = {"rope", "alibi", "kerple", "t5"};
    assert_string_equal(gyre_closest_name("rpe", names, 4), "rope");
    assert_string_equal(gyre_closest_name("alibbi", names, 4), "alibi");
    assert_string_equal(gyre_closest_name("kepler", names, 4), "kerple"); /* two changes */
    assert_null(gyre_closest_name("xy", names, 4));                       /* two changes of "t5" are another word */
    assert_null(gyre_closest_name("sinusoid", names, 4));
    assert_null(gyre_closest_name("a name that is longer than forty bytes is far", names, 4));
    gyre_suggestion best = {NULL, 2};
    gyre_suggest(&best, "kepler", "kerple");
    assert_null(best.name);
}

static void error_text(void **state) {
    (void)state;
    gyre_error err = {7, ""};
    assert_int_equal(gyre_fail(&err, GYRE_EIO, "%s: %d (here)", "what", 3), GYRE_EIO);
    assert_string_equal(err.text, "what: 3 (here)");
    assert_int_equal(err.offset, 0);
    assert_int_equal(gyre_fail(NULL, GYRE_ENOMEM, "lost"), GYRE_ENOMEM);
}

/* -- a device that takes nothing -- */
static int empty_writes; /* how many of the next writes take no byte, and name no error */

/* In place of that of the C library, in this program alone. */
ssize_t write(int fd, const void *bytes, size_t count) {
    return empty_writes > 0 && empty_writes-- ? 0 : syscall(SYS_write, fd, bytes, count);
}

static void nothing_is_taken(void **state) {
    (void)state;
    assert_int_equal(gyre_atomic_write(in_folder("taken"), "old", 3), 0);
    empty_writes = 1000;
    assert_int_equal(gyre_atomic_write(in_folder("taken"), "new", 3), EIO);
    assert_int_equal(empty_writes, 999); /* not asked again */
    empty_writes = 0;
    assert_contents(in_folder("taken"), "old");
    assert_int_equal(empty_folder(), 1);
}

static void checkpoint_names(void **state) {
    (void)state;
    size_t count = 0;
    for (const gyre_checkpoint_file *file; (file = gyre_checkpoint_file_at(count)) != NULL; count++)
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(file->name, gyre_checkpoint_file_at(i)->name);
    assert_true(count > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_or_not_at_all), cmocka_unit_test(two_writers),      cmocka_unit_test(killed_writers),
        cmocka_unit_test(ended_by_a_signal),   cmocka_unit_test(mode_and_links),   cmocka_unit_test(owner_and_permission),
        cmocka_unit_test(not_regular),         cmocka_unit_test(too_long),         cmocka_unit_test(nearest),
        cmocka_unit_test(error_text),          cmocka_unit_test(checkpoint_names), cmocka_unit_test(nothing_is_taken),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
