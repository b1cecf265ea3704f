/* settings_python.c: torchtitan's Python: the keywords of each RoPE.Config, where they are numbers, words, or products and
 * quotients of numbers that the function around the call has given names. */
#include "reading/trainers/trainer_settings.h"
#include "util/error.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MAX_LOOKUPS: of names in a file, each of which reads the function up to the call. */
enum { MAX_CALLS = 64, MAX_NAME = 64, MAX_EXPRESSION = 200, MAX_LOOKUPS = 500, MAX_BYTES = 1 << 18 };

typedef struct reader {
    const char *text, *end, *path;
    const char *function; /* where the last def begins; the text's begin if there is none */
    json_t *root, *lines;
    gyre_error *err;
    int calls, lookups;
    const char *counted; /* up to here, line feeds were counted */
    int64_t line;
} reader;

static int is_name_letter(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static int64_t line_of(reader *r, const char *at) {
    const char *c = r->counted && at >= r->counted ? r->counted : r->text;
    if (!c || c == r->text) r->line = 1;
    for (; c && c < at; c++)
        r->line += *c == '\n';
    r->counted = c;
    return r->line;
}

static gyre_status refuse(reader *r, gyre_status status, const char *at, const char *what, const char *why) {
    return gyre_fail(r->err, status, "%.60s: %s (%.300s, line %" PRId64 ")", what, why, r->path, line_of(r, at));
}

/* -- expressions -- */
typedef struct expression {
    reader *reader;
    const char *at, *call; /* the text that is read; where the call begins, before which names are looked for */
    int depth;
} expression;

static double evaluate(expression *e);

/* out = the number that NAME = ... or NAME=..., last sets in the function before the call; NAN = none. */
static double number_of_name(const expression *e, const char *name, size_t length) {
    const char *found = NULL;
    if (++e->reader->lookups > MAX_LOOKUPS || e->depth > 8) return NAN;
    for (const char *c = e->reader->function; c + length < e->call; c++) {
        const int begins = c == e->reader->text || !(is_name_letter(c[-1]) || c[-1] == '.');
        if (!begins || strncmp(c, name, length) != 0 || is_name_letter(c[length])) continue;
        const char *after = c + length;
        while (*after == ' ')
            after++;
        if (*after == '=' && after[1] != '=') found = after + 1;
    }
    if (!found) return NAN;
    while (*found == ' ')
        found++;
    if (!isdigit((unsigned char)*found)) return NAN;
    expression inner = {e->reader, found, found, e->depth + 1};
    return evaluate(&inner);
}

static double number_at(expression *e) {
    char digits[MAX_NAME];
    size_t n = 0;
    while (n + 1 < sizeof digits && (isdigit((unsigned char)*e->at) || strchr("._eE", *e->at) ||
                                     ((*e->at == '-' || *e->at == '+') && n > 0 && tolower(digits[n - 1]) == 'e'))) {
        if (!*e->at) break;
        if (*e->at != '_') digits[n++] = *e->at;
        e->at++;
    }
    digits[n] = '\0';
    char *end;
    const double value = strtod(digits, &end);
    return end > digits && !*end ? value : NAN;
}

static void skip_spaces(expression *e) {
    while (isspace((unsigned char)*e->at))
        e->at++;
}

static double operand(expression *e) {
    skip_spaces(e);
    if (isdigit((unsigned char)*e->at) || *e->at == '.') return number_at(e);
    const char *name = e->at;
    while (is_name_letter(*e->at))
        e->at++;
    return e->at > name ? number_of_name(e, name, (size_t)(e->at - name)) : NAN;
}

/* Products and quotients, from left to right. */
static double evaluate(expression *e) {
    double value = operand(e);
    for (int i = 0; i < 8; i++) {
        skip_spaces(e);
        if (e->at[0] == '*' && e->at[1] != '*') {
            e->at++;
            value *= operand(e);
        } else if (e->at[0] == '/') {
            const int floors = e->at[1] == '/';
            e->at += 1 + floors;
            value /= operand(e);
            if (floors) value = floor(value);
        } else {
            break;
        }
    }
    return value;
}

/* *out = the value of a keyword's text. */
static gyre_status value_of(reader *r, const char *key, const char *text, const char *call, const char *at, json_t **out) {
    const size_t length = strlen(text);
    *out = NULL;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        *out = json_boolean(text[0] == 'T');
    } else if (length >= 2 && (*text == '"' || *text == '\'') && text[length - 1] == *text) {
        *out = json_stringn(text + 1, length - 2);
    } else {
        expression e = {r, text, call, 0};
        const double value = evaluate(&e);
        skip_spaces(&e);
        if (*e.at || !isfinite(value))
            return refuse(r, GYRE_EUNSUPPORTED, at, key, "only numbers, words, and products of named numbers are read");
        const int whole = value == floor(value) && fabs(value) < 9e15 && !strpbrk(text, ".eE");
        *out = whole ? json_integer((json_int_t)value) : json_real(value);
    }
    return *out ? GYRE_OK : refuse(r, GYRE_EFORMAT, at, key, "not UTF-8");
}

/* -- calls -- */
/* Copies the text at c up to a comma or the closing parenthesis, without comments and line feeds.  out = where it ends. */
static const char *copy_argument(const char *c, const char *end, char out[MAX_EXPRESSION], int *fits) {
    size_t n = 0;
    int depth = 0;
    char quote = 0;
    *fits = 1;
    for (; c < end; c++) {
        if (!quote && *c == '#') {
            while (c < end && *c != '\n')
                c++;
            if (c >= end) break;
        }
        if (quote) {
            if (*c == quote) quote = 0;
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else if (depth == 0 && (*c == ',' || *c == ')')) {
            break;
        }
        if (!quote) depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        const char kept = isspace((unsigned char)*c) ? ' ' : *c;
        if (kept == ' ' && (n == 0 || out[n - 1] == ' ')) continue;
        if (n + 1 < MAX_EXPRESSION)
            out[n++] = kept;
        else
            *fits = 0;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
    return c;
}

/* out = past spaces and comments. */
static const char *past_spaces(const char *c, const char *end) {
    while (c < end && (isspace((unsigned char)*c) || *c == '#')) {
        const int is_comment = *c == '#';
        while (is_comment && c + 1 < end && c[1] != '\n')
            c++;
        c++;
    }
    return c;
}

static gyre_status read_keywords(reader *r, const char *call, const char *c, const char *group, json_t *object) {
    gyre_status status = GYRE_OK;
    for (int n = 0; c < r->end && n < 64 && !status; n++) {
        char argument[MAX_EXPRESSION], path[MAX_NAME + MAX_EXPRESSION];
        const char *at = c;
        int fits;
        json_t *value;
        at = past_spaces(at, r->end);
        c = copy_argument(c, r->end, argument, &fits);
        char *equals = strchr(argument, '=');
        if (!fits || (*argument && (!equals || equals - argument >= MAX_NAME)))
            return refuse(r, GYRE_EUNSUPPORTED, at, "RoPE.Config", "an argument that is not NAME=VALUE");
        if (*argument) {
            char *text = equals + 1;
            for (char *last = equals; last > argument && last[-1] == ' '; last--)
                last[-1] = '\0';
            *equals = '\0';
            while (*text == ' ')
                text++;
            snprintf(path, sizeof path, "%s.%s", group, argument);
            status = value_of(r, argument, text, call, at, &value);
            if (!status && (json_object_set_new(object, argument, value) ||
                            json_object_set_new(r->lines, path, json_integer(line_of(r, at)))))
                status = refuse(r, GYRE_EFORMAT, at, "RoPE.Config", "not UTF-8");
        }
        if (c < r->end && *c == ')') return status;
        c++;
    }
    return status ? status : refuse(r, GYRE_EFORMAT, call, "RoPE.Config", "its parenthesis is not closed");
}

/* out = the name of the function around the call, without underscores in front; numbered where it has several. */
static void name_group(const reader *r, char out[MAX_NAME]) {
    char name[MAX_NAME - (int)sizeof "-2147483647"] = "all"; /* with room for any number */
    const char *c = r->function;
    if (c + 4 < r->end && strncmp(c, "def ", 4) == 0) {
        size_t n = 0;
        for (c += 4; c < r->end && *c == '_'; c++) {
        }
        while (c < r->end && is_name_letter(*c) && n + 1 < sizeof name)
            name[n++] = *c++;
        name[n] = '\0';
        if (n == 0) snprintf(name, sizeof name, "all");
    }
    snprintf(out, MAX_NAME, "%s", name);
    for (int i = 2; json_object_get(r->root, out); i++)
        snprintf(out, MAX_NAME, "%s-%d", name, i);
}

static gyre_status read_call(reader *r, const char *call, const char *arguments, int pairs_beside) {
    char group[MAX_NAME];
    if (++r->calls > MAX_CALLS) return refuse(r, GYRE_EFORMAT, call, "RoPE.Config", "too many of them");
    name_group(r, group);
    json_t *object = json_object();
    if (!object || json_object_set_new(r->root, group, object))
        return gyre_fail(r->err, GYRE_ENOMEM, "RoPE.Config: no memory (%.300s)", r->path);
    (void)json_object_set_new(r->lines, group, json_integer(line_of(r, call)));
    (void)json_object_set_new(object, "interleaved", json_boolean(pairs_beside));
    return read_keywords(r, call, arguments, group, object);
}

/* Advances over a comment or a string.  out = c where there is neither. */
static const char *past_text(const char *c, const char *end) {
    if (*c == '#') {
        while (c < end && *c != '\n')
            c++;
        return c;
    }
    if (*c != '"' && *c != '\'') return c;
    const char quote = *c;
    const int is_long = end - c >= 3 && c[1] == quote && c[2] == quote;
    for (c += is_long ? 3 : 1; c < end; c++) {
        if (is_long ? end - c >= 3 && c[0] == quote && c[1] == quote && c[2] == quote : *c == quote || *c == '\n')
            return c + (is_long ? 3 : 1);
        if (*c == '\\' && c + 1 < end) c++;
    }
    return end;
}

static gyre_status read_calls(reader *r) {
    static const char word[] = "RoPE.Config(";
    for (const char *c = r->text; c < r->end;) {
        const char *past = past_text(c, r->end);
        if (past > c) {
            c = past;
            continue;
        }
        const size_t left = (size_t)(r->end - c);
        const int begins = c == r->text || !is_name_letter(c[-1]);
        if (begins && left > 4 && strncmp(c, "def ", 4) == 0) r->function = c;
        if (left < sizeof word || strncmp(c, word, sizeof word - 1) != 0) {
            c++;
            continue;
        }
        const char *name = c;
        while (name > r->text && is_name_letter(name[-1]))
            name--;
        const size_t prefix = (size_t)(c - name);
        const int beside = prefix == 7 && strncmp(name, "Complex", 7) == 0,
                  half = prefix == 6 && strncmp(name, "CosSin", 6) == 0;
        if (!beside && !half)
            return refuse(r, GYRE_EUNSUPPORTED, c, "RoPE.Config",
                          "which pairs rotate is a matter of ComplexRoPE and CosSinRoPE");
        const gyre_status status = read_call(r, name, c + sizeof word - 1, beside);
        if (status) return status;
        c += sizeof word - 1;
    }
    return GYRE_OK;
}

gyre_status gyre_settings_of_python(gyre_settings *out, const char *text, size_t bytes, gyre_error *err) {
    char *copy = calloc(bytes + 1, 1); /* ends with a NUL, which the steps above rely on */
    reader r = {.root = json_object(), .lines = json_object(), .path = out->path, .err = err};
    gyre_status status = GYRE_OK;
    if (bytes > MAX_BYTES) {
        status = gyre_fail(err, GYRE_EFORMAT, "RoPE.Config: longer than 256 KiB (%.300s)", out->path);
    } else if (!copy || !r.root || !r.lines) {
        status = gyre_fail(err, GYRE_ENOMEM, "RoPE.Config: no memory (%.300s)", out->path);
    } else {
        memcpy(copy, text, bytes);
        r.text = r.function = copy;
        r.end = copy + bytes;
        status = read_calls(&r);
    }
    if (!status && r.calls == 0)
        status =
            gyre_fail(err, GYRE_EUNSUPPORTED,
                      "RoPE.Config: no call of ComplexRoPE.Config or CosSinRoPE.Config; a TOML file names only the model "
                      "and its flavor: the rotation is in torchtitan/models/NAME/__init__.py (%.200s)",
                      out->path);
    if (!status) {
        out->root = json_incref(r.root);
        out->lines = json_incref(r.lines);
    }
    json_decref(r.root);
    json_decref(r.lines);
    free(copy);
    return status;
}
