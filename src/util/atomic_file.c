/* atomic_file.c: a temporary beside the target, renamed over it. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "util/atomic_file.h"

#include "util/file_write.h"

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
    return snprintf(out, GYRE_TEMPORARY_PATH_BYTES, "%s.%ld-%d.tmp", target, process_number(), attempt) <
           GYRE_TEMPORARY_PATH_BYTES;
}

/* file->target = `path`, or the file that it links to. */
static int resolve(gyre_atomic_file *file, const char *path, int exists) {
#if defined(__wasi__) /* which has no realpath */
    char *real = NULL;
    (void)exists;
#else
    char *real = exists ? realpath(path, NULL) : NULL;
    if (exists && !real) return errno;
#endif
    const int length = snprintf(file->target, sizeof file->target, "%s", real ? real : path);
    free(real);
    return length < (int)sizeof file->target ? 0 : ENAMETOOLONG;
}

/* -- opening -- */
/* Mode 0666 leaves it to the umask who may read a new file.  A name that exists belongs to another writer, or to a killed
 * process of this number: the next one is tried. */
static int create_temporary(gyre_atomic_file *file) {
    enum { ATTEMPTS = 100 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!gyre_atomic_temporary_name(file->temporary, file->target, attempt)) return ENAMETOOLONG;
        if (access(file->temporary, F_OK) == 0) continue;
        file->has_temporary = 1;
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) return 0;
        file->has_temporary = 0;
        if (errno != EEXIST) return errno;
    }
    return EEXIST;
}

/* The new file has the mode of the old one, where the system allows it. */
static void copy_mode(const gyre_atomic_file *file, const struct stat *old) {
#if defined(__wasi__) /* which has no modes */
    (void)file, (void)old;
#else
    (void)fchmod(file->fd, old->st_mode & 0777);
#endif
}

int gyre_atomic_open(gyre_atomic_file *file, const char *path) {
    struct stat old;
    const int exists = stat(path, &old) == 0;
    file->fd = -1;
    file->stream = NULL;
    file->has_temporary = 0;
    if (exists && S_ISDIR(old.st_mode)) return EISDIR;
    if (exists && !S_ISREG(old.st_mode)) {
        file->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        return file->fd < 0 ? errno : 0;
    }
    int code = resolve(file, path, exists);
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

static void remove_temporary(gyre_atomic_file *file) {
    if (file->has_temporary) unlink(file->temporary);
    file->has_temporary = 0;
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
