/* json_load.h: a config.json as the programs that write it read it, which is not JSON to the letter. */
#ifndef GYRE_READING_JSON_LOAD_H
#define GYRE_READING_JSON_LOAD_H
#include <jansson.h>

/* out = the parsed text, or NULL and *error.  Python's json also takes NaN, Infinity and whole numbers of any length, and
 * files of hybrid models have them ("time_step_limit": [0.0, Infinity]).  Here NaN and Infinity become "", so that a key
 * that is looked at is refused and the others do no harm; whole numbers past int64 become real ones.  Offsets and lines
 * are those of the text.  Keys that are there twice are an error. */
json_t *gyre_json_load(const char *text, size_t bytes, json_error_t *error);

#endif
