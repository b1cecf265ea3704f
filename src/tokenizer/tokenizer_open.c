/* tokenizer_open.c: which file of a model holds its tokenizer. */
#include "files/file_read.h"
#include "files/gguf.h"
#include "files/replace_folder.h"
#include "tokenizer/tokenizer.h"
#include "util/error.h"
#include "util/json_load.h"
#include "util/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTE_VOCABULARY = 256 };

static gyre_status open_gguf(gyre_tokenizer **out, const char *path, gyre_error *err) {
    gyre_mapping map;
    gyre_status status = gyre_mapping_open(&map, path, err);
    if (status) return status;
    gyre_tokenizer *tokenizer = NULL;
    status = gyre_tokenizer_from_gguf(&tokenizer, map.bytes, map.size, path, err);
    if (!status) status = gyre_mapping_check(&map, path, err);
    if (!status)
        *out = tokenizer;
    else
        gyre_tokenizer_free(tokenizer);
    gyre_mapping_close(&map);
    return status;
}

static gyre_status open_json(gyre_tokenizer **out, const char *path, const char *folder, gyre_error *err) {
    char *text;
    size_t bytes;
    gyre_status status = gyre_document_read(path, &text, &bytes, err);
    if (status) return status;
    status = gyre_tokenizer_from_json(out, text, bytes, path, folder, err);
    free(text);
    return status;
}

/* A model with a vocabulary of 256 and no tokenizer file has byte tokens. */
static gyre_status open_byte_tokenizer(gyre_tokenizer **out, const char *folder, gyre_error *err) {
    char path[PATH_MAX], *text;
    size_t bytes;
    json_error_t why;
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (gyre_document_read(path, &text, &bytes, err))
        return gyre_fail(err, GYRE_EIO, "%s: holds neither a tokenizer.json nor a config.json", folder);
    json_t *config = gyre_json_load(text, bytes, &why);
    const json_t *vocab = json_object_get(config, "vocab_size");
    const long long size = json_is_integer(vocab) ? (long long)json_integer_value(vocab) : -1;
    json_decref(config);
    free(text);
    if (size == BYTE_VOCABULARY) return gyre_tokenizer_create_bytes(out, err);
    return gyre_fail(err, GYRE_EIO, "%s: no tokenizer.json, and the vocabulary in config.json is not the 256 bytes", folder);
}

static gyre_status open_folder(gyre_tokenizer **out, const char *folder, gyre_error *err) {
    char path[PATH_MAX];
    struct stat info;
    if ((size_t)snprintf(path, sizeof path, "%s/tokenizer.json", folder) >= sizeof path)
        return gyre_fail(err, GYRE_EIO, "%.200s...: too long a path", folder);
    if (stat(path, &info) == 0) return open_json(out, path, folder, err);
    return errno == ENOENT ? open_byte_tokenizer(out, folder, err) : gyre_fail_errno(err, path, errno);
}

gyre_status gyre_tokenizer_open(gyre_tokenizer **out, const char *path, gyre_error *err) {
    char folder[PATH_MAX];
    struct stat info;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "tokenizer: NULL");
    if (strlen(path) + sizeof "/tokenizer_config.json" > sizeof folder)
        return gyre_fail(err, GYRE_EIO, "%.200s...: too long a path", path);
    if (stat(path, &info) != 0 && errno != ENOENT) return gyre_fail_errno(err, path, errno);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return open_folder(out, path, err);
    int is_gguf;
    const gyre_status status = gyre_gguf_is_file(path, &is_gguf, err);
    if (status) return status;
    if (is_gguf) return open_gguf(out, path, err);
    (void)gyre_path_folder(path, folder, sizeof folder);
    if (gyre_ends_with(path, ".safetensors")) return open_folder(out, folder, err);
    return open_json(out, path, folder, err);
}
