/* utf8.c: one decoder for everything that is shown. */
#include "util/utf8.h"

/* Some first bytes limit the second one: no overlong forms, no surrogates, nothing past U+10FFFF. */
static int is_valid_second_byte(unsigned char first, unsigned char second) {
    const unsigned char min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= min && second <= max;
}

static int length_of_first_byte(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if ((first & 0xf0) == 0xe0) return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : -1;
}

int gyre_utf8_decode(const char *text, size_t bytes, uint32_t *code) {
    const unsigned char *c = (const unsigned char *)text;
    if (!bytes) return 0;
    const int length = length_of_first_byte(c[0]);
    if (length < 0) return -1;
    uint32_t point = length == 1 ? c[0] : c[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes) return 0;
        if (i == 1 ? !is_valid_second_byte(c[0], c[1]) : (c[i] & 0xc0) != 0x80) return -1;
        point = point << 6 | (c[i] & 0x3fu);
    }
    if (code) *code = point;
    return length;
}

int gyre_utf8_is_control(uint32_t code) {
    if (code < 0x20) return code != '\t' && code != '\n';
    return (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f || code == 0xfeff ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}
