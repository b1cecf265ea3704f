/* temporary_folder.c: folders that are locked while they are in use, so that the next run knows which were left behind. */
#define _DEFAULT_SOURCE     // NOLINT(bugprone-reserved-identifier): mkdtemp; glibc names this macro
#define _XOPEN_SOURCE   700 // NOLINT(bugprone-reserved-identifier): nftw; POSIX defines this name
#include "tools/cli/temporary_folder.h"
#include "tools/cli/cli_error.h"
#include "util/file_lock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char mark[] = "gyre-", page_mark[] = "gyre-explore-", lock_name[] = "gyre.lock", unlocked_name[] = "unlocked";
enum { RANDOM = 6, PAGE_SECONDS = 60, UNFINISHED_SECONDS = 60, DESCRIPTORS = 16 };

static const char *base_folder(void) {
    const char *set = getenv("TMPDIR");
    return set && *set ? set : "/tmp";
}

/* -- removing -- */
/* All but the folder itself and its lock. */
static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind;
    if (where->level > 1 || (where->level == 1 && strcmp(path + where->base, lock_name) != 0)) (void)remove(path);
    return 0;
}

/* The lock goes last: by it the next run knows the folder of a run that was killed while it removed it. */
static void remove_tree(const char *path) {
    char lock[4096];
    (void)nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    if (snprintf(lock, sizeof lock, "%s/%s", path, lock_name) < (int)sizeof lock) (void)unlink(lock);
    (void)rmdir(path);
}

/* out = a descriptor of a lock in a folder that this user's run made; -1 if there is none, or one in use. */
static int take_lock(const char *path, const char *lock_of) {
    char name[4096];
    struct stat lock;
    if (snprintf(name, sizeof name, "%s/%s", path, lock_of) >= (int)sizeof name) return -1;
    const int fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -1;
    if (fstat(fd, &lock) == 0 && S_ISREG(lock.st_mode) && lock.st_uid == geteuid() && lock.st_size == 0 &&
        gyre_lock_file(fd) == 0)
        return fd;
    close(fd);
    return -1;
}

/* out = 1 for a folder that holds nothing, or the lock alone that has not got its name yet. */
static int is_unfinished(const char *path) {
    DIR *entries = opendir(path);
    int others = 0;
    for (const struct dirent *entry; entries && (entry = readdir(entries));)
        others +=
            strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, unlocked_name) != 0;
    if (entries) closedir(entries);
    return entries && !others;
}

/* Removes the folder of a run that was killed while it made it, or after it removed the lock.  A living run takes no minute
 * for either.  The mode is that of mkdtemp. */
static void remove_unfinished(const char *path, const struct stat *folder) {
    char name[4096];
    if ((folder->st_mode & 07777) != 0700 || time(NULL) - folder->st_mtime < UNFINISHED_SECONDS || !is_unfinished(path))
        return;
    const int lock = take_lock(path, unlocked_name);
    if (lock >= 0 && snprintf(name, sizeof name, "%s/%s", path, unlocked_name) < (int)sizeof name) (void)unlink(name);
    (void)rmdir(path); /* which fails where the lock is in use */
    if (lock >= 0) close(lock);
}

/* A page outlives its run, because a browser reads it. */
static int is_fresh_page(const char *name, int lock) {
    struct stat info;
    return strncmp(name, page_mark, sizeof page_mark - 1) == 0 && fstat(lock, &info) == 0 &&
           time(NULL) - info.st_mtime < PAGE_SECONDS;
}

static void remove_abandoned(const char *base) {
    char path[4096];
    struct stat folder;
    DIR *entries = opendir(base);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *name = entry->d_name, *end = strrchr(name, '-');
        if (strncmp(name, mark, sizeof mark - 1) != 0 || !end || strlen(end + 1) != RANDOM) continue;
        if (snprintf(path, sizeof path, "%s/%s", base, name) >= (int)sizeof path) continue;
        if (lstat(path, &folder) != 0 || !S_ISDIR(folder.st_mode) || folder.st_uid != geteuid()) continue;
        const int lock = take_lock(path, lock_name);
        if (lock >= 0 && !is_fresh_page(name, lock)) remove_tree(path);
        if (lock >= 0)
            close(lock);
        else
            remove_unfinished(path, &folder);
    }
    if (entries) closedir(entries);
}

void temporary_folder_remove(temporary_folder *folder) {
    if (folder->path[0]) remove_tree(folder->path);
    if (folder->lock >= 0) close(folder->lock);
    *folder = (temporary_folder){.lock = -1};
}

/* -- creating -- */
/* The lock gets its name when it is held, so that no other run finds it unlocked. */
static int make_lock(const char *path) {
    char name[sizeof((temporary_folder *)0)->path + 32], unlocked[sizeof name];
    snprintf(name, sizeof name, "%s/%s", path, lock_name);
    snprintf(unlocked, sizeof unlocked, "%s/%s", path, unlocked_name);
    const int fd = open(unlocked, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) (void)gyre_lock_file(fd);
    if (fd < 0 || rename(unlocked, name) == 0) return fd;
    const int code = errno;
    (void)unlink(unlocked);
    close(fd);
    errno = code;
    return -1;
}

gyre_status temporary_folder_create(temporary_folder *folder, const char *command, gyre_error *err) {
    const char *base = base_folder();
    *folder = (temporary_folder){.lock = -1};
    const int length = snprintf(folder->path, sizeof folder->path, "%s/%s%s-XXXXXX", base, mark, command);
    gyre_status status = GYRE_OK;
    if (length < 0 || (size_t)length >= sizeof folder->path)
        status = gyre_fail(err, GYRE_EIO, "TMPDIR: the path is too long (%s)", command);
    else {
        remove_abandoned(base);
        const int made = mkdtemp(folder->path) != NULL;
        folder->lock = made ? make_lock(folder->path) : -1;
        if (folder->lock < 0) {
            status = gyre_fail(err, GYRE_EIO, "%s: no temporary folder can be made there: %s (%s)", base, strerror(errno),
                               command);
            if (made) rmdir(folder->path);
        }
    }
    if (status) folder->path[0] = 0;
    return status;
}
