/* file_write.c: write, fsync and close, with every error reported. */
#include "util/file_write.h"

#include "util/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int gyre_write_all(int fd, const void *bytes, size_t count) {
    for (const char *from = bytes; count > 0;) {
        const ssize_t wrote = write(fd, from, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return errno;
        if (wrote == 0) return EIO; /* a device that takes nothing, and gives no reason, would be asked for ever */
        from += wrote;
        count -= (size_t)wrote;
    }
    return 0;
}

static int sync_result(int result) {
    return result == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS ? 0 : errno;
}

int gyre_sync(int fd) {
    return sync_result(fsync(fd));
}

int gyre_sync_data(int fd) {
    return sync_result(fdatasync(fd));
}

int gyre_sync_path(const char *path) {
    /* O_NONBLOCK: a pipe in a folder is not waited for.  A socket cannot be opened.  Neither has anything to sync. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENXIO ? 0 : errno;
    const int code = gyre_sync(fd);
    close(fd);
    return code;
}

int gyre_sync_parent(const char *path) {
    char folder[PATH_MAX];
    const int code = gyre_path_folder(path, folder, sizeof folder);
    return code ? code : gyre_sync_path(folder);
}

int gyre_make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int code = mkdir(path, 0777) == 0 ? gyre_sync_parent(path) : errno == EEXIST ? 0 : errno;
        if (code) return code;
        *slash = '/';
    }
    return 0;
}

int gyre_file_write(const char *path, const void *bytes, size_t count) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    int code = gyre_write_all(fd, bytes, count);
    if (!code) code = gyre_sync(fd);
    if (close(fd) != 0 && !code) code = errno;
    return code;
}
