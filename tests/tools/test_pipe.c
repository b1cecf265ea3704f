/* test_pipe.c: a reader that leaves early, as in `gyre ... | head -1`, and what killed runs leave in /tmp. */
#include "left_names.h"
#include "run_command.h"

#include <errno.h>
#include <sys/file.h>
#include <utime.h>

/* Starts the command with its output in a full pipe, in which no write succeeds, and closes the reading end. */
static outcome *run_unread(const char *line) {
    static outcome o;
    static const char zeros[4096];
    const int reader = open(in_folder("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC),
              writer = open(in_folder("pipe"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0 && writer >= 0);
    while (write(writer, zeros, sizeof zeros) > 0) {
    }
    const pid_t child = start(line, in_folder("pipe"));
    close(writer);
    close(reader);
    finish(child, &o);
    return &o;
}

static outcome *run_into_closed_pipe(const char *line) {
    outcome *o = run_unread(line);
    if (o->signal != SIGPIPE && o->exit != 128 + SIGPIPE)
        fail_msg("gyre %s: exit %d, signal %d: %s", line, o->exit, o->signal, o->err);
    if (strstr(o->err, "standard output") || strstr(o->err, "Broken pipe")) fail_msg("gyre %s: %s", line, o->err);
    return o;
}

/* The words of a closed pipe in a file are an error as any other. */
static void words_of_a_closed_pipe(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"Broken pipe\", \"hidden_size\": 64, \"num_attention_heads\": 4}";
    assert_string_equal(strerror(EPIPE), "Broken pipe");
    write_file("odd.json", config, sizeof config - 1);
    assert_fails("explain @odd.json", 1, "Broken pipe");
    const outcome *o = run_unread("explain @odd.json"); /* nor is it lost where a reader has left too */
    assert_int_equal(o->exit, 1);
    assert_non_null(strstr(o->err, "\"Broken pipe\""));
}

/* out = how many names in the folder contain the text. */
static int count_names(const char *in, const char *text) {
    int count = 0;
    DIR *dir = opendir(in);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strstr(entry->d_name, text) != NULL;
    closedir(dir);
    return count;
}

static void ends_quietly(void **state) {
    (void)state;
    static const char *const lines[] = {"--help",
                                        "version",
                                        "help eval",
                                        "help --man eval",
                                        "explain @rope",
                                        "explain @rope --json",
                                        "diff @rope @alibi",
                                        "extend @rope --to 1k",
                                        "plot wavelengths @rope --csv",
                                        "show shift",
                                        "eval @rope --text @text --contexts 16 --windows 2",
                                        "eval @rope --text @text --contexts 16,32 --windows 2 --json-lines",
                                        "passkey @rope --lengths 320 --trials 1 --json-lines",
                                        "generate @rope --prompt abc --tokens 200 --temperature 0"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_string_equal(run_into_closed_pipe(lines[i])->err, "");
}

/* Files that options name are whole or not there, and nothing else stays. */
static void files_are_whole(void **state) {
    (void)state;
    (void)run_into_closed_pipe("convert @rope -o @converted --json");
    assert_int_equal(run("explain @converted")->exit, 0);
    (void)run_into_closed_pipe("extend @rope --to 1k --method yarn --write @written");
    if (access(in_folder("written"), F_OK) == 0) assert_int_equal(run("explain @written")->exit, 0);
    (void)run_into_closed_pipe(
        "train --text @text -o @trained --tokens 64 --context 16 --batch 1 --layers 1 --width 16 --json");
    assert_int_equal(run("explain @trained")->exit, 0);
    (void)run_into_closed_pipe("eval @rope --text @text --contexts 16,32 --windows 2 --journal @journal --json-lines");
    assert_int_equal(run("eval @rope --text @text --contexts 16,32 --windows 2 --journal @journal --resume")->exit, 0);
    assert_int_equal(count_names(folder, ".gyre-"), 0);
    assert_int_equal(count_names(folder, ".gyre-lock"), 0);
}

/* A pipe that the caller ignores is an error like any other. */
static void ignored_signal(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    const outcome *o = run_unread("explain @rope");
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(o->exit, 1);
    assert_non_null(strstr(o->err, "standard output: Broken pipe"));
}

/* -- temporary folders -- */
/* out = a descriptor of the folder. */
static int make_left(const char *name, int files) {
    char path[64];
    assert_int_equal(mkdir(in_folder(name), 0700), 0);
    snprintf(path, sizeof path, "%s/config.json", name);
    if (files) write_file(path, "{}", 2);
    return open(in_folder(name), O_RDONLY | O_CLOEXEC);
}

/* Numbers beyond those of processes: of killed runs.  A run that was killed while it made its folder left an empty one. */
static void abandoned_folders(void **state) {
    (void)state;
    static const struct {
        const char *of; /* of a temporary of this target; else the name itself */
        long pid;
        int attempt, files, is_held, is_old, goes;
    } cases[] = {{"temporary/gyre", DEAD, 0, 1, 0, 0, 1},
                 {"temporary/gyre", DEAD, 1, 0, 0, 0, 1},
                 {"temporary/gyre", DEAD + 1, 0, 1, 1, 0, 0}, /* of a living one */
                 {"temporary/gyre", DEAD + 1, 1, 0, 1, 0, 0},
                 {"temporary/gyre-explore", DEAD, 0, 1, 0, 0, 0}, /* a browser is about to read it */
                 {"temporary/gyre-explore", DEAD, 1, 1, 0, 1, 1},
                 {"temporary/gyre-extend", DEAD, 0, 1, 0, 1, 0}, /* somebody's own */
                 {"temporary/gyre.gyre-4194305-0.tmp", 0, 0, 1, 0, 1, 0},
                 {"temporary/gyre.gyre-4194305-0.old", 0, 0, 1, 0, 1, 0},
                 {"temporary/gyre.gyre-backup-0.tmp", 0, 0, 1, 0, 1, 0},
                 {"temporary/gyre-extend-backup", 0, 0, 1, 0, 1, 0}};
    enum { CASES = sizeof cases / sizeof *cases };
    const char *names[CASES];
    char below[128];
    const struct utimbuf old = {1000000000, 1000000000};
    int folders[CASES], kept = 0;
    assert_int_equal(mkdir(in_folder("temporary"), 0700), 0);
    for (int i = 0; i < CASES; i++) {
        names[i] = cases[i].pid ? left_by(cases[i].of, cases[i].pid, cases[i].attempt) : cases[i].of;
        folders[i] = make_left(names[i], cases[i].files);
        if (cases[i].is_held) assert_int_equal(flock(folders[i], LOCK_EX), 0);
        kept += !cases[i].goes;
    }
    snprintf(below, sizeof below, "%.100s/below", names[5]);
    assert_int_equal(mkdir(in_folder(below), 0700), 0);
    snprintf(below, sizeof below, "%.100s/link", names[5]);
    assert_int_equal(symlink("../gyre-extend-backup", in_folder(below)), 0);
    assert_int_equal(symlink("gyre-extend-backup", in_folder(left_by("temporary/gyre", DEAD + 2, 0))), 0);
    for (int i = 0; i < CASES; i++)
        if (cases[i].is_old) assert_int_equal(utime(in_folder(names[i]), &old), 0);
    assert_int_equal(setenv("TMPDIR", in_folder("temporary"), 1), 0);
    assert_int_equal(run("extend @rope --to 1k")->exit, 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    for (int i = 0; i < CASES; i++) {
        close(folders[i]);
        if ((access(in_folder(names[i]), F_OK) != 0) != cases[i].goes) fail_msg("%s", names[i]);
    }
    assert_int_equal(access(in_folder("temporary/gyre-extend-backup/config.json"), F_OK), 0);
    assert_int_equal(count_names(in_folder("temporary"), "gyre"), kept + 1); /* these and the link: the run left none */
    remove_tree(in_folder("temporary"));
}

static int make_pipe(void **state) {
    return make_folder(state) || mkfifo(in_folder("pipe"), 0600);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_quietly), cmocka_unit_test(files_are_whole),
                                       cmocka_unit_test(ignored_signal), cmocka_unit_test(words_of_a_closed_pipe),
                                       cmocka_unit_test(abandoned_folders)};
    alarm(300);
    return cmocka_run_group_tests(tests, make_pipe, remove_folder);
}
