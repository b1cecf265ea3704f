/* path.c: follows links one by one, since realpath asks for a file at their end. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): realpath; POSIX defines this name
#include "util/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* out = the name of the folder "." or "..".  Returns 0 or an errno value. */
static int name_dots(char out[PATH_MAX]) {
#if defined(__wasi__) /* which has no realpath */
    (void)out;
#else
    const char *name = gyre_path_name(out);
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) return 0;
    char *real = realpath(out, NULL);
    if (!real) return errno;
    const int length = snprintf(out, PATH_MAX, "%s", real);
    free(real);
    if (length >= PATH_MAX) return ENAMETOOLONG;
#endif
    return 0;
}

int gyre_folder_end(const char *path, char out[PATH_MAX]) {
    enum { MOST_LINKS = 40 };
    char from[PATH_MAX];
    if (snprintf(from, sizeof from, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    for (int i = 0; i < MOST_LINKS; i++) {
        from[gyre_path_length(from)] = '\0';
        const int code = gyre_link_end(from, out);
        if (code) return code;
        const size_t length = gyre_path_length(out);
        if (!out[length]) return name_dots(out);
        memcpy(from, out, PATH_MAX); /* a link to "folder/" may lead to a link again */
    }
    return ELOOP;
}
