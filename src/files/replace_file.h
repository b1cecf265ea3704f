/* replace_file.h: a file that is looked at before it gets its name, which it gets whole or not at all. */
#ifndef GYRE_READING_REPLACE_FILE_H
#define GYRE_READING_REPLACE_FILE_H
#include "gyre/gyre.h"

#include <limits.h>
#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

typedef struct gyre_file_replacement {
    char final[PATH_MAX], temporary[PATH_MAX + 48];
} gyre_file_replacement;

/* Where to write: `target`, or target/name where that is a folder; behind a symbolic link the file it names.  Nothing is
 * written yet.  EINVAL where that is the file at `source`, or no regular file; EIO. */
gyre_status gyre_file_replacement_init(gyre_file_replacement *out, const char *source, const char *target, const char *name,
                                       gyre_error *err);
/* Writes all the bytes under a temporary name beside it, synced, with the rights of the file that it is to replace. */
gyre_status gyre_file_replacement_write(gyre_file_replacement *r, const char *bytes, size_t count, gyre_error *err);
/* The same, opened for the caller to write to, sync and close: *fd.  Nothing else need be done where it fails. */
gyre_status gyre_file_replacement_open(gyre_file_replacement *r, int *fd, gyre_error *err);
/* Gives it its name.  After an error, as before: the caller drops it. */
gyre_status gyre_file_replacement_commit(gyre_file_replacement *r, gyre_error *err);
/* Removes what was written and not committed. */
void gyre_file_replacement_discard(gyre_file_replacement *r);

#endif
