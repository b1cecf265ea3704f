/* utf8_text.c: UTF-8 in bytes that may be anything. */
#include "tools/common/utf8_text.h"
#include <string.h>

/* Some first bytes limit the second one: no overlong forms, no surrogates, nothing past U+10FFFF. */
static int is_valid_second_byte(unsigned char first, unsigned char second) {
    const unsigned char min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= min && second <= max;
}

int utf8_char_length(const char *text, size_t bytes) {
    const unsigned char *c = (const unsigned char *)text;
    if (!bytes) return 0;
    if (c[0] < 0x80) return 1;
    const int length = c[0] >= 0xc2 && c[0] <= 0xdf ? 2 : (c[0] & 0xf0) == 0xe0 ? 3 : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4 : -1;
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes) return 0;
        if (i == 1 ? !is_valid_second_byte(c[0], c[1]) : (c[i] & 0xc0) != 0x80) return -1;
    }
    return length;
}

size_t utf8_complete_prefix(const char *text, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++)
        if (utf8_char_length(text + bytes - back, back) == 0) return bytes - back;
    return bytes;
}

void utf8_sanitize(char *out, size_t size, const char *text, size_t bytes) {
    static const char unknown[] = "\xef\xbf\xbd";
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        const int length = utf8_char_length(text + at, bytes - at);
        const int plain = length > 0 && text[at];
        const size_t written = plain ? (size_t)length : sizeof unknown - 1;
        if (used + written >= size) break;
        memcpy(out + used, plain ? text + at : unknown, written);
        used += written;
        at += length > 0 ? (size_t)length : 1;
    }
    out[used] = 0;
}
