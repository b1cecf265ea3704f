/* tokenizer_byte_level.h: how tokenizer files write the bytes of pieces. */
#ifndef GYRE_TOKENIZER_BYTE_LEVEL_H
#define GYRE_TOKENIZER_BYTE_LEVEL_H
#include <stddef.h>

#define GYRE_SPACE_SYMBOL "\xE2\x96\x81" /* U+2581, which stands for a space in sentencepiece's pieces */

/* GPT-2's alphabet: printable bytes of Latin-1 stand for themselves.  The other bytes, in order, are the characters from
 * U+0100 on.  Returns 1, with the bytes in to[0 .. *length - 1] (at most `bytes`), or 0 if a character is outside the
 * alphabet. */
int gyre_byte_level_decode(const char *text, size_t bytes, unsigned char *to, size_t *length);
/* to = the character of a byte, as UTF-8.  out = its length, 1 or 2. */
size_t gyre_byte_level_encode(unsigned char byte, char to[2]);
/* Decodes a piece whose spaces are written as U+2581.  Returns 0 if it holds a plain space, which text never has in such
 * a piece. */
int gyre_metaspace_decode(const char *text, size_t bytes, unsigned char *to, size_t *length);
/* out = the byte that "<0x0A>" stands for, or -1. */
int gyre_byte_fallback_decode(const char *text, size_t bytes);

#endif
