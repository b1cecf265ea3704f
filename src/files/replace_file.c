/* replace_file.c: a temporary file, and rename. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): the system asks for it */
#include "files/replace_file.h"

#include "core/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gyre_status failed(gyre_error *err, const char *path, int code) {
    return gyre_fail(err, GYRE_EIO, "writing: %s (%.380s)", strerror(code), path);
}

/* -- where -- */
static gyre_status follow_link(gyre_file_replacement *out, gyre_error *err) {
    char *real = realpath(out->final, NULL);
    const int fits = real && snprintf(out->final, sizeof out->final, "%s", real) < (int)sizeof out->final;
    free(real);
    return fits ? GYRE_OK : failed(err, out->final, real ? ENAMETOOLONG : errno);
}

gyre_status gyre_file_replacement_init(gyre_file_replacement *out, const char *source, const char *target, const char *name,
                                       gyre_error *err) {
    struct stat there, own;
    const int is_folder = stat(target, &there) == 0 && S_ISDIR(there.st_mode);
    const size_t end = strlen(target);
    const char *slash = !is_folder || (end > 0 && target[end - 1] == '/') ? "" : "/";
    *out = (gyre_file_replacement){"", ""};
    if (snprintf(out->final, sizeof out->final, "%s%s%s", target, slash, is_folder ? name : "") >= (int)sizeof out->final)
        return gyre_fail(err, GYRE_EINVAL, "target: the path is too long (%.100s...)", target);
    if (stat(out->final, &there) != 0) {
        if (errno != ENOENT) return failed(err, out->final, errno);
        return GYRE_OK;
    }
    if (stat(source, &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino)
        return gyre_fail(err, GYRE_EINVAL, "target: the model's own file is not replaced; name another (%.300s)",
                         out->final);
    if (!S_ISREG(there.st_mode)) return gyre_fail(err, GYRE_EINVAL, "target: not a regular file (%.380s)", out->final);
    return follow_link(out, err);
}

/* -- what -- */
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

/* Opened as the target would be, so that the umask decides who may read it.  -1 with errno set. */
static int create_temporary(gyre_file_replacement *r) {
    int fd = -1;
    for (int attempt = 0; fd < 0 && attempt < 100; attempt++) {
        snprintf(r->temporary, sizeof r->temporary, "%s.%ld-%d.tmp", r->final, (long)getpid(), attempt);
        fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) *r->temporary = '\0';
    return fd;
}

gyre_status gyre_file_replacement_open(gyre_file_replacement *r, int *fd, gyre_error *err) {
    struct stat old;
    const int exists = stat(r->final, &old) == 0, opened = create_temporary(r);
    if (opened < 0) return failed(err, r->final, errno);
    if (exists) (void)fchmod(opened, old.st_mode & 0777);
    *fd = opened;
    return GYRE_OK;
}

gyre_status gyre_file_replacement_write(gyre_file_replacement *r, const char *bytes, size_t count, gyre_error *err) {
    int fd;
    const gyre_status status = gyre_file_replacement_open(r, &fd, err);
    if (status != GYRE_OK) return status;
    int code = write_all(fd, bytes, count);
    if (!code && fsync(fd) != 0) code = errno;
    if (close(fd) != 0 && !code) code = errno;
    return code ? failed(err, r->final, code) : GYRE_OK;
}

/* So that the new name, too, outlives a power cut; a folder that cannot be synced does not undo what was written. */
static void sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0';
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

gyre_status gyre_file_replacement_commit(gyre_file_replacement *r, gyre_error *err) {
    if (rename(r->temporary, r->final) != 0) return failed(err, r->final, errno);
    *r->temporary = '\0';
    sync_folder(r->final);
    return GYRE_OK;
}

void gyre_file_replacement_discard(gyre_file_replacement *r) {
    if (*r->temporary) unlink(r->temporary);
    *r->temporary = '\0';
}
