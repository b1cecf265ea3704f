/* cli_lock.c: lock files. */
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gyre_status cli_lock_acquire(cli_lock *lock, const char *path, const char *what, gyre_error *err) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    lock->file = -1;
    if (length + 6 > sizeof lock->path) return gyre_fail(err, GYRE_EINVAL, "%s: too long a name (%.200s...)", what, path);
    snprintf(lock->path, sizeof lock->path, "%.*s.lock", (int)length, path);
    lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock->file < 0 && errno == ELOOP) return gyre_fail(err, GYRE_EIO, "lock: a link is in its place (%s)", lock->path);
    if (lock->file < 0) return gyre_fail(err, GYRE_EIO, "%s: cannot be written: %s (%s)", what, strerror(errno), path);
    /* Somebody's own file of this name is kept: a lock is empty. */
    struct stat info;
    const int code = fstat(lock->file, &info) != 0 ? errno : 0;
    if (code || !S_ISREG(info.st_mode) || info.st_size > 0) {
        close(lock->file);
        lock->file = -1;
        return code ? gyre_fail(err, GYRE_EIO, "lock: %s (%s)", strerror(code), lock->path)
                    : gyre_fail(err, GYRE_EIO, "lock: a file of that name is there, and is no lock (%s)", lock->path);
    }
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat named;
    /* Between open and lock the run before may have removed the name, and another have made it anew. */
    if (fcntl(lock->file, F_SETLK, &all) == 0 && lstat(lock->path, &named) == 0 && named.st_dev == info.st_dev &&
        named.st_ino == info.st_ino)
        return GYRE_OK;
    close(lock->file);
    lock->file = -1;
    return gyre_fail(err, GYRE_EIO, "%s: another run is writing it (%s)", what, path);
}

/* Removes the name before the lock is released: whoever opens it afterwards creates a new file.  Another file that has taken
 * the name stays. */
void cli_lock_release(cli_lock *lock) {
    struct stat info, named;
    if (lock->file < 0) return;
    if (fstat(lock->file, &info) == 0 && lstat(lock->path, &named) == 0 && info.st_dev == named.st_dev &&
        info.st_ino == named.st_ino)
        unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}
