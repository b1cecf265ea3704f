/* fail_calls.c: preloaded into a program, makes its n-th call of a kind fail: GYRE_FAIL=KIND:N; KIND:N+ the later ones too.
 * GYRE_FAIL_COUNT names a file that gets a line "KIND CALLS" for each kind at the end.  Kinds: memory, open (also fopen,
 * fdopen), read (also fread), stat (also fstat), list (opendir, readdir), write, sync (fsync, fdatasync), rename, map,
 * thread, access, unlink (also rmdir). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static const char *const kinds[] = {"memory", "open",   "read", "write", "sync",   "rename",
                                    "map",    "thread", "stat", "list",  "access", "unlink"};
enum { MEMORY, OPEN, READ, WRITE, SYNC, RENAME, MAP, THREAD, STAT, LIST, ACCESS, UNLINK, KINDS };
static int wanted = -2; /* -2: the environment was not read; -1: none */
static long fail_at;
static int goes_on;
static atomic_long calls[KINDS];

static void read_environment(void) {
    const char *text = getenv("GYRE_FAIL"), *colon = text ? strchr(text, ':') : NULL;
    wanted = -1;
    for (int i = 0; i < KINDS && colon; i++)
        if (strlen(kinds[i]) == (size_t)(colon - text) && strncmp(kinds[i], text, (size_t)(colon - text)) == 0) wanted = i;
    char *end = NULL;
    fail_at = colon ? strtol(colon + 1, &end, 10) : 0;
    goes_on = end && *end == '+';
    (void)unsetenv("LD_PRELOAD"); /* of this program, not of those that it runs */
}

static int fails(int kind, int code) {
    if (wanted == -2) read_environment();
    const long call = atomic_fetch_add(&calls[kind], 1) + 1;
    if (kind != wanted) return 0;
    if (goes_on ? call < fail_at : call != fail_at) return 0;
    errno = code;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t bytes) {
    return fails(MEMORY, ENOMEM) ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    return fails(MEMORY, ENOMEM) ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    return fails(MEMORY, ENOMEM) ? NULL : __libc_realloc(memory, bytes);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & O_CREAT ? (mode_t)va_arg(rest, int) : 0;
    va_end(rest);
    return fails(OPEN, EMFILE) ? -1 : REAL(open)(path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) {
    return fails(OPEN, EMFILE) ? NULL : REAL(fopen)(path, mode);
}
FILE *fdopen(int fd, const char *mode) {
    return fails(OPEN, ENOMEM) ? NULL : REAL(fdopen)(fd, mode);
}
int stat(const char *path, struct stat *out) {
    return fails(STAT, EIO) ? -1 : REAL(stat)(path, out);
}
int fstat(int fd, struct stat *out) {
    return fails(STAT, EIO) ? -1 : REAL(fstat)(fd, out);
}
DIR *opendir(const char *path) {
    return fails(LIST, EMFILE) ? NULL : REAL(opendir)(path);
}
struct dirent *readdir(DIR *dir) {
    return fails(LIST, EIO) ? NULL : REAL(readdir)(dir);
}
int access(const char *path, int mode) {
    return fails(ACCESS, EIO) ? -1 : REAL(access)(path, mode);
}
int unlink(const char *path) {
    return fails(UNLINK, EIO) ? -1 : REAL(unlink)(path);
}
int rmdir(const char *path) {
    return fails(UNLINK, EIO) ? -1 : REAL(rmdir)(path);
}
size_t fread(void *out, size_t each, size_t count, FILE *file) {
    if (!fails(READ, EIO)) return REAL(fread)(out, each, count, file);
    file->_flags |= 0x20; /* what ferror of glibc tells */
    return 0;
}
ssize_t read(int fd, void *out, size_t bytes) {
    return fails(READ, EIO) ? -1 : REAL(read)(fd, out, bytes);
}
ssize_t write(int fd, const void *in, size_t bytes) {
    return fails(WRITE, ENOSPC) ? -1 : REAL(write)(fd, in, bytes);
}
int fsync(int fd) {
    return fails(SYNC, EIO) ? -1 : REAL(fsync)(fd);
}
int fdatasync(int fd) {
    return fails(SYNC, EIO) ? -1 : REAL(fdatasync)(fd);
}
int rename(const char *from, const char *to) {
    return fails(RENAME, EIO) ? -1 : REAL(rename)(from, to);
}
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return fails(MAP, ENOMEM) ? MAP_FAILED : REAL(mmap)(at, bytes, protection, flags, fd, offset);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *context) {
    return fails(THREAD, EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, how, run, context);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("GYRE_FAIL_COUNT");
    char text[512];
    size_t length = 0;
    const int fd = path ? REAL(open)(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0) return;
    for (int i = 0; i < KINDS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s %ld\n", kinds[i], atomic_load(&calls[i]));
    if (REAL(write)(fd, text, length) < 0) perror(path);
    close(fd);
}
