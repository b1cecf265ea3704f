/* atomic_file.h: replaces a file atomically.  Readers see the old file or the new one, never a part of it.
 *
 *   open:    TARGET.gyre-PID-N.tmp is created beside the target, with the target's mode
 *   write:   through `fd`, or through gyre_atomic_stream
 *   close:   flushed, synced, closed; the temporary may be read back here
 *   commit:  renamed over the target; the folder is synced
 *
 * A temporary is locked while its writer lives.  open removes those of the same target whose writer was killed.
 *
 * A symbolic link is followed: the file that it points to is replaced.  A target that exists and is not a regular file
 * (a device, a pipe) is written directly, without a temporary.  So is one that names a descriptor of this process
 * (/dev/stdout, /dev/fd/3), whatever is behind it: through that descriptor, so that its position and O_APPEND hold and no
 * other writer of the file loses anything.
 *
 * Functions that return int return 0 or an errno value, so that callers word the error.  The state of one replacement is in
 * its struct; two may run at once, also for one target. */
#ifndef GYRE_UTIL_ATOMIC_FILE_H
#define GYRE_UTIL_ATOMIC_FILE_H
#include "gyre/gyre.h"
#include "util/temporary.h"

#include <stdio.h>

typedef struct gyre_atomic_file {
    int fd;       /* for writing; -1 once closed */
    int lock;     /* keeps the temporary locked until it has the target's name; -1 = none */
    FILE *stream; /* on fd, made by gyre_atomic_stream; else NULL */
    /* 1 while `temporary` may exist.  Set after the file is created and cleared after it is gone, so that a signal handler
     * unlinks no other writer's.  An int serves as sig_atomic_t, which WASI lacks. */
    volatile int has_temporary;
    char target[PATH_MAX]; /* with symbolic links resolved */
    char temporary[GYRE_TEMPORARY_PATH_BYTES];
} gyre_atomic_file;

/* out = the descriptor of this process that `path` names, as /dev/stdout and /proc/self/fd/3 do, through links too; else -1.
 * It need not be open. */
int gyre_descriptor_of(const char *path);
/* For files that are read back or must be whole.  EINVAL: path names a descriptor of this process. */
gyre_status gyre_atomic_check_whole(const char *path, gyre_error *err);

/* Opens a replacement of the file at `path`.  EISDIR for a folder.  After an error there is nothing to discard. */
int gyre_atomic_open(gyre_atomic_file *file, const char *path);
/* out = a buffered stream on file->fd, which close flushes; NULL with errno set. */
FILE *gyre_atomic_stream(gyre_atomic_file *file);
/* Flushes, syncs and closes.  The contents are then complete under file->temporary.  Commit calls it where needed. */
int gyre_atomic_close(gyre_atomic_file *file);
/* Closes and renames.  After an error the temporary is removed and the target is unchanged. */
int gyre_atomic_commit(gyre_atomic_file *file);
/* Closes and removes the temporary.  Does nothing after commit. */
void gyre_atomic_discard(gyre_atomic_file *file);

/* All steps at once. */
int gyre_atomic_write(const char *path, const void *bytes, size_t count);

#endif
