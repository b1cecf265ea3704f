/* json_scope.c: values of a JSON file by key. */
#include "reading/json_scope.h"

#include "files/json_locate.h"
#include "util/plain_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static gyre_build *build_of(const gyre_scope *s) {
    return s->source->build;
}

const json_t *gyre_scope_value(const gyre_scope *s, const char *key) {
    const json_t *value = !gyre_build_status(build_of(s)) ? gyre_key_marks_get(s->source->marks, s->object, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

int gyre_scope_has(const gyre_scope *s, const char *key) {
    return gyre_key_marks_get(s->source->marks, s->object, key) != NULL;
}

const char *gyre_scope_sees(const gyre_scope *s, const char *const *names) {
    for (; *names; names++) {
        const json_t *value = json_object_get(s->object, *names);
        if (value && !json_is_null(value)) return *names;
    }
    return NULL;
}

const char *gyre_scope_first(const gyre_scope *s, const char *const *names) {
    for (; *names; names++)
        if (gyre_scope_value(s, *names)) return *names;
    return NULL;
}

gyre_scope gyre_scope_child(const gyre_scope *s, const char *key) {
    const json_t *value = gyre_scope_value(s, key);
    gyre_scope inner = {s->source, json_is_object(value) ? value : NULL, ""};
    const int length = snprintf(inner.prefix, sizeof inner.prefix, "%s%s.", s->prefix, key);
    if (value && !inner.object) gyre_scope_fail(s, GYRE_EFORMAT, key, "not an object");
    if (length < 0 || (size_t)length >= sizeof inner.prefix)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, key, "the name of an object above it is too long");
    return inner;
}

/* -- places -- */
/* out = the line of the key, or of the closest object around it that has one; 0 = none. */
static int64_t line_of_path(const json_t *lines, const char *path) {
    char above[sizeof((gyre_scope *)0)->prefix + 200];
    snprintf(above, sizeof above, "%s", path);
    for (;;) {
        const json_t *line = json_object_get(lines, above);
        char *dot = strrchr(above, '.');
        if (line || !dot) return line ? (int64_t)json_integer_value(line) : 0;
        *dot = '\0';
    }
}

gyre_place gyre_scope_place(const gyre_scope *s, const char *key) {
    gyre_json_member member = {0, 0, 0, 0};
    gyre_place place = {gyre_build_format(build_of(s), "%s%s", s->prefix, key), 0, 0};
    char parent[sizeof s->prefix];
    if (s->source->lines) {
        place.line = line_of_path(s->source->lines, place.key);
        return place;
    }
    snprintf(parent, sizeof parent, "%s", s->prefix);
    if (!gyre_json_locate(s->source->text, s->source->bytes, place.key, &member) && *parent) {
        parent[strlen(parent) - 1] = '\0';
        (void)gyre_json_locate(s->source->text, s->source->bytes, parent, &member);
    }
    place.line = member.line;
    place.offset = member.key;
    return place;
}

void gyre_scope_fail(const gyre_scope *s, gyre_status status, const char *key, const char *format, ...) {
    char why[300];
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (gyre_build_status(build_of(s))) return;
    const gyre_place place = gyre_scope_place(s, key);
    gyre_build_fail(build_of(s), status, &place, "%s: %s", place.key, why);
}

void gyre_scope_warn(const gyre_scope *s, const char *key, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (gyre_build_status(build_of(s))) return;
    const gyre_place place = gyre_scope_place(s, key);
    gyre_build_warn(build_of(s), &place, "%s", text);
}

void gyre_scope_doubt(const gyre_scope *s, gyre_warning_kind kind, const char *key, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (gyre_build_status(build_of(s))) return;
    const gyre_place place = gyre_scope_place(s, key);
    gyre_build_doubt(build_of(s), kind, &place, "%s", text);
}

/* -- values -- */
int64_t gyre_scope_integer(const gyre_scope *s, const char *key, int64_t minimum, int64_t fallback) {
    const json_t *value = gyre_scope_value(s, key);
    const double limit = 9007199254740992.0; /* 2^53: doubles beyond this are not exact integers */
    if (!value) return fallback;
    const double number = json_number_value(value);
    if (json_is_number(value) && number >= (double)minimum && number < limit && number == floor(number))
        return json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)number;
    if (json_is_number(value) && number >= limit) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is too large", number);
    gyre_scope_fail(s, GYRE_EFORMAT, key, "not a whole number of at least %" PRId64, minimum);
    return fallback;
}

double gyre_scope_number(const gyre_scope *s, const char *key, double fallback) {
    const json_t *value = gyre_scope_value(s, key);
    if (json_is_number(value)) return json_number_value(value);
    if (value)
        gyre_scope_fail(s, GYRE_EFORMAT, key, "not a number");
    else if (isnan(fallback))
        gyre_scope_fail(s, GYRE_EFORMAT, key, "missing");
    return isnan(fallback) ? 0.0 : fallback;
}

int gyre_scope_bool(const gyre_scope *s, const char *key, int fallback) {
    const json_t *value = gyre_scope_value(s, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    const json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && (number == 0 || number == 1)) return (int)number;
    gyre_scope_fail(s, GYRE_EFORMAT, key, "neither true nor false");
    return fallback;
}

const char *gyre_scope_string(const gyre_scope *s, const char *key, const char *fallback) {
    const json_t *value = gyre_scope_value(s, key);
    if (json_is_string(value)) return json_string_value(value);
    if (value)
        gyre_scope_fail(s, GYRE_EFORMAT, key, "not a string");
    else if (!fallback)
        gyre_scope_fail(s, GYRE_EFORMAT, key, "missing");
    return fallback ? fallback : "";
}

double *gyre_scope_numbers(const gyre_scope *s, const char *key, int64_t count) {
    const json_t *list = gyre_scope_value(s, key);
    if (!list) gyre_scope_fail(s, GYRE_EFORMAT, key, "missing");
    if (list && (!json_is_array(list) || (int64_t)json_array_size(list) != count))
        gyre_scope_fail(s, GYRE_EFORMAT, key, "not a list of %" PRId64 " numbers", count);
    double *out = !gyre_build_status(build_of(s)) ? gyre_build_alloc_numbers(build_of(s), count) : NULL;
    for (int64_t i = 0; i < count && out; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number)) gyre_scope_fail(s, GYRE_EFORMAT, key, "entry %" PRId64 " is not a number", i);
        out[i] = json_number_value(number);
    }
    return !gyre_build_status(build_of(s)) ? out : NULL;
}
