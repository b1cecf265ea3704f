/* link_end.c: follows links one by one, since realpath asks for a file at their end. */
#include "util/link_end.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int gyre_link_end(const char *path, char out[PATH_MAX]) {
    enum { MOST_LINKS = 40 };
    char to[PATH_MAX], folder[PATH_MAX];
    struct stat is;
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    for (int i = 0; i < MOST_LINKS; i++) {
        if (lstat(out, &is) != 0) return errno == ENOENT ? 0 : errno;
        if (!S_ISLNK(is.st_mode)) return 0;
        const ssize_t length = readlink(out, to, sizeof to - 1);
        if (length < 0) return errno;
        to[length] = '\0';
        const char *slash = strrchr(out, '/');
        snprintf(folder, sizeof folder, "%.*s", slash && to[0] != '/' ? (int)(slash - out) + 1 : 0, out);
        if (snprintf(out, PATH_MAX, "%s%s", folder, to) >= PATH_MAX) return ENAMETOOLONG;
    }
    return ELOOP;
}
