/* cli_lock.c: lock files. */
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    lock->file = -1;
    if (length + 6 > sizeof lock->path) return gyre_fail(err, GYRE_EINVAL, "path: too long a name (%.200s...)", path);
    snprintf(lock->path, sizeof lock->path, "%.*s.lock", (int)length, path);
    lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock->file < 0 && errno == ELOOP) return gyre_fail(err, GYRE_EIO, "lock: a link is in its place (%s)", lock->path);
    if (lock->file < 0) return gyre_fail(err, GYRE_EIO, "folder: cannot be written: %s (%s)", strerror(errno), path);
    /* Somebody's own file of this name is kept: a lock is empty. */
    struct stat info;
    if (fstat(lock->file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > 0) {
        close(lock->file);
        lock->file = -1;
        return gyre_fail(err, GYRE_EIO, "lock: a file of that name is there, and is no lock (%s)", lock->path);
    }
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat named;
    /* Between open and lock the run before may have removed the name, and another have made it anew. */
    if (fcntl(lock->file, F_SETLK, &all) == 0 && lstat(lock->path, &named) == 0 && named.st_dev == info.st_dev &&
        named.st_ino == info.st_ino)
        return GYRE_OK;
    close(lock->file);
    lock->file = -1;
    return gyre_fail(err, GYRE_EIO, "folder: another run is writing it (%s)", path);
}

/* Removes the name before the lock is released: whoever opens it afterwards creates a new file. */
void cli_lock_release(cli_lock *lock) {
    if (lock->file < 0) return;
    unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}
