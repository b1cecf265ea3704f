/* fuzz_text.c: reads any bytes as a text, for every tokenizer of the corpus, and as a file of ids.
 *
 * The first byte is 'i' for a file of ids, 'b' for bytes as tokens, else the number of the tokenizer ('0' the first file of
 * fuzz/corpus/tokenizer by name).  After 'c' the rest is the tokenizer_config.json beside a tokenizer.json. */
#define _GNU_SOURCE /* scandir, alphasort */
#include "fuzz_support.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TOKENIZERS = 40, VOCAB = 300 };
static gyre_tokenizer *tokenizers[MOST_TOKENIZERS];
static int count_of_tokenizers;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- tokenizers -- */
/* The folder with the corpus: in the source tree, or where the targets run without one, in their working folder. */
static const char *corpus(void) {
    return access(GYRE_FUZZ_CORPUS, R_OK) == 0 ? GYRE_FUZZ_CORPUS "/tokenizer" : "corpus/tokenizer";
}

static void open_one(const char *name) {
    static char bytes[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", corpus(), name);
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    gyre_tokenizer **out = &tokenizers[count_of_tokenizers];
    const gyre_status status = size > 4 && memcmp(bytes, "GGUF", 4) == 0
                                   ? gyre_tokenizer_from_gguf(out, bytes, size, "model.gguf", NULL)
                                   : gyre_tokenizer_from_json(out, bytes, size, "tokenizer.json", NULL, NULL);
    count_of_tokenizers += status == GYRE_OK && count_of_tokenizers < MOST_TOKENIZERS - 1;
}

static void open_tokenizers(void) {
    struct dirent **names;
    const int count = scandir(corpus(), &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') open_one(names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0) free(names);
    fuzz_require(count_of_tokenizers >= 5, "the corpus has tokenizers");
}

/* -- what a text must come to -- */
static void read_ids(const uint8_t *bytes, size_t size) {
    gyre_text text = {0};
    gyre_error err = {0, ""};
    const gyre_status status = gyre_text_open_ids(&text, fuzz_file(bytes, size), VOCAB, 1, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status || text.count >= 1, "as many ids as asked for");
    for (int64_t i = 0; i < text.count; i++)
        fuzz_require(text.ids[i] >= 0 && text.ids[i] < VOCAB, "an id of the vocabulary");
    gyre_text_free(&text);
}

/* out = 1 if the text was cut; the caller frees the ids then. */
static int cut(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags, int32_t **ids, int64_t *count) {
    const int64_t vocab = gyre_tokenizer_get_info(t).vocab;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_tokenize(t, text, bytes, flags, ids, count, &err);
    fuzz_require_error(status, &err);
    for (int64_t i = 0; !status && i < *count; i++)
        fuzz_require((*ids)[i] >= 0 && (*ids)[i] < vocab, "a token of the vocabulary");
    return status == GYRE_OK;
}

static void round_trip(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags) {
    int32_t *ids, *again;
    int64_t count, count_again;
    char *back;
    size_t size;
    if (!cut(t, text, bytes, flags, &ids, &count)) return;
    fuzz_require(gyre_detokenize(t, ids, count, flags, &back, &size, NULL) == GYRE_OK, "tokens have a text");
    if (!(flags & GYRE_TOKENIZE_SPECIAL)) {
        fuzz_require(size == bytes && memcmp(back, text, bytes) == 0, "a text comes back");
        fuzz_require(cut(t, back, size, flags, &again, &count_again), "and is cut again");
        fuzz_require(count == count_again && memcmp(ids, again, (size_t)count * sizeof *ids) == 0, "into the same tokens");
        free(again);
    }
    free(back);
    free(ids);
}

/* A file is cut as the same bytes in memory. */
static void read_file(const gyre_tokenizer *t, const char *bytes, size_t size) {
    gyre_text text = {0};
    gyre_error err = {0, ""};
    const char *path = fuzz_file((const uint8_t *)bytes, size);
    const gyre_status status = gyre_text_tokenize(&text, t, &path, 1, 0, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status || text.bytes == (int64_t)size, "a text knows its bytes");
    gyre_text_free(&text);
}

static void read_tokenizer_config(const uint8_t *bytes, size_t size) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    gyre_tokenizer *t = NULL;
    gyre_error err = {0, ""};
    mkdir(fuzz_path("tokens"), 0777);
    fuzz_write("tokens/tokenizer.json", json, sizeof json - 1);
    fuzz_write("tokens/tokenizer_config.json", bytes, size);
    const gyre_status status = gyre_tokenizer_open(&t, fuzz_path("tokens"), &err);
    fuzz_require_error(status, &err);
    for (unsigned flags = 0; flags < 8 && t; flags++)
        if (!(flags & GYRE_TOKENIZE_BEGIN && flags & GYRE_TOKENIZE_SPECIAL)) round_trip(t, "abba<s>", 7, flags);
    gyre_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] == 'c') {
        read_tokenizer_config(data + 1, size - 1);
        return 0;
    }
    if (!count_of_tokenizers) open_tokenizers();
    if (!tokenizers[MOST_TOKENIZERS - 1])
        fuzz_require(gyre_tokenizer_create_bytes(&tokenizers[MOST_TOKENIZERS - 1], NULL) == GYRE_OK, "bytes as tokens");
    const gyre_tokenizer *t = tokenizers[data[0] == 'b' ? MOST_TOKENIZERS - 1 : (data[0] & 63) % count_of_tokenizers];
    if (data[0] == 'i') {
        read_ids(data + 1, size - 1);
        return 0;
    }
    char *text = fuzz_room(size, 1); /* without a NUL past the end */
    memcpy(text, data + 1, size - 1);
    for (unsigned flags = 0; flags < 8; flags++)
        if (!(flags & GYRE_TOKENIZE_BEGIN && flags & GYRE_TOKENIZE_SPECIAL)) round_trip(t, text, size - 1, flags);
    read_file(t, text, size - 1);
    free(text);
    return 0;
}
