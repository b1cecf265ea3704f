/* json_load.h: parses JSON as Python writes it, which is not quite JSON.  A header alone: libgyre links no jansson. */
#ifndef GYRE_UTIL_JSON_LOAD_H
#define GYRE_UTIL_JSON_LOAD_H
#include "util/strict_json.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* out = the parsed text; NULL and *error if it is malformed.  Python's json also writes NaN, Infinity and integers of
 * any length, and files of hybrid models contain them ("time_step_limit": [0.0, Infinity]).  Here NaN and Infinity
 * become "", so that a key that is used is refused and an unused one does no harm.  Integers beyond int64 become reals.
 * Offsets and lines are those of the text.  A key that occurs twice is an error. */
static inline json_t *gyre_json_load(const char *text, size_t bytes, json_error_t *error) {
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    if (root || bytes == 0) return root;
    char *copy = malloc(bytes);
    if (!copy) {
        *error->text = 0;
        return NULL;
    }
    memcpy(copy, text, bytes);
    if (gyre_make_json_strict(copy, bytes)) root = json_loadb(copy, bytes, JSON_REJECT_DUPLICATES, error);
    free(copy);
    return root;
}

/* out = 1 if a text was not parsed because memory ran out, as far as jansson reports it: without memory for the bytes of
 * a string it says "invalid token". */
static inline int gyre_json_lacked_memory(const json_error_t *error) {
    return !*error->text || json_error_code(error) == json_error_out_of_memory;
}

#endif
