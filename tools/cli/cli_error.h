/* cli_error.h: errors and warnings of the command.
 *
 * An error is one line on stderr, `gyre: what: why (where)`.  The command then exits with 1 (failed) or 2 (wrong usage).
 * Functions that do not print set a gyre_error with gyre_fail of util/error.h. */
#ifndef GYRE_TOOLS_CLI_ERROR_H
#define GYRE_TOOLS_CLI_ERROR_H
#include "util/error.h"

enum { CLI_FAILED = 1, CLI_USAGE = 2 };

/* Prints "gyre: " and the text, which reads "what: why (where)".  Control characters are printed as '?'.
 * out = CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the text of an error from the library in the same form.  out = CLI_FAILED. */
int cli_fail_error(const gyre_error *err);

/* Prints a warning on stderr.  It does not change the exit status. */
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "what: why" and a hint to --help, then exits with CLI_USAGE.  For use before work begins. */
_Noreturn void cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on nothing is printed: this process is one of several (tools/team), and another one speaks. */
void cli_silence(void);
int cli_is_silent(void);
/* out = the last error or warning, printed or not; "" before the first. */
const char *cli_last_error(void);

/* name: "gyre eval", for messages; borrowed. */
void cli_set_command_name(const char *name);

#endif
