/* file_read.c: read and mmap, with errors that name the file. */
#define _DEFAULT_SOURCE /* madvise: posix_madvise of glibc does not release pages */
#include "files/file_read.h"

#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DOCUMENT_BYTES = GYRE_DOCUMENT_MIB << 20 };

/* advice: what helps, or "". */
static gyre_status fail_longer(const char *path, size_t limit, const char *advice, gyre_error *err) {
    const size_t mib = (size_t)1 << 20;
    const int whole = limit % mib == 0;
    return gyre_fail(err, GYRE_EFORMAT, "%s: longer than %zu %s%s", path, whole ? limit / mib : limit,
                     whole ? "MiB" : "bytes", advice);
}

/* The buffer grows as needed: a pipe has no size, and the size of a file may change.  One byte beyond the limit is read. */
static gyre_status read_stream(FILE *stream, const char *path, size_t expected, size_t limit, char **out, size_t *bytes,
                               gyre_error *err) {
    size_t capacity = expected + 2, size = 0; /* one more than the contents, to see their end, and the NUL */
    char *memory = malloc(capacity);
    while (memory) {
        size += fread(memory + size, 1, capacity - 1 - size, stream);
        if (size < capacity - 1 || size > limit) break;
        capacity = capacity <= limit / 2 ? 2 * capacity : limit + 2;
        char *grown = realloc(memory, capacity);
        if (!grown) free(memory);
        memory = grown;
    }
    if (!memory) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory to read it", path);
    if (ferror(stream) || size > limit) {
        const int why = errno;
        const int failed = ferror(stream);
        free(memory);
        return failed ? gyre_fail_errno(err, path, why) : fail_longer(path, limit, "", err);
    }
    memory[size] = '\0';
    *out = memory;
    *bytes = size;
    return GYRE_OK;
}

gyre_status gyre_file_read(const char *path, size_t limit, char **out, size_t *bytes, gyre_error *err) {
    return gyre_file_read_stream(path, limit, limit, out, bytes, err);
}

gyre_status gyre_file_read_stream(const char *path, size_t limit, size_t pipe_limit, char **out, size_t *bytes,
                                  gyre_error *err) {
    struct stat info;
    if (stat(path, &info) != 0) return gyre_fail_errno(err, path, errno);
    if (S_ISDIR(info.st_mode)) return gyre_fail_errno(err, path, EISDIR);
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        return gyre_fail(err, GYRE_EIO, "%s: neither a regular file nor a pipe", path);
    if (info.st_size < 0 || (uint64_t)info.st_size > GYRE_FILE_MAX)
        return gyre_fail(err, GYRE_EIO, "%s: too large for this machine", path);
    if ((size_t)info.st_size > limit) return fail_longer(path, limit, "", err);
    FILE *stream = fopen(path, "rb");
    if (!stream) return gyre_fail_errno(err, path, errno);
    const int shorter = S_ISFIFO(info.st_mode) && pipe_limit < limit;
    const gyre_status status =
        read_stream(stream, path, (size_t)info.st_size, shorter ? pipe_limit : limit, out, bytes, err);
    fclose(stream);
    return status == GYRE_EFORMAT && shorter ? fail_longer(path, pipe_limit, ", the bound of a pipe; save it to a file", err)
                                             : status;
}

static gyre_status check_document(int descriptor, const char *path, size_t *bytes, gyre_error *err) {
    struct stat info;
    if (descriptor < 0 || fstat(descriptor, &info) != 0) return gyre_fail_errno(err, path, errno);
    if (S_ISDIR(info.st_mode)) return gyre_fail_errno(err, path, EISDIR);
    if (!S_ISREG(info.st_mode)) return gyre_fail(err, GYRE_EIO, "%s: not a regular file", path);
    if (info.st_size > (off_t)DOCUMENT_BYTES) return fail_longer(path, DOCUMENT_BYTES, "", err);
    *bytes = (size_t)info.st_size;
    return GYRE_OK;
}

gyre_status gyre_file_path(const char *folder, const char *name, char out[PATH_MAX], gyre_error *err) {
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "%s: path too long (%.200s...)", name, folder);
}

gyre_status gyre_document_read(const char *path, char **out, size_t *bytes, gyre_error *err) {
    /* O_NONBLOCK makes opening a pipe return instead of wait. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t expected = 0;
    gyre_status status = check_document(descriptor, path, &expected, err);
    FILE *stream = status ? NULL : fdopen(descriptor, "rb");
    if (!status && !stream) status = gyre_fail_errno(err, path, errno);
    if (!status) status = read_stream(stream, path, expected, DOCUMENT_BYTES, out, bytes, err);
    if (stream)
        fclose(stream);
    else if (descriptor >= 0)
        close(descriptor);
    return status;
}

/* -- mapping -- */
static gyre_status map_descriptor(gyre_mapping *out, int descriptor, const char *path, gyre_error *err) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return gyre_fail_errno(err, path, errno);
    if (!S_ISREG(info.st_mode)) return gyre_fail(err, GYRE_EIO, "%s: not a regular file", path);
    if ((uint64_t)info.st_size > SIZE_MAX) return gyre_fail(err, GYRE_EIO, "%s: too large for this machine", path);
    if (info.st_size == 0) return gyre_fail(err, GYRE_EFORMAT, "%s: empty", path);
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) return gyre_fail_errno(err, path, errno);
    *out = (gyre_mapping){bytes, (size_t)info.st_size, descriptor, info.st_mtim};
    return GYRE_OK;
}

gyre_status gyre_mapping_open(gyre_mapping *out, const char *path, gyre_error *err) {
    /* O_NONBLOCK makes opening a pipe fail instead of wait. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return gyre_fail_errno(err, path, errno);
    const gyre_status status = map_descriptor(out, descriptor, path, err);
    if (status) close(descriptor);
    return status;
}

gyre_status gyre_mapping_check(const gyre_mapping *mapping, const char *path, gyre_error *err) {
    struct stat info;
    if (!mapping->bytes) return GYRE_OK;
    if (fstat(mapping->descriptor, &info) != 0) return gyre_fail_errno(err, path, errno);
    if (info.st_size >= 0 && (uint64_t)info.st_size == mapping->size && info.st_mtim.tv_sec == mapping->modified.tv_sec &&
        info.st_mtim.tv_nsec == mapping->modified.tv_nsec)
        return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "%s: changed while it was read", path);
}

void gyre_mapping_close(gyre_mapping *mapping) {
    if (mapping->bytes) {
        munmap((void *)mapping->bytes, mapping->size);
        close(mapping->descriptor);
    }
    *mapping = (gyre_mapping){0};
}

void gyre_mapping_release_pages(const unsigned char *bytes, size_t size) {
    const long page = sysconf(_SC_PAGESIZE);
    if (page < 1) return;
    const size_t each = (size_t)page, before = (each - (uintptr_t)bytes % each) % each;
    if (size <= before) return;
    (void)madvise((void *)(bytes + before), (size - before) / each * each, MADV_DONTNEED);
}

/* out = 1 for one slash between two names, if the second is not the name of a model's file. */
static int is_hub_name(const char *path) {
    const char *slash = strchr(path, '/'), *name = slash ? slash + 1 : "";
    const char *dot = strrchr(name, '.');
    const int is_file = dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".gguf") == 0 || strcmp(dot, ".safetensors") == 0);
    return slash && slash != path && *path != '.' && *path != '~' && *name && !strchr(name, '/') && !is_file;
}

gyre_status gyre_model_path_check(const char *path, gyre_error *err) {
    struct stat info;
    if (stat(path, &info) == 0 || errno != ENOENT || !is_hub_name(path)) return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "%.380s: no such file or folder; nothing is downloaded; name a folder with a model",
                     path);
}
