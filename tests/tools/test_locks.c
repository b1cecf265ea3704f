/* test_locks.c: locks that others spoil: a link in the place of a lock, and a folder that is taken away between its making
 * and its lock, as by another run that takes it for one of a killed process. */
#define _GNU_SOURCE /* SYS_mkdirat */
#include "files/replace_folder.h"
#include "left_names.h"
#include "run_command.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/temporary_folder.h"
#include "tools/common/keyed_journal.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>

#define ROPE GYRE_TEST_DATA "/../models/rope"

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
        {"work.gyre-lock", "lab --text @text --preset smoke --encodings nope --report @r.html --work @work"},
        {"work.gyre-lock", "lab --text @text --preset smoke --encodings nope --report @r.html --work @work/"},
        {"trained.gyre-lock", "train --text @text -o @trained --tokens 1k --context 16 --batch 1 --layers 1 --width 16"}};
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
    assert_int_equal(cli_lock_acquire(&lock, in_folder("run"), NULL), GYRE_OK);
    assert_int_equal(rename(in_folder("other"), in_folder("run.gyre-lock")), 0);
    cli_lock_release(&lock);
    assert_int_equal(access(in_folder("run.gyre-lock"), F_OK), 0);
    assert_int_equal(unlink(in_folder("run.gyre-lock")), 0);
    assert_int_equal(cli_lock_acquire(&lock, in_folder("run"), NULL), GYRE_OK);
    cli_lock_release(&lock);
    assert_int_equal(access(in_folder("run.gyre-lock"), F_OK), -1);
}

/* -- names of one file -- */
#define TRAIN "--text @text --tokens 1k --context 16 --batch 1 --layers 1 --width 16 "

/* Links, with a slash behind them, in a chain and through other folders, have the lock of what they lead to. */
static void links_have_one_lock(void **state) {
    (void)state;
    static const char *const lines[] = {"train " TRAIN "-o @l --force",
                                        "train " TRAIN "-o @l/ --force",
                                        "train " TRAIN "-o @chain --force",
                                        "train " TRAIN "-o @below/../l --force",
                                        "train " TRAIN "-o @m/below/.. --force",
                                        "convert " ROPE " -o @l --force",
                                        "convert " ROPE " -o @m",
                                        "lab --text @text --preset smoke --encodings nope --report @r.html --work @l"};
    cli_lock held;
    gyre_error err = {0, ""};
    assert_int_equal(mkdir(in_folder("m"), 0700) | mkdir(in_folder("below"), 0700) | mkdir(in_folder("m/below"), 0700), 0);
    assert_int_equal(symlink("m/", in_folder("l")) | symlink("l/", in_folder("chain")), 0);
    assert_ok(cli_lock_acquire(&held, in_folder("m"), &err));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_fails(lines[i], 1, "folder: another run is writing it");
    cli_lock_release(&held);
    assert_int_equal(access(in_folder("m.gyre-lock"), F_OK), -1);
    assert_ok(cli_lock_acquire(&held, in_folder("chain"), &err)); /* and the other way round */
    assert_int_equal(access(in_folder("m.gyre-lock"), F_OK), 0);
    cli_lock_release(&held);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_equal(cli_lock_acquire(&held, in_folder("loop"), &err), GYRE_EIO);
    assert_int_equal(count_entries(in_folder("m")), 1);
}

/* Hard links too: the journal itself is locked. */
static void names_of_a_journal(void **state) {
    (void)state;
    static const char *const lines[] = {
        "eval @rope --text @text --context 16 --windows 2 --resume --journal @hard",
        "eval @rope --text @text --context 16 --windows 2 --resume --journal @soft",
        "passkey @rope --lengths 300 --trials 1 --resume --journal @hard",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --journal @hard",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --journal @j"};
    keyed_journal held;
    gyre_error err = {0, ""};
    assert_ok(keyed_journal_open(&held, in_folder("j"), 0, &err));
    assert_int_equal(link(in_folder("j"), in_folder("hard")) | symlink("j", in_folder("soft")), 0);
    const int entries = count_entries(folder);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_fails(lines[i], 1, "journal: another run is writing it");
    assert_int_equal(count_entries(folder), entries); /* nothing is made */
    keyed_journal_close(&held);
    assert_int_equal(run(lines[0])->exit, 0);
    assert_int_equal(access(in_folder("j.gyre-lock"), F_OK), -1);
}

/* -- somebody's own file, and calls that fail -- */
/* An empty file of the lock's name is that of a killed run, and goes; any other is somebody's own. */
static void own_and_foreign(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int status, stays;
    } cases[] = {{"", 0, 0}, {"gyre lock\n", GYRE_EIO, 1}, {"mine", GYRE_EIO, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_lock lock;
        write_file("own.gyre-lock", cases[i].text, strlen(cases[i].text));
        assert_int_equal(cli_lock_acquire(&lock, in_folder("own"), NULL), cases[i].status);
        cli_lock_release(&lock);
        assert_int_equal(access(in_folder("own.gyre-lock"), F_OK) == 0, cases[i].stays);
    }
    assert_int_equal(unlink(in_folder("own.gyre-lock")), 0);
}

enum { NO_CALL, CALL_FLOCK, CALL_FSTAT, CALL_LSTAT, CALLS };
static int failing, code_of_call;

static int fails(int call) {
    if (failing == call) errno = code_of_call;
    return failing == call;
}

/* In place of those of the C library, in this program alone. */
int flock(int fd, int operation) {
    return fails(CALL_FLOCK) ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int fstat(int fd, struct stat *out) {
    return fails(CALL_FSTAT) ? -1 : fstatat(fd, "", out, AT_EMPTY_PATH);
}

int lstat(const char *path, struct stat *out) {
    return fails(CALL_LSTAT) ? -1 : fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

/* Only EAGAIN means that another run holds the lock.  After an error, the file that this call created is removed. */
static void calls_that_fail(void **state) {
    (void)state;
    static const int codes[] = {ENOLCK, EIO, EAGAIN};
    for (int call = CALL_FLOCK; call < CALLS; call++)
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
            cli_lock lock;
            gyre_error err = {0, ""};
            const int is_held = call == CALL_FLOCK && codes[i] == EAGAIN;
            failing = call;
            code_of_call = codes[i];
            const gyre_status status = cli_lock_acquire(&lock, in_folder("failed"), &err);
            failing = NO_CALL;
            assert_int_equal(status, GYRE_EIO);
            if (!strstr(err.text, is_held ? "another run is writing it" : strerror(codes[i])))
                fail_msg("call %d, %s: %s", call, strerror(codes[i]), err.text);
            assert_int_equal(access(in_folder("failed.gyre-lock"), F_OK) == 0, is_held);
            if (is_held) assert_int_equal(unlink(in_folder("failed.gyre-lock")), 0);
        }
}

/* A link of the name of an abandoned folder, through which that of somebody else would be emptied. */
static void link_as_a_temporary_folder(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("temporary"), 0700) | mkdir(in_folder("somebodys"), 0700), 0);
    write_file("somebodys/victim", "", 0);
    const char *name = left_by("temporary/gyre", DEAD, 0);
    assert_int_equal(symlink("../somebodys", in_folder(name)), 0);
    assert_int_equal(setenv("TMPDIR", in_folder("temporary"), 1), 0);
    assert_int_equal(run("extend @rope --to 1k")->exit, 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_int_equal(access(in_folder(name), F_OK), 0);
    assert_int_equal(access(in_folder("somebodys/victim"), F_OK), 0);
    remove_tree(in_folder("temporary"));
    remove_tree(in_folder("somebodys"));
}

/* -- folders that are taken away -- */
static int thefts; /* how many of the folders that this program makes next are taken away at once */

/* In place of those of the C library, in this program alone. */
int mkdir(const char *path, mode_t mode) {
    const int status = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (status == 0 && thefts > 0 && thefts--) (void)rmdir(path);
    return status;
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
    thefts = 1000; /* of all names */
    assert_int_equal(temporary_folder_create(&made, "search", &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "no temporary folder can be made there: File exists (search)"));
    assert_string_equal(made.path, "");
    assert_int_equal(made.lock, -1);
    assert_int_equal(count_entries(in_folder("tmp")), 0);
    thefts = 1;
    assert_ok(temporary_folder_create(&made, "search", &err)); /* the next name is free */
    assert_int_equal(thefts, 0);
    assert_true(made.lock >= 0);
    assert_int_equal(access(made.path, F_OK), 0);
    assert_int_equal(count_entries(made.path), 0);
    temporary_folder_remove(&made);
    assert_int_equal(count_entries(in_folder("tmp")), 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* -- folders that are half removed -- */
static int removals_left = -1; /* the process ends before the next one; -1: never */

static int remove_one(const char *path, int flags) {
    if (removals_left == 0) _exit(0);
    removals_left -= removals_left > 0;
    return unlinkat(AT_FDCWD, path, flags);
}

/* In place of those of the C library, in this program alone. */
int unlink(const char *path) {
    return remove_one(path, 0);
}

int rmdir(const char *path) {
    return remove_one(path, AT_REMOVEDIR);
}

int remove(const char *path) {
    struct stat info;
    return remove_one(path,
                      fstatat(AT_FDCWD, path, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0);
}

/* Leaves a folder as of a process that is killed after `removals` removals.  out = its name; "" if nothing was left. */
static void leave_half(int removals, char out[PATH_MAX]) {
    temporary_folder made;
    gyre_error err = {0, ""};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char path[PATH_MAX];
        if (temporary_folder_create(&made, "search", &err)) _exit(1);
        static const char *const files[] = {"a", "b", "z"};
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            snprintf(path, sizeof path, "%s/%s", made.path, files[i]);
            if (close(open(path, O_WRONLY | O_CREAT, 0600))) _exit(1);
        }
        if (write(ends[1], made.path, sizeof made.path) < 0) _exit(1);
        removals_left = removals;
        temporary_folder_remove(&made);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(read(ends[0], made.path, sizeof made.path) == (ssize_t)sizeof made.path);
    close(ends[0]);
    close(ends[1]);
    snprintf(out, PATH_MAX, "%s", access(made.path, F_OK) == 0 ? made.path : "");
}

static void killed_while_it_removed(void **state) {
    (void)state;
    char left[PATH_MAX];
    assert_int_equal(mkdir(in_folder("half"), 0700), 0);
    assert_int_equal(setenv("TMPDIR", in_folder("half"), 1), 0);
    for (int removals = 0, more = 1; more; removals++) {
        temporary_folder next;
        gyre_error err = {0, ""};
        leave_half(removals, left);
        more = *left != 0;
        assert_ok(temporary_folder_create(&next, "search", &err));
        temporary_folder_remove(&next);
        if (count_entries(in_folder("half"))) fail_msg("stays after %d removals: %s", removals, left);
        assert_true(more || removals == 4); /* three files, the folder */
    }
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(link_as_lock),
                                       cmocka_unit_test(another_file_of_its_name),
                                       cmocka_unit_test(links_have_one_lock),
                                       cmocka_unit_test(names_of_a_journal),
                                       cmocka_unit_test(own_and_foreign),
                                       cmocka_unit_test(calls_that_fail),
                                       cmocka_unit_test(link_as_a_temporary_folder),
                                       cmocka_unit_test(folder_of_a_result),
                                       cmocka_unit_test(temporary_folder_of_a_command),
                                       cmocka_unit_test(killed_while_it_removed)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
