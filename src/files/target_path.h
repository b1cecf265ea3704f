/* target_path.h: which file a command that writes a changed copy of a model's file replaces. */
#ifndef GYRE_FILES_TARGET_PATH_H
#define GYRE_FILES_TARGET_PATH_H
#include "gyre/gyre.h"
#include "util/path.h"

/* out = `target`, or "target/name" if target is a folder.  Writes nothing.  EINVAL if that is the file at `source`, which is
 * never replaced, if it exists and is not a regular file, or if the path is too long.  EIO if the system fails. */
gyre_status gyre_target_path(char out[PATH_MAX], const char *source, const char *target, const char *name, gyre_error *err);

#endif
