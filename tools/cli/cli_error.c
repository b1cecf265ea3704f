/* cli_error.c: messages on stderr. */
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_signals.h"
#include "tools/cli/plain_stream.h"
#include "util/plain_numbers.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *command_name = "gyre";
static char last_error[2048];
static int silent;

void cli_silence(void) {
    if (!silent && !freopen("/dev/null", "w", stdout)) exit(CLI_FAILED);
    silent = 1;
}

int cli_is_silent(void) {
    return silent;
}

const char *cli_last_error(void) {
    return last_error;
}

void cli_set_command_name(const char *name) {
    command_name = name;
}

/* out = 1 if the text gives EPIPE as its reason: "what: Broken pipe", with or without " (where)".  A file of that name
 * does not count. */
static int gives_closed_pipe(const char *text) {
    const char *reason = strerror(EPIPE);
    const size_t length = strlen(reason);
    for (const char *at = text; (at = strstr(at, reason)) != NULL; at += length)
        if (at - text >= 2 && strncmp(at - 2, ": ", 2) == 0 && (at[length] == 0 || strncmp(at + length, " (", 2) == 0))
            return 1;
    return 0;
}

static int is_about_output(const char *text) {
    static const char output[] = "standard output: ";
    return strncmp(text, output, sizeof output - 1) == 0 || gives_closed_pipe(text);
}

/* Prints one line even if a file name contains line breaks: those become '?', and other controls what plain_text makes of
 * them. */
static void print_line(const char *format, va_list arguments, const char *end) {
    char text[1024];
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    if (gives_closed_pipe(text)) cli_note_closed_pipe();    /* unless all descriptors have their readers */
    if (cli_pipe_closed() && is_about_output(text)) return; /* its reader wanted no more */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    plain_text(last_error, sizeof last_error, text);
    if (silent) return;
    cli_progress_erase();
    fprintf(stderr, "gyre: %s%s\n", last_error, end);
}

int cli_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
    return CLI_FAILED;
}

int cli_fail_error(const gyre_error *err) {
    const size_t length = strlen(err->text);
    if (length && err->text[length - 1] == ')') return cli_fail("%s", err->text);
    return cli_fail("%s (%s)", err->text, command_name); /* it did not say where */
}

void cli_warn(const char *format, ...) {
    if (cli_pipe_closed()) return; /* about a result that nobody reads any more */
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
}

void cli_usage_error(const char *format, ...) {
    char where[64];
    snprintf(where, sizeof where, " (try %s --help)", command_name);
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, where);
    va_end(arguments);
    exit(CLI_USAGE);
}
