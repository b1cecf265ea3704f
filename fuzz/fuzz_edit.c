/* fuzz_edit.c: writes a scaling into a config.json or a GGUF.  What is written is read back with the frequencies that were
 * asked for, and writing it again changes no byte.
 *
 * The first byte selects scaling (low four bits) and factor; the rest is the file. */
#include "fuzz_support.h"
#include "gyre/gyre_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 4096, MOST_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* out = the first group that rotates, NULL for none. */
static const gyre_config *rotation_of(const gyre_reading *reading) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (reading->groups[i]->config.kind == GYRE_KIND_ROPE) return &reading->groups[i]->config;
    return NULL;
}

/* out = 1 if two configs rotate alike at a context length. */
static int rotate_alike(const gyre_config *want, const gyre_config *got, int64_t length) {
    static double a[MOST_PAIRS], b[MOST_PAIRS];
    double factor_a, factor_b;
    gyre_encoding *of_want = NULL, *of_got = NULL;
    if (got->kind != GYRE_KIND_ROPE || want->rope.dim != got->rope.dim || want->rope.layout != got->rope.layout) return 0;
    fuzz_require(gyre_encoding_create(&of_want, want, NULL, NULL) == GYRE_OK, "what was written is an encoding");
    fuzz_require(gyre_encoding_create(&of_got, got, NULL, NULL) == GYRE_OK, "what was read is an encoding");
    fuzz_require(gyre_encoding_frequencies(of_want, length, a, &factor_a) == GYRE_OK, "frequencies");
    fuzz_require(gyre_encoding_frequencies(of_got, length, b, &factor_b) == GYRE_OK, "frequencies");
    int same = fabs(factor_a - factor_b) <= 1e-5 * fabs(factor_a);
    for (int64_t i = 0; i < gyre_encoding_get_config(of_got)->rope.dim / 2; i++)
        same = same && fabs(a[i] - b[i]) <= 1e-5 * fabs(a[i]);
    gyre_encoding_free(of_want);
    gyre_encoding_free(of_got);
    return same;
}

static size_t read_whole(const char *path, char *out) {
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(out, 1, MOST_BYTES, file) : 0;
    if (file) fclose(file);
    return size;
}

static void check_copy(const gyre_config *position, int64_t length, const char *copy, const char *again) {
    static char first[MOST_BYTES], second[MOST_BYTES];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    fuzz_require(gyre_reading_open(&reading, copy, GYRE_PROFILE_DEFAULT, length, &err) == GYRE_OK, err.text);
    int found = 0; /* layers of a model that keep another rotation keep it */
    for (int64_t i = 0; i < reading->groups_count; i++)
        found |= rotate_alike(position, &reading->groups[i]->config, length);
    fuzz_require(found, "what is written is read back");
    gyre_reading_free(reading);
    const gyre_status status = gyre_reading_write(copy, position, length, again, &err);
    fuzz_require(status == GYRE_OK, "what was written can be written again");
    const size_t size = read_whole(copy, first);
    fuzz_require(size == read_whole(again, second) && memcmp(first, second, size) == 0, "and is the same bytes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE,        GYRE_SCALING_LINEAR,      GYRE_SCALING_NTK,
                                            GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_YARN,        GYRE_SCALING_LLAMA3,
                                            GYRE_SCALING_BY_PARTS,    GYRE_SCALING_PROPORTIONAL};
    static const double factors[] = {2, 4, 1.5, 32};
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (size < 5 || size > MOST_BYTES / 2) return 0;
    const int gguf = memcmp(data + 1, "GGUF", 4) == 0;
    const char *name = gguf ? "model.gguf" : "config.json", *copy = gguf ? "copy.gguf" : "copy.json";
    char path[128], target[128], again[128];
    snprintf(path, sizeof path, "%s", fuzz_path(name));
    snprintf(target, sizeof target, "%s", fuzz_path(copy));
    snprintf(again, sizeof again, "%s.2", target);
    fuzz_write(name, data + 1, size - 1);
    if (gyre_reading_open(&reading, path, GYRE_PROFILE_DEFAULT, 0, NULL)) return 0;
    const gyre_config *found = rotation_of(reading);
    if (found && found->rope.dim / 2 <= MOST_PAIRS && found->head_dim / 2 <= MOST_PAIRS) {
        gyre_config position = *found;
        position.rope.scaling = scalings[data[0] & 7];
        position.rope.factor = position.rope.scaling == GYRE_SCALING_NONE ? 0 : factors[data[0] >> 4 & 3];
        position.rope.attention_factor = 0;
        if (data[0] & 8) position.rope.base *= 50;
        if (position.trained_length < 1) position.trained_length = 4096;
        const int64_t length = (int64_t)((double)(position.trained_length < 1 << 20 ? position.trained_length : 1 << 20) *
                                         fmax(1, position.rope.factor));
        remove(target);
        const gyre_status status = gyre_reading_write(path, &position, length, target, &err);
        fuzz_require_error(status, &err);
        FILE *there = fopen(target, "rb");
        fuzz_require((status == GYRE_OK) == (there != NULL), "a file is there, or the call failed");
        if (there) fclose(there);
        if (status == GYRE_OK) check_copy(&position, length, target, again);
    }
    gyre_reading_free(reading);
    return 0;
}
