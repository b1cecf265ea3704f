/* cli_output.h: where a command prints its result: standard output, or a file that is replaced atomically; as plain text
 * (plain_stream.h).
 *
 * At most two files are open at the same time, and the last one is closed first. */
#ifndef GYRE_TOOLS_CLI_OUTPUT_H
#define GYRE_TOOLS_CLI_OUTPUT_H
#include <stdio.h>

typedef struct cli_output {
    FILE *file;
    const char *path; /* borrowed; NULL for standard output */
    int raw;          /* 1: byte for byte */
} cli_output;

/* path: --output; NULL = standard output.  Called before the work, so that a wrong path is found early.
 * out = 0, or CLI_FAILED with the error printed. */
int cli_output_open(cli_output *output, const char *path);
/* The same for text that is data, such as what a model writes: byte for byte, but on a terminal as plain text without
 * codes of colour, which the command could not distinguish from its own. */
int cli_output_open_raw(cli_output *output, const char *path);
/* status: the exit status of the work; if not 0, the file is discarded.  out = status, or CLI_FAILED if writing failed. */
int cli_output_close(cli_output *output, int status);
/* out = what a stream of these functions writes to, for errors: "standard output" or the file's name, until it is closed;
 * NULL for another stream. */
const char *cli_output_name(const FILE *stream);
/* out = standard output as plain text.  Ends the program with CLI_FAILED if memory runs out. */
FILE *cli_stdout(void);
/* Called once, after the command.  out = status, or CLI_FAILED with the error printed if standard output took not all. */
int cli_stdout_close(int status);
/* Discards the files that are open: a process may run another command after one that ended before it closed them. */
void cli_output_forget(void);
/* Removes the temporary files of open outputs.  Async-signal-safe. */
void cli_output_remove_in_handler(void);

#endif
