/* write_atomic.c: a file that appears whole or not at all. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): the system asks for it */
#include "report/report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gyre_status failed(gyre_error *err, const char *path, int code) {
    return gyre_report_fail(err, GYRE_EIO, "report: %s (%.400s)", strerror(code), path);
}

/* out = 0 or errno. */
static int write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        const ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return errno;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return 0;
}

/* fsync has no meaning for some files that are not regular. */
static int finish(int fd, int code) {
    if (!code && fsync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EROFS) code = errno;
    if (close(fd) && !code) code = errno;
    return code;
}

static int write_in_place(const char *path, const char *bytes, size_t count) {
    const int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? errno : finish(fd, write_all(fd, bytes, count));
}

/* So that the new name, too, outlives a power cut; a folder that cannot be synced does not undo what was written. */
static void sync_folder(const char *path) {
    char *folder = strdup(path);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

/* A file that was not there, beside the target: "report.html.4711-0.tmp".  Opened as the target would be, so that the umask
 * decides who may read it. */
static int open_beside(const char *path, char *temporary, size_t room) {
    int fd = -1;
    for (int attempt = 0; fd < 0 && attempt < 100; attempt++) {
        snprintf(temporary, room, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

static int replace(const char *path, mode_t mode, const char *bytes, size_t count) {
    const size_t room = strlen(path) + 48;
    char *temporary = malloc(room);
    if (!temporary) return ENOMEM;
    const int fd = open_beside(path, temporary, room);
    int code = fd < 0 ? errno : 0;
    if (fd >= 0) {
        if (mode) (void)fchmod(fd, mode & 0777); /* as the file that is replaced, where allowed */
        code = finish(fd, write_all(fd, bytes, count));
        if (!code && rename(temporary, path)) code = errno;
        if (code) unlink(temporary);
    }
    free(temporary);
    if (!code) sync_folder(path);
    return code;
}

gyre_status gyre_report_write_atomic(const char *path, const char *bytes, size_t count, gyre_error *err) {
    struct stat found;
    const int exists = stat(path, &found) == 0;
    int code;
    if (exists && S_ISDIR(found.st_mode))
        code = EISDIR;
    else if (exists && !S_ISREG(found.st_mode))
        code = write_in_place(path, bytes, count);
    else {
        /* Through a symbolic link, to the file it names: the link stays. */
        char *real = exists ? realpath(path, NULL) : NULL;
        code = replace(real ? real : path, exists ? found.st_mode : 0, bytes, count);
        free(real);
    }
    return code ? failed(err, path, code) : GYRE_OK;
}
