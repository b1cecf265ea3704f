/* cli_progress.c: the progress bar, its lines, and short numbers. */
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/plain_stream.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char ERASE[] = "\r\033[K";
static volatile sig_atomic_t bar_drawn; /* read by the signal handler */

void cli_progress_erase(void) {
    if (bar_drawn) fputs(ERASE, stderr);
    bar_drawn = 0;
}

void cli_progress_erase_in_handler(void) {
    if (bar_drawn && write(STDERR_FILENO, ERASE, sizeof ERASE - 1) < 0) {
        /* The terminal is gone: there is nothing to erase. */
    }
}

double cli_seconds(void) {
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds_between(const struct timespec *from, const struct timespec *to) {
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

void cli_progress_begin(cli_progress *progress, const char *label, const char *unit, int64_t all) {
    *progress = (cli_progress){
        .unit = unit, .total = all, .between_lines = 10, .enabled = isatty(STDERR_FILENO) && !cli_is_silent()};
    progress->lines = !progress->enabled && !cli_is_silent();
    (void)pthread_mutex_init(&progress->lock, NULL);
    snprintf(progress->label, sizeof progress->label, "%s", label);
    (void)clock_gettime(CLOCK_MONOTONIC, &progress->started);
    progress->last_drawn = progress->started;
}

void cli_progress_by_part(cli_progress *progress, double seconds) {
    progress->between_lines = seconds;
}

void cli_progress_label(cli_progress *progress, const char *format, ...) {
    va_list arguments;
    (void)pthread_mutex_lock(&progress->lock);
    va_start(arguments, format);
    vsnprintf(progress->label, sizeof progress->label, format, arguments);
    va_end(arguments);
    (void)pthread_mutex_unlock(&progress->lock);
}

static void format_duration(double seconds, char out[24]) {
    const long s = seconds < 1e7 ? (long)(seconds + 0.5) : 10000000;
    if (s >= 100 * 3600)
        snprintf(out, 24, "%ld days", (s + 43200) / 86400);
    else if (s >= 3600)
        snprintf(out, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 24, "%ld:%02ld", s / 60, s % 60);
}

/* What is shown: the done fraction of the work, and the time that the rest takes at the rate so far. */
typedef struct estimate {
    struct timespec now;
    double elapsed, fraction;
    char left[24];
} estimate;

/* out = 0 if nothing is known. */
static int make_estimate(const cli_progress *progress, estimate *e) {
    if (progress->total <= 0 || clock_gettime(CLOCK_MONOTONIC, &e->now)) return 0;
    e->elapsed = seconds_between(&progress->started, &e->now);
    e->fraction = (double)progress->done / (double)progress->total;
    if (e->fraction > 1) e->fraction = 1;
    snprintf(e->left, sizeof e->left, "?");
    if (e->fraction > 0) format_duration(e->elapsed * (1 - e->fraction) / e->fraction, e->left);
    return 1;
}

static void draw_bar(const cli_progress *progress, const estimate *e) {
    enum { CELLS = 24 };
    char bar[CELLS + 1], count[16], rate[48] = "";
    for (int i = 0; i < CELLS; i++)
        bar[i] = i < (int)(e->fraction * CELLS) ? '#' : '.';
    bar[CELLS] = 0;
    if (progress->unit)
        snprintf(rate, sizeof rate, "  %s %s/s", cli_format_count((double)progress->done / e->elapsed, count),
                 progress->unit);
    fprintf(stderr, "%s%s [%s] %3d%%%s  %s left", ERASE, progress->label, bar, (int)(100 * e->fraction), rate, e->left);
    (void)fflush(stderr);
    bar_drawn = 1;
}

static void print_line(cli_progress *progress, const estimate *e) {
    progress->last_drawn = e->now;
    progress->done_at_line = progress->done;
    fprintf(stderr, "gyre: %s: %d%%, %s left\n", progress->label, (int)(100 * e->fraction), e->left);
}

/* Draws nothing in the first second: most commands are done by then. */
static void draw(cli_progress *progress) {
    estimate e;
    if (!(progress->enabled || progress->lines) || !make_estimate(progress, &e)) return;
    const double since = seconds_between(&progress->last_drawn, &e.now);
    if (progress->enabled && e.elapsed >= 1 && since >= 0.1) {
        progress->last_drawn = e.now;
        draw_bar(progress, &e);
    } else if (progress->lines && since >= progress->between_lines)
        print_line(progress, &e);
}

void cli_progress_step(void *progress, int64_t step, int64_t all) {
    cli_progress *p = progress;
    (void)all;
    (void)pthread_mutex_lock(&p->lock);
    p->done += step;
    draw(p);
    (void)pthread_mutex_unlock(&p->lock);
}

void cli_progress_set(cli_progress *progress, int64_t done) {
    (void)pthread_mutex_lock(&progress->lock);
    progress->done = done;
    draw(progress);
    (void)pthread_mutex_unlock(&progress->lock);
}

void cli_progress_mark(cli_progress *progress) {
    estimate e;
    (void)pthread_mutex_lock(&progress->lock);
    if (progress->lines && progress->done > progress->done_at_line && make_estimate(progress, &e)) print_line(progress, &e);
    (void)pthread_mutex_unlock(&progress->lock);
}

void cli_progress_end(cli_progress *progress) {
    cli_progress_erase();
    (void)pthread_mutex_destroy(&progress->lock);
}

const char *cli_format_count(double value, char out[16]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    snprintf(out, 16, unit && value < 99.95 ? "%.1f%s" : "%.0f%s", value, units[unit]);
    return out;
}

static int never_colors;

void cli_never_color(void) {
    never_colors = 1;
}

int cli_use_color(FILE *file) {
    if (never_colors) return 0;
    const char *no_color = getenv("NO_COLOR");
    return isatty(plain_stream_descriptor(file)) && !(no_color && *no_color);
}
