/* path.c: follows links one by one, since realpath asks for a file at their end. */
#include "util/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int gyre_link_step(const char *path, char out[PATH_MAX]) {
    char to[PATH_MAX];
    const ssize_t length = readlink(path, to, sizeof to - 1);
    if (length < 0) return errno;
    to[length] = '\0';
    const int folder = to[0] != '/' ? (int)(gyre_path_name(path) - path) : 0;
    return snprintf(out, PATH_MAX, "%.*s%s", folder, path, to) < PATH_MAX ? 0 : ENAMETOOLONG;
}

int gyre_link_end(const char *path, char out[PATH_MAX]) {
    enum { MOST_LINKS = 40 };
    char next[PATH_MAX];
    struct stat is;
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    for (int i = 0; i < MOST_LINKS; i++) {
        if (lstat(out, &is) != 0) return errno == ENOENT ? 0 : errno;
        if (!S_ISLNK(is.st_mode)) return 0;
        const int code = gyre_link_step(out, next);
        if (code) return code;
        memcpy(out, next, PATH_MAX);
    }
    return ELOOP;
}
