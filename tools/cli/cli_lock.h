/* cli_lock.h: keeps two runs from writing the same folder. */
#ifndef GYRE_TOOLS_CLI_LOCK_H
#define GYRE_TOOLS_CLI_LOCK_H
#include "gyre/gyre.h"

/* Holds NAME.gyre-lock, an empty file, until cli_lock_release or the end of the process.  NAME: where the links of a path
 * end, so that every name of a folder has one lock.  The file of a killed run serves the next one.  What is not an empty
 * file is somebody else's: it is an error, and stays. */
typedef struct cli_lock {
    int file; /* -1 = not held */
    char path[4096];
} cli_lock;
/* Errors: EIO (another run holds it, or it cannot be created), EINVAL (name too long). */
gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err);
/* The same for a folder that a command fills from the beginning, after making the folders above it.  EIO too: it exists, is
 * not empty, and replace is 0.  hint: of another way, such as "--resume continues, ". */
gyre_status cli_lock_new_folder(cli_lock *lock, const char *path, int replace, const char *hint, gyre_error *err);
void cli_lock_release(cli_lock *lock);

#endif
