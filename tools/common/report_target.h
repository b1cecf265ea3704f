/* report_target.h: whether a report can be drawn and written, asked before the work that it tells of. */
#ifndef GYRE_TOOLS_REPORT_TARGET_H
#define GYRE_TOOLS_REPORT_TARGET_H
#include "tools/common/cli.h"

/* EIO: gnuplot is not in PATH, path is a folder or its folder cannot be written.  EINVAL: too long a name. */
gyre_status report_target_check(const char *path, gyre_error *err);

/* The same of any file that is written when the work is done; what: how the error calls it. */
gyre_status file_target_check(const char *what, const char *path, gyre_error *err);

#endif
