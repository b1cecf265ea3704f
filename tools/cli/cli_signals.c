/* cli_signals.c: Ctrl-C, and the unfinished files that it removes. */
/* For SIGXFSZ. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): POSIX defines this name
#include "tools/cli/cli_signals.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_progress.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/path.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* Read by the signal handler.  pending_copy: the temporary that gyre_reading_write makes beside its target. */
static char pending_copy[GYRE_TEMPORARY_PATH_BYTES];
static volatile sig_atomic_t copy_pending, deferred, interrupted, pipe_closed; /* interrupted: the signal's number */
static volatile sig_atomic_t measures;                                         /* 1: the current step may take long */

static int waits_for_shared, shared; /* shared: the number of a signal that one of several processes has seen */

/* Without a line, a step that takes long looks as if Ctrl-C had been lost. */
static void say_stopping_in_handler(void) {
    static const char text[] = "gyre: stopping after this window; Ctrl-C again stops at once\n";
    const int kept = errno;
    cli_progress_erase_in_handler();
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* The terminal is gone, so it has no reader. */
    }
    errno = kept;
}

static void on_signal(int number) {
    if (number == SIGPIPE) pipe_closed = 1;
    if (deferred && (!interrupted || number == SIGPIPE)) { /* every further write raises SIGPIPE again */
        if (!interrupted) interrupted = number;
        if (measures && number == SIGINT && !cli_is_silent()) say_stopping_in_handler();
        return;
    }
    cli_output_remove_in_handler();
    if (copy_pending) (void)unlink(pending_copy);
    cli_progress_erase_in_handler();
    /* Ends the program by the same signal, so that a calling script sees the reason.  It is delivered when this handler
     * returns. */
    struct sigaction fatal = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &fatal, NULL);
    (void)raise(number);
}

/* A page of a mapped file is gone: somebody shortened the file, or its disk failed.  Nothing is left to compute with. */
static void on_bus_error(int number) {
    static const char text[] =
        "gyre: reading: a file became shorter while it was read, or its disk failed; no result was written but what a "
        "journal, a work folder or an earlier checkpoint holds (SIGBUS)\n";
    cli_output_remove_in_handler();
    if (copy_pending) (void)unlink(pending_copy);
    cli_progress_erase_in_handler();
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 128 + number : 1);
}

_Noreturn void cli_end_without_memory(void) {
    static const char text[] = "gyre: out of memory: nothing more was written (a result)\n";
    cli_output_remove_in_handler();
    if (copy_pending) (void)unlink(pending_copy);
    cli_progress_erase_in_handler();
    _exit(!cli_is_silent() && write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 128 : 1);
}

void cli_install_signal_handlers(void) {
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE}; /* SIGHUP: the terminal was closed */
    for (int i = 0; i < 4; i++) {
        struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaddset(&action.sa_mask, SIGINT);
        (void)sigaddset(&action.sa_mask, SIGTERM);
        (void)sigaddset(&action.sa_mask, SIGHUP);
        (void)sigaddset(&action.sa_mask, SIGPIPE);
        /* A shell starts background jobs with SIGINT ignored.  It stays ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) (void)sigaction(numbers[i], &action, NULL);
    }
    struct sigaction bus = {.sa_handler = on_bus_error};
    (void)sigemptyset(&bus.sa_mask);
    (void)sigaction(SIGBUS, &bus, NULL);
    /* Writing past the file size limit (ulimit -f) then fails with an error that is reported and cleaned up. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

void cli_set_pending_copy(const char *target) {
    copy_pending = 0;
    if (!target) return;
    char end[PATH_MAX]; /* of a link, the file behind it is replaced, or made */
    copy_pending =
        gyre_link_end(target, end) == 0 && gyre_temporary_name(pending_copy, end, 0) && access(pending_copy, F_OK) != 0;
}

void cli_defer_signals(void) {
    deferred = 1;
}

void cli_defer_signals_to_window(void) {
    measures = deferred = 1;
}

void cli_stop_deferring_signals(void) {
    measures = deferred = 0;
}

gyre_status cli_signals_before_pipe(const char *path, gyre_error *err) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode)) return GYRE_OK;
    cli_stop_deferring_signals();
    if (!interrupted) return GYRE_OK;
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENXIO) return gyre_fail(err, GYRE_EIO, "%s: stopped, because nobody reads this pipe", path);
    if (fd >= 0) close(fd);
    return GYRE_OK;
}

int cli_interrupted(void) {
    return waits_for_shared ? shared != 0 : interrupted != 0;
}

int cli_pipe_closed(void) {
    return pipe_closed != 0;
}

/* out = 1 if a pipe or socket that this program may write to has no reader: standard output or error, or one that it
 * opened.  Those are closed on exec; other descriptors that a caller left open do not count. */
static int some_reader_left(void) {
    enum { MOST = 256 };
    struct pollfd files[MOST];
    struct stat info;
    int left = 0;
    for (int i = 0; i < MOST; i++)
        files[i] = (struct pollfd){.fd = i};
    if (poll(files, MOST, 0) <= 0) return 0;
    for (int i = 0; i < MOST && !left; i++) {
        const int own = i == STDOUT_FILENO || i == STDERR_FILENO || (i && (fcntl(i, F_GETFD) & FD_CLOEXEC));
        const int gone = own && (files[i].revents & (POLLERR | POLLHUP)) && fstat(i, &info) == 0;
        left = gone && ((S_ISFIFO(info.st_mode) && (files[i].revents & POLLERR)) || S_ISSOCK(info.st_mode));
    }
    return left;
}

void cli_note_closed_pipe(void) {
    struct sigaction current;
    if (sigaction(SIGPIPE, NULL, &current) != 0 || current.sa_handler != on_signal || !some_reader_left()) return;
    pipe_closed = 1;
    if (!interrupted) interrupted = SIGPIPE;
}

int cli_stops(void *unused) {
    (void)unused;
    return interrupted != 0;
}

void cli_wait_for_shared_signal(void) {
    waits_for_shared = 1;
}

int cli_signal_seen(void) {
    return interrupted;
}

void cli_share_signal(int number) {
    if (number) shared = number;
}

int cli_exit_status(int status) {
    return cli_interrupted() ? 128 + (waits_for_shared ? shared : interrupted) : status;
}
