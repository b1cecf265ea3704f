/* cli_lock.c: lock files. */
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_error.h"
#include "util/absent_path.h"
#include "util/file_lock.h"
#include "util/file_write.h"
#include "util/path.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAKEN = -1, LOST = -2 };
/* Locks the open file.  out = 0; TAKEN: another run has it; LOST: it lost its name meanwhile, to a run that ended, and the
 * next one may be free; an errno value. */
static int take(const cli_lock *lock) {
    struct stat info;
    const int held = gyre_lock_file_patiently(lock->file);
    if (held) return held == EWOULDBLOCK ? TAKEN : held;
    const int named = gyre_has_name(lock->file, lock->path);
    if (named < 0 || fstat(lock->file, &info) != 0) return errno;
    if (!named) return LOST;
    return S_ISREG(info.st_mode) && info.st_size == 0 ? 0 : EEXIST;
}

/* Opens or makes the lock, and takes it.  out as of take; the lock is held after 0. */
static int open_and_take(cli_lock *lock) {
    enum { TRIES = 100 };
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int code = LOST;
    for (int i = 0; i < TRIES && code == LOST; i++) {
        lock->file = open(lock->path, flags | O_CREAT | O_EXCL, 0666);
        const int made = lock->file >= 0;
        if (!made && errno == EEXIST) lock->file = open(lock->path, flags);
        if (lock->file < 0 && errno == ENOENT) continue; /* the run before has removed it meanwhile */
        if (lock->file < 0) return errno;
        code = take(lock);
        if (!code) return 0;
        if (made && code > 0) (void)unlink(lock->path);
        close(lock->file);
        lock->file = -1;
    }
    return code;
}

gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err) {
    *lock = (cli_lock){.file = -1};
    char end[PATH_MAX];
    int code = gyre_folder_end(path, end);
    if (!code && snprintf(lock->path, sizeof lock->path, "%s.gyre-lock", end) >= (int)sizeof lock->path) code = ENAMETOOLONG;
    if (code == ENAMETOOLONG) return gyre_fail(err, GYRE_EINVAL, "folder: too long a name (%.200s...)", path);
    if (code) return gyre_fail(err, GYRE_EIO, "folder: %s (%s)", strerror(code), path);
    code = open_and_take(lock);
    if (code < 0) return gyre_fail(err, GYRE_EIO, "folder: another run is writing it (%s)", path);
    if (code == ELOOP) return gyre_fail(err, GYRE_EIO, "lock: a link is in its place (%s)", lock->path);
    if (code == EEXIST)
        return gyre_fail(err, GYRE_EIO, "lock: a file of that name exists and is not a lock (%s)", lock->path);
    if (code) return gyre_fail(err, GYRE_EIO, "folder: cannot be written: %s (%s)", strerror(code), path);
    return GYRE_OK;
}

static int is_absent_or_empty(const char *folder) {
    DIR *entries = opendir(folder);
    int count = 0;
    if (!entries) return errno == ENOTDIR || gyre_is_absent(folder); /* a file is refused by what fills the folder */
    errno = 0;
    while (count < 3 && readdir(entries)) /* "." and ".." */
        count++;
    const int code = errno;
    closedir(entries);
    return count < 3 && code == 0;
}

gyre_status cli_lock_new_folder(cli_lock *lock, const char *path, int replace, const char *hint, gyre_error *err) {
    char parent[PATH_MAX];
    if (snprintf(parent, sizeof parent, "%s", path) < (int)sizeof parent) {
        parent[gyre_path_length(parent)] = 0;
        (void)gyre_make_parents(parent); /* cli_lock_acquire reports a failure */
    }
    const gyre_status status = cli_lock_acquire(lock, path, err);
    if (status || replace || is_absent_or_empty(path)) return status;
    return gyre_fail(err, GYRE_EIO, "folder: exists and is not empty; %s--force replaces it (%s)", hint, path);
}

/* Removes the name before the lock is released: whoever opens it afterwards creates a new file.  Another file that has taken
 * the name stays. */
void cli_lock_release(cli_lock *lock) {
    if (lock->file < 0) return;
    if (gyre_has_name(lock->file, lock->path) == 1) (void)unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}
