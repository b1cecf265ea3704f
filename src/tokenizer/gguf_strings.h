/* gguf_strings.h: walks the strings of a GGUF's array. */
#ifndef GYRE_TOKENIZER_GGUF_STRINGS_H
#define GYRE_TOKENIZER_GGUF_STRINGS_H
#include <stddef.h>
#include <stdint.h>

/* out = the string at *cursor, without a NUL at its end, *bytes its length.  Moves the cursor behind it.  The array was
 * checked when the file was opened. */
static inline const char *gyre_gguf_next_string(const unsigned char **cursor, size_t *bytes) {
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (*cursor)[i];
    const char *text = (const char *)*cursor + 8;
    *cursor += 8 + n;
    *bytes = (size_t)n;
    return text;
}

#endif
