/* file_write.h: writing bytes to disk.  Every function returns 0 or an errno value, so that callers word the error. */
#ifndef GYRE_UTIL_FILE_WRITE_H
#define GYRE_UTIL_FILE_WRITE_H
#include <stddef.h>

/* Writes all bytes, resuming after short writes and signals. */
int gyre_write_all(int fd, const void *bytes, size_t count);
/* fsync.  File systems that cannot sync this kind of file (EINVAL, ENOTSUP, EROFS) count as success. */
int gyre_sync(int fd);
/* fdatasync, with the same exceptions: all that is needed to read the bytes again. */
int gyre_sync_data(int fd);
/* Syncs the file or folder at `path`. */
int gyre_sync_path(const char *path);
/* Syncs the folder that contains `path`, so that a rename within it survives a power cut. */
int gyre_sync_parent(const char *path);
/* Makes the missing folders above `path` and syncs the folders that hold them.  After an error `path` is cut behind the
 * folder that failed. */
int gyre_make_parents(char *path);
/* Creates or truncates the file at `path`, writes the bytes, syncs and closes.  Not atomic: see atomic_file.h. */
int gyre_file_write(const char *path, const void *bytes, size_t count);

#endif
