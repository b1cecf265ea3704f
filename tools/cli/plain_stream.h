/* plain_stream.h: a stream for what a terminal or a person will read.  Names and texts from files may hold characters that
 * command a terminal or reverse the order of what is shown; such a character becomes \uXXXX, which JSON reads as the same
 * character.  Bytes that are not UTF-8 become U+FFFD. */
#ifndef GYRE_TOOLS_PLAIN_STREAM_H
#define GYRE_TOOLS_PLAIN_STREAM_H
#include <stddef.h>
#include <stdio.h>

/* out = a stream that writes to the file `fd`, which stays open when the stream is closed; NULL and errno on failure.
 * Kept as they are: printable characters, tab, line feed, and on a terminal the codes of bold and colour that the command
 * itself prints there ("\033[1m"). */
FILE *plain_stream_open(int fd);
/* From now on codes of colour become "\u001b[1m" too: for text that is not the command's own, on a terminal. */
void plain_stream_drop_colors(FILE *stream);
/* Closes it.  out = 0, or the errno of the first write that failed. */
int plain_stream_close(FILE *stream);
/* out = the lines that were written to a stream of plain_stream_open, after it is flushed. */
int plain_stream_lines(FILE *stream);
/* out = the descriptor below a stream of plain_stream_open, or fileno. */
int plain_stream_descriptor(FILE *stream);

/* out[0 .. size - 1] = the same for a string, with a final NUL, cut after a whole character.  size >= 1. */
void plain_text(char *out, size_t size, const char *text);
/* out = the text of a file or a name for one place of a line: as plain_text, and tabs, line feeds and codes of colour are
 * spelled too, so that it cannot pass for a line of the command's own.  Valid until PLAIN_LINES more calls of the thread. */
enum { PLAIN_LINES = 4 };
const char *plain_line(const char *text);

#endif
