/* fuzz_text.c: reads any bytes as a text, for every tokenizer of the corpus, and as a file of ids.
 *
 * The first byte is 'i' for a file of ids, 'b' for bytes as tokens, else the number of the tokenizer ('0' the first file of
 * fuzz/corpus/tokenizer by name).  After 'c' the rest is the tokenizer_config.json beside a tokenizer.json.  After 'd' the
 * bytes choose files of a folder, and what stands beside them. */
#define _GNU_SOURCE /* scandir, alphasort */
#include "fuzz_bytes.h"
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
    count_of_tokenizers += !status && count_of_tokenizers < MOST_TOKENIZERS - 1;
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

/* out = 1 if the text was cut; the caller frees the tokens then. */
static int cut(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags, gyre_text *tokens) {
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    gyre_error err = {0, ""};
    fuzz_require(!gyre_tokenizer_get_info(t, &info), "a tokenizer says what it is");
    const gyre_status status = gyre_tokenize(t, text, bytes, flags, tokens, &err);
    fuzz_require_error(status, &err);
    for (int64_t i = 0; !status && i < tokens->count; i++)
        fuzz_require(tokens->ids[i] >= 0 && tokens->ids[i] < info.vocab, "a token of the vocabulary");
    return !status;
}

static void round_trip(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags) {
    gyre_text tokens, again;
    char *back;
    size_t size;
    if (!cut(t, text, bytes, flags, &tokens)) return;
    fuzz_require(!gyre_detokenize(t, &tokens, flags, &back, &size, NULL), "tokens have a text");
    if (!(flags & GYRE_TOKENIZE_SPECIAL)) {
        fuzz_require(size == bytes && memcmp(back, text, bytes) == 0, "a text comes back");
        fuzz_require(cut(t, back, size, flags, &again), "and is cut again");
        fuzz_require(tokens.count == again.count &&
                         memcmp(tokens.ids, again.ids, (size_t)tokens.count * sizeof *tokens.ids) == 0,
                     "into the same tokens");
        fuzz_require(tokens.hash == again.hash && tokens.bytes == (int64_t)bytes, "of the same bytes");
        gyre_text_free(&again);
    }
    free(back);
    gyre_text_free(&tokens);
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

/* -- a folder -- */
/* What may stand in it, sorted by path, so that the text is their bytes in this order.  Names ending in '/' are folders. */
static const char *const entries[] = {"text/",   "text/A", "text/a!", "text/a/",  "text/a/0",  "text/a/b/", "text/a/b/z",
                                      "text/ab", "text/b", "text/c/", "text/c/d", "text/link", "text/pipe", "text/z long "};
enum { ENTRIES = sizeof entries / sizeof *entries, MOST_FILE = 40 };

static void remove_entries(void) {
    for (int i = ENTRIES; i-- > 0;) {
        (void)unlink(fuzz_path(entries[i]));
        (void)rmdir(fuzz_path(entries[i]));
    }
}

/* Makes those that the bytes choose.  text = the bytes of all files in order; out = how many there are. */
static int make_entries(fuzz_bytes *b, char *text, size_t *bytes) {
    const unsigned chosen = fuzz_byte(b) | fuzz_byte(b) << 8;
    int files = 0;
    *bytes = 0;
    for (int i = 0; i < ENTRIES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s", fuzz_path(entries[i]));
        if (path[strlen(path) - 1] == '/') {
            fuzz_require(mkdir(path, 0777) == 0, "a folder can be made");
        } else if (strstr(path, "link")) { /* upwards: whoever follows it never ends */
            if (chosen & 1u << i) fuzz_require(symlink(fuzz_path("text"), path) == 0, "a link can be made");
        } else if (strstr(path, "pipe")) { /* whoever opens it waits */
            if (chosen & 1u << i) fuzz_require(mkfifo(path, 0666) == 0, "a pipe can be made");
        } else if (chosen & 1u << i) {
            const size_t most = (size_t)fuzz_choice(b, MOST_FILE), n = most < b->left ? most : b->left;
            memcpy(text + *bytes, b->at, n);
            fuzz_write(entries[i], b->at, n);
            b->at += n, b->left -= n, *bytes += n;
            files++;
        }
    }
    return files;
}

/* A folder is all regular files below it, sorted by path, whatever else stands there. */
static void read_folder(fuzz_bytes *b) {
    static char text[ENTRIES * MOST_FILE];
    char name[128];
    const char *path = name;
    gyre_text all = {0}, part[2] = {{0}, {0}};
    gyre_error err = {0, ""};
    size_t bytes;
    remove_entries();
    snprintf(name, sizeof name, "%s", fuzz_path("text"));
    const int files = make_entries(b, text, &bytes);
    const gyre_status status = gyre_text_open(&all, &path, 1, GYRE_TEXT_SPLIT_ALL, 0, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status == (bytes > 0 ? GYRE_OK : GYRE_EINVAL),
                 err.text[0] ? err.text : "a folder without a text is refused");
    fuzz_require(status || (all.files == files && all.count == (int64_t)bytes), "all regular files of a folder");
    for (int64_t i = 0; i < all.count; i++)
        fuzz_require(all.ids[i] == (unsigned char)text[i], "sorted by path");
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        const gyre_status parted = gyre_text_open(&part[i], &path, 1, (gyre_text_split)(GYRE_TEXT_SPLIT_TRAIN + i), 0, &err);
        fuzz_require(!parted || parted == GYRE_EINVAL, err.text);
        sum += part[i].count;
    }
    fuzz_require(sum == all.count, "what is held out and what is not are all of it");
    for (int i = 0; i < 2; i++)
        gyre_text_free(&part[i]);
    gyre_text_free(&all);
    remove_entries();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] == 'd') {
        fuzz_bytes b = {data + 1, size - 1};
        read_folder(&b);
        return 0;
    }
    if (data[0] == 'c') {
        read_tokenizer_config(data + 1, size - 1);
        return 0;
    }
    if (!count_of_tokenizers) open_tokenizers();
    if (!tokenizers[MOST_TOKENIZERS - 1])
        fuzz_require(!gyre_tokenizer_create_bytes(&tokenizers[MOST_TOKENIZERS - 1], NULL), "bytes as tokens");
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
