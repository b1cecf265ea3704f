/* cli_columns.c: the width of the output, and folded text. */
/* For TIOCGWINSZ. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): glibc defines this name
#include "tools/cli/cli_columns.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/plain_stream.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int cli_columns(FILE *file, int otherwise) {
    const char *columns = getenv("COLUMNS");
    const int fd = plain_stream_descriptor(file);
    struct winsize size;
    int width = columns ? atoi(columns) : 0; // NOLINT(cert-err34-c): 0 if it is not a number
    if (width <= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    return width > 0 ? width : otherwise;
}

void cli_print_folded(FILE *file, cli_folded style, const char *text) {
    static const char *const codes[] = {"", "\033[1m", "\033[2m"};
    const size_t columns = (size_t)cli_columns(file, CLI_FOLDED_COLUMNS);
    const int styled = style != CLI_FOLDED_PLAIN && cli_use_color(file);
    size_t column = 0;
    if (styled) fputs(codes[style], file);
    for (size_t word; *text; text += word) {
        const size_t spaces = strspn(text, " ");
        text += spaces;
        word = strcspn(text, " ");
        const int folds = column > 0 && column + spaces + word > columns;
        if (folds) fputc('\n', file);
        if (folds) column = 0;
        const size_t gap = column > 0 ? spaces : 0;
        fprintf(file, "%*s%.*s", (int)gap, "", (int)word, text);
        column += gap + word;
    }
    fputs(styled ? "\033[0m\n" : "\n", file);
}
