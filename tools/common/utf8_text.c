/* utf8_text.c: text made printable. */
#include "tools/common/utf8_text.h"
#include "util/utf8.h"
#include <string.h>

size_t utf8_complete_prefix(const char *text, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++)
        if (gyre_utf8_decode(text + bytes - back, back, NULL) == 0) return bytes - back;
    return bytes;
}

void utf8_sanitize(char *out, size_t size, const char *text, size_t bytes) {
    static const char unknown[] = "\xef\xbf\xbd";
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        const int length = gyre_utf8_decode(text + at, bytes - at, NULL);
        const int plain = length > 0 && text[at];
        const size_t written = plain ? (size_t)length : sizeof unknown - 1;
        if (used + written >= size) break;
        memcpy(out + used, plain ? text + at : unknown, written);
        used += written;
        at += length > 0 ? (size_t)length : 1;
    }
    out[used] = 0;
}
