/* json_file.h: parses a JSON file of a model's folder. */
#ifndef GYRE_FILES_JSON_FILE_H
#define GYRE_FILES_JSON_FILE_H
#include "gyre/gyre.h"
#include <jansson.h>

/* *out = the file, parsed as gyre_json_load does; NULL if the folder has none of that name.  Errors: EFORMAT (malformed, too
 * long), EIO (not a regular file), ENOMEM.  lenient: neither of the first two is an error, and *out is NULL. */
gyre_status gyre_json_file_load(json_t **out, const char *folder, const char *name, int lenient, gyre_error *err);

#endif
