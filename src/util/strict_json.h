/* strict_json.h: texts of JSON as Python writes them, which is not quite JSON. */
#ifndef GYRE_UTIL_STRICT_JSON_H
#define GYRE_UTIL_STRICT_JSON_H
#include <stddef.h>

/* text = the same, with NaN and Infinity as "", and integers beyond int64 as reals; offsets and lines stay.  out = 1 if
 * something changed. */
int gyre_make_json_strict(char *text, size_t bytes);

#endif
