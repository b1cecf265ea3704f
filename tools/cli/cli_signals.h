/* cli_signals.h: Ctrl-C. */
#ifndef GYRE_TOOLS_CLI_SIGNALS_H
#define GYRE_TOOLS_CLI_SIGNALS_H
#include "gyre/gyre.h"

/* SIGINT, SIGTERM, SIGHUP and SIGPIPE remove unfinished outputs, then end the program.  main calls this once. */
void cli_install_signal_handlers(void);
/* Ends the command with an error and status 1, its unfinished outputs removed: for an allocation that failed in the
 * middle of a library that does not survive it. */
_Noreturn void cli_end_without_memory(void);

/* The handlers also remove the unfinished copy that gyre_reading_write makes beside `target` (a file, not a folder).
 * NULL = none any more. */
void cli_set_pending_copy(const char *target);

/* From now on the first signal only makes cli_interrupted() true.  For commands that have something to save. */
void cli_defer_signals(void);
/* The same for commands that read windows of a text: the first Ctrl-C also says on stderr that they stop soon. */
void cli_defer_signals_to_window(void);
/* From now on the first signal ends the program again, for a wait after the work that signals were deferred for. */
void cli_stop_deferring_signals(void);
/* Called before a report or a figure is written, which comes last.  If `path` is a pipe, opening it waits for a reader,
 * and no signal ends a wait while signals are deferred: then they are no longer.  EIO: a signal came before, and there
 * is no reader. */
gyre_status cli_signals_before_pipe(const char *path, gyre_error *err);
int cli_interrupted(void);
/* out = 1 if a pipe that is written to has lost its reader (SIGPIPE).  Errors of standard output are then not printed. */
int cli_pipe_closed(void);
/* Does what SIGPIPE does, for a write that failed on a thread whose signals are blocked; nothing where the caller of the
 * command ignores SIGPIPE. */
void cli_note_closed_pipe(void);
/* Whether this process has seen a signal, with the type of the library's stop callbacks. */
int cli_stops(void *unused);

/* -- a process of several (tools/team) -- */
/* From now on cli_interrupted is 1 only after cli_share_signal: all processes then stop at the same step. */
void cli_wait_for_shared_signal(void);
/* out = the number of the signal that this process has seen, 0 = none. */
int cli_signal_seen(void);
/* number: of a signal that one of the processes has seen; 0 = none. */
void cli_share_signal(int number);

/* out = the exit status of the command: 130 after a Ctrl-C that it lived through, 143 after SIGTERM, 141 after SIGPIPE, as
 * shells count a program that a signal ends; else `status`. */
int cli_exit_status(int status);

#endif
