/* cli_columns.h: how wide the output is, and text that fits it. */
#ifndef GYRE_TOOLS_CLI_COLUMNS_H
#define GYRE_TOOLS_CLI_COLUMNS_H
#include <stdio.h>

/* out = columns of the screen: COLUMNS of the environment, else those of the terminal; `otherwise` where there is none. */
int cli_columns(FILE *file, int otherwise);

typedef enum cli_folded { CLI_FOLDED_PLAIN, CLI_FOLDED_BOLD, CLI_FOLDED_DIM } cli_folded;
enum { CLI_FOLDED_COLUMNS = 120 }; /* where the output is no terminal */
/* Prints a paragraph of ASCII text, folded between words, and ends its last line. */
void cli_print_folded(FILE *file, cli_folded style, const char *text);

#endif
