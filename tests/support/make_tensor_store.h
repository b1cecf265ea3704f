/* make_tensor_store.h: safetensors and GGUF files in the test's folder, opened as tensor stores. */
#ifndef GYRE_TESTS_MAKE_TENSOR_STORE_H
#define GYRE_TESTS_MAKE_TENSOR_STORE_H
#include "files/tensors/tensor_store.h"
#include "make_gguf.h"
#include "temp_folder.h"

enum { STORED_HEADER = 4096 };

/* Writes a .safetensors with exactly this header and these bytes of data. out = the offset of the data. */
static inline size_t stored_safetensors(const char *name, const char *header, const void *data, size_t n) {
    const size_t length = strlen(header);
    unsigned char *bytes = malloc(8 + length + n);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (n > 0) memcpy(bytes + 8 + length, data, n);
    write_file(name, bytes, 8 + length + n);
    free(bytes);
    return 8 + length;
}

static inline void stored_gguf(const char *name, made_gguf *made) {
    made_finish(made);
    write_file(name, made->file, made->file_bytes);
}

static inline gyre_tensor_store *stored_open(const char *path) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {0, ""};
    if (gyre_tensor_store_open(&store, path, &err)) fail_msg("%s", err.text);
    return store;
}

static inline gyre_file_tensor stored_named(const gyre_tensor_store *store, const char *name) {
    gyre_file_tensor tensor;
    if (!gyre_tensor_store_find(store, name, &tensor)) fail_msg("no %s", name);
    return tensor;
}

/* Fails unless opening fails with this status, a message with all of the texts (NULL: none), and this offset (-1: any). */
static inline void stored_refused(const char *path, gyre_status status, const char *const texts[3], int64_t offset) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {7, ""};
    const gyre_status got = gyre_tensor_store_open(&store, path, &err);
    if (!got) fail_msg("%s was opened; \"%s\" was wanted", path, texts[0]);
    assert_null(store);
    for (int i = 0; i < 3; i++)
        if (got != status || (texts[i] && !strstr(err.text, texts[i])))
            fail_msg("status %d, \"%s\"; wanted %d and \"%s\"", (int)got, err.text, (int)status, texts[i] ? texts[i] : "");
    if (offset >= 0 && err.offset != (uint64_t)offset)
        fail_msg("\"%s\" at %d, not %d", err.text, (int)err.offset, (int)offset);
}

static inline void stored_clear(void) {
    char path[512];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path && entry->d_name[0] != '.')
            unlink(path);
    if (dir) closedir(dir);
}

static inline int stored_teardown(void **state) {
    (void)state;
    stored_clear();
    return rmdir(folder);
}

#endif
