/* config_edit.h: edits the text of a JSON file and keeps everything else byte for byte: order, spacing, line ends,
 * spelling of numbers.  Insertions follow the style of their surroundings.
 *
 * An object is named by its keys joined by dots, as in json_locate.h; "" is the whole file.  The first failure is kept
 * in `status`, and later calls do nothing. */
#ifndef GYRE_READING_CONFIG_EDIT_H
#define GYRE_READING_CONFIG_EDIT_H
#include "gyre/gyre.h"

#include <jansson.h>
#include <stddef.h>

typedef struct gyre_config_edit {
    char *text; /* NUL-terminated; NULL after gyre_edit_end */
    size_t bytes;
    gyre_status status;
    gyre_error *err;
} gyre_config_edit;

/* Copies the text, which must be a well-formed object.  gyre_edit_end frees the copy. */
void gyre_edit_begin(gyre_config_edit *edit, const char *text, size_t bytes, gyre_error *err);
void gyre_edit_end(gyre_config_edit *edit);

/* out = 1 if the object has the key. */
int gyre_edit_has(const gyre_config_edit *edit, const char *object, const char *key);
/* Sets a key of an existing object.  An existing key keeps its place.  A new one goes right after the key `after`, or at
 * the end if `after` is NULL or missing.  A value that is equal already keeps its spelling.  Releases the value; NULL =
 * memory ran out.  Unless the file is on one line, an object has one key per line and a list one number per line. */
void gyre_edit_set(gyre_config_edit *edit, const char *object, const char *key, json_t *value, const char *after);
/* Removes a key and its comma, if the key exists. */
void gyre_edit_remove(gyre_config_edit *edit, const char *object, const char *key);

#endif
