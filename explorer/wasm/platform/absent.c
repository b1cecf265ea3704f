/* absent.c: what a page does not have: signals, locks between processes, folders to replace, the program gnuplot.  These
 * functions take the place of the files of the same names in src and tools, which cmake/explorer.cmake leaves out. */
#define _DEFAULT_SOURCE /* madvise; NOLINT(bugprone-reserved-identifier): the C library names this macro */
#include "files/replace_folder.h"
#include "report/report_internal.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_signals.h"
#include "tools/cli/temporary_folder.h"
#include "util/error.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- the C library -- */
int madvise(void *memory, size_t bytes, int advice) {
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

/* There are no links, and the working folder is the root. */
char *realpath(const char *path, char *out); /* wasi-libc declares none */
char *realpath(const char *path, char *out) {
    char full[PATH_MAX];
    struct stat info;
    if (stat(path, &info)) return NULL;
    const int n = snprintf(full, sizeof full, "%s%s", *path == '/' ? "" : "/", path);
    if (n < 0 || n >= (int)sizeof full) return NULL;
    if (!out) return strdup(full);
    memcpy(out, full, (size_t)n + 1);
    return out;
}

/* -- cli_signals.c -- */
void cli_install_signal_handlers(void) {}
void cli_set_pending_copy(const char *target) {
    (void)target;
}
void cli_defer_signals(void) {}
void cli_defer_signals_to_window(void) {}
int cli_interrupted(void) {
    return 0;
}
int cli_pipe_closed(void) {
    return 0;
}
void cli_note_closed_pipe(void) {}
_Noreturn void cli_end_without_memory(void) {
    exit(cli_fail("out of memory: nothing more was written (a result)"));
}
int cli_stops(void *unused) {
    (void)unused;
    return 0;
}
int cli_exit_status(int status) {
    return status;
}
void cli_stop_deferring_signals(void) {}
gyre_status cli_signals_before_pipe(const char *path, gyre_error *err) {
    (void)path, (void)err;
    return GYRE_OK;
}

/* -- cli_lock.c: every run has files of its own -- */
gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err) {
    (void)path, (void)err;
    lock->file = -1;
    return GYRE_OK;
}
void cli_lock_release(cli_lock *lock) {
    (void)lock;
}

/* -- temporary_folder.c -- */
gyre_status temporary_folder_create(temporary_folder *folder, const char *command, gyre_error *err) {
    static int made;
    folder->lock = -1;
    snprintf(folder->path, sizeof folder->path, "/tmp-%s-%d", command, made++);
    if (mkdir(folder->path, 0777) == 0) return GYRE_OK;
    folder->path[0] = 0;
    return gyre_fail(err, GYRE_EIO, "folder: cannot be made (%s)", command);
}

/* A command tries one file out. */
void temporary_folder_remove(temporary_folder *folder) {
    static const char *const names[] = {"config.json", "model.gguf"};
    char path[sizeof folder->path + 16];
    for (size_t i = 0; i < sizeof names / sizeof *names && folder->path[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        unlink(path);
    }
    if (folder->path[0]) rmdir(folder->path);
    folder->path[0] = 0;
}

/* -- replace_folder.c: writes models, which no command here does -- */
static gyre_status no_models(gyre_error *err) {
    return gyre_fail(err, GYRE_EUNSUPPORTED, "folder: models are not written in a page");
}
gyre_status gyre_folder_recover(const char *final, gyre_error *err) {
    (void) final, (void)err;
    return GYRE_OK;
}
gyre_status gyre_folder_begin(gyre_folder_replacement *folder, const char *final, gyre_error *err) {
    (void)folder, (void) final;
    return no_models(err);
}
gyre_status gyre_folder_path(const gyre_folder_replacement *folder, const char *name, char out[PATH_MAX], gyre_error *err) {
    (void)folder, (void)name, (void)out;
    return no_models(err);
}
gyre_status gyre_folder_write(const gyre_folder_replacement *folder, const char *name, const char *text, gyre_error *err) {
    (void)folder, (void)name, (void)text;
    return no_models(err);
}
gyre_status gyre_folder_copy(const gyre_folder_replacement *folder, const char *name, const char *from, gyre_error *err) {
    (void)folder, (void)name, (void)from;
    return no_models(err);
}
gyre_status gyre_folder_commit(gyre_folder_replacement *folder, gyre_error *err) {
    (void)folder;
    return no_models(err);
}
void gyre_folder_discard(gyre_folder_replacement *folder) {
    (void)folder;
}

/* -- gnuplot.c: draws figures of reports -- */
void gyre_report_plotter_end(gyre_report_plotter *plotter) {
    (void)plotter;
}
gyre_status gyre_report_gnuplot(gyre_report_plotter *plotter, const gyre_report_canvas *canvas,
                                const gyre_report_buffer *script, char **out, gyre_error *err) {
    (void)plotter, (void)canvas, (void)script, (void)out;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "gnuplot: not in a page (figure)");
}
