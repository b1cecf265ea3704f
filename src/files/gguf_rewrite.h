/* gguf_rewrite.h: a copy of a GGUF file with other metadata.  Keys that are not edited, the tensors' descriptions and their
 * bytes stay as they are; memory is that of the metadata. */
#ifndef GYRE_READING_GGUF_REWRITE_H
#define GYRE_READING_GGUF_REWRITE_H
#include "files/gguf.h"

/* A key that shall have another value, in its place or after the others, or that shall be gone. */
typedef struct gyre_gguf_edit {
    const char *key;
    int remove;
    gyre_gguf_type type; /* not an array */
    int64_t integer;     /* of integers and bools */
    double number;       /* of floats */
    const char *text;    /* of strings */
} gyre_gguf_edit;

typedef struct gyre_gguf_edits {
    const gyre_gguf_edit *list;
    int64_t count;
} gyre_gguf_edits;

/* Checks the file that was written, before it gets its name.  Any status but GYRE_OK discards it. */
typedef gyre_status gyre_gguf_check(void *context, const char *written, gyre_error *err);

/* Replaces `target` atomically by a copy of the file at `path`, edited.  check: may be NULL.  Errors: those of
 * gyre_gguf_open; EIO; EINVAL (target is the file at `path` or not a regular file; an edit of general.alignment, two edits
 * of one key, a value that its type cannot hold). */
gyre_status gyre_gguf_rewrite(const char *path, const gyre_gguf_edit *edits, int64_t count, const char *target,
                              gyre_gguf_check *check, void *context, gyre_error *err);
/* gyre_gguf_rewrite of a file that is open already. */
gyre_status gyre_gguf_rewrite_from(const gyre_gguf *file, const char *path, const gyre_gguf_edits *edits, const char *target,
                                   gyre_gguf_check *check, void *context, gyre_error *err);

#endif
