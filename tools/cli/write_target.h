/* write_target.h: checks, before the work, that a result can be written where the user wants it. */
#ifndef GYRE_TOOLS_WRITE_TARGET_H
#define GYRE_TOOLS_WRITE_TARGET_H
#include "gyre/gyre.h"

/* Usage error if `target`, the value of `option`, is one of the model's own files.  model: a file or a folder.  target and
 * model may be NULL. */
void cli_check_target(const char *option, const char *target, const char *model);
void cli_check_output(const char *output, const char *model); /* the same for --output */

/* EIO: path is a folder, or its folder cannot be written.  EINVAL: the name is too long.  what: first word of the error. */
gyre_status file_target_check(const char *what, const char *path, gyre_error *err);
/* The same for an HTML report.  EIO too: gnuplot, which draws the figures, is not in PATH. */
gyre_status report_target_check(const char *path, gyre_error *err);

#endif
