/* fuzz_safetensors.c: reads any bytes as a model in safetensors, for libFuzzer.
 *
 * The first byte selects the meaning of the rest. '0': the file as it is. '1': a header up to the first NUL or the end, then
 * data; the header's size is put before it, because few mutations keep it right. '2': the index of a folder with the files
 * of write_folder. */
#include "fuzz_support.h"
#include "fuzz_tensor_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* out = the size of the header, the header and the data; the caller frees it. */
static uint8_t *sized(const char *header, size_t length, const uint8_t *rest, size_t bytes) {
    uint8_t *out = malloc(8 + length + bytes);
    if (!out) return NULL;
    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)length >> (8 * i));
    if (length > 0) memcpy(out + 8, header, length);
    if (bytes > 0) memcpy(out + 8 + length, rest, bytes);
    return out;
}

/* -- a folder -- */
static const struct {
    const char *name, *header;
    size_t bytes;
} files[] = {
    {"1", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"2",
     "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
     "\"c\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[4,5]}}",
     5},
    {"3", "{\"b\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
};
enum { FILES = sizeof files / sizeof *files };
static char folder[64], index_path[128];

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(void) {
    for (int i = 0; i < FILES; i++)
        unlink(in_folder(files[i].name));
    unlink(index_path);
    rmdir(folder);
}

/* The index is a link to the file of fuzz_file. */
static void write_folder(const char *index) {
    static const uint8_t zeros[8];
    snprintf(folder, sizeof folder, "/tmp/gyre-fuzz-stored-XXXXXX");
    fuzz_require(mkdtemp(folder) != NULL, "a folder can be made");
    for (int i = 0; i < FILES; i++) {
        const size_t length = strlen(files[i].header);
        uint8_t *bytes = sized(files[i].header, length, zeros, files[i].bytes);
        FILE *file = fopen(in_folder(files[i].name), "wb");
        fuzz_require(bytes && file && fwrite(bytes, 1, 8 + length + files[i].bytes, file) > 0, "a file can be written");
        fclose(file);
        free(bytes);
    }
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", folder);
    fuzz_require(symlink(index, index_path) == 0, "a link can be made");
    atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const uint8_t kind = data[0], *const rest = data + 1;
    size--;
    if (kind == '2') {
        const char *index = fuzz_file(rest, size);
        if (!*folder) write_folder(index);
        fuzz_store(folder);
    } else if (kind == '1') {
        const uint8_t *end = size > 0 ? memchr(rest, 0, size) : NULL;
        const size_t length = end ? (size_t)(end - rest) : size, bytes = end ? size - length - 1 : 0;
        uint8_t *file = sized((const char *)rest, length, end ? end + 1 : NULL, bytes);
        if (file) fuzz_store(fuzz_file(file, 8 + length + bytes));
        free(file);
    } else {
        fuzz_store(fuzz_file(rest, size));
    }
    return 0;
}
