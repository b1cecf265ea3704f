/* cli_lock.c: lock files. */
/* For realpath. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): POSIX defines this name
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_error.h"
#include "util/file_lock.h"
#include "util/file_write.h"
#include "util/path.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The content of a lock, which distinguishes it from a user's file of that name. */
static const char mark[] = "gyre lock\n";
enum { MARK = sizeof mark - 1 };

/* -- the name -- */
/* out = 1 if there was a slash at the end; it is cut off. */
static int cut_slashes(char *path) {
    const size_t length = gyre_path_length(path);
    const int cut = path[length] != 0;
    path[length] = 0;
    return cut;
}

/* "." and "..", which name a folder that also has its own name. */
static int is_dots(const char *path) {
    const char *name = gyre_path_name(path);
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int cli_lock_name(const char *path, char out[4096]) {
    enum { MOST_LINKS = 40 };
    char from[PATH_MAX], end[PATH_MAX];
    if (snprintf(from, sizeof from, "%s", path) >= (int)sizeof from) return ENAMETOOLONG;
    (void)cut_slashes(from);
    for (int i = 0;; i++) {
        const int code = i < MOST_LINKS ? gyre_link_end(from, end) : ELOOP;
        if (code) return code;
        if (!cut_slashes(end)) break; /* a link to "folder/" may lead to a link again */
        memcpy(from, end, sizeof from);
    }
    char *real = is_dots(end) ? realpath(end, NULL) : NULL;
    if (is_dots(end) && !real) return errno;
    const int length = snprintf(out, 4096, "%s.lock", real ? real : end);
    free(real);
    return length < 4096 ? 0 : ENAMETOOLONG;
}

/* -- the file -- */
/* Opens the lock, or makes one, which *made says.  The mark comes before the lock: a run that locks the file between the
 * two finds it at its end, and removes a lock without an owner. */
static int open_lock(const char *path, int *made) {
    enum { TRIES = 100 };
    int fd = -1;
    *made = 0;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        *made = fd >= 0;
        if (*made) (void)gyre_write_all(fd, mark, MARK); /* on a full disk, only `made` shows that it may be removed */
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 && errno != ENOENT) return -1; /* the run before has removed it meanwhile */
    }
    return fd;
}

/* out = 1 for the lock of a run, a killed one too. */
static int has_mark(int fd) {
    char text[MARK + 1];
    return pread(fd, text, sizeof text, 0) == MARK && memcmp(text, mark, MARK) == 0;
}

/* -- the lock -- */
static void let_go(cli_lock *lock, int remove) {
    if (remove) (void)unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}

/* Locks the open file.  *again = 1: it lost its name meanwhile, and is closed; the next one may be free.  After an error it
 * is closed, and gone if this run made it. */
static gyre_status take(cli_lock *lock, const char *path, const char *what, int *again, gyre_error *err) {
    struct stat info;
    *again = 0;
    const int held = gyre_lock_file_patiently(lock->file);
    if (held == EWOULDBLOCK) {
        let_go(lock, 0);
        return gyre_fail(err, GYRE_EIO, "%s: another run is writing it (%s)", what, path);
    }
    const int named = held ? -1 : gyre_has_name(lock->file, lock->path);
    if (named < 0 || (named && fstat(lock->file, &info) != 0)) {
        const int code = held ? held : errno;
        let_go(lock, lock->made);
        return gyre_fail(err, GYRE_EIO, "lock: %s (%s)", strerror(code), lock->path);
    }
    *again = !named;
    if (named && S_ISREG(info.st_mode) && (info.st_size == 0 || has_mark(lock->file))) return GYRE_OK;
    let_go(lock, 0);
    return *again ? GYRE_OK
                  : gyre_fail(err, GYRE_EIO, "lock: a file of that name exists and is not a lock (%s)", lock->path);
}

void cli_lock_make_parents(const char *path) {
    char parent[PATH_MAX];
    if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent) return;
    parent[gyre_path_length(parent)] = 0;
    (void)gyre_make_parents(parent);
}

gyre_status cli_lock_acquire(cli_lock *lock, const char *path, const char *what, gyre_error *err) {
    enum { TRIES = 100 };
    *lock = (cli_lock){.file = -1};
    const int code = cli_lock_name(path, lock->path);
    if (code == ENAMETOOLONG) return gyre_fail(err, GYRE_EINVAL, "%s: too long a name (%.200s...)", what, path);
    if (code) return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", what, strerror(code), path);
    for (int i = 0, again = 1; i < TRIES && again; i++) {
        lock->file = open_lock(lock->path, &lock->made);
        if (lock->file < 0 && errno == ELOOP)
            return gyre_fail(err, GYRE_EIO, "lock: a link is in its place (%s)", lock->path);
        if (lock->file < 0) return gyre_fail(err, GYRE_EIO, "%s: cannot be written: %s (%s)", what, strerror(errno), path);
        const gyre_status status = take(lock, path, what, &again, err);
        if (status) return status;
    }
    return lock->file >= 0 ? GYRE_OK : gyre_fail(err, GYRE_EIO, "%s: another run is writing it (%s)", what, path);
}

/* Removes the name before the lock is released: whoever opens it afterwards creates a new file.  Another file that has taken
 * the name stays, and so does an empty one that no run made. */
void cli_lock_release(cli_lock *lock) {
    if (lock->file < 0) return;
    let_go(lock, (lock->made || has_mark(lock->file)) && gyre_has_name(lock->file, lock->path) == 1);
}
