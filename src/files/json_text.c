/* json_text.c: a walk over the text of a JSON file, as far as a key. */
#include "files/json_text.h"

#include <string.h>

typedef struct walk {
    const char *text;
    size_t bytes, at;
} walk;

static int more(const walk *w) {
    return w->at < w->bytes;
}

static char here(const walk *w) {
    return more(w) ? w->text[w->at] : '\0';
}

static void skip_space(walk *w) {
    while (more(w) && strchr(" \t\r\n", w->text[w->at]) && w->text[w->at])
        w->at++;
}

/* From a quote past the next that is not escaped. */
static void skip_string(walk *w) {
    for (w->at++; more(w) && w->text[w->at] != '"'; w->at++)
        if (w->text[w->at] == '\\') w->at++;
    w->at = w->at < w->bytes ? w->at + 1 : w->bytes;
}

/* Past a value: brackets are counted, strings in them passed over whole. */
static void skip_value(walk *w) {
    size_t depth = 0;
    if (!more(w)) return;
    do {
        const char c = here(w);
        if (c == '"') {
            skip_string(w);
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth > 0) depth--;
        w->at++;
        /* A number or a word goes on to what cannot belong to it. */
        if (depth == 0 && c != '}' && c != ']')
            while (more(w) && !strchr(",]} \t\r\n", w->text[w->at]))
                w->at++;
    } while (more(w) && depth > 0);
}

static int64_t line_of(const walk *w, size_t at) {
    int64_t line = 1;
    for (const char *p = w->text, *end = w->text + at; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        line++;
    return line;
}

/* The key that starts at a quote: as much of `path` as it takes, or 0. */
static size_t matches(const walk *w, const char *path) {
    walk end = *w;
    skip_string(&end);
    const size_t length = end.at - w->at;
    if (length < 2) return 0;
    const size_t name = length - 2;
    if (strncmp(path, w->text + w->at + 1, name) != 0 || strlen(path) < name) return 0;
    return path[name] == '\0' || path[name] == '.' ? name : 0;
}

/* w stands at the brace of an object. */
static int find_in(walk *w, const char *path, gyre_json_member *out) {
    w->at++;
    for (skip_space(w); here(w) == '"'; skip_space(w)) {
        const size_t key = w->at, name = matches(w, path);
        skip_string(w);
        skip_space(w);
        if (here(w) != ':') return 0;
        w->at++;
        skip_space(w);
        const size_t value = w->at;
        if (name > 0 && path[name] == '.' && here(w) == '{') {
            walk inner = *w;
            if (find_in(&inner, path + name + 1, out)) return 1;
        }
        skip_value(w);
        if (name > 0 && path[name] == '\0') {
            *out = (gyre_json_member){key, value, w->at, line_of(w, key)};
            return 1;
        }
        skip_space(w);
        if (here(w) != ',') return 0;
        w->at++;
    }
    return 0;
}

int gyre_json_find(const char *text, size_t bytes, const char *path, gyre_json_member *out) {
    walk w = {text, bytes, 0};
    skip_space(&w);
    return *path && here(&w) == '{' && find_in(&w, path, out);
}

int gyre_json_object(const char *text, size_t bytes, const char *path, gyre_json_member *out) {
    walk w = {text, bytes, 0};
    if (*path) return gyre_json_find(text, bytes, path, out) && out->value < bytes && text[out->value] == '{';
    skip_space(&w);
    if (here(&w) != '{') return 0;
    *out = (gyre_json_member){w.at, w.at, 0, line_of(&w, w.at)};
    skip_value(&w);
    out->end = w.at;
    return 1;
}
