/* target_path.c: protects a model's file from being replaced by its own changed copy. */
#include "files/target_path.h"

#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

gyre_status gyre_target_path(char out[PATH_MAX], const char *source, const char *target, const char *name, gyre_error *err) {
    struct stat old, own;
    const int is_folder = stat(target, &old) == 0 && S_ISDIR(old.st_mode);
    const size_t length = strlen(target);
    const char *slash = !is_folder || !*name || target[length - 1] == '/' ? "" : "/";
    if (snprintf(out, PATH_MAX, "%s%s%s", target, slash, is_folder ? name : "") >= PATH_MAX)
        return gyre_fail(err, GYRE_EINVAL, "target: the path is too long (%.100s...)", target);
    if (stat(out, &old) != 0)
        return errno == ENOENT ? GYRE_OK
                               : gyre_fail(err, gyre_status_of_errno(errno), "writing: %s (%.380s)", strerror(errno), out);
    if (stat(source, &own) == 0 && own.st_dev == old.st_dev && own.st_ino == old.st_ino)
        return gyre_fail(err, GYRE_EINVAL, "target: the model's own file is not replaced; name another (%.300s)", out);
    if (!S_ISREG(old.st_mode)) return gyre_fail(err, GYRE_EINVAL, "target: not a regular file (%.380s)", out);
    return GYRE_OK;
}
