/* gguf_rewrite.h: copies a GGUF file with edited keys.  Other keys, tensor descriptions and tensor data are copied byte
 * for byte.  Memory use is that of the metadata. */
#ifndef GYRE_FILES_GGUF_REWRITE_H
#define GYRE_FILES_GGUF_REWRITE_H
#include "files/gguf.h"

/* Sets a key, in its place or after the last one, or removes it. */
typedef struct gyre_gguf_edit {
    const char *key;
    int remove;
    gyre_gguf_type type; /* not ARRAY */
    int64_t integer;     /* value of integers and bools */
    double number;       /* value of floats */
    const char *text;    /* value of strings */
} gyre_gguf_edit;

typedef struct gyre_gguf_edits {
    const gyre_gguf_edit *list;
    int64_t count;
} gyre_gguf_edits;

/* Checks the file that was written, before it gets its name.  Any status but GYRE_OK discards it. */
typedef gyre_status gyre_gguf_check(void *context, const char *written, gyre_error *err);

/* Replaces `target` atomically by an edited copy of the file at `path`.  check: may be NULL.  Errors: those of
 * gyre_gguf_open; EIO; EINVAL (target is the file at `path` or not a regular file; an edit of general.alignment, two
 * edits of one key, a value that its type cannot hold). */
gyre_status gyre_gguf_rewrite(const char *path, const gyre_gguf_edit *edits, int64_t count, const char *target,
                              gyre_gguf_check *check, void *context, gyre_error *err);
/* gyre_gguf_rewrite of a file that is already open. */
gyre_status gyre_gguf_rewrite_from(const gyre_gguf *file, const char *path, const gyre_gguf_edits *edits, const char *target,
                                   gyre_gguf_check *check, void *context, gyre_error *err);

#endif
