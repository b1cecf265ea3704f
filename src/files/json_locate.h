/* json_locate.h: where a key stands in the text of a JSON file, which a parser does not tell.  The text must be well-formed
 * (jansson parsed it); whatever it is, nothing past its end is read. */
#ifndef GYRE_READING_JSON_LOCATE_H
#define GYRE_READING_JSON_LOCATE_H
#include <stddef.h>
#include <stdint.h>

/* Offsets into the text: key is that of the opening quote; the value's bytes are value .. end - 1. */
typedef struct gyre_json_member {
    size_t key, value, end;
    int64_t line; /* of the key, from 1 */
} gyre_json_member;

/* *out = the member that `path` names, its keys joined by dots ("rope_scaling.factor"; a key may hold dots itself).  1, or 0
 * where there is none.  Keys are compared as they are written: one with escapes is not found. */
int gyre_json_locate(const char *text, size_t bytes, const char *path, gyre_json_member *out);
/* *out = the whole value of the object that `path` names ("" = the file's own), braces included: only value, end and line
 * are set. */
int gyre_json_locate_object(const char *text, size_t bytes, const char *path, gyre_json_member *out);

#endif
