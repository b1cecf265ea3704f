/* cli_signals.c: Ctrl-C, and the unfinished files that it removes. */
/* For realpath. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): POSIX defines this name
#include "tools/cli/cli_signals.h"
#include "tools/cli/cli_progress.h"
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The signal handler reads these, so they are static instead of members of the structs that use them. */
static char pending_file[PATH_MAX], pending_copy[PATH_MAX + 48];
static volatile sig_atomic_t file_pending, copy_pending, deferred, interrupted;

static void on_signal(int number) {
    if (deferred && !interrupted) {
        interrupted = 1;
        return;
    }
    if (file_pending) (void)unlink(pending_file);
    if (copy_pending) (void)unlink(pending_copy);
    cli_progress_erase_in_handler();
    /* Ends the program by the same signal, which tells a calling script the reason.  It is delivered when this handler
     * returns. */
    struct sigaction fatal = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &fatal, NULL);
    (void)raise(number);
}

void cli_install_signal_handlers(void) {
    const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaddset(&action.sa_mask, SIGINT);
        (void)sigaddset(&action.sa_mask, SIGTERM);
        /* A shell starts background jobs with SIGINT ignored.  It stays ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) (void)sigaction(numbers[i], &action, NULL);
    }
    /* Writing past the file size limit (ulimit -f) then fails with an error that is reported and cleaned up. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

void cli_set_pending_file(const char *path) {
    file_pending = 0;
    if (!path) return;
    snprintf(pending_file, sizeof pending_file, "%s", path);
    file_pending = 1;
}

const char *cli_pending_file(void) {
    return file_pending ? pending_file : NULL;
}

void cli_set_pending_copy(const char *target) {
    copy_pending = 0;
    if (!target) return;
    char *real = realpath(target, NULL); /* of a link, the file behind it is replaced */
    snprintf(pending_copy, sizeof pending_copy, "%.4095s.%ld-0.tmp", real ? real : target, (long)getpid());
    free(real);
    copy_pending = access(pending_copy, F_OK) != 0;
}

void cli_defer_signals(void) {
    deferred = 1;
}

int cli_interrupted(void) {
    return interrupted;
}
