/* cli.h: what every subcommand of gyre does the same way: options, errors, Ctrl-C, progress, files, JSON.
 *
 * Errors are one line, `gyre: what: why (where)`, on stderr; the command ends with 0 (done), 1 (failed) or 2 (usage). */
#ifndef GYRE_TOOLS_CLI_H
#define GYRE_TOOLS_CLI_H
#include "gyre/gyre.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include <argp.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* argv[0] is "gyre NAME".  out = the exit status. */
int cmd_lab(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_extend(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_search(int argc, char **argv);
int cmd_passkey(int argc, char **argv);
int cmd_generate(int argc, char **argv);

enum { CLI_FAILED = 1, CLI_USAGE = 2 };

/* -- errors -- */
/* Prints "gyre: " and the text, which reads "what: why (where)"; control characters come out as '?'.  out = CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with the text of an error from the library. */
int cli_fail_error(const gyre_error *err);
/* A remark on stderr that changes nothing in how the command ends. */
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text reads "what: why"; where to read more is added.  Ends the program with CLI_USAGE: for use before work begins. */
_Noreturn void cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* -- options -- */
/* Options that several commands have: a command's own options begin with this struct. */
typedef struct cli_options {
    int threads;        /* --threads, else GYRE_THREADS, else 0 = one per processor */
    int json;           /* --json */
    const char *output; /* -o FILE; NULL = standard output */
} cli_options;
enum { CLI_THREADS = 1, CLI_JSON = 2, CLI_OUTPUT = 4 };
/* A command numbers its options from here on; those below belong to the common ones and to argp. */
enum { CLI_FIRST_KEY = 0x200 };

/* Reads argv with the command's own options and the common ones named in `takes`; argp->parser gets `options` as input.
 * --help prints and ends the program; so does a wrong option, with CLI_USAGE. */
void cli_parse(const struct argp *argp, unsigned takes, int argc, char **argv, cli_options *options);

/* The value of an option, or cli_usage_error: `option` is how the message calls it. */
int64_t cli_integer(const char *option, const char *text, int64_t least, int64_t most); /* 4096, 4k, 1M: k = 1024 */
double cli_number(const char *option, const char *text, double least, double most);
gyre_dtype cli_dtype(const char *option, const char *text); /* f32, f16, bf16 */
/* *out = the integers of a comma list; the caller frees them.  out = how many, at least 1. */
int64_t cli_integers(const char *option, const char *text, int64_t least, int64_t most, int64_t **out);
/* out = the index of text in names[0 .. count - 1]. */
int cli_choice(const char *option, const char *text, const char *const *names, int count);

/* Threads for a command: exec is valid as long as the pool.  0, or CLI_FAILED with the error printed. */
int cli_pool_open(const cli_options *options, gyre_pool **pool, gyre_exec *exec);

/* -- Ctrl-C -- */
/* SIGINT and SIGTERM remove a half-written output file, then end the program.  Called once, by main. */
void cli_install_signal_handlers(void);
/* Both signals also remove the temporary of a gyre_reading_write to `target`, which is a file, not a folder.  NULL ends it. */
void cli_set_pending_copy(const char *target);
/* From now on the first of them only makes cli_interrupted() true, for a command that has something to save. */
void cli_defer_signals(void);
int cli_interrupted(void);

/* -- runs -- */
/* What a person types to run this again: argv, quoted where the shell asks for it. */
void cli_command_line(int argc, char **argv, char *out, size_t size);
/* Only one run at a time may write `path`: takes path.lock until cli_lock_release or the end of the process.  EIO: another
 * has it. */
typedef struct cli_lock {
    int file;
    char path[4096];
} cli_lock;
gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err);
void cli_lock_release(cli_lock *lock);

/* -- progress -- */
/* A bar on stderr, if that is a terminal and the work takes longer than a second. */
typedef struct cli_progress {
    pthread_mutex_t lock;
    const char *unit; /* "tokens": of the rate */
    char label[64];
    int64_t done, total;
    int enabled; /* stderr is a terminal */
    struct timespec started, last_drawn;
} cli_progress;

void cli_progress_begin(cli_progress *progress, const char *label, const char *unit, int64_t all);
/* What the bar says, short: "step 120, loss 1.52". */
void cli_progress_label(cli_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `step` more are done; fits the progress callbacks of the library (their `all` is not used).  From any thread. */
void cli_progress_step(void *progress, int64_t step, int64_t all);
/* So many of all are done now: where a part took less than planned. */
void cli_progress_set(cli_progress *progress, int64_t done);
/* Erases the bar. */
void cli_progress_end(cli_progress *progress);

/* -- results -- */
/* Standard output, or a file that is replaced atomically.  At most two files are open at once; the last one closes first. */
typedef struct cli_output {
    FILE *file;
    const char *path; /* the caller's; NULL for standard output */
} cli_output;
/* A usage error where what `option` names would replace a file of the model, a file or a folder, that it is about.  target
 * and model may be NULL. */
void cli_check_target(const char *option, const char *target, const char *model);
void cli_check_output(const char *output, const char *model); /* the same of --output */
/* Opened before the work, so that a wrong path is found before it.  0, or CLI_FAILED with the error printed. */
int cli_output_open(cli_output *output, const char *path);
/* status: of the work; where it is not 0 a file is dropped.  out = status, or CLI_FAILED if writing failed. */
int cli_output_close(cli_output *output, int status);

/* Writes root with a newline and releases it.  NULL root: memory ran out, reported. */
int cli_json_write(FILE *file, json_t *root);
int cli_json_line(json_t *root); /* the same on one line of standard output, at once: for results that come one by one */
json_t *cli_json_number(double value); /* null where JSON has no number for it */
json_t *cli_json_hash(uint64_t hash);  /* "fnv1a64:0123456789abcdef" */

/* out = 1 where bold and colour are fit: a terminal, and NO_COLOR not set. */
int cli_use_color(FILE *file);
/* out = "950", "12.3k", "1.2M": decimal thousands. */
const char *cli_format_count(double value, char out[16]);

#endif
