/* cli_output.h: where a command prints its result: standard output, or a file that is replaced atomically.
 *
 * At most two files are open at the same time, and the last one is closed first. */
#ifndef GYRE_TOOLS_CLI_OUTPUT_H
#define GYRE_TOOLS_CLI_OUTPUT_H
#include <stdio.h>

typedef struct cli_output {
    FILE *file;
    const char *path; /* borrowed; NULL for standard output */
} cli_output;

/* path: --output; NULL = standard output.  Called before the work, so that a wrong path is found early.
 * out = 0, or CLI_FAILED with the error printed. */
int cli_output_open(cli_output *output, const char *path);
/* status: the exit status of the work; if not 0, the file is discarded.  out = status, or CLI_FAILED if writing failed. */
int cli_output_close(cli_output *output, int status);
/* Removes the temporary files of open outputs.  Async-signal-safe. */
void cli_output_remove_in_handler(void);

#endif
