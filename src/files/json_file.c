/* json_file.c: parses a JSON file of a model's folder. */
#include "files/json_file.h"
#include "files/file_read.h"
#include "util/error.h"
#include "util/json_load.h"
#include "util/path.h"

#include <sys/stat.h>

gyre_status gyre_json_file_load(json_t **out, const char *folder, const char *name, int lenient, gyre_error *err) {
    char path[PATH_MAX], *text;
    size_t bytes;
    struct stat info;
    json_error_t why;
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX) return GYRE_OK;
    if (stat(path, &info) != 0) return errno == ENOENT ? GYRE_OK : gyre_fail_errno(err, path, errno);
    if (lenient && !S_ISREG(info.st_mode)) return GYRE_OK;
    const gyre_status status = gyre_document_read(path, &text, &bytes, err);
    if (status) return lenient && status == GYRE_EFORMAT ? GYRE_OK : status;
    *out = gyre_json_load(text, bytes, &why);
    free(text);
    if (*out) return GYRE_OK;
    if (gyre_json_lacked_memory(&why)) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory (%s)", name, path);
    return lenient ? GYRE_OK : gyre_fail(err, GYRE_EFORMAT, "%s: %s (%s, line %d)", name, why.text, path, why.line);
}
