/* config_document.c: the text of a config.json, checked and parsed. */
#include "reading/config_document.h"

#include "files/file_read.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/json_load.h"
#include "util/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Real ones have a few thousand bytes and some hundred keys; the names of 21841 classes, twice, are the most that is known.
 * gyre extend reads a config some fifty times. */
enum { MAX_CONFIG_MIB = 64, MAX_CONFIG_BYTES = MAX_CONFIG_MIB << 20, MAX_CONFIG_VALUES = 50000 };

gyre_status gyre_config_path(const char *path, char out[PATH_MAX], gyre_error *err) {
    struct stat info;
    const int found = stat(path, &info);
    if (found != 0 && errno != ENOENT) return gyre_fail_errno(err, path, errno);
    const int is_folder = found == 0 && S_ISDIR(info.st_mode);
    const size_t length = strlen(path);
    const char *slash = is_folder && length > 0 && path[length - 1] != '/' ? "/" : "";
    if (snprintf(out, PATH_MAX, "%s%s%s", path, slash, is_folder ? GYRE_CONFIG_FILE : "") >= PATH_MAX)
        return gyre_fail(err, GYRE_EINVAL, "%.100s...: the path is too long", path);
    /* Who names a pipe waits for it; a pipe in a folder is a trap. */
    if (is_folder && stat(out, &info) == 0 && !S_ISREG(info.st_mode))
        return gyre_fail(err, GYRE_EIO, "config.json: not a regular file (%.400s)", out);
    return GYRE_OK;
}

/* out = the encoding whose byte order mark an editor put before the text, or NULL.  No JSON reader takes one. */
static const char *byte_order_mark(const char *text, size_t bytes) {
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) return "UTF-8";
    const int is_wide = bytes >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0);
    return is_wide ? "UTF-16" : NULL;
}

static gyre_status fail_parse(const json_error_t *error, const char *path, gyre_error *err) {
    const int line = error->line > 0 ? error->line : 1;
    (void)gyre_fail(err, GYRE_EFORMAT, "config.json: %.200s (%s, line %d)", error->text, path, line);
    if (err && error->position > 0) err->offset = (uint64_t)error->position;
    return GYRE_EFORMAT;
}

/* out = the keys of all objects and the elements of all lists in the value. */
static size_t count_values(json_t *value) {
    size_t keys = json_object_size(value) + json_array_size(value), i;
    const char *key;
    json_t *inside;
    json_object_foreach(value, key, inside) keys += count_values(inside);
    json_array_foreach(value, i, inside) keys += count_values(inside);
    return keys;
}

gyre_status gyre_config_document_parse(gyre_config_document *out, const char *text, size_t bytes, const char *path,
                                       gyre_error *err) {
    json_error_t error;
    if (bytes > MAX_CONFIG_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "config.json: longer than %d MiB (%s)", MAX_CONFIG_MIB, path);
    const char *mark = byte_order_mark(text, bytes);
    if (mark)
        return gyre_fail(err, GYRE_EFORMAT,
                         "config.json: begins with the byte order mark of %s; save it as UTF-8 without one (%s)", mark,
                         path);
    json_t *root = gyre_json_load(text, bytes, &error);
    if (!root && gyre_json_lacked_memory(&error)) return gyre_fail(err, GYRE_ENOMEM, "config.json: no memory (%s)", path);
    if (!root) return fail_parse(&error, path, err);
    if (!json_is_object(root)) {
        json_decref(root);
        return gyre_fail(err, GYRE_EFORMAT, "config.json: not an object (%s)", path);
    }
    if (count_values(root) > MAX_CONFIG_VALUES) {
        json_decref(root);
        return gyre_fail(err, GYRE_EFORMAT, "config.json: more than %d keys and elements of lists (%s)", MAX_CONFIG_VALUES,
                         path);
    }
    *out = (gyre_config_document){path, text, bytes, root, NULL};
    return GYRE_OK;
}

/* out = 1 if a text may be JSON, so that a parser says best where it is wrong.  Other bytes after a name of their own are
 * another kind of file. */
static int begins_as_json(const char *text, size_t bytes) {
    size_t at = 0;
    while (at < bytes && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    return at < bytes && (text[at] == '{' || text[at] == '[' || byte_order_mark(text, bytes));
}

gyre_status gyre_config_document_open(gyre_config_document *out, const char *path, gyre_error *err) {
    struct stat info;
    char *text = NULL;
    size_t bytes = 0;
    /* Weights are not read into memory just to find that they are not JSON. */
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > MAX_CONFIG_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "%s: neither a GGUF file nor a config.json (longer than %d MiB)", path,
                         MAX_CONFIG_MIB);
    /* Who names a pipe waits for it.  In a folder, where the name is config.json, a pipe is a trap. */
    const char *name = gyre_path_name(path);
    const int in_folder = name != path && strcmp(name, GYRE_CONFIG_FILE) == 0;
    gyre_status status = in_folder ? gyre_document_read(path, &text, &bytes, err)
                                   : gyre_file_read(path, MAX_CONFIG_BYTES, &text, &bytes, err);
    if (status) return status;
    status =
        in_folder || begins_as_json(text, bytes)
            ? gyre_config_document_parse(out, text, bytes, path, err)
            : gyre_fail(err, GYRE_EFORMAT, "file: neither a GGUF, which begins with GGUF, nor a JSON object (%s)", path);
    if (!status)
        out->owned_text = text;
    else
        free(text);
    return status;
}

void gyre_config_document_free(gyre_config_document *document) {
    json_decref(document->root);
    free(document->owned_text);
    *document = (gyre_config_document){NULL, NULL, 0, NULL, NULL};
}
