/* settings_arguments.c: arguments as a shell reads them, but nothing is run: words, quotes, comments, and the variables that
 * the text sets. */
#include "reading/trainers/trainer_settings.h"
#include "util/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 4096 };

typedef struct reader {
    const char *at, *end;
    int64_t line, words;
    json_t *variables, *root, *lines;
    char word[MAX_WORD];
    size_t length;
    int overflows, is_quoted;
} reader;

static int is_name_letter(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static void put(reader *r, const char *text, size_t length) {
    if (r->length + length >= MAX_WORD) {
        r->overflows = 1;
        return;
    }
    memcpy(r->word + r->length, text, length);
    r->length += length;
}

/* "$NAME" or "${NAME}": what the text set, else as it stands. */
static void put_variable(reader *r) {
    const char *begin = r->at++, *name = r->at;
    const int braced = r->at < r->end && *r->at == '{';
    name += braced;
    r->at = name;
    while (r->at < r->end && is_name_letter(*r->at))
        r->at++;
    const size_t length = (size_t)(r->at - name);
    char key[64];
    if (braced && r->at < r->end && *r->at == '}') r->at++;
    const json_t *value = NULL;
    if (length > 0 && length < sizeof key) {
        memcpy(key, name, length);
        key[length] = '\0';
        value = json_object_get(r->variables, key);
    }
    if (value)
        put(r, json_string_value(value), json_string_length(value));
    else
        put(r, begin, (size_t)(r->at - begin));
}

static void put_quoted(reader *r) {
    const char quote = *r->at++;
    r->is_quoted = 1;
    while (r->at < r->end && *r->at != quote) {
        r->line += *r->at == '\n';
        if (quote == '"' && *r->at == '$') {
            put_variable(r);
            continue;
        }
        if (quote == '"' && *r->at == '\\' && r->at + 1 < r->end && strchr("\"\\$`", r->at[1])) r->at++;
        put(r, r->at++, 1);
    }
    if (r->at < r->end) r->at++;
}

static void skip_between_words(reader *r) {
    while (r->at < r->end) {
        if (*r->at == '\\' && r->at + 1 < r->end && r->at[1] == '\n') r->at++;
        if (*r->at == '#') {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
            continue;
        }
        if (!isspace((unsigned char)*r->at) && *r->at != ';') return;
        r->line += *r->at++ == '\n';
    }
}

/* Reads a word into r->word.  out = 0 at the end of the text. */
static int next_word(reader *r) {
    int depth = 0; /* of parentheses in the word: ([0]*3+[1])*2 */
    r->length = 0;
    r->is_quoted = 0;
    skip_between_words(r);
    if (r->at >= r->end) return 0;
    while (r->at < r->end && !isspace((unsigned char)*r->at) && *r->at != ';') {
        const char c = *r->at;
        if (c == '(' && r->length > 0 && r->word[r->length - 1] == '=') { /* a list of the shell: NAME=( */
            r->at++;
            break;
        }
        if (c == ')' && depth == 0) {
            r->at++;
            break;
        }
        depth += (c == '(') - (c == ')');
        if (c == '\'' || c == '"') {
            put_quoted(r);
        } else if (c == '$') {
            put_variable(r);
        } else if (c == '\\' && r->at + 1 < r->end) {
            r->line += r->at[1] == '\n';
            if (r->at[1] != '\n') put(r, r->at + 1, 1);
            r->at += 2;
        } else {
            put(r, r->at++, 1);
        }
    }
    r->word[r->length] = '\0';
    return 1;
}

/* NAME=value sets a variable. */
static int set_variable(reader *r) {
    size_t name = 0;
    while (is_name_letter(r->word[name]))
        name++;
    if (name == 0 || r->word[name] != '=' || isdigit((unsigned char)r->word[0])) return 0;
    r->word[name] = '\0';
    (void)json_object_set_new(r->variables, r->word, json_string(r->word + name + 1));
    return 1;
}

static json_t *value_of(const char *text) {
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (end > text && !*end && !errno) return json_integer(whole);
    const double real = strtod(text, &end);
    if (end > text && !*end && isfinite(real)) return json_real(real);
    return json_string(text);
}

static int is_option(const reader *r) {
    return r->length > 2 && r->word[0] == '-' && r->word[1] == '-' && isalpha((unsigned char)r->word[2]);
}

/* Begins an option: its name into name, and its value, if there is one behind an equals sign. */
static int begin_option(reader *r, char name[MAX_WORD]) {
    char *equals = strchr(r->word, '=');
    if (equals) *equals = '\0';
    snprintf(name, MAX_WORD, "%s", r->word + 2);
    for (char *c = name; *c; c++)
        if (*c == '-') *c = '_';
    json_t *value = equals ? value_of(equals + 1) : json_true();
    return json_object_set_new(r->root, name, value) || json_object_set_new(r->lines, name, json_integer(r->line)) ? -1 : 0;
}

/* A value behind the name: the first replaces `true`, more make a list. */
static int add_value(reader *r, const char *name) {
    json_t *old = json_object_get(r->root, name);
    if (json_is_true(old)) return json_object_set_new(r->root, name, value_of(r->word));
    if (json_is_array(old)) return json_array_append_new(old, value_of(r->word));
    json_t *list = json_array();
    if (json_array_append(list, old) || json_array_append_new(list, value_of(r->word))) {
        json_decref(list);
        return -1;
    }
    return json_object_set_new(r->root, name, list);
}

gyre_status gyre_settings_of_arguments(gyre_settings *out, const char *text, size_t bytes, gyre_error *err) {
    reader *r = calloc(1, sizeof *r);
    char *name = calloc(1, MAX_WORD);
    gyre_status status = GYRE_OK;
    if (!r || !name || !(r->variables = json_object()) || !(r->root = json_object()) || !(r->lines = json_object()))
        status = gyre_fail(err, GYRE_ENOMEM, "arguments: no memory (%.300s)", out->path);
    if (!status) {
        r->at = text;
        r->end = text + bytes;
        r->line = 1;
    }
    while (!status && next_word(r)) {
        int bad = 0;
        if (++r->words > GYRE_SETTINGS_MAX_WORDS || r->overflows) {
            status = gyre_fail(err, GYRE_EFORMAT, "arguments: %s (%.300s, line %lld)",
                               r->overflows ? "a word that is too long" : "too many words", out->path, (long long)r->line);
        } else if (is_option(r)) {
            bad = begin_option(r, name);
        } else if (set_variable(r) || (r->length == 0 && !r->is_quoted)) {
            *name = '\0'; /* no value follows: a variable, or the end of a list of the shell */
        } else if (*name) {
            bad = add_value(r, name);
        }
        if (bad)
            status = gyre_fail(err, GYRE_EFORMAT, "arguments: not UTF-8 (%.300s, line %lld)", out->path, (long long)r->line);
    }
    if (!status) {
        out->root = json_incref(r->root);
        out->lines = json_incref(r->lines);
    }
    if (r) {
        json_decref(r->variables);
        json_decref(r->root);
        json_decref(r->lines);
    }
    free(r);
    free(name);
    return status;
}

int gyre_settings_are_arguments(const char *text, size_t bytes) {
    for (size_t i = 0; i + 2 < bytes; i++) {
        const int begins = i == 0 || isspace((unsigned char)text[i - 1]);
        if (!begins || text[i] != '-' || text[i + 1] != '-' || !isalpha((unsigned char)text[i + 2])) continue;
        size_t end = i + 2;
        while (end < bytes && (is_name_letter(text[end]) || text[end] == '-'))
            end++;
        if (end >= bytes || text[end] != ':') return 1;
    }
    return 0;
}
