/* cache_path.h: the file of a cache that a test writes, damages and reads, alone in a folder. */
#ifndef GYRE_TESTS_CACHE_PATH_H
#define GYRE_TESTS_CACHE_PATH_H
#include "temp_folder.h"

static char path[64];

/* Group setup; remove_folder is the teardown. */
static inline int make_path(void **state) {
    if (make_empty_folder(state)) return -1;
    snprintf(path, sizeof path, "%s/kept", folder);
    return 0;
}

/* out = its bytes, and room for some more. */
static inline char *read_cache(size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 16);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void write_cache(const char *bytes, size_t size) {
    write_path(path, bytes, size);
}

#endif
