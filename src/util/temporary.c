/* temporary.c: names, making and cleaning of temporaries. */
#include "util/temporary.h"

#include "util/error.h"
#include "util/file_lock.h"
#include "util/fnv1a.h"
#include "util/signal_mask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* -- names -- */
static const char mark[] = ".gyre-", unfinished[] = ".tmp", moved[] = ".old";

/* The check of a name's `length` bytes before it. */
static unsigned check_of(const char *name, size_t length) {
    return (unsigned)(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, name, length) >> 32 & 0xffffffffu);
}

int gyre_temporary_name_by(char out[GYRE_TEMPORARY_PATH_BYTES], const char *target, long pid, int attempt) {
    const int used = snprintf(out, GYRE_TEMPORARY_PATH_BYTES, "%s%s%ld-%d", target, mark, pid, attempt);
    if (used >= GYRE_TEMPORARY_PATH_BYTES) return 0;
    const char *name = gyre_path_name(out);
    const unsigned check = check_of(name, strlen(name));
    const size_t room = (size_t)(GYRE_TEMPORARY_PATH_BYTES - used);
    return snprintf(out + used, room, "-%08x%s", check, unfinished) < (int)room;
}

int gyre_temporary_name(char out[GYRE_TEMPORARY_PATH_BYTES], const char *target, int attempt) {
#if defined(__wasi__) /* which has no processes */
    return gyre_temporary_name_by(out, target, 0, attempt);
#else
    return gyre_temporary_name_by(out, target, (long)getpid(), attempt);
#endif
}

void gyre_temporary_name_aside(char out[GYRE_TEMPORARY_PATH_BYTES], const char *temporary) {
    const int length = (int)(strlen(temporary) - (sizeof unfinished - 1));
    snprintf(out, GYRE_TEMPORARY_PATH_BYTES, "%.*s%s", length, temporary, moved);
}

long gyre_temporary_pid(const char *entry, const char *name, int *aside) {
    enum { MOST_DIGITS = 10, CHECK = 9 }; /* with its dash */
    char check[CHECK + 1];
    const size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || strncmp(entry + length, mark, sizeof mark - 1) != 0) return 0;
    const char *pid = entry + length + sizeof mark - 1;
    const size_t digits = strspn(pid, "0123456789"), more = pid[digits] == '-' ? strspn(pid + digits + 1, "0123456789") : 0;
    if (digits == 0 || digits > MOST_DIGITS || more == 0) return 0;
    const size_t before = (size_t)(pid - entry) + digits + 1 + more;
    snprintf(check, sizeof check, "-%08x", check_of(entry, before));
    if (strncmp(entry + before, check, CHECK) != 0) return 0;
    const char *end = entry + before + CHECK;
    *aside = strcmp(end, moved) == 0;
    return *aside || strcmp(end, unfinished) == 0 ? strtol(pid, NULL, 10) : 0;
}

/* -- making -- */
/* The file and the note that it exists come together: a signal handler between the two would leave the file behind.  The
 * note does not come first, since a file of this name may be another writer's. */
static int create(const char *path, int is_folder, mode_t mode, volatile int *exists) {
#if !defined(__wasi__)
    sigset_t old;
    gyre_block_signals(&old);
#endif
    const int made = is_folder && mkdir(path, mode) == 0;
    int fd = -1;
    if (!is_folder) fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (made) fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int code = fd >= 0 ? 0 : made && errno == ENOENT ? EEXIST : errno; /* ENOENT: a cleaner was faster */
    if (made && fd < 0) (void)rmdir(path);
    *exists = fd >= 0;
#if !defined(__wasi__)
    pthread_sigmask(SIG_SETMASK, &old, NULL);
#endif
    errno = code;
    return fd;
}

/* A name that exists belongs to another writer, or to a killed process of this number: the next one is tried.  So it is if
 * a cleaner took the new file for one of a killed writer before it was locked. */
int gyre_temporary_make(char path[GYRE_TEMPORARY_PATH_BYTES], const char *target, int is_folder, mode_t mode,
                        volatile int *exists) {
    enum { ATTEMPTS = 100 };
    errno = ENAMETOOLONG;
    for (int attempt = 0; attempt < ATTEMPTS && gyre_temporary_name(path, target, attempt); attempt++) {
        const int fd = create(path, is_folder, mode, exists);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) continue;
        /* A file system without locks gives it to everyone. */
        const int named = gyre_lock_file(fd) == EWOULDBLOCK ? 0 : gyre_has_name(fd, path);
        if (named > 0) return fd;
        const int code = named < 0 ? errno : EEXIST;
        if (named < 0) (void)(is_folder ? rmdir(path) : unlink(path));
        close(fd);
        *exists = 0;
        errno = code;
        if (named < 0) return -1;
    }
    return -1;
}

/* -- cleaning -- */
/* out = a descriptor that holds the lock of what a killed writer left; -1 for anything else.  Where folders have no locks,
 * the process number says whether the writer lives.  *patient: 1 if the lock of a process that is gone may be waited for; 0
 * afterwards if that was in vain. */
static int take(const char *path, long pid, int is_folder, int *patient) {
    struct stat info;
    const int fd = open(path, (is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_NONBLOCK) | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, &info) == 0 && (is_folder || S_ISREG(info.st_mode))) {
        const int gone = gyre_process_is_gone(pid), waits = gone && *patient;
        const int code = waits ? gyre_lock_file_patiently(fd) : gyre_lock_file(fd);
        if (waits && code == EWOULDBLOCK) *patient = 0;
        /* Between open and lock its writer may have renamed it and begun another file of this name. */
        if ((!code || (is_folder && gone && code != EWOULDBLOCK)) && gyre_has_name(fd, path) == 1) return fd;
    }
    close(fd);
    return -1;
}

gyre_status gyre_temporary_clean(const char *target, int are_folders, gyre_temporary_visit *visit, void *arg,
                                 gyre_error *err) {
    char folder[PATH_MAX], path[GYRE_TEMPORARY_PATH_BYTES];
    const char *name = gyre_path_name(target);
    int patient = 1, aside, code = gyre_path_folder(target, folder, sizeof folder);
    gyre_status status = GYRE_OK;
    DIR *entries = code ? NULL : opendir(folder);
    if (!entries) return gyre_fail_errno(err, folder, code ? code : errno);
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        code = errno;
        if (!entry) break;
        const long pid = gyre_temporary_pid(entry->d_name, name, &aside);
        if (!pid || snprintf(path, sizeof path, "%.*s%s", (int)(name - target), target, entry->d_name) >= (int)sizeof path)
            continue;
        const int lock = take(path, pid, are_folders, &patient);
        if (lock >= 0) status = visit(path, aside, arg, err);
        if (lock >= 0) close(lock);
    }
    if (!status && code) status = gyre_fail_errno(err, folder, code);
    closedir(entries);
    return status;
}
