#include "tokenizer/tokenizer_byte_level.h"

#include <string.h>

enum { FIRST_REMAPPED = 0x100, PRINTABLE = 188, REMAPPED = 256 - PRINTABLE };

static int is_printable(unsigned c) {
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

/* out = the byte that a character stands for, or -1. */
static int byte_of(unsigned c) {
    if (c < FIRST_REMAPPED) return is_printable(c) ? (int)c : -1;
    if (c >= FIRST_REMAPPED + REMAPPED) return -1;
    unsigned rank = c - FIRST_REMAPPED, byte = 0;
    for (; is_printable(byte) || rank-- > 0; byte++) {
    }
    return (int)byte;
}

int gyre_byte_level_decode(const char *text, size_t bytes, unsigned char *to, size_t *length) {
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned c = s[i];
        if (c >= 0x80) { /* characters of two bytes cover the whole alphabet */
            if (c < 0xC2 || c > 0xC5 || i + 1 == bytes || (s[i + 1] & 0xC0) != 0x80) return 0;
            c = (c & 0x1F) << 6 | (s[++i] & 0x3F);
        }
        const int byte = byte_of(c);
        if (byte < 0) return 0;
        to[used++] = (unsigned char)byte;
    }
    *length = used;
    return 1;
}

size_t gyre_byte_level_encode(unsigned char byte, char to[2]) {
    unsigned c = byte;
    if (!is_printable(byte)) {
        c = FIRST_REMAPPED;
        for (unsigned i = 0; i < byte; i++)
            c += !is_printable(i);
    }
    to[0] = (char)(c < 0x80 ? c : 0xC0 | c >> 6);
    to[1] = (char)(0x80 | (c & 0x3F));
    return c < 0x80 ? 1 : 2;
}

int gyre_metaspace_decode(const char *text, size_t bytes, unsigned char *to, size_t *length) {
    size_t used = 0;
    int has_space = 0;
    for (size_t i = 0; i < bytes;) {
        if (bytes - i >= 3 && memcmp(text + i, GYRE_SPACE_SYMBOL, 3) == 0) {
            to[used++] = ' ';
            i += 3;
            continue;
        }
        has_space |= text[i] == ' ';
        to[used++] = (unsigned char)text[i++];
    }
    *length = used;
    return !has_space;
}

static int hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gyre_byte_fallback_decode(const char *text, size_t bytes) {
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex_of(text[3]) < 0 || hex_of(text[4]) < 0) return -1;
    return 16 * hex_of(text[3]) + hex_of(text[4]);
}
