/* cli_page.h: text for people, as wide as their terminal.  Every command asks here how wide that is. */
#ifndef GYRE_TOOLS_CLI_PAGE_H
#define GYRE_TOOLS_CLI_PAGE_H
#include <stdio.h>

/* out = columns for what is printed to `file`: COLUMNS, else those of its terminal, within 72 to 160; 100 for a file and a
 * pipe. */
int cli_page_width(FILE *file);
/* out = columns of text: characters instead of bytes. */
int cli_display_width(const char *text);

typedef struct cli_fold {
    FILE *file;
    int width, column, indent; /* the first line continues at `column`, the others begin at `indent` */
    const char *code;          /* of each word: "2" for dim, as in "\033[2m"; NULL = none */
} cli_fold;
/* Prints text broken at spaces, with control characters replaced by '?', and ends the line. */
void cli_page_fold(const cli_fold *at, const char *text);
/* The same for a paragraph over the whole page; the code is left out where there is no colour. */
void cli_page_paragraph(FILE *file, const char *code, const char *text);

/* Lines that are gathered first.  One that is wider than the page is broken at spaces; it continues below what follows
 * its label, which two spaces end; else, if it is indented, two columns further in.  A command of gyre that is indented,
 * or follows "Example: ", continues after a backslash. */
typedef struct cli_page {
    FILE *file, *lines; /* lines: write to it */
    char *text;
    size_t bytes;
} cli_page;
/* Both end the program with CLI_FAILED if memory runs out. */
FILE *cli_page_begin(cli_page *page, FILE *file);
void cli_page_end(cli_page *page);
/* The same for the lines of one call. */
void cli_page_printf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
