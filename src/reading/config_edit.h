/* config_edit.h: changes to the text of a JSON file that leave all the rest of it byte for byte: order, spacing, line ends,
 * how numbers are spelled.  What is put in takes the style of what stands beside it.
 *
 * An object is named by its keys joined by dots, as json_text.h finds it; "" is the file's own.  The first failure sticks:
 * calls after it do nothing. */
#ifndef GYRE_READING_CONFIG_EDIT_H
#define GYRE_READING_CONFIG_EDIT_H
#include "gyre/gyre.h"

#include <jansson.h>
#include <stddef.h>

typedef struct gyre_config_edit {
    char *text; /* with a NUL after it; NULL after gyre_edit_end */
    size_t bytes;
    gyre_status status;
    gyre_error *err;
} gyre_config_edit;

/* A copy of the text, which must be well-formed and an object; gyre_edit_end frees it. */
void gyre_edit_begin(gyre_config_edit *edit, const char *text, size_t bytes, gyre_error *err);
void gyre_edit_end(gyre_config_edit *edit);

/* out = 1 where the object has the key. */
int gyre_edit_has(const gyre_config_edit *edit, const char *object, const char *key);
/* Sets a key of an object that is there to a value, which is JSON: where the key stands already, else right after the key
 * `after`, else (NULL, or not there) as the last.  A value that says the same number or word already is left as it is
 * spelled.  Releases the value; NULL = memory ran out.  An object is written a key to a line, a list a number to a line,
 * where the file is not written in one line. */
void gyre_edit_set(gyre_config_edit *edit, const char *object, const char *key, json_t *value, const char *after);
/* Takes out a key with its comma, if it is there. */
void gyre_edit_remove(gyre_config_edit *edit, const char *object, const char *key);

#endif
