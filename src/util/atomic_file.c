/* atomic_file.c: a temporary beside the target, renamed over it. */
#define _DEFAULT_SOURCE /* realpath; NOLINT(bugprone-reserved-identifier): glibc names this macro */
#include "util/atomic_file.h"

#include "util/error.h"
#include "util/file_lock.h"
#include "util/file_write.h"
#include "util/link_end.h"
#include "util/path.h"
#include "util/signal_mask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- names -- */
static long process_number(void) {
#if defined(__wasi__) /* which has no processes */
    return 0;
#else
    return (long)getpid();
#endif
}

int gyre_atomic_temporary_name(char out[GYRE_TEMPORARY_PATH_BYTES], const char *target, int attempt) {
    return snprintf(out, GYRE_TEMPORARY_PATH_BYTES, "%s.gyre-%ld-%d.tmp", target, process_number(), attempt) <
           GYRE_TEMPORARY_PATH_BYTES;
}

/* file->target = `path`, or the name that it links to, of a file that need not be there yet. */
static int resolve(gyre_atomic_file *file, const char *path, int exists) {
#if defined(__wasi__) /* which has no realpath */
    char *real = NULL;
    (void)exists;
#else
    char *real = exists ? realpath(path, NULL) : NULL;
    if (exists && !real) return errno;
#endif
    char end[PATH_MAX];
    const int code = real ? 0 : gyre_link_end(path, end);
    const int length = code ? 0 : snprintf(file->target, sizeof file->target, "%s", real ? real : end);
    free(real);
    return code ? code : length < (int)sizeof file->target ? 0 : ENAMETOOLONG;
}

/* -- descriptors -- */
#if !defined(__wasi__)
/* out = 1 for a folder whose names are the descriptors of this process: /proc/PID/fd, /proc/PID/task/TID/fd, /dev/fd. */
static int holds_descriptors(const char *folder) {
    char own[48];
    const int used = snprintf(own, sizeof own, "/proc/%ld/", process_number());
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

/* -- locks -- */
/* out = the process number in the name of a temporary of a target, its name and ".gyre-PID-N.tmp", which nobody else gives a
 * file; 0 for another name. */
static long temporary_pid(const char *name, const char *target, size_t length) {
    static const char mark[] = ".gyre-";
    if (strncmp(name, target, length) != 0 || strncmp(name + length, mark, sizeof mark - 1) != 0) return 0;
    const char *pid = name + length + sizeof mark - 1, *number = pid + strspn(pid, "0123456789");
    if (number == pid || *number != '-') return 0;
    const char *end = number + 1 + strspn(number + 1, "0123456789");
    return end > number + 1 && strcmp(end, ".tmp") == 0 ? strtol(pid, NULL, 10) : 0;
}

/* *patient: 1 if the lock of a process that is gone may be waited for; 0 afterwards if that was in vain. */
static void remove_if_unlocked(const char *path, long pid, int *patient) {
#if !defined(__wasi__)
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info, named;
    if (fd < 0) return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        const int waits = *patient && gyre_process_is_gone(pid);
        const int code = waits ? gyre_lock_file_patiently(fd) : gyre_lock_file(fd);
        if (waits && code == EWOULDBLOCK) *patient = 0;
        /* Between open and lock its writer may have renamed it and begun another file of this name. */
        if (code == 0 && lstat(path, &named) == 0 && named.st_dev == info.st_dev && named.st_ino == info.st_ino)
            (void)unlink(path);
    }
    close(fd);
#else
    (void)path, (void)pid, (void)patient;
#endif
}

/* Removes what killed writers of this target left. */
static void remove_abandoned(const char *target) {
    char folder[PATH_MAX], path[GYRE_TEMPORARY_PATH_BYTES];
    const char *name = gyre_path_name(target);
    const int length = (int)(name - target);
    (void)gyre_path_folder(target, folder, sizeof folder);
    DIR *entries = opendir(folder);
    int patient = 1;
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const long pid = temporary_pid(entry->d_name, name, strlen(name));
        if (pid && snprintf(path, sizeof path, "%.*s%s", length, target, entry->d_name) < (int)sizeof path)
            remove_if_unlocked(path, pid, &patient);
    }
    if (entries) closedir(entries);
}

/* -- opening -- */
/* Locks the new file.  out = 0; EEXIST if another process removed it meanwhile, as one of a killed writer; or the errno of
 * looking at it, and then the file is gone. */
static int lock_temporary(gyre_atomic_file *file) {
    struct stat by_name, by_fd;
    if (gyre_lock_file(file->fd) == EWOULDBLOCK) return EEXIST; /* a file system without locks gives it to everyone */
    if (stat(file->temporary, &by_name) != 0 || fstat(file->fd, &by_fd) != 0) {
        const int code = errno;
        if (code == ENOENT) return EEXIST;
        (void)unlink(file->temporary);
        return code;
    }
    if (by_name.st_dev != by_fd.st_dev || by_name.st_ino != by_fd.st_ino) return EEXIST;
#if !defined(__wasi__) /* which duplicates no descriptors */
    file->lock = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
#endif
    return 0;
}

/* The file and the note that it exists come together: a signal handler between the two would leave the file behind.  The
 * note does not come first, since a file of this name may be another writer's.  Mode 0666 leaves it to the umask who may
 * read a new file. */
static void open_temporary(gyre_atomic_file *file) {
#if !defined(__wasi__)
    sigset_t old;
    gyre_block_signals(&old);
#endif
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->has_temporary = file->fd >= 0;
#if !defined(__wasi__)
    pthread_sigmask(SIG_SETMASK, &old, NULL);
#endif
}

/* A name that exists belongs to another writer, or to a killed
 * process of this number: the next one is tried. */
static int create_temporary(gyre_atomic_file *file) {
    enum { ATTEMPTS = 100 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!gyre_atomic_temporary_name(file->temporary, file->target, attempt)) return ENAMETOOLONG;
        if (access(file->temporary, F_OK) == 0) continue;
        open_temporary(file);
        const int code = file->fd >= 0 ? lock_temporary(file) : errno;
        if (code == 0) return 0;
        if (file->fd >= 0) close(file->fd);
        file->fd = -1;
        file->has_temporary = 0;
        if (code != EEXIST) return code;
    }
    return EEXIST;
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
    if (!code) code = resolve(file, path, exists);
    if (!code) remove_abandoned(file->target);
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

/* The name goes before the lock, so that nobody finds an unlocked temporary of a living writer. */
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
