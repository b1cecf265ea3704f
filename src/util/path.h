/* path.h: PATH_MAX, the parts of a path, and where a chain of symbolic links ends. */
#ifndef GYRE_UTIL_PATH_H
#define GYRE_UTIL_PATH_H
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#ifndef PATH_MAX /* POSIX allows limits.h to leave it out */
#define PATH_MAX 4096
#endif

/* out = the part after the last slash; the path itself if there is none. */
static inline const char *gyre_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* folder = the part before the last slash; "/" or "." if there is none.  out = 0, or ENAMETOOLONG, and folder is cut off. */
static inline int gyre_path_folder(const char *path, char *folder, size_t bytes) {
    const char *name = gyre_path_name(path), *from = name == path ? "." : path;
    const int length = name - path > 1 ? (int)(name - path) - 1 : 1;
    return snprintf(folder, bytes, "%.*s", length, from) < (int)bytes ? 0 : ENAMETOOLONG;
}

/* out = the length of a path without the slashes at its end; that of "/" is 1. */
static inline size_t gyre_path_length(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

/* out = 1 if a name, of a file or a tensor, ends so. */
static inline int gyre_ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* out = where the link at `path` leads, one step.  Returns 0, or the errno value of reading it: EINVAL if it is no link,
 * ENAMETOOLONG.  out: another array than path. */
int gyre_link_step(const char *path, char out[PATH_MAX]);
/* out = the name that is made when `path` is opened for writing: that behind its links, whether or not a file is there; path
 * itself if it is no link.  Returns 0, or the errno value of looking at a link, ELOOP or ENAMETOOLONG among them. */
int gyre_link_end(const char *path, char out[PATH_MAX]);
/* The same for a folder: slashes at the end are cut off, behind links too, and "." and ".." get the folder's own name.
 * Returns that of realpath too. */
int gyre_folder_end(const char *path, char out[PATH_MAX]);

#endif
