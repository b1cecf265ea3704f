/* utf8.h: the characters of bytes that may be anything. */
#ifndef GYRE_UTIL_UTF8_H
#define GYRE_UTIL_UTF8_H
#include <stddef.h>
#include <stdint.h>

/* out = the length in bytes, 1 to 4, of the well-formed UTF-8 character at the start of text[0 .. bytes - 1]; 0 if these
 * bytes are only its beginning; -1 if they begin no character.
 * *code = its code point, set only if out > 0; code may be NULL. */
int gyre_utf8_decode(const char *text, size_t bytes, uint32_t *code);
/* out = 1 for a character that acts on the text around it instead of being shown: controls (C0 but tab and line feed, DEL,
 * C1), marks of direction, the byte order mark, separators of lines. */
int gyre_utf8_is_control(uint32_t code);

#endif
