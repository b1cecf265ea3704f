/* utf8_sanitize.h: bytes that a model wrote, made fit to be shown: whole characters, one after another. */
#ifndef GYRE_TOOLS_UTF8_TEXT_H
#define GYRE_TOOLS_UTF8_TEXT_H
#include <stddef.h>

/* out = bytes of the character of UTF-8 that text[0 .. bytes - 1] begins with, 1 to 4; 0 where it may become one with more
 * bytes after it; -1 where it begins none (its first byte then stands alone). */
int utf8_char_length(const char *text, size_t bytes);
/* out = how many of the bytes, from the first, are whole characters or bytes that belong to none: all but an unfinished
 * character at the end. */
size_t utf8_complete_prefix(const char *text, size_t bytes);
/* out[0 .. size - 1] = the text with a NUL, bytes that belong to no character as U+FFFD and NULs too, cut at a character
 * where it does not fit.  size >= 1. */
void utf8_sanitize(char *out, size_t size, const char *text, size_t bytes);

#endif
