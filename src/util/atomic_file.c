/* atomic_file.c: a temporary beside the target, renamed over it. */
#define _DEFAULT_SOURCE /* realpath; NOLINT(bugprone-reserved-identifier): glibc names this macro */
#include "util/atomic_file.h"

#include "util/error.h"
#include "util/file_write.h"
#include "util/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- descriptors -- */
#if !defined(__wasi__)
/* out = 1 for a folder whose names are the descriptors of this process: /proc/PID/fd, /proc/PID/task/TID/fd, /dev/fd. */
static int holds_descriptors(const char *folder) {
    char own[48];
    const int used = snprintf(own, sizeof own, "/proc/%ld/", (long)getpid());
    if (strcmp(folder, "/dev/fd") == 0) return 1;
    return strncmp(folder, own, (size_t)used) == 0 && gyre_ends_with(folder, "/fd");
}

/* out = the number that the last part of a path is; else -1. */
static int number_of(const char *name) {
    enum { MOST_DIGITS = 9 };
    const size_t digits = strspn(name, "0123456789");
    return digits && digits <= MOST_DIGITS && !name[digits] ? atoi(name) : -1; /* NOLINT(cert-err34-c): digits alone */
}

/* Splits a path: *name = its last part, folder = the real folder before it.  out = 0 if there is no such folder. */
static int split(const char *path, char folder[PATH_MAX], const char **name) {
    char before[PATH_MAX];
    *name = gyre_path_name(path);
    return !gyre_path_folder(path, before, sizeof before) && realpath(before, folder) != NULL;
}
#endif

int gyre_descriptor_of(const char *path) {
#if defined(__wasi__) /* which has neither /proc nor /dev/fd */
    (void)path;
#else
    enum { MOST_LINKS = 40 };
    char at[PATH_MAX], folder[PATH_MAX], to[PATH_MAX];
    const char *name;
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return -1;
    for (int i = 0; i < MOST_LINKS && split(at, folder, &name); i++) {
        if (holds_descriptors(folder)) return number_of(name);
        const ssize_t length = readlink(at, to, sizeof to - 1);
        if (length < 0) return -1;
        to[length] = 0;
        const int used = to[0] == '/' ? snprintf(at, sizeof at, "%s", to) : snprintf(at, sizeof at, "%s/%s", folder, to);
        if (used >= (int)sizeof at) return -1;
    }
#endif
    return -1;
}

gyre_status gyre_atomic_check_whole(const char *path, gyre_error *err) {
    if (gyre_descriptor_of(path) < 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "target: an open descriptor, and this file is written whole; name a file (%.380s)",
                     path);
}

/* -- opening -- */
static gyre_status remove_left(const char *path, int aside, void *arg, gyre_error *err) {
    (void)arg, (void)err;
    if (!aside) (void)unlink(path);
    return GYRE_OK;
}

/* Mode 0666 leaves it to the umask who may read a new file. */
static int create_temporary(gyre_atomic_file *file) {
    (void)gyre_temporary_clean(file->target, 0, remove_left, NULL, NULL);
    file->fd = gyre_temporary_make(file->temporary, file->target, 0, 0666, &file->has_temporary);
    if (file->fd < 0) return errno;
#if !defined(__wasi__) /* which duplicates no descriptors */
    file->lock = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
#endif
    return 0;
}

/* The new file has the owner, the group and the mode of the old one, where the system allows it. */
static void copy_mode(const gyre_atomic_file *file, const struct stat *old) {
#if defined(__wasi__) /* which has no modes */
    (void)file, (void)old;
#else
    if (fchown(file->fd, old->st_uid, old->st_gid) != 0 && fchown(file->fd, (uid_t)-1, old->st_gid) != 0) {
        /* Another's file is replaced by one of this user: it may be written, but not given away. */
    }
    (void)fchmod(file->fd, old->st_mode & 0777);
#endif
}

/* A rename asks for no permission to write the file that it replaces.  out = 0, or the errno of writing it. */
static int check_writable(const char *path) {
#if defined(__wasi__)
    (void)path;
    return 0;
#else
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : errno;
#endif
}

/* Takes a descriptor of this process.  One that is open for reading alone is refused now, not after the work. */
static int share_descriptor(gyre_atomic_file *file, int descriptor) {
#if defined(__wasi__)
    (void)file, (void)descriptor;
    return EBADF;
#else
    const int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0) return errno;
    if ((flags & O_ACCMODE) == O_RDONLY) return EBADF;
    file->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return file->fd < 0 ? errno : 0;
#endif
}

int gyre_atomic_open(gyre_atomic_file *file, const char *path) {
    struct stat old;
    const int descriptor = gyre_descriptor_of(path);
    const int exists = stat(path, &old) == 0;
    file->fd = -1;
    file->lock = -1;
    file->stream = NULL;
    file->has_temporary = 0;
    if (exists && S_ISDIR(old.st_mode)) return EISDIR;
    if (descriptor >= 0) return share_descriptor(file, descriptor);
    if (exists && !S_ISREG(old.st_mode)) {
        file->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        return file->fd < 0 ? errno : 0;
    }
    int code = exists ? check_writable(path) : 0;
    if (!code) code = gyre_link_end(path, file->target);
    if (!code) code = create_temporary(file);
    if (!code && exists) copy_mode(file, &old);
    return code;
}

FILE *gyre_atomic_stream(gyre_atomic_file *file) {
    if (!file->stream) file->stream = fdopen(file->fd, "w");
    return file->stream;
}

/* -- finishing -- */
static int release(gyre_atomic_file *file) {
    int failed = 0;
    if (file->stream)
        failed = fclose(file->stream) != 0;
    else if (file->fd >= 0)
        failed = close(file->fd) != 0;
    file->stream = NULL;
    file->fd = -1;
    return failed ? errno : 0;
}

int gyre_atomic_close(gyre_atomic_file *file) {
    int code = 0;
    errno = 0;
    /* A write that failed earlier may have left errno behind. */
    if (file->stream && (fflush(file->stream) != 0 || ferror(file->stream))) code = errno ? errno : EIO;
    if (!code && file->fd >= 0 && file->has_temporary) code = gyre_sync(file->fd);
    const int closing = release(file);
    return code ? code : closing;
}

/* The name is removed before the lock, so that no process finds an unlocked temporary of a living writer. */
static void remove_temporary(gyre_atomic_file *file) {
    if (file->has_temporary) unlink(file->temporary);
    file->has_temporary = 0;
    if (file->lock >= 0) close(file->lock);
    file->lock = -1;
}

int gyre_atomic_commit(gyre_atomic_file *file) {
    int code = gyre_atomic_close(file);
    if (!file->has_temporary) return code;
    if (!code && rename(file->temporary, file->target) != 0) code = errno;
    if (!code) {
        file->has_temporary = 0;
        (void)gyre_sync_parent(file->target); /* the new file is in place even if its folder cannot be synced */
    }
    remove_temporary(file);
    return code;
}

void gyre_atomic_discard(gyre_atomic_file *file) {
    (void)release(file);
    remove_temporary(file);
}

int gyre_atomic_write(const char *path, const void *bytes, size_t count) {
    gyre_atomic_file file;
    int code = gyre_atomic_open(&file, path);
    if (code) return code;
    code = gyre_write_all(file.fd, bytes, count);
    if (!code) return gyre_atomic_commit(&file);
    gyre_atomic_discard(&file);
    return code;
}
