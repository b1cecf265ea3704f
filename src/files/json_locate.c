/* json_locate.c: walks the text of a JSON file up to a key. */
#include "files/json_locate.h"

#include <string.h>

typedef struct json_cursor {
    const char *text;
    size_t bytes, at;
} json_cursor;

static int has_more(const json_cursor *w) {
    return w->at < w->bytes;
}

static char peek(const json_cursor *w) {
    return has_more(w) ? w->text[w->at] : '\0';
}

static void skip_space(json_cursor *w) {
    while (has_more(w) && strchr(" \t\r\n", w->text[w->at]) && w->text[w->at])
        w->at++;
}

/* Moves from an opening quote past the closing one. */
static void skip_string(json_cursor *w) {
    for (w->at++; has_more(w) && w->text[w->at] != '"'; w->at++)
        if (w->text[w->at] == '\\') w->at++;
    w->at = w->at < w->bytes ? w->at + 1 : w->bytes;
}

/* Moves past a value by counting brackets outside of strings. */
static void skip_value(json_cursor *w) {
    size_t depth = 0;
    if (!has_more(w)) return;
    do {
        const char c = peek(w);
        if (c == '"') {
            skip_string(w);
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth > 0) depth--;
        w->at++;
        /* A number or literal ends at the first character that cannot belong to it. */
        if (depth == 0 && c != '}' && c != ']')
            while (has_more(w) && !strchr(",]} \t\r\n", w->text[w->at]))
                w->at++;
    } while (has_more(w) && depth > 0);
}

static int64_t line_of(const json_cursor *w, size_t at) {
    int64_t line = 1;
    for (const char *p = w->text, *end = w->text + at; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        line++;
    return line;
}

/* out = how many characters of `path` the key at this quote matches, or 0. */
static size_t matches(const json_cursor *w, const char *path) {
    json_cursor end = *w;
    skip_string(&end);
    const size_t length = end.at - w->at;
    if (length < 2) return 0;
    const size_t name = length - 2;
    if (strncmp(path, w->text + w->at + 1, name) != 0 || strlen(path) < name) return 0;
    return path[name] == '\0' || path[name] == '.' ? name : 0;
}

/* w is at the opening brace of an object. */
static int find_in(json_cursor *w, const char *path, gyre_json_member *out) {
    w->at++;
    for (skip_space(w); peek(w) == '"'; skip_space(w)) {
        const size_t key = w->at, name = matches(w, path);
        skip_string(w);
        skip_space(w);
        if (peek(w) != ':') return 0;
        w->at++;
        skip_space(w);
        const size_t value = w->at;
        if (name > 0 && path[name] == '.' && peek(w) == '{') {
            json_cursor inner = *w;
            if (find_in(&inner, path + name + 1, out)) return 1;
        }
        skip_value(w);
        if (name > 0 && path[name] == '\0') {
            *out = (gyre_json_member){key, value, w->at, line_of(w, key)};
            return 1;
        }
        skip_space(w);
        if (peek(w) != ',') return 0;
        w->at++;
    }
    return 0;
}

int gyre_json_locate(const char *text, size_t bytes, const char *path, gyre_json_member *out) {
    json_cursor w = {text, bytes, 0};
    skip_space(&w);
    return *path && peek(&w) == '{' && find_in(&w, path, out);
}

int gyre_json_locate_object(const char *text, size_t bytes, const char *path, gyre_json_member *out) {
    json_cursor w = {text, bytes, 0};
    if (*path) return gyre_json_locate(text, bytes, path, out) && out->value < bytes && text[out->value] == '{';
    skip_space(&w);
    if (peek(&w) != '{') return 0;
    *out = (gyre_json_member){w.at, w.at, 0, line_of(&w, w.at)};
    skip_value(&w);
    out->end = w.at;
    return 1;
}
