/* file_read.h: a whole file in memory, or in the address space. */
#ifndef GYRE_READING_FILE_READ_H
#define GYRE_READING_FILE_READ_H
#include "gyre/gyre.h"

/* *out = the whole file, with a NUL after it; the caller frees it.  *bytes = its size. */
gyre_status gyre_file_read(const char *path, char **out, size_t *bytes, gyre_error *err);

/* A regular file mapped for reading.  Who shortens it meanwhile ends the process, as with any mapping. */
typedef struct gyre_mapping {
    const unsigned char *bytes;
    size_t size;
} gyre_mapping;
/* An empty file is EFORMAT. */
gyre_status gyre_mapping_open(gyre_mapping *out, const char *path, gyre_error *err);
void gyre_mapping_close(gyre_mapping *mapping);
/* `size` bytes of a mapping have been read: their pages need not stay in memory, and come back if they are read again. */
void gyre_mapping_release_pages(const unsigned char *bytes, size_t size);

#endif
