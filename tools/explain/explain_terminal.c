/* explain_terminal.c: printing for people: colour and padding. */
#include "tools/explain/explain_terminal.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_progress.h"
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <string.h>

explain_terminal explain_terminal_open(FILE *file) {
    (void)setlocale(LC_CTYPE, "");
    return (explain_terminal){file, cli_page_width(file), cli_use_color(file), strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
}

static const char *const codes[] = {"", "1", "2", "32", "33", "36", "31"};

/* Prints the text with control characters replaced.  out = its columns. */
static int print_sanitized(const explain_terminal *page, explain_style style, char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    const int has_style = page->styled && style != EXPLAIN_STYLE_PLAIN && *text;
    if (has_style) fprintf(page->file, "\033[%sm", codes[style]);
    fputs(text, page->file);
    if (has_style) fputs("\033[0m", page->file);
    return cli_display_width(text);
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

void explain_print_wrapped(const explain_terminal *page, explain_style style, int column, int indent, const char *text) {
    const int has_style = page->styled && style != EXPLAIN_STYLE_PLAIN;
    cli_page_fold(&(cli_fold){page->file, page->width, column, indent, has_style ? codes[style] : NULL}, text);
}
