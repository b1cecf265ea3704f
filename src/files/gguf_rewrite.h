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

/* Looks at what was written before it gets its name; anything but GYRE_OK, and there will be nothing. */
typedef gyre_status gyre_gguf_check(void *context, const char *written, gyre_error *err);

/* Written beside `target` under another name, synced, and renamed: whatever happens, target is the old file or the new one.
 * check: may be NULL.  Errors: those of gyre_gguf_open; EIO; EINVAL (target is the file itself, or no regular file; an edit
 * of general.alignment, two of one key, a value that its type does not hold). */
gyre_status gyre_gguf_rewrite(const char *path, const gyre_gguf_edit *edits, int64_t count, const char *target,
                              gyre_gguf_check *check, void *context, gyre_error *err);

/* The same, so that its rotating layers get position's scaling, factor, base, lengths and attention factor, and that the
 * model says it reads `length` tokens.  What is written is read back as llama.cpp does at that length.  EUNSUPPORTED where
 * llama.cpp has no key for it, or would read something else. */
gyre_status gyre_gguf_rewrite_positions(const char *path, const gyre_config *position, int64_t length, const char *target,
                                        gyre_error *err);

#endif
