/* explain_terminal.h: text output that knows the width of the page and what its terminal can show. */
#ifndef GYRE_TOOLS_EXPLAIN_TERMINAL_H
#define GYRE_TOOLS_EXPLAIN_TERMINAL_H
#include "tools/cli/cli_page.h"
#include <stdio.h>

typedef struct explain_terminal {
    FILE *file;
    int width;  /* columns */
    int styled; /* 1: bold and colour */
    int utf8;   /* 1: block characters */
} explain_terminal;
/* Uses cli_page_width and the locale. */
explain_terminal explain_terminal_open(FILE *file);

typedef enum explain_style {
    EXPLAIN_STYLE_PLAIN,
    EXPLAIN_STYLE_BOLD,
    EXPLAIN_STYLE_DIM,
    EXPLAIN_STYLE_GREEN,
    EXPLAIN_STYLE_YELLOW,
    EXPLAIN_STYLE_CYAN,
    EXPLAIN_STYLE_RED
} explain_style;
/* Prints control characters as '?', because text from a file could move the cursor.  out = columns printed. */
int explain_print(const explain_terminal *page, explain_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, then spaces up to `width` columns, at least one. */
void explain_print_padded(const explain_terminal *page, explain_style style, int width, const char *text);
/* Prints `cells` spaces. */
void explain_print_spaces(const explain_terminal *page, int cells);
/* Prints text broken at spaces.  The first line continues at `column`; the others begin at `indent`.  Ends the line. */
void explain_print_wrapped(const explain_terminal *page, explain_style style, int column, int indent, const char *text);

#endif
