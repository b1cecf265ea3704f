/* temporary_folder.h: a separate folder for files that a command tries out. */
#ifndef GYRE_TOOLS_TEMPORARY_FOLDER_H
#define GYRE_TOOLS_TEMPORARY_FOLDER_H
#include "gyre/gyre.h"

typedef struct temporary_folder {
    char path[2048]; /* "" = none */
    int lock;        /* a descriptor of it, locked until the folder is removed or the process ends */
} temporary_folder;

/* folder = a new empty folder under TMPDIR, else /tmp.  command: "search", which the error names.  Removes the folders that
 * killed runs left there, and pages of gyre explore older than a minute, which browsers have read by then.  Errors: EIO;
 * folder->path = "". */
gyre_status temporary_folder_create(temporary_folder *folder, const char *command, gyre_error *err);
/* Removes the folder and what is in it.  Does nothing if there is none. */
void temporary_folder_remove(temporary_folder *folder);

#endif
