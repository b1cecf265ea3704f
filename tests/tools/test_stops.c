/* test_stops.c: SIGINT, SIGTERM and SIGKILL at moments spread over the long commands, a disk that is full or read-only, and
 * a closed standard output.  The exit status says what happened, no name stands for half a file, and the same command, or
 * --resume, then gives the bytes of a run that nobody stopped. */
#define _GNU_SOURCE /* unshare */
#include "run_command.h"
#include "tools/cli/cli_signals.h"
#include "util/atomic_file.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#define TINY "--width 16 --layers 1 --heads 2 --hidden 16 --context 32 --batch 4 --threads 1 "

enum { RESULTS = 4, MAX_BYTES = 1 << 21 };
/* Moments for each signal and command; GYRE_STOP_RUNS=100 takes more of them. */
enum { MOMENTS = 2 };

typedef struct job {
    const char *line, *again; /* again: what goes on after a stop */
    const char *results[RESULTS];
} job;

static const job jobs[] = {
    {"eval @rope --text @text --contexts 32,64,128 --windows 16 --methods none,yarn --journal @result.log --force -o "
     "@result.txt",
     "eval @rope --text @text --contexts 32,64,128 --windows 16 --methods none,yarn --journal @result.log --force -o "
     "@result.txt "
     "--resume",
     {"result.log", "result.txt"}},
    {"passkey @rope --lengths 300,600 --depths 2 --trials 4 --journal @result.log --force -o @result.txt",
     "passkey @rope --lengths 300,600 --depths 2 --trials 4 --journal @result.log --force -o @result.txt --resume",
     {"result.log", "result.txt"}},
    {"search @rope --text @text --to 64 --budget 60 --windows 4 --held-out 6 --journal @result.log --force -o @result.txt "
     "--write "
     "@result.json",
     NULL,
     {"result.log", "result.txt", "result.json"}},
    {"train " TINY "--tokens 64k --text @text -o @result --save-every 10",
     "train --resume --text @text -o @result --threads 1",
     {"result/config.json", "result/model.safetensors"}},
    {"lab --text @text --preset smoke --encodings rope,alibi --work @result --force --report @result.html --json",
     NULL,
     {".out"}},
    {"generate @rope --prompt abc --tokens 3000 --temperature 0 --force -o @result.txt", NULL, {"result.txt"}},
    {"convert @wide -o @result.gguf --force", NULL, {"result.gguf"}},
    {"convert @wide -o @result --force", NULL, {"result/config.json", "result/model.safetensors"}},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

typedef struct files {
    char *bytes[RESULTS]; /* NULL = no such file */
    size_t size[RESULTS];
} files;

/* Keeps the whole lines of a journal: a resumed one also has the rest of a line that a kill cut off.  out = its bytes. */
static size_t keep_lines(char *text) {
    char *to = text;
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        assert_true(end > at); /* no empty line */
        if (end[-1] != '}') continue;
        memmove(to, at, (size_t)(end + 1 - at));
        to += end + 1 - at;
    }
    *to = 0;
    return (size_t)(to - text);
}

/* Times differ from run to run.  out = the bytes without them. */
static size_t drop_seconds(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        if (strncmp(at, "seconds\":", 9) == 0)
            at += strcspn(at, ",}\n");
        else
            *to++ = *at++;
    }
    *to = 0;
    return (size_t)(to - text);
}

static files read_files(const job *j) {
    files f = {{NULL}, {0}};
    for (int i = 0; i < RESULTS && j->results[i]; i++) {
        FILE *file = fopen(in_folder(j->results[i]), "rb");
        if (!file) continue;
        f.bytes[i] = calloc(1, MAX_BYTES);
        assert_non_null(f.bytes[i]);
        f.size[i] = fread(f.bytes[i], 1, MAX_BYTES - 1, file);
        fclose(file);
        if (strstr(j->results[i], ".log")) f.size[i] = keep_lines(f.bytes[i]);
        if (strcmp(j->results[i], ".out") == 0) f.size[i] = drop_seconds(f.bytes[i]);
    }
    return f;
}

static void free_files(files *f) {
    for (int i = 0; i < RESULTS; i++)
        free(f->bytes[i]);
}

static int is_same(const files *a, const files *b, int i) {
    return a->bytes[i] && b->bytes[i] && a->size[i] == b->size[i] && memcmp(a->bytes[i], b->bytes[i], a->size[i]) == 0;
}

static int are_same(const files *a, const files *b) {
    for (int i = 0; i < RESULTS; i++)
        if ((a->bytes[i] || b->bytes[i]) && !is_same(a, b, i)) return 0;
    return 1;
}

static void remove_results(void) {
    static const char *const names[] = {"result",      "result.log",  "result.txt", "result.json",
                                        "result.html", "result.gguf", ".out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove_tree(in_folder(names[i]));
}

/* A journal, and a table of what there is, are results of a stopped run; the others are whole or not there. */
static void check_whole(const job *j, const files *whole, const char *what) {
    files now = read_files(j);
    for (int i = 0; i < RESULTS && j->results[i]; i++)
        if (now.bytes[i] && (strncmp(j->line, "convert", 7) == 0 || strstr(j->results[i], ".json")) &&
            !is_same(&now, whole, i) && strncmp(j->line, "lab", 3) != 0)
            fail_msg("%s: gyre %s: half of %s", what, j->line, j->results[i]);
    free_files(&now);
}

static void go_on(const job *j, const files *whole, const char *what, int entries) {
    const outcome *o = run(j->again ? j->again : j->line);
    /* Stopped before there was anything to go on from, or after the end. */
    if (o->exit == 1 && j->again && strncmp(j->line, "train", 5) == 0 && !strstr(o->err, "complete")) o = run(j->line);
    if (o->exit && !strstr(o->err, "complete"))
        fail_msg("%s: gyre %s: goes not on: exit %d, signal %d: %s", what, j->line, o->exit, o->signal, o->err);
    files now = read_files(j);
    for (int i = 0; i < RESULTS && j->results[i]; i++)
        if (!is_same(&now, whole, i)) fail_msg("%s: gyre %s: another %s (%s)", what, j->line, j->results[i], folder);
    free_files(&now);
    if (count_entries(folder) != entries) fail_msg("%s: gyre %s: leaves files (%s)", what, j->line, folder);
}

static void stop(const job *j, const files *whole, int number, double seconds, int entries) {
    char what[64];
    outcome o;
    remove_results();
    snprintf(what, sizeof what, "signal %d after %.3f s", number, seconds);
    const pid_t child = start(j->line, in_folder(".out"));
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
    (void)kill(child, number);
    finish(child, &o);
    const int honest = o.signal == number || (number != SIGKILL && o.exit == 128 + number);
    if (o.exit == 0) {
        files now = read_files(j);
        if (!are_same(&now, whole)) fail_msg("%s: gyre %s: status 0, and other files", what, j->line);
        free_files(&now);
        return;
    }
    if (!honest) fail_msg("%s: gyre %s: exit %d, signal %d: %s", what, j->line, o.exit, o.signal, o.err);
    check_whole(j, whole, what);
    go_on(j, whole, what, entries);
}

static double now_seconds(void) {
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void signals(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGKILL};
    const char *text = getenv("GYRE_STOP_RUNS");
    for (int i = 0; i < JOBS; i++) {
        /* lab takes seconds, and tests/tools/test_lab.c kills it too. */
        const long moments = text ? strtol(text, NULL, 10) : strncmp(jobs[i].line, "lab", 3) == 0 ? 0 : MOMENTS;
        if (!moments) continue;
        remove_results();
        const double begin = now_seconds();
        const outcome *o = run(jobs[i].line);
        if (o->exit) fail_msg("gyre %s: exit %d: %s", jobs[i].line, o->exit, o->err);
        const double seconds = now_seconds() - begin;
        const int entries = count_entries(folder);
        files whole = read_files(&jobs[i]);
        for (int s = 0; s < 3; s++)
            for (long m = 1; m <= moments; m++)
                stop(&jobs[i], &whole, numbers[s], seconds * ((double)m - (s + 1) / 4.0) / (double)moments, entries);
        free_files(&whole);
    }
    remove_results();
}

/* -- links -- */
/* The temporary is beside the file that is made, not beside the link: the handler of the signal knows its name, and the link
 * may lead to a file or to none. */
static void temporary_behind_a_link(void **state) {
    (void)state;
    static const char *const targets[] = {"rope/config.json", "rope/new.json"};
    for (int i = 0; i < 2; i++) {
        char temporary[GYRE_TEMPORARY_PATH_BYTES];
        outcome o;
        assert_int_equal(symlink(targets[i], in_folder("link")), 0);
        const pid_t child = fork();
        if (child == 0) {
            cli_install_signal_handlers();
            cli_set_pending_copy(in_folder("link"));
            (void)gyre_temporary_name(temporary, in_folder(targets[i]), 0);
            _exit(close(open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600)) || raise(SIGTERM));
        }
        write_file(".err", "", 0);
        finish(child, &o);
        assert_int_equal(o.signal, SIGTERM);
        assert_true(gyre_temporary_name_by(temporary, in_folder(targets[i]), (long)child, 0));
        assert_int_equal(access(temporary, F_OK), -1);
        assert_int_equal(unlink(in_folder("link")), 0);
    }
}

/* -- input that does not come -- */
static void first_signal_ends(const char *line, int is_read) {
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int s = 0; s < 2; s++) {
        outcome o;
        int writer = -1;
        const pid_t child = start(line, in_folder(".out"));
        /* Opened without a wait only when the command has opened the other end; before that it waits in open. */
        for (int i = 0; is_read && writer < 0 && i < 10000; i++) {
            writer = open(in_folder("fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
        if (is_read && writer < 0) fail_msg("gyre %s: does not open its input", line);
        if (!is_read) nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        assert_int_equal(kill(child, numbers[s]), 0);
        siginfo_t ended = {0};
        for (int i = 0; i < 10000 && !ended.si_pid; i++) {
            (void)waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT);
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
        if (!ended.si_pid) (void)kill(child, SIGKILL);
        finish(child, &o);
        if (writer >= 0) close(writer);
        if (o.signal != numbers[s] && o.exit != 128 + numbers[s])
            fail_msg("gyre %s: exit %d, signal %d: %s", line, o.exit, o.signal, o.err);
    }
}

static void waiting_for_a_pipe(void **state) {
    (void)state;
    static const char *const lines[] = {"lab --text @fifo --preset smoke --work @result --report @result.html",
                                        "train " TINY "--tokens 1k --text @fifo -o @result",
                                        "eval @rope --text @fifo --contexts 32 --journal @result.log",
                                        "eval @rope --ids @fifo --contexts 32",
                                        "search @rope --text @fifo --to 64 --write @result.json",
                                        "generate @rope --prompt-file @fifo --tokens 3",
                                        "extend @rope --to 256 --text @fifo",
                                        "explain @fifo"};
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    const int entries = count_entries(folder);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int is_read = 0; is_read < 2; is_read++) {
            first_signal_ends(lines[i], is_read);
            remove_results();
            if (count_entries(folder) > entries + 2) fail_msg("gyre %s: leaves files (%s)", lines[i], folder);
        }
    assert_int_equal(unlink(in_folder("fifo")), 0);
}

/* The work is done or stopped, and nobody reads the pipe of the report. */
static void waiting_for_a_reader(void **state) {
    (void)state;
    static const char *const lines[] = {
        "eval @rope --text @text --contexts 32 --windows 2 --report @fifo",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --report @fifo",
        "passkey @rope --lengths 300,320 --depths 2 --trials 1 --figure @fifo",
        "passkey @rope --lengths 300,320 --depths 2 --trials 1 --report @fifo"};
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        first_signal_ends(lines[i], 0);
    assert_int_equal(unlink(in_folder("fifo")), 0);
}

/* -- pipes in folders -- */
/* Nobody writes into them: opening one must not wait.  They are carried over as they are. */
static void pipes_in_folders(void **state) {
    (void)state;
    static const char *const kept[] = {"result/README.md", "result/train.log"};
    const char *line = "train " TINY "--tokens 128 --text @text -o @result";
    const outcome *o = run(line);
    if (o->exit) fail_msg("gyre %s: %s", line, o->err);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mkfifo(in_folder(kept[i]), 0600), 0);
    alarm(60);
    o = run("train --force " TINY "--tokens 128 --text @text -o @result");
    if (o->exit || o->signal) fail_msg("train --force: exit %d, signal %d: %s", o->exit, o->signal, o->err);
    struct stat info;
    for (int i = 0; i < 2; i++)
        assert_true(lstat(in_folder(kept[i]), &info) == 0 && S_ISFIFO(info.st_mode));
    alarm(0);
    remove_results();
}

/* -- disks -- */
/* Mounts a disk of `kib` at "disk" of the folder, in a name space of this process.  out = 0 where that is not allowed. */
static int mount_disk(int kib, unsigned long flags) {
    static int alone;
    char options[40];
    if (!alone && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))) return 0;
    alone = 1;
    (void)mkdir(in_folder("disk"), 0777);
    snprintf(options, sizeof options, "size=%dk", kib);
    return mount("none", in_folder("disk"), "tmpfs", flags, options) == 0;
}

/* Each with a line of the reason. */
static void check_refused(const char *line, const char *reason, const char *result) {
    const outcome *o = run(line);
    if (o->exit != 1 || strncmp(o->err, "gyre: ", 6) != 0 || !strstr(o->err, reason))
        fail_msg("gyre %s: exit %d, signal %d: %s", line, o->exit, o->signal, o->err);
    if (result && access(in_folder(result), F_OK) == 0) fail_msg("gyre %s: leaves %s", line, result);
}

static void full_disk(void **state) {
    (void)state;
    /* The file takes the rest of the disk; a page is left for the names. */
    if (!mount_disk(512, 0)) skip();
    write_text("disk/rest", 127 * 4096);
    check_refused("convert @wide -o @disk/r.gguf", "No space left on device", "disk/r.gguf");
    check_refused("convert @wide -o @disk/r", "No space left on device", "disk/r/model.safetensors");
    check_refused("train " TINY "--tokens 1k --text @text -o @disk/t", "No space left on device",
                  "disk/t/model.safetensors");
    check_refused("generate @rope --prompt abc --tokens 9000 --temperature 0 -o @disk/g", "No space left on device",
                  "disk/g");
    check_refused("eval @rope --text @text --contexts 32 --windows 9000 --stride 2 --report @disk/e.html",
                  "No space left on device", "disk/e.html");
    write_file("disk/page", "x", 1); /* the last one */
    check_refused("lab --text @text --preset smoke --encodings rope --work @disk/l --report @disk/l.html",
                  "No space left on device", "disk/l.html");
    assert_int_equal(unlink(in_folder("disk/rest")) | unlink(in_folder("disk/page")), 0);
    remove_tree(in_folder("disk/l"));
    const outcome *o = run("convert @rope -o @disk/r.gguf"); /* with room, as if nothing had been */
    if (o->exit) fail_msg("%s", o->err);
    assert_int_equal(umount(in_folder("disk")), 0);
}

static void read_only_disk(void **state) {
    (void)state;
    if (!mount_disk(64, MS_RDONLY)) skip();
    static const char *const lines[] = {
        "convert @rope -o @disk/r.gguf",
        "convert @rope -o @disk/r",
        "train " TINY "--tokens 1k --text @text -o @disk/t",
        "generate @rope --prompt abc --tokens 9 -o @disk/g",
        "eval @rope --text @text --contexts 32 --windows 2 --journal @disk/e",
        "eval @rope --text @text --contexts 32 --windows 2 --report @disk/e.html",
        "passkey @rope --lengths 300 --trials 1 -o @disk/p",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --journal @disk/s",
        "lab --text @text --preset smoke --encodings rope --work @disk/l --report @disk/l.html",
        "extend @rope --to 64 --method yarn --write @disk/x.json",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        check_refused(lines[i], "Read-only file system", NULL);
    assert_int_equal(umount(in_folder("disk")), 0);
}

/* The next file that a program opens would get the number of a closed standard output, and what is printed. */
static void closed_stdout(void **state) {
    (void)state;
    static const char *const lines[] = {"explain ./rope",
                                        "eval ./rope --text text --contexts 32 --windows 2 --json --journal c",
                                        "generate ./rope --prompt a --tokens 2",
                                        "audit ./rope",
                                        "help",
                                        "convert ./rope -o closed.gguf --json"};
    char command[1024], text[4096];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(command, sizeof command, "cd %s && %s %s >&- 2>.err", folder, GYRE_COMMAND, lines[i]);
        const int status = system(command);
        read_whole(in_folder(".err"), text, sizeof text);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !strstr(text, "standard output: Bad file descriptor"))
            fail_msg("gyre %s: status %d: %s", lines[i], status, text);
    }
    read_whole(in_folder("c"), text, sizeof text);
    assert_memory_equal(text, "{\"cell\":", 8);
}

/* -- weights that are cut -- */
static void cut_weights(void **state) {
    (void)state;
    static const char *const lines[] = {
        "eval @cut --text @text --contexts 32,4k --windows 999 --stride 32 --journal @cut.log -o @result.txt",
        "passkey @cut --lengths 300,8k --depths 1 --trials 64 --journal @cut.log -o @result.txt"};
    for (int i = 0; i < 2; i++) {
        outcome o;
        write_model("cut", GYRE_KIND_ALIBI);
        remove_tree(in_folder("cut.log"));
        const pid_t child = start(lines[i], in_folder(".out"));
        if (!wait_for_text("cut.log", "}", child)) fail_msg("gyre %s: ended before it measured", lines[i]);
        assert_int_equal(truncate(in_folder("cut/model.safetensors"), 0), 0);
        finish(child, &o);
        const int says = strstr(o.err, "became shorter") || strstr(o.err, "changed while it was read");
        if (o.exit != 1 || !says || strstr(o.err, "nothing was written"))
            fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
        if (access(in_folder("result.txt"), F_OK) == 0) fail_msg("gyre %s: leaves a table", lines[i]);
    }
}

static int make_models(void **state) {
    if (make_folder(state)) return -1;
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.model_dim = 128;
    config.mlp_dim = 256;
    config.layers = 2;
    config.heads = config.kv_heads = 4;
    config.head_dim = 32;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = TRAINED;
    if (gyre_model_create(&model, &config, 1, &err) || gyre_model_save(model, in_folder("wide"), GYRE_DTYPE_F32, &err))
        return -1;
    gyre_model_free(model);
    setenv("GYRE_THREADS", "1", 1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals),     cmocka_unit_test(temporary_behind_a_link), cmocka_unit_test(waiting_for_a_pipe),
        cmocka_unit_test(full_disk),   cmocka_unit_test(read_only_disk),          cmocka_unit_test(closed_stdout),
        cmocka_unit_test(cut_weights), cmocka_unit_test(waiting_for_a_reader),    cmocka_unit_test(pipes_in_folders)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}
