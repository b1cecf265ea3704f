/* fuzz_support.c: files and promises. */
#define _GNU_SOURCE /* memfd_create, nftw */
#include "fuzz_support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_require(int truth, const char *what) {
    if (truth) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

void fuzz_require_error(gyre_status status, const gyre_error *err) {
    fuzz_require(!status || err->text[0] != '\0', "a failure has a text");
}

const char *fuzz_file(const uint8_t *bytes, size_t size) {
    static char path[64];
    static int descriptor = -1;
    if (descriptor < 0) {
        descriptor = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    fuzz_require(descriptor >= 0 && ftruncate(descriptor, 0) == 0, "a file can be made");
    fuzz_require(pwrite(descriptor, bytes, size, 0) == (ssize_t)size, "a file can be written");
    return path;
}

/* -- a folder -- */
static char folder[64];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    (void)remove(path);
    return 0;
}

static void remove_folder(void) {
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* In memory where the system has such a place: the targets sync what they write. */
const char *fuzz_path(const char *name) {
    static char paths[16][128];
    static unsigned next;
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/gyre-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        fuzz_require(mkdtemp(folder) != NULL, "a folder can be made");
        atexit(remove_folder);
    }
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void fuzz_write(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(fuzz_path(name), "wb");
    fuzz_require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "a file can be written");
}

void fuzz_remove(const char *name) {
    (void)nftw(fuzz_path(name), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void *fuzz_room(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    fuzz_require(memory != NULL, "memory for the target itself");
    return memory;
}

fuzz_scratch fuzz_scratch_make(size_t bytes) {
    fuzz_scratch s = {NULL, bytes};
    fuzz_require(bytes > 0, "legal shapes have a size of scratch");
    fuzz_require(posix_memalign(&s.memory, 64, bytes) == 0, "memory for scratch");
    memset(s.memory, 0xa5, bytes);
    return s;
}
