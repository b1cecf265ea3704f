/* run_command.h: runs the built command in a folder of its own. */
#ifndef GYRE_TESTS_RUN_COMMAND_H
#define GYRE_TESTS_RUN_COMMAND_H
#include "gyre/gyre_model.h"
#include "model/model.h"
#include "temp_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { ARGUMENTS = 40, TEXT = 16384, TRAINED = 32 };

/* -- a folder with models and texts -- */
/* Random letters and spaces, rather than one repeated byte. */
static inline void write_text(const char *name, size_t bytes) {
    char *text = malloc(bytes);
    assert_non_null(text);
    test_random random = {7};
    for (size_t i = 0; i < bytes; i++) {
        const uint64_t draw = test_next(&random) >> 33;
        text[i] = (char)(draw % 6 ? 'a' + draw % 26 : ' ');
    }
    write_file(name, text, bytes);
    free(text);
}

/* Two heads of 16 channels. */
static inline gyre_model_config small_config(gyre_kind kind, int64_t layers, int64_t trained) {
    gyre_model_config config = gyre_model_config_default();
    config.model_dim = 32;
    config.layers = layers;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.mlp_dim = 32;
    config.position.kind = kind;
    config.position.trained_length = trained;
    return config;
}

static inline gyre_model *create_model(const gyre_model_config *config, uint64_t seed) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_create(&model, config, seed, &err)) fail_msg("%s", err.text);
    return model;
}

/* Frees it too. */
static inline void save_model(gyre_model *model, const char *name, gyre_dtype dtype) {
    gyre_error err = {0, ""};
    if (gyre_model_save(model, in_folder(name), dtype, &err)) fail_msg("%s", err.text);
    gyre_model_free(model);
}

static inline void write_model_with(const char *name, gyre_kind kind, int64_t layer_parts) {
    gyre_model_config config = small_config(kind, 1, TRAINED);
    config.layer_parts = layer_parts;
    if (kind == GYRE_KIND_T5) config.position.score.buckets = 32, config.position.score.max_distance = 128;
    if (kind == GYRE_KIND_LEARNED) config.position.input.positions = 2 * TRAINED;
    save_model(create_model(&config, 1), name, GYRE_DTYPE_F32);
}

static inline void write_model(const char *name, gyre_kind kind) {
    write_model_with(name, kind, 0);
}

static inline int make_folder(void **state) {
    if (make_empty_folder(state)) return -1;
    write_model("rope", GYRE_KIND_ROPE);
    write_model("alibi", GYRE_KIND_ALIBI);
    write_model("learned", GYRE_KIND_LEARNED);
    write_text("text", TEXT);
    write_text("short", 10);
    write_file("empty", "", 0);
    write_file("ids", "1 2 3, 4 5\n250", 14);
    write_file("words", "1 2 three", 9);
    write_file("high", "1 2 256", 7);
    if (mkdir(in_folder("texts"), 0777) || mkdir(in_folder("nothing"), 0777)) return -1;
    write_text("texts/a", 1000);
    write_text("texts/b", 500);
    return 0;
}

/* -- running the command -- */
typedef struct outcome {
    int exit, signal; /* exit: -1 if a signal ended it */
    char out[1 << 18], err[1 << 14];
} outcome;

static inline void read_whole(const char *path, char *out, size_t room) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    out[fread(out, 1, room - 1, file)] = 0;
    fclose(file);
}

/* Splits arguments at spaces. "@name" is replaced by a path in the folder, "@@" by "@".  err: of stderr.  A shell without
 * job control lets its background jobs ignore SIGINT, and programs would inherit that: the child has the default. */
static inline pid_t start_with_stderr(const char *line, const char *out, const char *err) {
    static char texts[ARGUMENTS][256];
    char *arguments[ARGUMENTS + 1], copy[1024], *rest = copy;
    int count = 0;
    arguments[count++] = (char *)"gyre";
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strtok_r(rest, " ", &rest)); count++) {
        assert_true(count < ARGUMENTS);
        const char *marked = strchr(word, '@');
        if (marked && marked[1] == '@')
            snprintf(texts[count], sizeof texts[count], "%.*s%s", (int)(marked - word), word, marked + 1);
        else if (marked)
            snprintf(texts[count], sizeof texts[count], "%.*s%s", (int)(marked - word), word, in_folder(marked + 1));
        else
            snprintf(texts[count], sizeof texts[count], "%s", word);
        arguments[count] = texts[count];
    }
    arguments[count] = NULL;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t interrupt;
    pid_t child;
    assert_int_equal(posix_spawn_file_actions_init(&files), 0);
    assert_int_equal(posix_spawnattr_init(&attributes), 0);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    assert_int_equal(posix_spawnattr_setsigdefault(&attributes, &interrupt), 0);
    assert_int_equal(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF), 0);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0666);
    assert_int_equal(posix_spawn(&child, GYRE_COMMAND, &files, &attributes, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return child;
}

static inline pid_t start(const char *line, const char *out) {
    return start_with_stderr(line, out, in_folder(".err"));
}

static inline void finish(pid_t child, outcome *o) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    o->exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    read_whole(in_folder(".err"), o->err, sizeof o->err);
}

/* out = 1 once the file holds the text, 0 if the child ends before. */
static inline int wait_for_text(const char *name, const char *text, pid_t child) {
    static char found[1 << 16];
    siginfo_t ended = {0};
    do {
        FILE *file = fopen(in_folder(name), "r");
        found[file ? fread(found, 1, sizeof found - 1, file) : 0] = 0;
        if (file) fclose(file);
        if (strstr(found, text)) return 1;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    } while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0);
    return 0;
}

static inline outcome *run(const char *line) {
    static outcome o;
    finish(start(line, in_folder(".out")), &o);
    read_whole(in_folder(".out"), o.out, sizeof o.out);
    return &o;
}

/* Fails unless the command fails with this status, no output, and one line "gyre: what: why (where)" that contains
 * `says`. */
static inline void assert_fails(const char *line, int status, const char *says) {
    const outcome *o = run(line);
    const size_t length = strlen(o->err);
    if (o->exit != status)
        fail_msg("gyre %s: exit %d (signal %d), expected %d: %s", line, o->exit, o->signal, status, o->err);
    const int shaped = strncmp(o->err, "gyre: ", 6) == 0 && length > 8 && strchr(o->err, '\n') == o->err + length - 1 &&
                       strcmp(o->err + length - 2, ")\n") == 0 && strstr(o->err + 6, ": ") && strchr(o->err, '(');
    if (!shaped) fail_msg("gyre %s: not one line of \"gyre: what: why (where)\": %s", line, o->err);
    if (!strstr(o->err, says)) fail_msg("gyre %s: \"%s\" lacks \"%s\"", line, o->err, says);
    if (o->out[0]) fail_msg("gyre %s: failed, yet printed: %s", line, o->out);
}

static inline json_t *run_json(const char *line) {
    const outcome *o = run(line);
    if (o->exit) fail_msg("gyre %s: exit %d (signal %d): %s", line, o->exit, o->signal, o->err);
    json_error_t error;
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("gyre %s: line %d: %s: %s", line, error.line, error.text, o->out);
    return root;
}

#endif
