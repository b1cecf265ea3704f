/* cli_page.c: the width of the page, and text broken to fit it. */
/* For TIOCGWINSZ. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): glibc defines this name
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_values.h"
#include "tools/cli/plain_stream.h"
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 100, MIN_WIDTH = 72, MAX_WIDTH = 160 };

int cli_page_width(FILE *file) {
    const char *columns = getenv("COLUMNS");
    const int fd = plain_stream_descriptor(file);
    struct winsize size;
    int width = columns && *columns ? (int)cli_integer("COLUMNS", columns, 0, INT_MAX) : 0;
    if (width <= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = DEFAULT_WIDTH;
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

int cli_display_width(const char *text) {
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

/* out = bytes of the next unbreakable piece: a word, or, if the word is wider than `room` columns, its longest part that
 * ends in a dot and fits. */
static size_t next_line_break(const char *text, int room) {
    const size_t word = strcspn(text, " ");
    size_t piece = word, fits = 0;
    int columns = 0;
    for (size_t i = 0; i < word; i++) {
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (columns <= room && text[i] == '.') fits = i + 1;
    }
    if (columns > room && fits > 0) piece = fits;
    return piece < 500 ? piece : 500;
}

static void print_word(const cli_fold *at, char *word) {
    for (char *c = word; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    const int has_code = at->code && *word;
    if (has_code) fprintf(at->file, "\033[%sm", at->code);
    fputs(word, at->file);
    if (has_code) fputs("\033[0m", at->file);
}

void cli_page_fold(const cli_fold *at, const char *text) {
    char word[512];
    int at_line_start = 1, spaces = 0, column = at->column; /* spaces: before the word */
    while (*text) {
        const size_t length = next_line_break(text, at->width - at->indent);
        memcpy(word, text, length);
        word[length] = 0;
        const int columns = cli_display_width(word);
        if (!at_line_start && column + spaces + columns > at->width) {
            fprintf(at->file, "\n%*s", at->indent, "");
            column = at->indent;
            spaces = 0;
        }
        if (spaces) fputc(' ', at->file);
        print_word(at, word);
        column += spaces + columns;
        text += length;
        spaces = *text == ' ';
        text += strspn(text, " ");
        at_line_start = 0;
    }
    fputc('\n', at->file);
}

void cli_page_paragraph(FILE *file, const char *code, const char *text) {
    cli_page_fold(&(cli_fold){file, cli_page_width(file), 0, 0, cli_use_color(file) ? code : NULL}, text);
}

/* *begin = bytes before the text of a line, its label among them.  out = the column at which the text continues. */
static int hanging_indent(const char *line, size_t *begin) {
    enum { LABEL = 22 };
    const size_t margin = strspn(line, " ");
    const char *gap = strstr(line + margin, "  ");
    const int labelled = gap && gap - line <= LABEL;
    *begin = labelled ? (size_t)(gap - line) + strspn(gap, " ") : margin;
    return (int)*begin + (labelled || !margin ? 0 : 2);
}

/* out = bytes of the next part of a command that stays on one line: a word with the spaces that it quotes, and after an
 * option its value. */
static size_t command_part(const char *text) {
    size_t length = 0;
    const int is_option = *text == '-';
    for (int words = 0; words < 1 + is_option; words++) {
        if (words && (!text[length] || text[length + 1] == '-')) break;
        length += words;
        for (char quote = 0; text[length] && (quote || text[length] != ' '); length++)
            if (text[length] == '\'' || text[length] == '"')
                quote = !quote ? text[length] : quote == text[length] ? (char)0 : quote;
    }
    return length;
}

/* Breaks as a shell reads them. */
static void print_command(FILE *file, int width, int begin, const char *text) {
    for (int column = begin; *text;) {
        const size_t length = command_part(text);
        const int last = !text[length], columns = (int)length + (last ? 0 : 2); /* room for a backslash */
        const int at_start = column == begin;
        if (!at_start && column + 1 + columns > width) {
            fprintf(file, " \\\n%*s", begin + 2, "");
            column = begin + 2;
        } else if (!at_start) {
            fputc(' ', file);
            column++;
        }
        (void)fwrite(text, 1, length, file);
        column += (int)length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', file);
}

/* out = the column at which a line has a command to copy: indented, or after "Example: "; 0 = none. */
static int command_begin(const char *line) {
    static const char example[] = "Example: ";
    const size_t begin = strncmp(line, example, sizeof example - 1) == 0 ? sizeof example - 1 : strspn(line, " ");
    return begin && strncmp(line + begin, "gyre ", 5) == 0 && !strstr(line + begin, "  ") ? (int)begin : 0;
}

static void print_line(FILE *file, int width, const char *line) {
    size_t begin;
    const int indent = hanging_indent(line, &begin);
    const int command = command_begin(line);
    if (cli_display_width(line) <= width) {
        begin = strlen(line);
    } else if (command) {
        (void)fwrite(line, 1, (size_t)command, file);
        print_command(file, width, command, line + command);
        return;
    }
    (void)fwrite(line, 1, begin, file);
    cli_page_fold(&(cli_fold){file, width, (int)begin, indent, NULL}, line + begin);
}

FILE *cli_page_begin(cli_page *page, FILE *file) {
    *page = (cli_page){.file = file};
    page->lines = open_memstream(&page->text, &page->bytes);
    if (!page->lines) exit(cli_fail("text: out of memory (gyre)"));
    return page->lines;
}

void cli_page_end(cli_page *page) {
    const int width = cli_page_width(page->file);
    const int failed = ferror(page->lines);
    if (fclose(page->lines) || failed || !page->text) exit(cli_fail("text: out of memory (gyre)"));
    for (char *line = page->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        print_line(page->file, width, line);
    }
    free(page->text);
}

void cli_page_printf(FILE *file, const char *format, ...) {
    cli_page page;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(cli_page_begin(&page, file), format, arguments);
    va_end(arguments);
    cli_page_end(&page);
}
