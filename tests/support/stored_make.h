/* stored_make.h: a folder of a test's own with a model's files in it. */
#ifndef GYRE_TESTS_STORED_MAKE_H
#define GYRE_TESTS_STORED_MAKE_H
#include "files/tensor_store.h"
#include "gguf_make.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

static char stored_folder[] = "/tmp/gyre-stored-XXXXXX";
enum { STORED_HEADER = 4096 };

/* out = a path in the folder, static for the next few calls. */
static inline const char *stored_path(const char *name) {
    static char paths[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", stored_folder, name);
    return paths[next];
}

/* A new file each time: a disk waits for one that is cut and written again. */
static inline void stored_write(const char *name, const void *bytes, size_t n) {
    (void)unlink(stored_path(name));
    FILE *file = fopen(stored_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A .safetensors of this header as it stands and these bytes of data; out = where the data begins. */
static inline size_t stored_safetensors(const char *name, const char *header, const void *data, size_t n) {
    const size_t length = strlen(header);
    unsigned char *bytes = malloc(8 + length + n);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (n > 0) memcpy(bytes + 8 + length, data, n);
    stored_write(name, bytes, 8 + length + n);
    free(bytes);
    return 8 + length;
}

static inline void stored_gguf(const char *name, made_gguf *made) {
    made_finish(made);
    stored_write(name, made->file, made->file_bytes);
}

static inline gyre_tensor_store *stored_open(const char *path) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {0, ""};
    if (gyre_tensor_store_open(&store, path, &err) != GYRE_OK) fail_msg("%s", err.text);
    return store;
}

static inline gyre_file_tensor stored_named(const gyre_tensor_store *store, const char *name) {
    gyre_file_tensor tensor;
    if (!gyre_tensor_store_find(store, name, &tensor)) fail_msg("no %s", name);
    return tensor;
}

/* Fails unless opening fails with this status, all of the texts (NULL: none) in the message, and this offset (-1: any). */
static inline void stored_refused(const char *path, gyre_status status, const char *const texts[3], int64_t offset) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {7, ""};
    const gyre_status got = gyre_tensor_store_open(&store, path, &err);
    if (got == GYRE_OK) fail_msg("%s was opened; \"%s\" was wanted", path, texts[0]);
    assert_null(store);
    for (int i = 0; i < 3; i++)
        if (got != status || (texts[i] && !strstr(err.text, texts[i])))
            fail_msg("status %d, \"%s\"; wanted %d and \"%s\"", (int)got, err.text, (int)status, texts[i] ? texts[i] : "");
    if (offset >= 0 && err.offset != (uint64_t)offset)
        fail_msg("\"%s\" at %d, not %d", err.text, (int)err.offset, (int)offset);
}

static inline void stored_clear(void) {
    char path[512];
    DIR *dir = opendir(stored_folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (snprintf(path, sizeof path, "%s/%s", stored_folder, entry->d_name) < (int)sizeof path && entry->d_name[0] != '.')
            unlink(path);
    if (dir) closedir(dir);
}

static inline int stored_setup(void **state) {
    (void)state;
    return mkdtemp(stored_folder) ? 0 : -1;
}
static inline int stored_teardown(void **state) {
    (void)state;
    stored_clear();
    return rmdir(stored_folder);
}

#endif
