/* pre_tokenizer_regex.c: translates the patterns of tokenizer.json, which are in Oniguruma's syntax (Ruby's), to PCRE2's.
 *
 *     [a[bc]]     -> [abc]            nested classes
 *     x{1,3}+     -> (?:x{1,3})+      a plus after an interval repeats it; in PCRE2 it would be possessive
 *     x{2}?       -> (?:x{2})?        a question mark after a count makes it optional; in PCRE2 it would be lazy
 *     x{,3}       -> x{0,3}
 *     a(?i)b|c    -> a(?i:b|c)        the rest of a group, with its alternatives
 *     \u4E00      -> \x{4E00}
 *     ^           -> (?<![^\n])(?!\z) PCRE2 would not report that a window's end matters to it
 *     \p{Han}     -> \p{sc:Han}       PCRE2 would also take the characters that other scripts share with it
 *     \w \s \h \b [[:punct:]] ...     the sets below
 *     [\W_]       -> (?:[_]|[^...])   the complement of a set, within a class
 *
 * Other known differences are refused. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/encoding.h"
#include "tokenizer/pre_tokenizer.h"
#include "util/error.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_GROUPS = 100,
    MAX_TRANSLATED = 1 << 20, /* bytes; PCRE2 compiles patterns of some tens of KiB */
    MAX_NAME = 40             /* bytes of the name of a property */
};

/* -- sets of characters -- */
/* The sets of Oniguruma 6.9.10, as members of a class of PCRE2, measured over all characters through the tokenizers library
 * (0.23).  PCRE2's own differ between its versions: \w has marks from 10.43 on. */
#define CIRCLED_LETTERS "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
#define WORD_SET        CIRCLED_LETTERS "\\p{L}\\p{M}\\p{Nl}\\p{Nd}\\p{Pc}"
#define LATIN1_NUMBERS  "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}" /* of \w and \b, but not within a class */
#define SPACE_SET       "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define GRAPH_SET       "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"
typedef enum character_set {
    SET_NONE = -1,
    SET_ALNUM,
    SET_ALPHA,
    SET_ASCII,
    SET_BLANK,
    SET_CNTRL,
    SET_DIGIT,
    SET_GRAPH,
    SET_LOWER,
    SET_PRINT,
    SET_PUNCT,
    SET_SPACE,
    SET_UPPER,
    SET_WORD,
    SET_XDIGIT,
    SETS
} character_set;
static const struct {
    const char *name, *members;
} sets[SETS] = {
    [SET_ALNUM] = {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    [SET_ALPHA] = {"alpha", "\\p{Alphabetic}"},
    [SET_ASCII] = {"ascii", "\\x{0}-\\x{7F}"},
    [SET_BLANK] = {"blank", "\\t\\p{Zs}"},
    [SET_CNTRL] = {"cntrl", "\\p{Cc}"},
    [SET_DIGIT] = {"digit", "\\p{Nd}"},
    [SET_GRAPH] = {"graph", GRAPH_SET},
    [SET_LOWER] = {"lower", "\\p{Lowercase}"},
    [SET_PRINT] = {"print", GRAPH_SET "\\p{Zs}"},
    [SET_PUNCT] = {"punct", "\\p{P}\\p{S}"},
    [SET_SPACE] = {"space", SPACE_SET},
    [SET_UPPER] = {"upper", "\\p{Uppercase}"},
    [SET_WORD] = {"word", WORD_SET},
    [SET_XDIGIT] = {"xdigit", "0-9A-Fa-f"},
};

/* out = the set with a name.  Case and the separators _, - and space do not count, as in names of properties. */
static character_set set_named(const char *name, size_t bytes) {
    for (int i = 0; i < SETS; i++) {
        size_t at = 0, same = 0;
        for (; at < bytes; at++) {
            if (strchr("_- ", name[at])) continue;
            if ((name[at] | 0x20) != sets[i].name[same]) break;
            same++;
        }
        if (at == bytes && !sets[i].name[same]) return (character_set)i;
    }
    return SET_NONE;
}

/* out = the set that \w, \s or \h stands for, or its complement \W, \S or \H. */
static character_set set_of_escape(char c) {
    switch (c | 0x20) {
    case 'w':
        return SET_WORD;
    case 's':
        return SET_SPACE;
    case 'h':
        return SET_XDIGIT;
    default:
        return SET_NONE;
    }
}

/* -- translation -- */
typedef struct translator {
    const char *in;
    size_t bytes, at, used, capacity;
    char *out;
    size_t groups[MAX_GROUPS];      /* [depth] where the open groups begin in `out` */
    size_t options[MAX_GROUPS + 1]; /* [depth] groups that options opened, which end with the group around them */
    int depth;
    size_t atom;     /* where the last repeatable item begins in `out` */
    int interval;    /* of the last item: 1 it was {m,n}, 2 {n}, 3 what one became with a plus or question mark; else 0 */
    int is_counted;  /* 1: the last character was a count: ?, * or + */
    gyre_status bad; /* why `out` could not grow */
    gyre_error *err;
} translator;

/* A class, while it is read. */
typedef struct class_reader {
    int inside; /* brackets that are open */
    int negated, has_members;
    int after_set; /* 1: the last member was a set, so a hyphen is one too */
    size_t begin;  /* of the class in `out` */
    int complements[SETS];
} class_reader;

static void put_bytes(translator *t, const char *bytes, size_t count) {
    if (t->used + count > MAX_TRANSLATED)
        t->bad = GYRE_EUNSUPPORTED;
    else if (t->used + count > t->capacity) {
        const size_t capacity = 2 * (t->used + count) + 64;
        char *grown = realloc(t->out, capacity);
        if (!grown) t->bad = GYRE_ENOMEM;
        t->out = grown ? grown : t->out;
        t->capacity = grown ? capacity : t->capacity;
    }
    if (t->bad || !t->out) return;
    memcpy(t->out + t->used, bytes, count);
    t->used += count;
}

static void put_string(translator *t, const char *s) {
    put_bytes(t, s, strlen(s));
}

static void put(translator *t, char c) {
    put_bytes(t, &c, 1);
}

/* Inserts a string before out[at ..]. */
static void put_before(translator *t, size_t at, const char *s) {
    const size_t length = strlen(s);
    put_bytes(t, s, length);
    if (t->bad) return;
    memmove(t->out + at + length, t->out + at, t->used - length - at);
    memcpy(t->out + at, s, length);
}

/* A separate class: a set or its complement. */
static void put_set(translator *t, const char *members, int is_complement) {
    put_string(t, is_complement ? "[^" : "[");
    put_string(t, members);
    put(t, ']');
}

static gyre_status refuse(const translator *t, const char *what) {
    return gyre_fail(t->err, GYRE_EUNSUPPORTED, "a pattern with %s at its byte %zu", what, t->at);
}

/* \b or \B: the edge of a word, between a character of \w and one that is not. */
static void put_word_edge(translator *t, int is_complement) {
    static const char word[] = "[" LATIN1_NUMBERS WORD_SET "]";
    char edge[4 * sizeof word + 40];
    snprintf(edge, sizeof edge, "(?:(?<=%s)(?%c%s)|(?<!%s)(?%c%s))", word, is_complement ? '=' : '!', word, word,
             is_complement ? '!' : '=', word);
    put_string(t, edge);
}

/* Takes a set, or its complement, as a member of a class, or, if k is NULL, as a separate item. */
static void take_set(translator *t, class_reader *k, const char *members, character_set set, int is_complement) {
    if (!k) {
        put_set(t, members, is_complement);
    } else if (is_complement) {
        k->complements[set] = 1;
    } else {
        put_string(t, members);
        k->has_members = 1;
    }
    if (k) k->after_set = 1;
}

static int is_hexadecimal(char c) {
    return c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL;
}

/* Translates \u4E00.  Returns 0 if it is not one. */
static int translate_u_escape(translator *t) {
    const char *digits = t->in + t->at + 2;
    if (t->bytes - t->at < 6) return 0;
    for (int i = 0; i < 4; i++)
        if (!is_hexadecimal(digits[i])) return 0;
    put_string(t, "\\x{");
    put_bytes(t, digits, 4);
    put(t, '}');
    t->at += 6;
    return 1;
}

/* 1: PCRE2 knows a script with this name, and would mean by the name alone all characters that the script uses. */
static int is_script(translator *t, const char *name, size_t bytes) {
    char property[MAX_NAME + 16];
    int error;
    PCRE2_SIZE offset;
    snprintf(property, sizeof property, "\\p{sc:%.*s}", (int)bytes, name);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)property, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &offset, NULL);
    if (!code && error == PCRE2_ERROR_HEAP_FAILED) t->bad = GYRE_ENOMEM;
    pcre2_code_free(code);
    return code != NULL;
}

/* Translates \p{name}, \P{name} and \p{^name}. */
static gyre_status translate_property(translator *t, class_reader *k) {
    const char *name = t->in + t->at + 3, *close = memchr(name, '}', t->bytes - t->at - 3);
    if (!close) return gyre_fail(t->err, GYRE_EFORMAT, "a pattern whose property is not closed");
    int is_complement = t->in[t->at + 1] == 'P';
    t->at = (size_t)(close + 1 - t->in);
    if (*name == '^') is_complement = !is_complement, name++;
    const size_t bytes = (size_t)(close - name);
    const character_set set = set_named(name, bytes);
    if (set == SET_WORD) {
        take_set(t, k, k ? WORD_SET : LATIN1_NUMBERS WORD_SET, set, is_complement);
    } else if (set != SET_NONE && set != SET_PUNCT) {
        take_set(t, k, sets[set].members, set, is_complement);
    } else {
        put_string(t, is_complement ? "\\P{" : "\\p{");
        if (bytes > 2 && bytes <= MAX_NAME && is_script(t, name, bytes)) put_string(t, "sc:");
        put_bytes(t, set == SET_PUNCT ? "P" : name, set == SET_PUNCT ? 1 : bytes);
        put(t, '}');
        if (k) k->has_members = k->after_set = 1;
    }
    return GYRE_OK;
}

/* out = bytes that are digits of a base, at most `most`. */
static size_t digits_length(const char *s, size_t left, int base, size_t most) {
    size_t n = 0;
    while (n < left && n < most && (base == 16 ? is_hexadecimal(s[n]) : s[n] >= '0' && s[n] < '0' + base))
        n++;
    return n;
}

/* Copies \x41, \x{4E00}, \101, \k<name> and other escapes, whole, so that a count after them repeats all of it. */
static gyre_status copy_escape(translator *t) {
    const char *s = t->in + t->at;
    const size_t left = t->bytes - t->at;
    const size_t octal = digits_length(s + 1, left - 1, 8, 3), hexadecimal = digits_length(s + 2, left - 2, 16, 2);
    size_t bytes = 2;
    /* Oniguruma joins such bytes to characters. */
    if ((octal == 3 && s[1] > '1') || (s[1] == 'x' && hexadecimal == 2 && s[2] > '7'))
        return refuse(t, "a byte of a character");
    const char *close = left > 2 && s[2] == '{'   ? memchr(s, '}', left)
                        : left > 2 && s[2] == '<' ? memchr(s, '>', left)
                                                  : NULL;
    if (close && strchr("xkg", s[1]))
        bytes = (size_t)(close + 1 - s);
    else if (s[1] == 'x')
        bytes += hexadecimal;
    else if (s[1] >= '0' && s[1] <= '9')
        bytes = 1 + digits_length(s + 1, left - 1, 10, 3);
    else if (s[1] == 'c' && left > 2)
        bytes = 3;
    else
        while (bytes < left && ((unsigned char)s[bytes] & 0xC0) == 0x80)
            bytes++;
    put_bytes(t, s, bytes);
    t->at += bytes;
    return GYRE_OK;
}

/* Copies a backslash and what belongs to it.  k: the class that it is in, or NULL. */
static gyre_status translate_escape(translator *t, class_reader *k) {
    if (t->at + 1 >= t->bytes) return gyre_fail(t->err, GYRE_EFORMAT, "a pattern that ends with a backslash");
    const char c = t->in[t->at + 1];
    const character_set set = set_of_escape(c);
    const int is_capital = (c & 0x20) == 0;
    if (strchr("pP", c) && t->at + 2 < t->bytes && t->in[t->at + 2] == '{') return translate_property(t, k);
    if (strchr("RXKGvQEpP", c)) return refuse(t, "an escape that means something else to Oniguruma");
    if (set != SET_NONE) {
        t->at += 2;
        take_set(t, k, set == SET_WORD && !k ? LATIN1_NUMBERS WORD_SET : sets[set].members, set, is_capital);
        return GYRE_OK;
    }
    if (strchr("bB", c) && !k) {
        t->at += 2;
        put_word_edge(t, is_capital);
        return GYRE_OK;
    }
    if (k) {
        k->has_members = 1;
        k->after_set = strchr("dD", c) != NULL;
    }
    if (c == 'u' && translate_u_escape(t)) return GYRE_OK;
    return copy_escape(t);
}

/* -- classes -- */
/* Reads [:alpha:] or [:^alpha:].  Returns 0 if it is something else. */
static int translate_posix(translator *t, class_reader *k) {
    const char *name = t->in + t->at + 2, *end = t->in + t->bytes;
    if (t->bytes - t->at < 4 || name[-1] != ':') return 0;
    const int is_complement = *name == '^';
    name += is_complement;
    const char *close = name;
    while (close < end && *close >= 'a' && *close <= 'z')
        close++;
    if (end - close < 2 || close[0] != ':' || close[1] != ']') return 0;
    const character_set set = set_named(name, (size_t)(close - name));
    if (set == SET_NONE) return 0;
    t->at = (size_t)(close + 2 - t->in);
    take_set(t, k, sets[set].members, set, is_complement);
    return 1;
}

/* Opens a class.  One inside another that is not negated only adds its members, so its brackets are dropped. */
static gyre_status open_class(translator *t, class_reader *k) {
    const int is_first = k->inside++ == 0;
    t->at++;
    if (t->at < t->bytes && t->in[t->at] == '^') {
        if (!is_first) return refuse(t, "a negated class within a class");
        k->negated = 1;
        t->at++;
    }
    k->after_set = 1; /* a hyphen that comes first is a member */
    if (is_first) put_string(t, k->negated ? "[^" : "[");
    /* So is a closing bracket. */
    if (is_first && t->at + 1 < t->bytes && t->in[t->at] == ']') {
        put_string(t, "\\]");
        t->at++;
        k->has_members = 1;
        k->after_set = 0;
    }
    return GYRE_OK;
}

/* Ends the class in `out`.  PCRE2 has no member that is the complement of a set, so those become alternatives, or, in a
 * negated class, conditions. */
static void close_class(translator *t, const class_reader *k) {
    int complements = 0;
    for (int i = 0; i < SETS; i++)
        complements += k->complements[i];
    put(t, ']');
    if (complements == 0) return;
    if (!k->has_members) { /* [] or [^] */
        if (!t->bad) t->used = k->begin;
        put_string(t, k->negated ? "[\\x{0}-\\x{10FFFF}]" : "");
    }
    int is_first = !k->has_members;
    for (int i = 0; i < SETS; i++) {
        char condition[sizeof WORD_SET + 20];
        if (!k->complements[i]) continue;
        snprintf(condition, sizeof condition, k->negated ? "(?=[%s])" : "|[^%s]", sets[i].members);
        if (k->negated)
            put_before(t, k->begin, condition);
        else
            put_string(t, condition + is_first);
        is_first = 0;
    }
    put_before(t, k->begin, "(?:");
    put(t, ')');
}

/* A hyphen beside a set, or at an edge of a class, is a member. */
static gyre_status translate_hyphen(translator *t, class_reader *k) {
    const char next = t->at + 1 < t->bytes ? t->in[t->at + 1] : '\0', after = t->at + 2 < t->bytes ? t->in[t->at + 2] : '\0';
    if (k->after_set || next == ']' || next == '[') {
        put_string(t, "\\-");
        k->has_members = 1;
        k->after_set = 0;
    } else if (next == '\\' && after != '\0' && strchr("wWsShHdDpP", after)) {
        return refuse(t, "a range that ends with a class");
    } else {
        put(t, '-');
    }
    t->at++;
    return GYRE_OK;
}

static gyre_status translate_member(translator *t, class_reader *k) {
    const char c = t->in[t->at];
    if (c == '\\') return translate_escape(t, k);
    if (c == '&' && t->at + 1 < t->bytes && t->in[t->at + 1] == '&') return refuse(t, "an intersection of classes");
    if (c == '[') return translate_posix(t, k) ? GYRE_OK : open_class(t, k);
    if (c == '-') return translate_hyphen(t, k);
    t->at++;
    if (c == ']') {
        k->inside--;
        k->after_set = 1;
        return GYRE_OK;
    }
    if (c == ':' || c == '.' || c == '=') put(t, '\\'); /* PCRE2 would read [: as the begin of a name */
    put(t, c);
    k->has_members = 1;
    k->after_set = 0;
    return GYRE_OK;
}

static gyre_status translate_class(translator *t) {
    class_reader k = {.begin = t->used};
    gyre_status status = open_class(t, &k);
    while (k.inside > 0 && !status && t->at < t->bytes)
        status = translate_member(t, &k);
    if (!status && k.inside > 0) return gyre_fail(t->err, GYRE_EFORMAT, "a pattern whose class is not closed");
    if (!status) close_class(t, &k);
    return status;
}

/* -- the rest -- */
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

/* PCRE2's compiled programs count the repetitions of a group against the limit of steps, but not those of a lazy count
 * of one character, which may be as many as the text has bytes. */
static void group_if_lazy(translator *t, size_t length) {
    if (t->at + length >= t->bytes || t->in[t->at + length] != '?') return;
    put_before(t, t->atom, "(?:");
    put(t, ')');
}

static void translate_interval(translator *t, size_t length) {
    if (memchr(t->in + t->at, ',', length)) group_if_lazy(t, length);
    t->interval = memchr(t->in + t->at, ',', length) ? 1 : 2;
    put(t, '{');
    if (t->in[t->at + 1] == ',') put(t, '0'); /* PCRE2 takes {,3} literally */
    put_bytes(t, t->in + t->at + 1, length - 1);
    t->at += length;
}

/* out = bytes of "(?i" in "(?i)", or 0.  The option is one for the rest of the group around it. */
static size_t option_length(const translator *t) {
    size_t i = t->at + 2;
    if (i >= t->bytes || t->in[i - 1] != '?') return 0;
    while (i < t->bytes && strchr("ix-", t->in[i]))
        i++;
    return i > t->at + 2 && i < t->bytes && t->in[i] == ')' ? i - t->at : 0;
}

static gyre_status open_group(translator *t) {
    const size_t length = option_length(t);
    if (t->depth == MAX_GROUPS) return refuse(t, "too many open groups");
    if (t->at + 1 < t->bytes && t->in[t->at + 1] == '*') return refuse(t, "a verb");
    if (has_option_m(t)) return refuse(t, "an option that means something else to Oniguruma");
    if (length > 0) {
        put_bytes(t, t->in + t->at, length);
        put(t, ':');
        t->options[t->depth]++;
        t->at += length + 1;
        return GYRE_OK;
    }
    t->groups[t->depth++] = t->used;
    t->options[t->depth] = 0;
    put(t, '(');
    t->at++;
    return GYRE_OK;
}

static void close_options(translator *t) {
    for (; t->options[t->depth] > 0; t->options[t->depth]--)
        put(t, ')');
}

/* Takes a plus or question mark after an interval, which in PCRE2 would not count but change how it repeats. */
static void repeat_interval(translator *t) {
    put_before(t, t->atom, "(?:");
    put(t, ')');
    put(t, t->in[t->at++]);
    t->interval = 3;
}

static gyre_status translate_one(translator *t) {
    const char c = t->in[t->at];
    const int interval = t->interval, repeats = strchr("?*+", c) != NULL;
    const size_t length = c == '{' ? interval_length(t) : 0;
    if (interval == 3 && (repeats || length > 0)) return refuse(t, "a third count after two");
    const int is_first_count = repeats && !t->is_counted;
    t->is_counted = repeats;
    t->interval = 0;
    if ((c == '+' && interval > 0) || (c == '?' && interval == 2)) {
        repeat_interval(t);
        return GYRE_OK;
    }
    if (length > 0) {
        translate_interval(t, length);
        return GYRE_OK;
    }
    if (c == ')' && t->depth > 0) {
        close_options(t);
        t->atom = t->groups[--t->depth];
    } else if (!repeats) {
        t->atom = t->used;
    }
    if (c == '\\') return translate_escape(t, NULL);
    if (c == '[') return translate_class(t);
    if (c == '(') return open_group(t);
    if (is_first_count) group_if_lazy(t, 1);
    t->at++;
    if (c == '^')
        put_string(t, "(?:(?<![^\\n])(?!\\z))");
    else
        put(t, c);
    while (t->at < t->bytes && ((unsigned char)t->in[t->at] & 0xC0) == 0x80)
        put(t, t->in[t->at++]); /* of the same character */
    return GYRE_OK;
}

gyre_status gyre_pattern_translate(const char *pattern, size_t bytes, char **out, gyre_error *err) {
    translator t = {.in = pattern, .bytes = bytes, .err = err};
    gyre_status status = GYRE_OK;
    if (memchr(pattern, '\0', bytes)) status = gyre_fail(err, GYRE_EUNSUPPORTED, "a pattern with a NUL");
    while (t.at < bytes && !status && !t.bad)
        status = translate_one(&t);
    if (t.depth == 0) close_options(&t);
    put(&t, '\0');
    if (!status && t.bad == GYRE_ENOMEM) status = gyre_fail(err, t.bad, "no memory for a pattern");
    if (!status && t.bad)
        status = gyre_fail(err, t.bad, "a pattern that is longer than %d bytes in PCRE2's syntax", MAX_TRANSLATED);
    if (!status)
        *out = t.out;
    else
        free(t.out);
    return status;
}
