/* tokenizer_byte_level.h: how files write the bytes of pieces. */
#ifndef GYRE_MODEL_TOKENIZER_BYTE_LEVEL_H
#define GYRE_MODEL_TOKENIZER_BYTE_LEVEL_H
#include "gyre/gyre.h"

/* GPT-2's alphabet: printable bytes of Latin-1 are themselves, the others, in order, the characters from U+0100 on.
 * out = 1 and the bytes in to[0 .. *length - 1] (room for `bytes`), or 0 where a character is outside it. */
int gyre_byte_level_decode(const char *text, size_t bytes, unsigned char *to, size_t *length);
/* The same of pieces whose spaces are written as U+2581.  out = 0 where there is a plain space, which text never has
 * there. */
int gyre_metaspace_decode(const char *text, size_t bytes, unsigned char *to, size_t *length);
/* out = the byte that "<0x0A>" stands for, or -1. */
int gyre_byte_fallback_decode(const char *text, size_t bytes);

#endif
