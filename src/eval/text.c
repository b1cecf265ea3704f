/* text.c: files, and whole folders of them, as token ids. */
#include "eval/path_list.h"
#include "files/file_read.h"
#include "files/replace_folder.h"
#include "gyre/gyre_model.h"
#include "util/error.h"
#include "util/fnv1a.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    HELD_OUT_MODULUS = 10, /* one file in ten is held out */
    MAX_TEXT_BYTES =
        INT32_MAX - 1, /* of one file, for ids and for what gyre_tokenize takes at once; of any text in a pipe */
    MAX_PIPED_IDS_BYTES = GYRE_DOCUMENT_MIB << 20, /* of ids in a pipe: a dozen million, as numbers of five digits */
};

/* -- files to ids -- */
typedef struct collector {
    gyre_text text;
    int64_t capacity, files_seen; /* files_seen: files read, in the split or not */
    gyre_text_split split;
    const gyre_tokenizer *tokenizer; /* NULL = ids are bytes */
} collector;

static gyre_status reserve(collector *c, int64_t more, const char *path, gyre_error *err) {
    if (more <= c->capacity - c->text.count) return GYRE_OK;
    const int64_t required = c->text.count + more;
    const int64_t capacity = required > 2 * c->capacity ? required : 2 * c->capacity;
    int32_t *grown =
        (uint64_t)capacity <= SIZE_MAX / sizeof *grown ? realloc(c->text.ids, (size_t)capacity * sizeof *grown) : NULL;
    if (!grown) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for %" PRId64 " tokens (%s)", capacity, path);
    c->text.ids = grown;
    c->capacity = capacity;
    return GYRE_OK;
}

/* Chosen by content, so that the same file is held out on every machine and under every name. */
static int is_in_split(gyre_text_split split, const char *bytes, size_t size) {
    if (split == GYRE_TEXT_SPLIT_ALL) return 1;
    const int held_out = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, bytes, size) % HELD_OUT_MODULUS == 0;
    return held_out == (split == GYRE_TEXT_SPLIT_HELD_OUT);
}

/* Appends a file's tokens.  Only the first file gets the begin token. */
static gyre_status append_tokens(collector *c, const char *path, const char *bytes, size_t size, gyre_error *err) {
    gyre_text part;
    gyre_error why;
    if (size == 0) return GYRE_OK;
    const unsigned flags = c->text.count == 0 ? GYRE_TOKENIZE_BEGIN : 0;
    gyre_status status = gyre_tokenize(c->tokenizer, bytes, size, flags, &part, &why);
    if (status) {
        status = gyre_fail(err, status, "%.300s (%s)", why.text, path);
        if (err) err->offset = why.offset;
        return status;
    }
    status = reserve(c, part.count, path, err);
    if (!status && part.count > 0) {
        memcpy(c->text.ids + c->text.count, part.ids, (size_t)part.count * sizeof *part.ids);
        c->text.count += part.count;
    }
    gyre_text_free(&part);
    return status;
}

static gyre_status append_bytes(collector *c, const char *path, const char *bytes, size_t size, gyre_error *err) {
    const gyre_status status = reserve(c, (int64_t)size, path, err);
    for (size_t i = 0; i < size && !status; i++)
        c->text.ids[c->text.count++] = (unsigned char)bytes[i];
    return status;
}

static gyre_status read_file(collector *c, const char *path, gyre_error *err) {
    char *bytes;
    size_t size;
    gyre_status status =
        gyre_file_read_stream(path, c->tokenizer ? MAX_TEXT_BYTES : GYRE_FILE_MAX, MAX_TEXT_BYTES, &bytes, &size, err);
    if (status) return status;
    c->files_seen++;
    if (is_in_split(c->split, bytes, size)) {
        status = (c->tokenizer ? append_tokens : append_bytes)(c, path, bytes, size, err);
        c->text.hash = gyre_fnv1a(c->text.hash, bytes, size);
        c->text.bytes += (int64_t)size;
        c->text.files++;
    }
    free(bytes);
    return status;
}

static gyre_status read_path(collector *c, const char *path, gyre_error *err) {
    struct stat info;
    gyre_path_list files = {NULL, 0, 0};
    if (stat(path, &info) != 0) return gyre_fail(err, gyre_status_of_errno(errno), "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return read_file(c, path, err);
    gyre_status status = gyre_path_list_files(&files, path, err);
    for (size_t i = 0; i < files.count && !status; i++)
        status = read_file(c, files.paths[i], err);
    gyre_path_list_free(&files);
    return status;
}

/* Errors name the first path and the number of others. */
static gyre_status check_count(const collector *c, const char *const *paths, int64_t count, int64_t min_tokens,
                               gyre_error *err) {
    char more[48] = "";
    const gyre_text *t = &c->text;
    const char *kind = c->split == GYRE_TEXT_SPLIT_TRAIN ? "for training" : "held out";
    if (count > 1) snprintf(more, sizeof more, " and %" PRId64 " more", count - 1);
    if (c->files_seen == 0) return gyre_fail(err, GYRE_EINVAL, "text: not a regular file (%s%s)", paths[0], more);
    if (t->files == 0)
        return gyre_fail(err, GYRE_EINVAL, "text: none of %" PRId64 " files is %s (%s%s)", c->files_seen, kind, paths[0],
                         more);
    if (t->count == 0) return gyre_fail(err, GYRE_EINVAL, "text: empty (%s%s)", paths[0], more);
    if (t->count < min_tokens)
        return gyre_fail(err, GYRE_EINVAL, "text: %" PRId64 " %s, at least %" PRId64 " are needed (%s%s)", t->count,
                         c->tokenizer ? "tokens" : "bytes", min_tokens, paths[0], more);
    return GYRE_OK;
}

static gyre_status collect(gyre_text *out, collector *c, const char *const *paths, int64_t count, int64_t min_tokens,
                           gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < count && !status; i++)
        status = read_path(c, paths[i], err);
    if (!status) status = check_count(c, paths, count, min_tokens, err);
    if (!status)
        *out = c->text;
    else
        gyre_text_free(&c->text);
    return status;
}

gyre_status gyre_text_open(gyre_text *out, const char *const *paths, int64_t count, gyre_text_split split,
                           int64_t min_tokens, gyre_error *err) {
    if (!out || !paths || count < 1) return gyre_fail(err, GYRE_EINVAL, "text: no path is given");
    if (split != GYRE_TEXT_SPLIT_ALL && split != GYRE_TEXT_SPLIT_TRAIN && split != GYRE_TEXT_SPLIT_HELD_OUT)
        return gyre_fail(err, GYRE_EINVAL, "text: %d names no split (%s)", (int)split, paths[0]);
    collector c = {.text = {.hash = GYRE_FNV1A_OFFSET_BASIS}, .split = split};
    return collect(out, &c, paths, count, min_tokens, err);
}

gyre_status gyre_text_tokenize(gyre_text *out, const gyre_tokenizer *tokenizer, const char *const *paths, int64_t count,
                               int64_t min_tokens, gyre_error *err) {
    if (!out || !tokenizer || !paths || count < 1)
        return gyre_fail(err, GYRE_EINVAL, "text: a tokenizer and a path are needed");
    collector c = {.text = {.hash = GYRE_FNV1A_OFFSET_BASIS}, .split = GYRE_TEXT_SPLIT_ALL, .tokenizer = tokenizer};
    return collect(out, &c, paths, count, min_tokens, err);
}

void gyre_text_free(gyre_text *text) {
    if (!text) return;
    free(text->ids);
    *text = (gyre_text){0};
}

/* -- ids written as decimal numbers -- */
static int is_separator(char c) {
    return strchr(" \t\r\n\v\f,", c) != NULL && c != '\0';
}

static gyre_status fail_byte(const char *path, size_t at, gyre_error *err) {
    gyre_fail(err, GYRE_EFORMAT, "ids: byte %zu: neither a digit nor a separator (%s)", at, path);
    if (err) err->offset = at;
    return GYRE_EFORMAT;
}

static gyre_status fail_id(const char *path, size_t at, int64_t vocab, gyre_error *err) {
    gyre_fail(err, GYRE_EFORMAT, "ids: byte %zu: an id that is not below %" PRId64 " (%s)", at, vocab, path);
    if (err) err->offset = at;
    return GYRE_EFORMAT;
}

/* *out = the id at bytes[*at], which is not a separator.  Fails at the first digit that takes it past the vocabulary. */
static gyre_status parse_id(const char *bytes, size_t size, size_t *at, int64_t vocab, const char *path, int32_t *out,
                            gyre_error *err) {
    const size_t start = *at;
    int64_t id = 0;
    for (; *at < size && !is_separator(bytes[*at]); (*at)++) {
        if (bytes[*at] < '0' || bytes[*at] > '9') return fail_byte(path, *at, err);
        id = 10 * id + (bytes[*at] - '0');
        if (id >= vocab) return fail_id(path, start, vocab, err);
    }
    *out = (int32_t)id;
    return GYRE_OK;
}

static gyre_status parse_ids(collector *c, const char *bytes, size_t size, int64_t vocab, const char *path,
                             gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (size_t at = 0; at < size && !status;) {
        if (is_separator(bytes[at])) {
            at++;
            continue;
        }
        status = reserve(c, 1, path, err);
        if (!status) status = parse_id(bytes, size, &at, vocab, path, &c->text.ids[c->text.count++], err);
    }
    return status;
}

gyre_status gyre_text_open_ids(gyre_text *out, const char *path, int64_t vocab, int64_t min_tokens, gyre_error *err) {
    char *bytes;
    size_t size;
    if (!out || !path || vocab < 1 || vocab > (int64_t)INT32_MAX + 1)
        return gyre_fail(err, GYRE_EINVAL, "ids: a path and a vocabulary of 1 .. 2^31 are needed");
    gyre_status status = gyre_file_read_stream(path, MAX_TEXT_BYTES, MAX_PIPED_IDS_BYTES, &bytes, &size, err);
    if (status) return status;
    collector c = {.text = {.hash = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, bytes, size), .files = 1},
                   .split = GYRE_TEXT_SPLIT_ALL};
    status = parse_ids(&c, bytes, size, vocab, path, err);
    free(bytes);
    if (!status && c.text.count == 0) status = gyre_fail(err, GYRE_EINVAL, "ids: empty (%s)", path);
    if (!status && c.text.count < min_tokens)
        status = gyre_fail(err, GYRE_EINVAL, "ids: %" PRId64 " tokens, at least %" PRId64 " are needed (%s)", c.text.count,
                           min_tokens, path);
    if (!status)
        *out = c.text;
    else
        gyre_text_free(&c.text);
    return status;
}
