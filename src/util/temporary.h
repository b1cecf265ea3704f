/* temporary.h: unfinished files and folders beside their target.
 *
 *   TARGET.gyre-PID-N-CHECK.tmp   is being written; locked while its writer lives
 *   TARGET.gyre-PID-N-CHECK.old   a folder that was moved aside, to make place for a new one
 *
 * CHECK is a hash of what is before it, in hexadecimal digits: a user's file whose name has the same form is not one. */
#ifndef GYRE_UTIL_TEMPORARY_H
#define GYRE_UTIL_TEMPORARY_H
#include "gyre/gyre.h"
#include "util/path.h"

#include <sys/stat.h>

enum { GYRE_TEMPORARY_PATH_BYTES = PATH_MAX + 48 };

/* out = the name of this process's temporary number `attempt`; out = 1 if it fits. */
int gyre_temporary_name(char out[GYRE_TEMPORARY_PATH_BYTES], const char *target, int attempt);
/* The same of the process of that number. */
int gyre_temporary_name_by(char out[GYRE_TEMPORARY_PATH_BYTES], const char *target, long pid, int attempt);
/* out = the name of what is moved aside for the temporary. */
void gyre_temporary_name_aside(char out[GYRE_TEMPORARY_PATH_BYTES], const char *temporary);
/* out = the process number in `entry`, the name of a temporary of a target called `name`, or of one moved aside, and then
 * *aside = 1; 0 for another name. */
long gyre_temporary_pid(const char *entry, const char *name, int *aside);

/* Makes a file, or a folder, of the first name that is free, and locks it.  out = a descriptor, of a file for writing, which
 * holds the lock; -1 with errno.  *exists: 1 while the file at `path` may be this writer's, for a signal handler. */
int gyre_temporary_make(char path[GYRE_TEMPORARY_PATH_BYTES], const char *target, int is_folder, mode_t mode,
                        volatile int *exists);

/* A temporary, locked by the caller now.  Errors end gyre_temporary_clean. */
typedef gyre_status gyre_temporary_visit(const char *path, int aside, void *arg, gyre_error *err);
/* Visits the files, or the folders, that killed writers of the target left beside it.  Links and what a living process has
 * locked are passed over.  Errors: EIO (the folder cannot be listed), those of `visit`. */
gyre_status gyre_temporary_clean(const char *target, int are_folders, gyre_temporary_visit *visit, void *arg,
                                 gyre_error *err);

#endif
