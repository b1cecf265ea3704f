/* kept_files.h: lines of the shell, and whether a command left a file alone. */
#ifndef GYRE_TESTS_KEPT_FILES_H
#define GYRE_TESTS_KEPT_FILES_H
#include "run_command.h"

static char kept[1 << 20], now[1 << 20]; /* the bytes of a file before and after */

static inline size_t read_bytes(const char *name, char *out) {
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t count = fread(out, 1, sizeof kept, file);
    fclose(file);
    return count;
}

/* out = exit status of a line of the shell, run in the folder; $G is the command. */
static inline int shell(const char *line) {
    char whole[4096];
    snprintf(whole, sizeof whole, "cd %s && G=%s && { %s; } 2>>.err", folder, GYRE_COMMAND, line);
    const int status = system(whole); /* NOLINT(cert-env33-c): redirections and limits are what is tested */
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Fails unless the command refuses with a usage error that says this, and the file has its old bytes. */
static inline void assert_kept(const char *line, const char *name, const char *says) {
    const size_t before = read_bytes(name, kept);
    assert_true(before > 0);
    assert_fails(line, 2, says);
    const size_t after = read_bytes(name, now);
    if (before != after || memcmp(kept, now, before) != 0) fail_msg("gyre %s: %s was changed", line, name);
}

/* The same with --force. */
static inline void assert_never_written(const char *line, const char *name, const char *says) {
    char forced[512];
    snprintf(forced, sizeof forced, "%s --force", line);
    assert_kept(line, name, says);
    assert_kept(forced, name, says);
}

/* Fails unless the command keeps the file and names --force, with which it replaces it.  The file is then put back. */
static inline void assert_asks(const char *line, const char *name) {
    static char before[sizeof kept];
    char forced[512];
    assert_kept(line, name, "exists; --force replaces it");
    const size_t count = read_bytes(name, before);
    snprintf(forced, sizeof forced, "%s --force", line);
    const outcome *o = run(forced);
    if (o->exit) fail_msg("gyre %s: exit %d: %s", forced, o->exit, o->err);
    const size_t after = read_bytes(name, now);
    if (after == count && memcmp(before, now, count) == 0) fail_msg("gyre %s: %s is the old one", forced, name);
    write_file(name, before, count);
}

#endif
