/* live_table.c: draws a table over the one before. */
/* For TIOCGWINSZ. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): glibc defines this name
#include "tools/measuring/live_table.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_signals.h"
#include "tools/cli/plain_stream.h"
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

void live_table_begin(live_table *live, int watch, int prints_lines) {
    const int shares = prints_lines && isatty(STDOUT_FILENO);
    *live = (live_table){.on = watch && !cli_is_silent(), .redraw = isatty(STDERR_FILENO) && !shares};
}

/* out = 1 if the terminal has more rows than the table, and is as wide as the narrowest page. */
static int has_room(int lines) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > lines && size.ws_col >= cli_page_width(stderr);
}

/* Moves to the first line of the table that is drawn, and erases it. */
static void erase(live_table *live) {
    cli_progress_erase();
    if (live->lines) fprintf(stderr, "\033[%dA\033[J", live->lines);
    live->lines = 0;
}

static void draw(live_table *live, result_table (*table)(const void *of), const void *of) {
    FILE *page = plain_stream_open(STDERR_FILENO);
    erase(live);
    (void)fflush(stderr);
    if (!page) return;
    (void)result_table_show(table(of), page);
    live->lines = plain_stream_lines(page);
    (void)plain_stream_close(page);
    live->redraw = has_room(live->lines);
}

void live_table_show(live_table *live, result_table (*table)(const void *of), const void *of, const char *format, ...) {
    va_list arguments;
    if (!live->on || cli_interrupted()) return; /* what is so far is printed at once */
    if (live->redraw) {
        draw(live, table, of);
        return;
    }
    cli_progress_erase();
    va_start(arguments, format);
    fputs("gyre: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void live_table_note_open(result_table *table) {
    const char *note = table->table.note;
    table->table.note = note ? result_text(table, "%s, or is not measured yet", note) : "-: not measured yet";
}

void live_table_end(live_table *live) {
    if (live->redraw && live->lines && isatty(STDOUT_FILENO) && !cli_interrupted()) erase(live);
}
