/* json_load.h: parses config.json files as Python writes them, which is not quite JSON. */
#ifndef GYRE_FILES_JSON_LOAD_H
#define GYRE_FILES_JSON_LOAD_H
#include <jansson.h>

/* out = the parsed text; NULL and *error if it is malformed.  Python's json also writes NaN, Infinity and integers of
 * any length, and files of hybrid models contain them ("time_step_limit": [0.0, Infinity]).  Here NaN and Infinity
 * become "", so that a key that is used is refused and an unused one does no harm.  Integers beyond int64 become reals.
 * Offsets and lines are those of the text.  A key that occurs twice is an error. */
json_t *gyre_json_load(const char *text, size_t bytes, json_error_t *error);
/* out = 1 if a text was not parsed because memory ran out, as far as jansson tells it: without memory for the bytes of a
 * string it says "invalid token". */
int gyre_json_lacked_memory(const json_error_t *error);

#endif
