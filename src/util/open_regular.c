/* open_regular.c: opens a file, then checks that it is a regular one. */
#include "util/open_regular.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *gyre_open_regular(const char *path) {
    struct stat info;
    /* Looking before opening would leave a moment between the two.  O_NONBLOCK makes opening a pipe return. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return NULL;
    int code = fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : S_ISREG(info.st_mode) ? 0 : EINVAL;
    FILE *stream = code ? NULL : fdopen(fd, "rb");
    if (stream) return stream;
    if (!code) code = errno;
    close(fd);
    errno = code;
    return NULL;
}
