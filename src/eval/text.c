/* text.c: files, and whole folders of them, as token ids. */
#include "files/file_read.h"
#include "files/fnv1a.h"
#include "files/replace_folder.h"
#include "util/error.h"

#include "gyre/gyre_model.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HELD_OUT_MODULUS = 10 /* one file in so many */ };

/* -- which files -- */
typedef struct path_list {
    char **paths;
    size_t count, capacity;
} path_list;

static void free_list(path_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

static gyre_status append_path(path_list *list, const char *folder, const char *name, gyre_error *err) {
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        char **grown = realloc(list->paths, capacity * sizeof *grown);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for %zu paths (%s)", capacity, folder);
        list->paths = grown;
        list->capacity = capacity;
    }
    const size_t length = strlen(folder), bytes = length + strlen(name) + 2;
    char *path = malloc(bytes);
    if (!path) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for a path (%s)", folder);
    snprintf(path, bytes, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name);
    list->paths[list->count++] = path;
    return GYRE_OK;
}

/* Links are passed over: one that points upwards would make the walk endless, one elsewhere would count a text twice. */
static gyre_status add_entry(const char *folder, const char *name, path_list *folders, path_list *files, gyre_error *err) {
    struct stat info;
    gyre_status status = append_path(files, folder, name, err);
    if (status != GYRE_OK) return status;
    char *path = files->paths[files->count - 1];
    if (lstat(path, &info) != 0) return gyre_fail(err, GYRE_EIO, "%s: %s", path, strerror(errno));
    if (S_ISREG(info.st_mode)) return GYRE_OK;
    files->count--;
    if (S_ISDIR(info.st_mode)) status = append_path(folders, folder, name, err);
    free(path);
    return status;
}

static gyre_status list_folder(const char *folder, path_list *folders, path_list *files, gyre_error *err) {
    gyre_status status = GYRE_OK;
    DIR *entries = opendir(folder);
    if (!entries) return gyre_fail(err, GYRE_EIO, "%s: %s", folder, strerror(errno));
    while (status == GYRE_OK) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry) {
            if (errno != 0) status = gyre_fail(err, GYRE_EIO, "%s: %s", folder, strerror(errno));
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = add_entry(folder, entry->d_name, folders, files, err);
    }
    closedir(entries);
    return status;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* files = all regular files under `folder`, sorted. */
static gyre_status list_files(const char *folder, path_list *files, gyre_error *err) {
    path_list folders = {NULL, 0, 0};
    gyre_status status = list_folder(folder, &folders, files, err);
    for (size_t i = 0; i < folders.count && status == GYRE_OK; i++)
        status = list_folder(folders.paths[i], &folders, files, err);
    free_list(&folders);
    if (status == GYRE_OK && files->count > 0) qsort(files->paths, files->count, sizeof *files->paths, compare_paths);
    return status;
}

/* -- bytes into ids -- */
typedef struct collector {
    gyre_text text;
    int64_t capacity, files_seen; /* files looked at, taken or not */
    gyre_text_split split;
    const gyre_tokenizer *tokenizer; /* NULL: ids are bytes */
} collector;

static gyre_status reserve(collector *c, int64_t more, const char *path, gyre_error *err) {
    if (more <= c->capacity - c->text.count) return GYRE_OK;
    const int64_t least = c->text.count + more;
    const int64_t capacity = least > 2 * c->capacity ? least : 2 * c->capacity;
    int32_t *grown =
        (uint64_t)capacity <= SIZE_MAX / sizeof *grown ? realloc(c->text.ids, (size_t)capacity * sizeof *grown) : NULL;
    if (!grown) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for %" PRId64 " tokens (%s)", capacity, path);
    c->text.ids = grown;
    c->capacity = capacity;
    return GYRE_OK;
}

/* By content, so that a file is held out on every machine and under every name. */
static int is_in_split(gyre_text_split split, const char *bytes, size_t size) {
    if (split == GYRE_TEXT_SPLIT_ALL) return 1;
    const int held_out = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, bytes, size) % HELD_OUT_MODULUS == 0;
    return held_out == (split == GYRE_TEXT_SPLIT_HELD_OUT);
}

/* The file's tokens after those of the files before. */
static gyre_status append_tokens(collector *c, const char *path, const char *bytes, size_t size, gyre_error *err) {
    int32_t *ids;
    int64_t count;
    gyre_error why;
    if (size == 0) return GYRE_OK;
    const unsigned flags = c->text.count == 0 ? GYRE_TOKENIZE_BEGIN : 0;
    gyre_status status = gyre_tokenize(c->tokenizer, bytes, size, flags, &ids, &count, &why);
    if (status != GYRE_OK) {
        status = gyre_fail(err, status, "%.300s (%s)", why.text, path);
        if (err) err->offset = why.offset;
        return status;
    }
    status = reserve(c, count, path, err);
    if (status == GYRE_OK && count > 0) {
        memcpy(c->text.ids + c->text.count, ids, (size_t)count * sizeof *ids);
        c->text.count += count;
    }
    free(ids);
    return status;
}

static gyre_status append_bytes(collector *c, const char *path, const char *bytes, size_t size, gyre_error *err) {
    const gyre_status status = reserve(c, (int64_t)size, path, err);
    for (size_t i = 0; i < size && status == GYRE_OK; i++)
        c->text.ids[c->text.count++] = (unsigned char)bytes[i];
    return status;
}

static gyre_status read_file(collector *c, const char *path, gyre_error *err) {
    char *bytes;
    size_t size;
    gyre_status status = gyre_file_read(path, &bytes, &size, err);
    if (status != GYRE_OK) return status;
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
    path_list files = {NULL, 0, 0};
    if (stat(path, &info) != 0) return gyre_fail(err, GYRE_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return read_file(c, path, err);
    gyre_status status = list_files(path, &files, err);
    for (size_t i = 0; i < files.count && status == GYRE_OK; i++)
        status = read_file(c, files.paths[i], err);
    free_list(&files);
    return status;
}

/* where: the first path, and how many more. */
static gyre_status check_count(const collector *c, const char *const *paths, int64_t count, int64_t least, gyre_error *err) {
    char more[48] = "";
    const gyre_text *t = &c->text;
    const char *kind = c->split == GYRE_TEXT_SPLIT_TRAIN ? "for training" : "held out";
    if (count > 1) snprintf(more, sizeof more, " and %" PRId64 " more", count - 1);
    if (c->files_seen == 0) return gyre_fail(err, GYRE_EINVAL, "text: no regular file (%s%s)", paths[0], more);
    if (t->files == 0)
        return gyre_fail(err, GYRE_EINVAL, "text: none of %" PRId64 " files is %s (%s%s)", c->files_seen, kind, paths[0],
                         more);
    if (t->count == 0) return gyre_fail(err, GYRE_EINVAL, "text: empty (%s%s)", paths[0], more);
    if (t->count < least)
        return gyre_fail(err, GYRE_EINVAL, "text: %" PRId64 " %s, at least %" PRId64 " are needed (%s%s)", t->count,
                         c->tokenizer ? "tokens" : "bytes", least, paths[0], more);
    return GYRE_OK;
}

static gyre_status collect(gyre_text *out, collector *c, const char *const *paths, int64_t count, int64_t least,
                           gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < count && status == GYRE_OK; i++)
        status = read_path(c, paths[i], err);
    if (status == GYRE_OK) status = check_count(c, paths, count, least, err);
    if (status == GYRE_OK)
        *out = c->text;
    else
        gyre_text_free(&c->text);
    return status;
}

gyre_status gyre_text_open(gyre_text *out, const char *const *paths, int64_t count, gyre_text_split split, int64_t least,
                           gyre_error *err) {
    if (!out || !paths || count < 1) return gyre_fail(err, GYRE_EINVAL, "text: no path is given");
    if (split != GYRE_TEXT_SPLIT_ALL && split != GYRE_TEXT_SPLIT_TRAIN && split != GYRE_TEXT_SPLIT_HELD_OUT)
        return gyre_fail(err, GYRE_EINVAL, "text: %d names no split (%s)", (int)split, paths[0]);
    collector c = {.text = {.hash = GYRE_FNV1A_OFFSET_BASIS}, .split = split};
    return collect(out, &c, paths, count, least, err);
}

gyre_status gyre_text_tokenize(gyre_text *out, const gyre_tokenizer *tokenizer, const char *const *paths, int64_t count,
                               int64_t least, gyre_error *err) {
    if (!out || !tokenizer || !paths || count < 1)
        return gyre_fail(err, GYRE_EINVAL, "text: a tokenizer and a path are needed");
    collector c = {.text = {.hash = GYRE_FNV1A_OFFSET_BASIS}, .split = GYRE_TEXT_SPLIT_ALL, .tokenizer = tokenizer};
    return collect(out, &c, paths, count, least, err);
}

void gyre_text_free(gyre_text *text) {
    if (!text) return;
    free(text->ids);
    *text = (gyre_text){0};
}

/* -- ids written out -- */
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

/* One id from bytes[*at], which is no separator.  Stops at the first digit that takes it past the vocabulary. */
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
    for (size_t at = 0; at < size && status == GYRE_OK;) {
        if (is_separator(bytes[at])) {
            at++;
            continue;
        }
        status = reserve(c, 1, path, err);
        if (status == GYRE_OK) status = parse_id(bytes, size, &at, vocab, path, &c->text.ids[c->text.count++], err);
    }
    return status;
}

gyre_status gyre_text_open_ids(gyre_text *out, const char *path, int64_t vocab, int64_t least, gyre_error *err) {
    char *bytes;
    size_t size;
    if (!out || !path || vocab < 1 || vocab > (int64_t)INT32_MAX + 1)
        return gyre_fail(err, GYRE_EINVAL, "ids: a path and a vocabulary of 1 .. 2^31 are needed");
    gyre_status status = gyre_file_read(path, &bytes, &size, err);
    if (status != GYRE_OK) return status;
    collector c = {.text = {.hash = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, bytes, size), .files = 1},
                   .split = GYRE_TEXT_SPLIT_ALL};
    status = parse_ids(&c, bytes, size, vocab, path, err);
    free(bytes);
    if (status == GYRE_OK && c.text.count == 0) status = gyre_fail(err, GYRE_EINVAL, "ids: empty (%s)", path);
    if (status == GYRE_OK && c.text.count < least)
        status = gyre_fail(err, GYRE_EINVAL, "ids: %" PRId64 " tokens, at least %" PRId64 " are needed (%s)", c.text.count,
                           least, path);
    if (status == GYRE_OK)
        *out = c.text;
    else
        gyre_text_free(&c.text);
    return status;
}
