/* json_scope.h: reads values of a JSON file by key.  A value of the wrong type fails the build, with key and line. */
#ifndef GYRE_READING_JSON_SCOPE_H
#define GYRE_READING_JSON_SCOPE_H
#include "reading/key_marks.h"
#include "reading/reading_build.h"

#include <jansson.h>

/* The file being read. */
typedef struct gyre_json_source {
    gyre_build *build;
    const char *text;
    size_t bytes;
    gyre_key_marks *marks; /* of each key that gyre_scope_ functions look up; NULL = not kept */
    const json_t *lines;   /* the line of each key by its path, of a text that is not JSON; NULL = found in `text` */
} gyre_json_source;
/* An object in the file, and the prefix of its keys in messages: "" or "text_config.rope_parameters.".  Copy it freely. */
typedef struct gyre_scope {
    const gyre_json_source *source;
    const json_t *object; /* NULL = an object without keys */
    char prefix[200];
} gyre_scope;

/* out = the object under `key`; empty if the key is missing or null.  Fails if the value is not an object. */
gyre_scope gyre_scope_child(const gyre_scope *s, const char *key);
/* out = the value; NULL if the key is missing or null, which transformers treats alike. */
const json_t *gyre_scope_value(const gyre_scope *s, const char *key);
/* out = 1 if the key exists, also with null. */
int gyre_scope_has(const gyre_scope *s, const char *key);
/* gyre_scope_first without marking the key as read: for keys that only show what kind of file it is. */
const char *gyre_scope_sees(const gyre_scope *s, const char *const *names);
/* out = the first of the names (a list ended by NULL) that has a value, else NULL. */
const char *gyre_scope_first(const gyre_scope *s, const char *const *names);
/* out = where the key is, or its parent if the key is not in the file.  Its strings live as long as the reading. */
gyre_place gyre_scope_place(const gyre_scope *s, const char *key);
/* Fails the build at the key: "rope_scaling.factor: WHY (path, line 14)". */
void gyre_scope_fail(const gyre_scope *s, gyre_status status, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void gyre_scope_warn(const gyre_scope *s, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* gyre_scope_warn of another kind than GYRE_WARNING_OTHER. */
void gyre_scope_doubt(const gyre_scope *s, gyre_warning_kind kind, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* out = an integer of at least `minimum` and below 2^53; fallback if there is none.  Some tools write sizes as reals. */
int64_t gyre_scope_integer(const gyre_scope *s, const char *key, int64_t minimum, int64_t fallback);
/* out = a finite number; fallback if there is none.  fallback NAN: the key is required. */
double gyre_scope_number(const gyre_scope *s, const char *key, double fallback);
/* out = true or false, also written as 1 or 0. */
int gyre_scope_bool(const gyre_scope *s, const char *key, int fallback);
/* out = a string, never NULL.  fallback NULL: the key is required. */
const char *gyre_scope_string(const gyre_scope *s, const char *key, const char *fallback);
/* out = `count` numbers that live as long as the reading; NULL if the build has failed. */
double *gyre_scope_numbers(const gyre_scope *s, const char *key, int64_t count);

#endif
