/* explain_terminal.c: printing for people: width, colour, padding and wrapping. */
#include "tools/explain/explain_terminal.h"
#include "tools/cli/cli_columns.h"
#include "tools/cli/cli_progress.h"
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WIDTH = 100, MIN_WIDTH = 72, MAX_WIDTH = 160 };

static int terminal_width(FILE *file) {
    const int width = cli_columns(file, DEFAULT_WIDTH);
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

explain_terminal explain_terminal_open(FILE *file) {
    (void)setlocale(LC_CTYPE, "");
    return (explain_terminal){file, terminal_width(file), cli_use_color(file), strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
}

int explain_display_width(const char *text) {
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

/* Prints the text with control characters replaced.  out = its columns. */
static int print_sanitized(const explain_terminal *page, explain_style style, char *text) {
    static const char *const codes[] = {"", "1", "2", "32", "33", "36", "31"};
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    const int has_style = page->styled && style != EXPLAIN_STYLE_PLAIN && *text;
    if (has_style) fprintf(page->file, "\033[%sm", codes[style]);
    fputs(text, page->file);
    if (has_style) fputs("\033[0m", page->file);
    return explain_display_width(text);
}

int explain_print(const explain_terminal *page, explain_style style, const char *format, ...) {
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return print_sanitized(page, style, text);
}

void explain_print_spaces(const explain_terminal *page, int cells) {
    if (cells > 0) fprintf(page->file, "%*s", cells, "");
}

void explain_print_padded(const explain_terminal *page, explain_style style, int width, const char *text) {
    const int taken = explain_print(page, style, "%s", text);
    explain_print_spaces(page, taken < width ? width - taken : 1);
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

void explain_print_wrapped(const explain_terminal *page, explain_style style, int column, int indent, const char *text) {
    char word[512];
    int at_line_start = 1, spaces = 0; /* spaces: before the word */
    while (*text) {
        const size_t length = next_line_break(text, page->width - indent);
        memcpy(word, text, length);
        word[length] = 0;
        const int columns = explain_display_width(word);
        if (!at_line_start && column + spaces + columns > page->width) {
            fputc('\n', page->file);
            explain_print_spaces(page, column = indent);
            spaces = 0;
        }
        if (spaces) fputc(' ', page->file);
        column += spaces + explain_print(page, style, "%s", word);
        text += length;
        spaces = *text == ' ';
        text += strspn(text, " ");
        at_line_start = 0;
    }
    fputc('\n', page->file);
}
