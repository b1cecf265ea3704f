/* write_target.h: checks, before the work, that a result can be written where the user wants it. */
#ifndef GYRE_TOOLS_WRITE_TARGET_H
#define GYRE_TOOLS_WRITE_TARGET_H
#include "gyre/gyre.h"

/* EIO: path is a folder, or its folder cannot be written.  EINVAL: the name is too long.  what: first word of the error. */
gyre_status file_target_check(const char *what, const char *path, gyre_error *err);
/* The same for an HTML report.  EIO too: gnuplot, which draws the figures, is not in PATH. */
gyre_status report_target_check(const char *path, gyre_error *err);

#endif
