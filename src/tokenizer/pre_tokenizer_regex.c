/* pre_tokenizer_regex.c: translates the patterns of tokenizer.json, which are in Oniguruma's syntax (Ruby's), to PCRE2's.
 *
 *     [a[bc]]     -> [abc]            nested classes
 *     x{1,3}+     -> (?:x{1,3})+      a plus after an interval repeats it; in PCRE2 it would be possessive
 *     x{,3}       -> x{0,3}
 *     \u4E00      -> \x{4E00}
 *
 * Other known differences are refused. */
#include "core/encoding.h"
#include "tokenizer/pre_tokenizer.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 100 };

typedef struct translator {
    const char *in;
    size_t bytes, at, used;
    char *out;
    size_t groups[MAX_GROUPS]; /* [depth] where the open groups begin in `out` */
    int depth;
    size_t atom;     /* where the last repeatable item begins in `out` */
    int is_interval; /* 1: the last item was {m,n} */
    gyre_error *err;
} translator;

static void put(translator *t, char c) {
    t->out[t->used++] = c;
}

static gyre_status refuse(const translator *t, const char *what) {
    return gyre_fail(t->err, GYRE_EUNSUPPORTED, "a pattern with %s at its byte %zu", what, t->at);
}

/* Translates \u4E00.  Returns 0 if it is not one. */
static int translate_u_escape(translator *t) {
    const char *digits = t->in + t->at + 2;
    if (t->bytes - t->at < 6) return 0;
    for (int i = 0; i < 4; i++)
        if (!strchr("0123456789abcdefABCDEF", digits[i])) return 0;
    memcpy(t->out + t->used, "\\x{", 3);
    memcpy(t->out + t->used + 3, digits, 4);
    t->out[t->used + 7] = '}';
    t->used += 8;
    t->at += 6;
    return 1;
}

/* Copies a backslash and what belongs to it, including the braces of \p{...}. */
static gyre_status translate_escape(translator *t) {
    if (t->at + 1 >= t->bytes) return gyre_fail(t->err, GYRE_EFORMAT, "a pattern that ends with a backslash");
    const char c = t->in[t->at + 1];
    if (c == 'u' && translate_u_escape(t)) return GYRE_OK;
    if (strchr("hHRXKGvQE", c)) return refuse(t, "an escape that means something else to Oniguruma");
    put(t, '\\');
    put(t, c);
    t->at += 2;
    if (strchr("pPx", c) && t->at < t->bytes && t->in[t->at] == '{') {
        do
            put(t, t->in[t->at]);
        while (t->in[t->at++] != '}' && t->at < t->bytes);
    }
    return GYRE_OK;
}

/* Copies a class.  A class inside it that is not negated only adds its members, so its brackets are dropped. */
static gyre_status translate_class(translator *t) {
    gyre_status status = GYRE_OK;
    int inside = 0;
    do {
        const char c = t->in[t->at], next = t->at + 1 < t->bytes ? t->in[t->at + 1] : '\0';
        if (c == '\\') {
            status = translate_escape(t);
            continue;
        }
        if (c == '&' && next == '&') return refuse(t, "an intersection of classes");
        if (c == '[' && next == ':' && inside > 0) {
            do
                put(t, t->in[t->at++]);
            while (t->at < t->bytes && t->in[t->at] != ']');
        } else if (c == '[' && inside > 0) {
            if (next == '^') return refuse(t, "a negated class within a class");
            inside++;
            t->at++;
            continue;
        } else if (c == '[') {
            inside++;
            put(t, c);
            t->at++;
            if (t->at < t->bytes && t->in[t->at] == '^') put(t, t->in[t->at++]);
            /* A closing bracket that comes first is a member. */
            if (t->at + 1 < t->bytes && t->in[t->at] == ']') put(t, t->in[t->at++]);
            continue;
        } else if (c == ']' && --inside > 0) {
            t->at++;
            continue;
        }
        if (t->at < t->bytes) put(t, t->in[t->at++]);
    } while (inside > 0 && status == GYRE_OK && t->at < t->bytes);
    return status == GYRE_OK && inside > 0 ? gyre_fail(t->err, GYRE_EFORMAT, "a pattern whose class is not closed") : status;
}

/* out = bytes of an interval {m}, {m,}, {,n} or {m,n} at the current place, or 0. */
static size_t interval_length(const translator *t) {
    size_t i = t->at + 1, digits = 0;
    for (; i < t->bytes && ((t->in[i] >= '0' && t->in[i] <= '9') || t->in[i] == ','); i++)
        digits += t->in[i] != ',';
    return digits > 0 && i < t->bytes && t->in[i] == '}' ? i + 1 - t->at : 0;
}

/* Returns 1 if a group begins with "(?m", "(?im" or "(?-m".  In Oniguruma, m makes a dot match line ends. */
static int has_option_m(const translator *t) {
    size_t i = t->at + 2;
    if (i >= t->bytes || t->in[i - 1] != '?') return 0;
    for (; i < t->bytes && strchr("imxs-", t->in[i]); i++)
        if (t->in[i] == 'm') return 1;
    return 0;
}

/* Rewrites x{1,3}+ to (?:x{1,3})+. */
static void wrap_interval(translator *t) {
    memmove(t->out + t->atom + 3, t->out + t->atom, t->used - t->atom);
    memcpy(t->out + t->atom, "(?:", 3);
    t->used += 3;
    put(t, ')');
    put(t, '+');
    t->at++;
}

static gyre_status translate_one(translator *t) {
    const char c = t->in[t->at];
    const int after_interval = t->is_interval;
    const size_t length = c == '{' ? interval_length(t) : 0;
    t->is_interval = length > 0;
    if (c == '+' && after_interval) {
        wrap_interval(t);
        return GYRE_OK;
    }
    if (length > 0) {
        put(t, '{');
        if (t->in[t->at + 1] == ',') put(t, '0'); /* PCRE2 takes {,3} literally */
        memcpy(t->out + t->used, t->in + t->at + 1, length - 1);
        t->used += length - 1;
        t->at += length;
        return GYRE_OK;
    }
    if (c == ')' && t->depth > 0)
        t->atom = t->groups[--t->depth];
    else if (!strchr("?*+", c))
        t->atom = t->used;
    if (c == '\\') return translate_escape(t);
    if (c == '[') return translate_class(t);
    if (c == '(') {
        if (t->depth == MAX_GROUPS) return refuse(t, "too many open groups");
        if (t->at + 1 < t->bytes && t->in[t->at + 1] == '*') return refuse(t, "a verb");
        if (has_option_m(t)) return refuse(t, "an option that means something else to Oniguruma");
        t->groups[t->depth++] = t->used;
    }
    put(t, c);
    t->at++;
    return GYRE_OK;
}

gyre_status gyre_pattern_translate(const char *pattern, size_t bytes, char **out, gyre_error *err) {
    /* 2 bytes + 8 is enough: wrapping adds four bytes to a '+' and an interval of at least three, to which a 0 may be
     * added, and \uXXXX grows by two. */
    translator t = {.in = pattern, .bytes = bytes, .out = malloc(2 * bytes + 8), .err = err};
    gyre_status status = GYRE_OK;
    if (!t.out) return gyre_fail(err, GYRE_ENOMEM, "no memory for a pattern");
    if (memchr(pattern, '\0', bytes)) status = gyre_fail(err, GYRE_EUNSUPPORTED, "a pattern with a NUL");
    while (t.at < bytes && status == GYRE_OK)
        status = translate_one(&t);
    put(&t, '\0');
    if (status == GYRE_OK)
        *out = t.out;
    else
        free(t.out);
    return status;
}
