/* file_lock.c: flock, where there are processes. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): flock and kill; glibc names this macro
#include "util/file_lock.h"
#include <errno.h>
#include <sys/stat.h>

#if defined(__wasi__) /* whose only process has every file to itself */
int gyre_lock_file(int fd) {
    (void)fd;
    return 0;
}
int gyre_lock_file_patiently(int fd) {
    return gyre_lock_file(fd);
}
int gyre_process_is_gone(long pid) {
    (void)pid;
    return 0;
}
#else
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

int gyre_lock_file(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

int gyre_lock_file_patiently(int fd) {
    enum { TRIES = 100 };
    const struct timespec pause = {.tv_nsec = 10000000};
    int code = gyre_lock_file(fd);
    for (int i = 0; code == EWOULDBLOCK && i < TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        code = gyre_lock_file(fd);
    }
    return code;
}

int gyre_process_is_gone(long pid) {
    return pid > 0 && pid != (long)getpid() && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}
#endif

int gyre_has_name(int fd, const char *path) {
    struct stat info, named;
    if (fstat(fd, &info) != 0) return -1;
    if (lstat(path, &named) != 0) return errno == ENOENT ? 0 : -1;
    return info.st_dev == named.st_dev && info.st_ino == named.st_ino;
}
