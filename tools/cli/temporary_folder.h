/* temporary_folder.h: a folder of its own for files that a command tries out. */
#ifndef GYRE_TOOLS_TEMPORARY_FOLDER_H
#define GYRE_TOOLS_TEMPORARY_FOLDER_H
#include "gyre/gyre.h"

typedef struct temporary_folder {
    char path[2048]; /* "" = none */
    int lock;        /* a descriptor of its file gyre.lock, locked until the folder is removed or the process ends */
} temporary_folder;

/* folder = a new folder under TMPDIR, else /tmp, that is empty but for gyre.lock.  command: "search", part of its name and
 * of the error.  Removes the folders that killed runs left there.  Of gyre explore, it removes pages older than a minute,
 * which browsers have read by then.  Errors: EIO; folder->path = "". */
gyre_status temporary_folder_create(temporary_folder *folder, const char *command, gyre_error *err);
/* Removes the folder and what is in it.  Does nothing if there is none. */
void temporary_folder_remove(temporary_folder *folder);

#endif
