/* absent_path.h: whether nothing is there. */
#ifndef GYRE_UTIL_ABSENT_PATH_H
#define GYRE_UTIL_ABSENT_PATH_H
#include <errno.h>
#include <unistd.h>

static inline int gyre_is_absence(int code) {
    return code == ENOENT || code == ENOTDIR;
}

/* out = 1 if no file has this name, or one of its folders is none.  Any other failure of looking, of a disk or of a
 * permission, is no absence: who takes it for one writes over a file, or computes without it. */
static inline int gyre_is_absent(const char *path) {
    return access(path, F_OK) != 0 && gyre_is_absence(errno);
}

#endif
