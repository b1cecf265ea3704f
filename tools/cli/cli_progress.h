/* cli_progress.h: how far the work is, on stderr: a bar if that is a terminal and the work takes longer than a second; else
 * a line every ten seconds, "gyre: LABEL: 34%, 1:12 left".  Both show the remaining time. */
#ifndef GYRE_TOOLS_CLI_PROGRESS_H
#define GYRE_TOOLS_CLI_PROGRESS_H
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef struct cli_progress {
    pthread_mutex_t lock;
    const char *unit; /* of the rate: "tokens"; NULL = no rate is shown */
    char label[64];
    int64_t done, total;
    int enabled;          /* 1: stderr is a terminal */
    int lines;            /* 1: stderr is not a terminal; a line is printed now and then */
    double between_lines; /* seconds, at least */
    int64_t done_at_line;
    struct timespec started, last_drawn;
} cli_progress;

void cli_progress_begin(cli_progress *progress, const char *label, const char *unit, int64_t all);
/* For work in parts: a line for each part, and within a part one every `seconds` instead of ten; INFINITY: none. */
void cli_progress_by_part(cli_progress *progress, double seconds);
/* A part of the work is done: prints such a line now, unless nothing was done since the last one. */
void cli_progress_mark(cli_progress *progress);
/* Sets the text before the bar: "step 120, loss 1.52". */
void cli_progress_label(cli_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds `step` to the amount done.  Callable from any thread.  Has the type of the library's progress callbacks; ignores
 * `all`. */
void cli_progress_step(void *progress, int64_t step, int64_t all);
/* Sets the amount done, for work that took less than planned. */
void cli_progress_set(cli_progress *progress, int64_t done);
/* Erases the bar. */
void cli_progress_end(cli_progress *progress);

/* Erases a bar that is drawn, before another line is printed. */
void cli_progress_erase(void);
void cli_progress_erase_in_handler(void); /* async-signal-safe */

/* out = seconds of a monotonic clock. */
double cli_seconds(void);
/* out = 1 if bold and colour should be used: file is a terminal and NO_COLOR is not set. */
int cli_use_color(FILE *file);
/* From now on it is 0: an apparent terminal is not one, as under mpirun. */
void cli_never_color(void);
/* out = "950", "12.3k", "1.2M": units of 1000. */
const char *cli_format_count(double value, char out[16]);

#endif
