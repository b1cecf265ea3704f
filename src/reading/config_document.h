/* config_document.h: a config.json, read and parsed once for all who take something from it: positions, architecture,
 * edits. */
#ifndef GYRE_READING_CONFIG_DOCUMENT_H
#define GYRE_READING_CONFIG_DOCUMENT_H
#include "gyre/gyre_reading.h"
#include "util/path.h"

#include <jansson.h>

typedef struct gyre_config_document {
    const char *path; /* for messages; owned by the caller, who keeps it until the document is freed */
    const char *text; /* for line numbers; of gyre_config_document_parse, the caller's */
    size_t bytes;
    json_t *root; /* an object */
    char *owned_text;
} gyre_config_document;

/* out = the file that describes the model at `path`: its config.json if `path` is a folder, else `path` itself. */
gyre_status gyre_config_path(const char *path, char out[PATH_MAX], gyre_error *err);
/* Reads and parses the file at `path`.  EIO; EFORMAT if it is not a JSON object, begins with a byte order mark or is longer
 * than 64 MiB. */
gyre_status gyre_config_document_open(gyre_config_document *out, const char *path, gyre_error *err);
/* Parses text in memory. */
gyre_status gyre_config_document_parse(gyre_config_document *out, const char *text, size_t bytes, const char *path,
                                       gyre_error *err);
/* Also for a document that is all zeros. */
void gyre_config_document_free(gyre_config_document *document);

/* *own = the caller's, or zeros where given is NULL.  Errors: EINVAL (its size, no such profile, a length below 0). */
gyre_status gyre_reading_options_read(gyre_reading_options *own, const gyre_reading_options *given, gyre_error *err);
/* gyre_reading_parse of the document.  The reading does not refer to the document. */
gyre_status gyre_reading_from_document(gyre_reading **out, const gyre_config_document *document, gyre_profile profile,
                                       int64_t length, gyre_error *err);

#endif
