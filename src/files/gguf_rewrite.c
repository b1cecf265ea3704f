/* gguf_rewrite.c: writes new metadata, then copies the tensor data block by block. */
#include "files/gguf_rewrite.h"

#include "files/file_read.h"
#include "files/little_endian.h"
#include "files/target_path.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

/* -- edits -- */
/* out = 1 if an integer type can hold x. */
static int fits_type(gyre_gguf_type type, int64_t x) {
    const size_t bits = 8 * gyre_gguf_type_size(type);
    switch (type) {
    case GYRE_GGUF_BOOL:
        return x == 0 || x == 1;
    case GYRE_GGUF_U8:
    case GYRE_GGUF_U16:
    case GYRE_GGUF_U32:
        return x >= 0 && x < (int64_t)1 << bits;
    case GYRE_GGUF_I8:
    case GYRE_GGUF_I16:
    case GYRE_GGUF_I32:
        return x >= -((int64_t)1 << (bits - 1)) && x < (int64_t)1 << (bits - 1);
    case GYRE_GGUF_U64:
        return x >= 0;
    default:
        return type == GYRE_GGUF_I64;
    }
}

static gyre_status check_edit(const gyre_gguf_edit *edit, gyre_error *err) {
    if (strcmp(edit->key, "general.alignment") == 0)
        return gyre_fail(err, GYRE_EINVAL, "%s: the tensors lie where it says (an edit)", edit->key);
    if (edit->remove) return GYRE_OK;
    switch (edit->type) {
    case GYRE_GGUF_STRING:
        return edit->text ? GYRE_OK : gyre_fail(err, GYRE_EINVAL, "%s: not a text (an edit)", edit->key);
    case GYRE_GGUF_F32:
        if (fabs(edit->number) <= 3.4028234e38) return GYRE_OK;
        return gyre_fail(err, GYRE_EINVAL, "%s: %g is not a float (an edit)", edit->key, edit->number);
    case GYRE_GGUF_F64:
        return GYRE_OK;
    default:
        if (fits_type(edit->type, edit->integer)) return GYRE_OK;
        return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " as %s (an edit)", edit->key, edit->integer,
                         gyre_gguf_type_name(edit->type));
    }
}

static gyre_status check_edits(const gyre_gguf_edit *edits, int64_t count, gyre_error *err) {
    for (int64_t i = 0; i < count; i++) {
        const gyre_status status = check_edit(&edits[i], err);
        if (status) return status;
        for (int64_t j = 0; j < i; j++)
            if (strcmp(edits[i].key, edits[j].key) == 0)
                return gyre_fail(err, GYRE_EINVAL, "%s: two edits of one key", edits[i].key);
    }
    return GYRE_OK;
}

static const gyre_gguf_edit *find_edit(const gyre_gguf_edit *edits, int64_t count, const gyre_gguf_kv *pair) {
    for (int64_t i = 0; i < count; i++)
        if (strlen(edits[i].key) == pair->key_bytes && memcmp(edits[i].key, pair->key, pair->key_bytes) == 0)
            return &edits[i];
    return NULL;
}

/* out = number of keys after the edits. */
static uint64_t count_keys(const gyre_gguf *file, const gyre_gguf_edit *edits, int64_t count) {
    uint64_t keys = (uint64_t)file->kv_count;
    for (int64_t i = 0; i < count; i++) {
        const int is_there = gyre_gguf_find_key(file, edits[i].key) != NULL;
        if (edits[i].remove && is_there) keys--;
        if (!edits[i].remove && !is_there) keys++;
    }
    return keys;
}

/* -- new metadata -- */
/* A stream and the bytes written so far.  After the first error (an errno value) nothing more is written. */
typedef struct sink {
    FILE *stream;
    uint64_t at;
    int error;
} sink;

static void put(sink *s, const void *bytes, size_t count) {
    errno = 0;
    if (count > 0 && s->error == 0 && fwrite(bytes, 1, count, s->stream) != count) s->error = errno ? errno : EIO;
    s->at += count;
}

static void put_number(sink *s, uint64_t x, size_t count) {
    unsigned char bytes[8];
    gyre_store_le(bytes, x, sizeof bytes);
    put(s, bytes, count);
}

static void put_text(sink *s, const char *text) {
    put_number(s, strlen(text), 8);
    put(s, text, strlen(text));
}

static void put_edit(sink *s, const gyre_gguf_edit *edit) {
    const float single = (float)edit->number;
    uint32_t bits32;
    uint64_t bits64;
    memcpy(&bits32, &single, sizeof bits32);
    memcpy(&bits64, &edit->number, sizeof bits64);
    put_text(s, edit->key);
    put_number(s, edit->type, 4);
    if (edit->type == GYRE_GGUF_STRING)
        put_text(s, edit->text);
    else if (edit->type == GYRE_GGUF_F32)
        put_number(s, bits32, 4);
    else
        put_number(s, edit->type == GYRE_GGUF_F64 ? bits64 : (uint64_t)edit->integer, gyre_gguf_type_size(edit->type));
}

static void put_metadata(sink *s, const gyre_gguf *file, const gyre_gguf_edit *edits, int64_t count) {
    put(s, file->bytes, 16); /* magic, version, number of tensors */
    put_number(s, count_keys(file, edits, count), 8);
    for (int64_t i = 0; i < file->kv_count; i++) {
        const gyre_gguf_kv *pair = &file->kvs[i];
        const gyre_gguf_edit *edit = find_edit(edits, count, pair);
        if (!edit)
            put(s, file->bytes + pair->offset, (size_t)pair->bytes);
        else if (!edit->remove)
            put_edit(s, edit);
    }
    for (int64_t i = 0; i < count; i++)
        if (!edits[i].remove && !gyre_gguf_find_key(file, edits[i].key)) put_edit(s, &edits[i]);
    put(s, file->bytes + file->tensor_infos, (size_t)(file->tensor_infos_end - file->tensor_infos));
}

/* -- tensor data -- */
/* Uses read instead of the mapping, whose pages would stay in this process's memory. */
static gyre_status copy_data(sink *s, int from, const gyre_gguf *file, const char *path, gyre_error *err) {
    if (file->size < file->data) return GYRE_OK;
    for (; s->at % file->alignment != 0;)
        put_number(s, 0, 1);
    unsigned char *block = malloc(BLOCK);
    if (!block) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", path);
    uint64_t at = file->data;
    while (at < file->size && s->error == 0) {
        const size_t wanted = file->size - at < BLOCK ? (size_t)(file->size - at) : BLOCK;
        const ssize_t got = pread(from, block, wanted, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            free(block);
            return got < 0 ? gyre_fail_errno(err, path, errno)
                           : gyre_fail(err, GYRE_EIO, "%s: became shorter while it was copied", path);
        }
        put(s, block, (size_t)got);
        at += (uint64_t)got;
    }
    free(block);
    return GYRE_OK;
}

typedef struct job {
    const char *path, *target;
    const gyre_gguf_edit *edits;
    int64_t count;
    gyre_gguf_check *check;
    void *context;
} job;

static gyre_status write_all(const job *j, FILE *stream, const gyre_gguf *file, int from, gyre_error *err) {
    sink s = {stream, 0, 0};
    put_metadata(&s, file, j->edits, j->count);
    const gyre_status status = copy_data(&s, from, file, j->path, err);
    errno = s.error;
    return !status && s.error ? gyre_fail_errno(err, j->target, errno) : status;
}

static gyre_status replace_target(const job *j, const gyre_gguf *file, int from, gyre_error *err) {
    gyre_atomic_file output;
    int code = gyre_atomic_open(&output, j->target);
    if (code) return gyre_fail_errno(err, j->target, code);
    FILE *stream = gyre_atomic_stream(&output);
    gyre_status status = stream ? write_all(j, stream, file, from, err) : gyre_fail_errno(err, j->target, errno);
    if (!status && (code = gyre_atomic_close(&output)) != 0) status = gyre_fail_errno(err, j->target, code);
    if (!status && j->check) status = j->check(j->context, output.temporary, err);
    if (!status && (code = gyre_atomic_commit(&output)) != 0) status = gyre_fail_errno(err, j->target, code);
    gyre_atomic_discard(&output);
    return status;
}

static gyre_status rewrite(const job *j, const gyre_gguf *file, gyre_error *err) {
    const int from = open(j->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from < 0) return gyre_fail_errno(err, j->path, errno);
    const gyre_status status = replace_target(j, file, from, err);
    close(from);
    return status;
}

gyre_status gyre_gguf_rewrite_from(const gyre_gguf *file, const char *path, const gyre_gguf_edits *edits, const char *target,
                                   gyre_gguf_check *check, void *context, gyre_error *err) {
    char resolved[PATH_MAX];
    const job j = {path, resolved, edits->list, edits->count, check, context};
    gyre_status status = check_edits(edits->list, edits->count, err);
    if (!status) status = gyre_target_path(resolved, path, target, "", err);
    if (!status) status = gyre_atomic_check_whole(resolved, err);
    return !status ? rewrite(&j, file, err) : status;
}

gyre_status gyre_gguf_rewrite(const char *path, const gyre_gguf_edit *edits, int64_t count, const char *target,
                              gyre_gguf_check *check, void *context, gyre_error *err) {
    const gyre_gguf_edits all = {edits, count};
    gyre_mapping map = {0};
    gyre_gguf *file = NULL;
    gyre_status status = gyre_gguf_open_path(&file, &map, path, err);
    if (!status) status = gyre_gguf_rewrite_from(file, path, &all, target, check, context, err);
    gyre_gguf_free(file);
    gyre_mapping_close(&map);
    return status;
}
