/* cli_lock.h: keeps two runs from writing the same file or folder. */
#ifndef GYRE_TOOLS_CLI_LOCK_H
#define GYRE_TOOLS_CLI_LOCK_H
#include "gyre/gyre.h"

/* Holds path.lock until cli_lock_release or the end of the process. */
typedef struct cli_lock {
    int file; /* -1 = not held */
    char path[4096];
} cli_lock;
/* `what` begins messages about the path: "folder", "journal".
 * Errors: EIO (another run holds it, or it cannot be created), EINVAL (name too long). */
gyre_status cli_lock_acquire(cli_lock *lock, const char *path, const char *what, gyre_error *err);
void cli_lock_release(cli_lock *lock);

#endif
