/* temporary_folder.h: a folder of its own for files that a command tries out. */
#ifndef GYRE_TOOLS_TEMPORARY_FOLDER_H
#define GYRE_TOOLS_TEMPORARY_FOLDER_H
#include "gyre/gyre.h"

/* folder = a new, empty folder under TMPDIR, else /tmp; the caller removes it.  command: "search", part of its name and of
 * the error.  Errors: EIO; folder = "". */
gyre_status temporary_folder_create(const char *command, char *folder, size_t size, gyre_error *err);

#endif
