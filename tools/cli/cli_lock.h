/* cli_lock.h: keeps two runs from writing the same folder. */
#ifndef GYRE_TOOLS_CLI_LOCK_H
#define GYRE_TOOLS_CLI_LOCK_H
#include "gyre/gyre.h"

/* Holds NAME.lock until cli_lock_release or the end of the process.  NAME: where the links of a path end, so that every name
 * of a folder has one lock.  Only a file that a run made is removed, also one that a killed run left; an empty file
 * of somebody else serves as a lock, and stays. */
typedef struct cli_lock {
    int file; /* -1 = not held */
    int made; /* 1: by this run */
    char path[4096];
} cli_lock;
/* out = the name of the lock of `path`.  Returns 0, or an errno value of following its links. */
int cli_lock_name(const char *path, char out[4096]);
/* Makes the folders above `path`, where the lock lies.  cli_lock_acquire reports a failure. */
void cli_lock_make_parents(const char *path);
/* `what` begins messages about the path: "folder".
 * Errors: EIO (another run holds it, or it cannot be created), EINVAL (name too long). */
gyre_status cli_lock_acquire(cli_lock *lock, const char *path, const char *what, gyre_error *err);
void cli_lock_release(cli_lock *lock);

#endif
