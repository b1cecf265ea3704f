/* strict_json.c: overwrites what Python accepts and JSON does not by valid JSON of the same length. */
#include "util/strict_json.h"

#include <string.h>

enum { INT64_DIGITS = 19 };

static size_t past_string(const char *text, size_t bytes, size_t at) {
    for (at++; at < bytes && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at + 1;
}

/* out = the position after a number.  An integer that may not fit into int64 has its last two digits replaced by an
 * exponent. */
static size_t past_number(char *text, size_t bytes, size_t at, int *changed) {
    const size_t first = at + (text[at] == '-');
    int is_whole = 1;
    for (at = first; at < bytes && strchr("0123456789.eE+-", text[at]) && text[at]; at++)
        is_whole &= text[at] >= '0' && text[at] <= '9';
    if (is_whole && at - first >= INT64_DIGITS) {
        text[at - 2] = 'e';
        text[at - 1] = '2';
        *changed = 1;
    }
    return at > first ? at : first;
}

static int is_key(const char *text, size_t bytes, size_t end) {
    while (end < bytes && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r' || text[end] == '\n'))
        end++;
    return end < bytes && text[end] == ':';
}

/* out = the length of such a literal at this position, or 0. */
static size_t nonfinite_literal(const char *text, size_t bytes, size_t at) {
    static const char *const literals[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        const size_t length = strlen(literals[i]);
        if (bytes - at >= length && memcmp(text + at, literals[i], length) == 0)
            return is_key(text, bytes, at + length) ? 0 : length;
    }
    return 0;
}

int gyre_make_json_strict(char *text, size_t bytes) {
    int changed = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t literal = nonfinite_literal(text, bytes, at);
        if (literal > 0) {
            memset(text + at, ' ', literal);
            text[at] = text[at + 1] = '"';
            at += literal;
            changed = 1;
        } else if (text[at] == '"') {
            at = past_string(text, bytes, at);
        } else if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9')) {
            at = past_number(text, bytes, at, &changed);
        } else {
            at++;
        }
    }
    return changed;
}
