/* cli_parse.h: the options of a subcommand: its own table plus --threads, --json, --output and --help; and
 * that table for man pages and completion. */
#ifndef GYRE_TOOLS_CLI_PARSE_H
#define GYRE_TOOLS_CLI_PARSE_H
#include "gyre/gyre.h"
#include <argp.h>

/* Values of the common options.  The options struct of a command begins with this struct. */
typedef struct cli_options {
    int threads;        /* --threads, else GYRE_THREADS, else 0 = one per processor */
    int json;           /* --json */
    const char *output; /* --output; NULL = standard output */
} cli_options;
enum { CLI_THREADS = 1, CLI_JSON = 2, CLI_OUTPUT = 4 };
/* A command numbers its own options from here.  Smaller keys belong to shared options and to argp. */
enum { CLI_FIRST_KEY = 0x200 };

/* Parses argv with the command's own options and the common ones named in `takes`.  argp->parser gets `options` as input.
 * --help prints and exits with 0.  A wrong option exits with CLI_USAGE. */
void cli_parse(const struct argp *argp, unsigned takes, int argc, char **argv, cli_options *options);

/* The table of a command, as --help prints it. */
typedef struct cli_description {
    const char *title;                      /* "gyre eval" */
    const struct argp_option *own, *common; /* common: --threads and what else every command may have */
    const char *arguments, *text;           /* as argp has them: "MODEL"; paragraphs, with \v before the second part */
} cli_description;
/* From now on cli_parse does not parse: it passes the table of its command to `describe` and exits with the result.
 * context: passed on; borrowed. */
void cli_parse_describe(int (*describe)(const cli_description *description, const void *context), const void *context);

/* Creates the thread pool of a command; *exec is valid as long as the pool.  out = 0, or CLI_FAILED with the error
 * printed. */
int cli_pool_open(const cli_options *options, gyre_pool **pool, gyre_exec *exec);

/* out[0 .. size - 1] = the command line that runs this again, quoted for a shell. */
void cli_command_line(int argc, char **argv, char *out, size_t size);

#endif
