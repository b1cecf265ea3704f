/* absent_path.h: whether nothing is there. */
#ifndef GYRE_UTIL_ABSENT_PATH_H
#define GYRE_UTIL_ABSENT_PATH_H
#include <errno.h>
#include <unistd.h>

static inline int gyre_is_absence(int code) {
    return code == ENOENT || code == ENOTDIR;
}

/* out = 1 if no file has this name, or one of its folders is not a folder.  Any other failure, of a disk or of a
 * permission, does not mean absence: taken as absence, it would lead to overwriting a file, or to computing without it. */
static inline int gyre_is_absent(const char *path) {
    return access(path, F_OK) != 0 && gyre_is_absence(errno);
}

#endif
