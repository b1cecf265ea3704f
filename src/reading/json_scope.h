/* json_scope.h: values of a JSON file by key.  A value that is not what it should be fails the build, naming key and
 * line. */
#ifndef GYRE_READING_JSON_SCOPE_H
#define GYRE_READING_JSON_SCOPE_H
#include "reading/reading_build.h"

#include <jansson.h>

/* The file being read. */
typedef struct gyre_json_source {
    gyre_build *build;
    const char *text;
    size_t bytes;
} gyre_json_source;
/* One object in it, and what stands before its keys in messages: "" or "text_config.rope_parameters.".  Copied freely. */
typedef struct gyre_scope {
    const gyre_json_source *source;
    const json_t *object; /* NULL = an object without keys */
    char prefix[200];
} gyre_scope;

/* out = the object under `key`: without keys where it is missing or null; fails where it is something else. */
gyre_scope gyre_scope_child(const gyre_scope *s, const char *key);
/* out = the value, NULL for a key that is missing or null, which transformers takes for the same. */
const json_t *gyre_scope_value(const gyre_scope *s, const char *key);
/* out = 1 where the key is there, be it null. */
int gyre_scope_has(const gyre_scope *s, const char *key);
/* out = the first of the names, NULL at their end, that has a value, else NULL. */
const char *gyre_scope_first(const gyre_scope *s, const char *const *names);
/* out = where the key stands (of its parent, where it does not stand anywhere).  Its strings live as long as the reading. */
gyre_place gyre_scope_place(const gyre_scope *s, const char *key);
/* Fails the build at the key: "rope_scaling.factor: WHY (path, line 14)". */
void gyre_scope_fail(const gyre_scope *s, gyre_status status, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void gyre_scope_warn(const gyre_scope *s, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A whole number of at least `least` (and below 2^53); fallback where there is none.  Some tools write sizes as reals. */
int64_t gyre_scope_integer(const gyre_scope *s, const char *key, int64_t least, int64_t fallback);
/* A finite number; fallback where there is none, NAN = it must be there. */
double gyre_scope_number(const gyre_scope *s, const char *key, double fallback);
/* true or false (0 and 1 are taken for them too). */
int gyre_scope_bool(const gyre_scope *s, const char *key, int fallback);
/* fallback: NULL = it must be there.  Never NULL. */
const char *gyre_scope_string(const gyre_scope *s, const char *key, const char *fallback);
/* out = `count` numbers that live as long as the reading, or NULL (then the build has failed). */
double *gyre_scope_numbers(const gyre_scope *s, const char *key, int64_t count);

#endif
