/* json_locate.h: finds where a key is in the text of a JSON file, which parsers do not report.  The text must be
 * well-formed (jansson parsed it).  Malformed text gives wrong answers, but nothing past its end is read. */
#ifndef GYRE_FILES_JSON_LOCATE_H
#define GYRE_FILES_JSON_LOCATE_H
#include <stddef.h>
#include <stdint.h>

/* Offsets into the text.  key: the opening quote of the key.  The value is bytes value .. end - 1. */
typedef struct gyre_json_member {
    size_t key, value, end;
    int64_t line; /* of the key, from 1 */
} gyre_json_member;

/* *out = the member named by `path`, which joins keys by dots ("rope_scaling.factor"; keys may contain dots themselves).
 * out = 1, or 0 if there is none.  Keys are compared as written: a key with escapes is not found. */
int gyre_json_locate(const char *text, size_t bytes, const char *path, gyre_json_member *out);
/* *out = the object named by `path` ("" = the whole file), braces included; sets only value, end and line.  out as
 * above. */
int gyre_json_locate_object(const char *text, size_t bytes, const char *path, gyre_json_member *out);

#endif
