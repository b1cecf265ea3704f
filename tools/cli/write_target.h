/* write_target.h: checks, before the work, that a result can be written where the user wants it. */
#ifndef GYRE_TOOLS_WRITE_TARGET_H
#define GYRE_TOOLS_WRITE_TARGET_H
#include "gyre/gyre.h"

#include <sys/stat.h>

/* EIO: path is a folder, or its folder cannot be written.  EINVAL: the name is too long.  what: first word of the error. */
gyre_status file_target_check(const char *what, const char *path, gyre_error *err);
/* out = 1 if --write puts its file into a folder of this name: one that is there, or a name without .json or .gguf.
 * is: what is there; NULL = nothing. */
int file_target_is_folder(const char *path, const struct stat *is);
/* file_target_check for an HTML report.  EIO too: gnuplot, which draws the figures, is not in PATH. */
gyre_status report_target_check(const char *path, gyre_error *err);

#endif
