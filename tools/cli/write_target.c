/* write_target.c: checks of files that a command will write. */
#include "tools/cli/write_target.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/path.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int in_path(const char *program) {
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        const size_t length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
        if (length && access(file, X_OK) == 0) return 1;
        path += length + (path[length] == ':');
    }
    return 0;
}

int file_target_is_folder(const char *path, const struct stat *is) {
    if (is) return S_ISDIR(is->st_mode);
    return !gyre_ends_with(path, ".json") && !gyre_ends_with(path, ".gguf");
}

gyre_status file_target_check(const char *what, const char *path, gyre_error *err) {
    char folder[4096];
    struct stat is;
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode)) return gyre_fail(err, GYRE_EIO, "%s: is a folder (%s)", what, path);
    if (gyre_descriptor_of(path) >= 0) return GYRE_OK; /* nothing is made in its folder */
    if (stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, W_OK) != 0)
        return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", what, strerror(errno), path);
    if (gyre_path_folder(path, folder, sizeof folder))
        return gyre_fail(err, GYRE_EINVAL, "%s: too long a name (%s)", what, path);
    if (access(folder, W_OK) != 0) return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", what, strerror(errno), path);
    return GYRE_OK;
}

gyre_status report_target_check(const char *path, gyre_error *err) {
    if (!in_path("gnuplot")) return gyre_fail(err, GYRE_EIO, "gnuplot: not found in PATH; it draws the figures (%s)", path);
    return file_target_check("report", path, err);
}
