/* yaml_read.c: YAML by libyaml's events.  Without libyaml there is only the refusal. */
#include "files/yaml_read.h"

#include "util/error.h"

#ifndef GYRE_HAVE_YAML
gyre_status gyre_yaml_read(json_t **root, json_t **lines, const char *text, size_t bytes, const char *path,
                           gyre_error *err) {
    (void)text, (void)bytes;
    *root = *lines = NULL;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "YAML: this gyre was built without libyaml (Debian's libyaml-dev) (%.300s)",
                     path);
}
#else
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_PATH = 400 };

typedef struct reader {
    yaml_parser_t parser;
    json_t *lines, *anchors, *sizes; /* anchors: name -> value; sizes: name -> its nodes */
    const char *path;
    gyre_error *err;
    int64_t nodes;
} reader;

static gyre_status refuse(const reader *r, gyre_status status, const yaml_mark_t *mark, const char *why) {
    return gyre_fail(r->err, status, "YAML: %s (%.300s, line %zu)", why, r->path, mark->line + 1);
}

static gyre_status next(reader *r, yaml_event_t *event) {
    if (yaml_parser_parse(&r->parser, event)) return GYRE_OK;
    if (r->parser.error == YAML_MEMORY_ERROR) return gyre_fail(r->err, GYRE_ENOMEM, "YAML: no memory (%.300s)", r->path);
    char why[160];
    snprintf(why, sizeof why, "%.150s", r->parser.problem ? r->parser.problem : "malformed");
    return refuse(r, GYRE_EFORMAT, &r->parser.problem_mark, why);
}

/* -- scalars, as PyYAML resolves them -- */
static int is_one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (strcmp(text, *words) == 0) return 1;
    return 0;
}

/* out = past the digits and underscores at c. */
static const char *past_digits(const char *c) {
    while ((*c >= '0' && *c <= '9') || *c == '_')
        c++;
    return c;
}

/* out = the text is a decimal integer (1) or a real (2), else 0.  5e5 is text to PyYAML, which wants 5.0e+5. */
static int number_form(const char *text) {
    const char *c = text + (*text == '-' || *text == '+');
    if (*c == '.' ? c[1] < '0' || c[1] > '9' : *c < '0' || *c > '9') return 0;
    const char *end = past_digits(c);
    if (!*end) return *c != '0' || end == c + 1; /* a leading 0: octal */
    if (*end != '.') return 0;
    end = past_digits(end + 1);
    if (*end == 'e' || *end == 'E') {
        if (end[1] != '-' && end[1] != '+') return 0;
        const char *exponent = end + 2;
        while (*exponent >= '0' && *exponent <= '9')
            exponent++;
        if (exponent == end + 2) return 0;
        end = exponent;
    }
    return *end ? 0 : 2;
}

static json_t *number_of(const char *text, int form) {
    char digits[64];
    size_t n = 0;
    for (const char *c = text; *c && n + 1 < sizeof digits; c++)
        if (*c != '_') digits[n++] = *c;
    digits[n] = '\0';
    errno = 0;
    const long long whole = strtoll(digits, NULL, 10);
    if (form == 1 && !errno) return json_integer(whole);
    const double real = strtod(digits, NULL);
    return isfinite(real) ? json_real(real) : json_string(text);
}

static json_t *plain_value(const char *text) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};
    if (is_one_of(text, nulls)) return json_null();
    if (is_one_of(text, yes)) return json_true();
    if (is_one_of(text, no)) return json_false();
    const int form = strlen(text) < 60 ? number_form(text) : 0;
    return form ? number_of(text, form) : json_string(text);
}

/* -- nodes -- */
static gyre_status count(reader *r, int64_t nodes, const yaml_mark_t *mark) {
    r->nodes += nodes;
    return r->nodes <= GYRE_YAML_MAX_NODES ? GYRE_OK : refuse(r, GYRE_EFORMAT, mark, "too many values");
}

static gyre_status read_node(reader *r, yaml_event_t *event, const char *path, int depth, json_t **out);

static gyre_status read_next(reader *r, const char *path, int depth, json_t **out) {
    yaml_event_t event;
    gyre_status status = next(r, &event);
    if (status) return status;
    status = read_node(r, &event, path, depth, out);
    yaml_event_delete(&event);
    return status;
}

static gyre_status read_sequence(reader *r, const char *path, int depth, json_t *list) {
    for (;;) {
        yaml_event_t event;
        json_t *value = NULL;
        gyre_status status = next(r, &event);
        if (status) return status;
        const int ends = event.type == YAML_SEQUENCE_END_EVENT;
        if (!ends) status = read_node(r, &event, path, depth, &value);
        yaml_event_delete(&event);
        if (ends || status) return status;
        if (json_array_append_new(list, value)) return gyre_fail(r->err, GYRE_ENOMEM, "YAML: no memory (%.300s)", r->path);
    }
}

/* Reads one key and its value. */
static gyre_status read_member(reader *r, const yaml_event_t *event, const char *path, int depth, json_t *object) {
    char below[MAX_PATH];
    json_t *value = NULL;
    if (event->type != YAML_SCALAR_EVENT) return refuse(r, GYRE_EFORMAT, &event->start_mark, "a key that is no text");
    const char *key = (const char *)event->data.scalar.value;
    if (strlen(key) != event->data.scalar.length) return refuse(r, GYRE_EFORMAT, &event->start_mark, "a NUL in a key");
    if (strcmp(key, "<<") == 0) return refuse(r, GYRE_EUNSUPPORTED, &event->start_mark, "merge keys, <<, are not read");
    const int length = snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", key);
    if (length < 0 || length >= MAX_PATH)
        return refuse(r, GYRE_EFORMAT, &event->start_mark, "the names of keys are too long");
    gyre_status status = count(r, 1, &event->start_mark);
    if (!status && json_object_set_new(r->lines, below, json_integer((json_int_t)event->start_mark.line + 1)))
        status = refuse(r, GYRE_EFORMAT, &event->start_mark, "a key that is not UTF-8");
    if (!status) status = read_next(r, below, depth, &value);
    if (!status && json_object_set_new(object, key, value))
        status = refuse(r, GYRE_EFORMAT, &event->start_mark, "a key that is not UTF-8");
    return status;
}

static gyre_status read_mapping(reader *r, const char *path, int depth, json_t *object) {
    for (;;) {
        yaml_event_t event;
        gyre_status status = next(r, &event);
        if (status) return status;
        const int ends = event.type == YAML_MAPPING_END_EVENT;
        if (!ends) status = read_member(r, &event, path, depth, object);
        yaml_event_delete(&event);
        if (ends || status) return status;
    }
}

static gyre_status read_alias(reader *r, const yaml_event_t *event, json_t **out) {
    const char *name = (const char *)event->data.alias.anchor;
    *out = json_incref(json_object_get(r->anchors, name));
    if (!*out) return refuse(r, GYRE_EFORMAT, &event->start_mark, "an alias of nothing that ends before it");
    return count(r, (int64_t)json_integer_value(json_object_get(r->sizes, name)), &event->start_mark);
}

static gyre_status read_scalar(reader *r, const yaml_event_t *event, json_t **out) {
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length) return refuse(r, GYRE_EFORMAT, &event->start_mark, "a NUL in a text");
    *out = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_value(text) : json_string(text);
    return *out ? GYRE_OK : refuse(r, GYRE_EFORMAT, &event->start_mark, "a text that is not UTF-8");
}

static gyre_status remember(reader *r, const char *anchor, json_t *value, int64_t nodes) {
    if (!anchor) return GYRE_OK;
    const int bad = json_object_set(r->anchors, anchor, value) || json_object_set_new(r->sizes, anchor, json_integer(nodes));
    return bad ? gyre_fail(r->err, GYRE_ENOMEM, "YAML: no memory (%.300s)", r->path) : GYRE_OK;
}

static gyre_status read_node(reader *r, yaml_event_t *event, const char *path, int depth, json_t **out) {
    const int64_t before = r->nodes;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    gyre_status status = count(r, 1, &event->start_mark);
    *out = NULL;
    if (status) return status;
    if (depth >= GYRE_YAML_MAX_DEPTH) return refuse(r, GYRE_EFORMAT, &event->start_mark, "nested too deeply");
    if (event->type == YAML_ALIAS_EVENT) {
        status = read_alias(r, event, out);
    } else if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        status = read_scalar(r, event, out);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        *out = json_array();
        if (!tag) status = read_sequence(r, path, depth + 1, *out);
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        *out = json_object();
        if (!tag) status = read_mapping(r, path, depth + 1, *out);
    } else {
        status = refuse(r, GYRE_EFORMAT, &event->start_mark, "no value");
    }
    if (!status && tag) status = refuse(r, GYRE_EUNSUPPORTED, &event->start_mark, "tags are not read");
    if (!status && !*out) status = gyre_fail(r->err, GYRE_ENOMEM, "YAML: no memory (%.300s)", r->path);
    if (!status) status = remember(r, (const char *)anchor, *out, r->nodes - before);
    if (!status) return GYRE_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

/* -- the stream -- */
/* Takes an event that must be of this type. */
static gyre_status expect(reader *r, yaml_event_type_t type, const char *why) {
    yaml_event_t event;
    gyre_status status = next(r, &event);
    if (status) return status;
    if (event.type != type) status = refuse(r, GYRE_EFORMAT, &event.start_mark, why);
    yaml_event_delete(&event);
    return status;
}

gyre_status gyre_yaml_read(json_t **root, json_t **lines, const char *text, size_t bytes, const char *path,
                           gyre_error *err) {
    reader r = {.lines = json_object(), .anchors = json_object(), .sizes = json_object(), .path = path, .err = err};
    *root = *lines = NULL;
    gyre_status status = GYRE_OK;
    if (bytes > GYRE_YAML_MAX_BYTES) status = gyre_fail(err, GYRE_EFORMAT, "YAML: longer than 1 MiB (%.300s)", path);
    if (!status && (!r.lines || !r.anchors || !r.sizes || !yaml_parser_initialize(&r.parser)))
        status = gyre_fail(err, GYRE_ENOMEM, "YAML: no memory (%.300s)", path);
    if (!status) {
        yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
        status = expect(&r, YAML_STREAM_START_EVENT, "no stream");
        if (!status) status = expect(&r, YAML_DOCUMENT_START_EVENT, "empty");
        if (!status) status = read_next(&r, "", 0, root);
        if (!status) status = expect(&r, YAML_DOCUMENT_END_EVENT, "no end");
        if (!status) status = expect(&r, YAML_STREAM_END_EVENT, "more than one document");
        yaml_parser_delete(&r.parser);
    }
    if (!status && !json_is_object(*root))
        status = gyre_fail(err, GYRE_EFORMAT, "YAML: not a mapping of settings (%.300s)", path);
    if (!status) *lines = json_incref(r.lines);
    if (status) {
        json_decref(*root);
        *root = NULL;
    }
    json_decref(r.lines);
    json_decref(r.anchors);
    json_decref(r.sizes);
    return status;
}
#endif
