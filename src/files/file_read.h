/* file_read.h: reads a whole file into memory, or maps it. */
#ifndef GYRE_FILES_FILE_READ_H
#define GYRE_FILES_FILE_READ_H
#include "gyre/gyre.h"
#include "util/path.h"

#include <stdint.h>
#include <time.h>

/* *out = the contents of a regular file or a pipe, followed by a NUL; the caller frees it.  *bytes = the size without the
 * NUL.  limit: 1 .. GYRE_FILE_MAX bytes; no more than limit + 1 are read.  EFORMAT: longer. */
#define GYRE_FILE_MAX (SIZE_MAX / 4)
gyre_status gyre_file_read(const char *path, size_t limit, char **out, size_t *bytes, gyre_error *err);
/* The same with a lower limit for a pipe, which may have no end: of it no more than pipe_limit + 1 bytes are read. */
gyre_status gyre_file_read_stream(const char *path, size_t limit, size_t pipe_limit, char **out, size_t *bytes,
                                  gyre_error *err);

/* The same for a file of a model's folder, whose size is the work of strangers: a regular file (a pipe would be waited for)
 * of at most GYRE_DOCUMENT_MIB MiB, several times the largest tokenizer.json that is known; parsed JSON takes some twenty
 * times the size of its text.  EFORMAT: longer.  EIO: not a regular file. */
enum { GYRE_DOCUMENT_MIB = 64 };
gyre_status gyre_document_read(const char *path, char **out, size_t *bytes, gyre_error *err);

/* out = FOLDER/NAME.  EIO: too long. */
gyre_status gyre_file_path(const char *folder, const char *name, char out[PATH_MAX], gyre_error *err);

/* A regular file mapped for reading.  If another process shortens the file, reading past its new end kills this one by
 * SIGBUS, as with any mapping; the gyre command reports that as an error. */
typedef struct gyre_mapping {
    const unsigned char *bytes; /* NULL = nothing is mapped */
    size_t size;
    int descriptor; /* stays open, for gyre_mapping_check */
    struct timespec modified;
} gyre_mapping;
/* EFORMAT if the file is empty. */
gyre_status gyre_mapping_open(gyre_mapping *out, const char *path, gyre_error *err);
/* EIO if the file was shortened or written to since it was mapped: what was read of it may be part of both contents, and
 * the end of a page that the file no longer reaches reads as zeros, without SIGBUS.  A new file renamed to its path is
 * no change: the mapping keeps the old one.  `path` is for the message. */
gyre_status gyre_mapping_check(const gyre_mapping *mapping, const char *path, gyre_error *err);
void gyre_mapping_close(gyre_mapping *mapping);
/* Tells the system that the pages of these bytes are not needed any more.  Reading them again loads them again. */
void gyre_mapping_release_pages(const unsigned char *bytes, size_t size);

/* EIO if nothing is at `path` and it looks like the name of a model on a hub, such as Qwen/Qwen2.5-7B: the text says that
 * nothing is downloaded.  GYRE_OK otherwise, even where nothing is there. */
gyre_status gyre_model_path_check(const char *path, gyre_error *err);

#endif
