/* cli_guard_files.c: names, links and contents of files that a run reads or writes. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "tools/cli/cli_guard_files.h"
#include "gyre/gyre_reading.h"
#include "tools/cli/cli_error.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/path.h"
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#if !defined(__wasi__)
#include <ftw.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__wasi__)
char *realpath(const char *path, char *out); /* wasi-libc has none; explorer/wasm/platform/absent.c does */
#endif

/* -- paths -- */
_Noreturn static void fail(const char *path, int code) {
    exit(cli_fail("%s: %s (is it a file that this run reads?)", path, strerror(code)));
}

/* Nothing can be read or written at a name that is too long, or in a circle of links. */
static int is_absence(int code) {
    return gyre_is_absence(code) || code == ENAMETOOLONG || code == ELOOP;
}

int guard_look(const char *path, struct stat *is) {
    if (stat(path, is) == 0) return 1;
    if (!is_absence(errno)) fail(path, errno);
    return 0;
}

int guard_is_same(const struct stat *a, const char *path) {
    struct stat b;
    return guard_look(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

int guard_is_folder(const char *path) {
    struct stat is;
    return guard_look(path, &is) && S_ISDIR(is.st_mode);
}

int guard_has_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat is;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && guard_look(path, &is);
}

int guard_is_model_folder(const char *folder) {
    return guard_has_file(folder, GYRE_CONFIG_FILE);
}

void guard_folder_of(const char *path, char folder[PATH_MAX]) {
    const int length = (int)(gyre_path_name(path) - path);
    snprintf(folder, PATH_MAX, "%.*s", length ? length : 1, length ? path : ".");
}

int guard_real(const char *path, char real[PATH_MAX]) {
    char *found = realpath(path, NULL);
    if (!found && !is_absence(errno)) fail(path, errno);
    snprintf(real, PATH_MAX, "%s", found ? found : "");
    free(found);
    return *real != '\0';
}

int guard_is_below(const char *path, const char *folder) {
    char file[PATH_MAX], top[PATH_MAX];
    if (!guard_real(path, file) || !guard_real(folder, top)) return 0;
    const size_t length = strlen(top);
    return strncmp(file, top, length) == 0 && (file[length] == '/' || top[length - 1] == '/');
}

/* -- names -- */
int guard_is_model_name(const char *name) {
    static const char *const names[] = {GYRE_CONFIG_FILE,
                                        GYRE_TOKENIZER_FILE,
                                        GYRE_TOKENIZER_CONFIG_FILE,
                                        GYRE_TRAINING_FILE,
                                        GYRE_GENERATION_CONFIG_FILE,
                                        "vocab.json",
                                        "vocab.txt",
                                        "merges.txt",
                                        "preprocessor_config.json",
                                        "processor_config.json",
                                        "adapter_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json"};
    static const char *const endings[] = {".safetensors", ".index.json", ".model", ".jinja", ".bin", ".pt", ".pth", ".onnx"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (gyre_ends_with(name, endings[i])) return 1;
    return 0;
}

/* out = 1 for NAME-00001-of-00003.gguf: llama.cpp finds the parts of a model by such names. */
static int is_part_name(const char *name) {
    static const char pattern[] = "-00000-of-00000.gguf";
    const size_t length = strlen(name), tail = sizeof pattern - 1;
    for (size_t i = 0; length >= tail && i < tail; i++) {
        const char c = name[length - tail + i];
        if (pattern[i] == '0' ? c < '0' || c > '9' : c != pattern[i]) return 0;
    }
    return length >= tail && !gyre_ends_with(name, "-00001-of-00001.gguf");
}

static int ends_with_any(const char *name, const char *const *endings, size_t count) {
    int found = 0;
    for (size_t i = 0; i < count; i++)
        found |= gyre_ends_with(name, endings[i]);
    return found;
}

/* out = 1 for the name, in small letters, of a text that belongs to a model or its folder. */
static int is_text_of_model(const char *name) {
    static const char *const texts[] = {"vocab",  "merges",  "tokens", "labels",      "tags",
                                        "readme", "license", "notice", "requirements"};
    static const char *const endings[] = {".txt", ".json", ".tsv", ".md"};
    static const char *const settings[] = {".yaml", ".yml"};
    if (strncmp(name, "dict.", 5) == 0) return 1;
    if (strstr(name, "config") && ends_with_any(name, settings, sizeof settings / sizeof *settings)) return 1;
    int found = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        found |= strstr(name, texts[i]) != NULL;
    return found && ends_with_any(name, endings, sizeof endings / sizeof *endings);
}

int guard_is_result_name(const char *name, int writes_model) {
    static const char *const endings[] = {".html", ".htm", ".svg", ".csv", ".tsv",  ".json", ".jsonl",
                                          ".log",  ".pdf", ".png", ".txt", ".yaml", ".yml",  ".md"};
    char small[PATH_MAX]; /* some file systems ignore the case of letters */
    size_t length = 0;
    for (; name[length] && length < sizeof small - 1; length++)
        small[length] = (char)(name[length] >= 'A' && name[length] <= 'Z' ? name[length] - 'A' + 'a' : name[length]);
    small[length] = '\0';
    if (guard_is_model_name(name) || guard_is_model_name(small) || is_text_of_model(small)) return 0;
    if (writes_model && gyre_ends_with(name, ".gguf")) return 1;
    return ends_with_any(small, endings, sizeof endings / sizeof *endings);
}

/* -- contents -- */
/* out = bytes read of the beginning of a regular file; 0 for anything else. */
static size_t read_head(const char *path, char *head, size_t room, int64_t *size) {
    struct stat is;
    const int regular = guard_look(path, &is) && S_ISREG(is.st_mode);
    FILE *file = regular ? fopen(path, "rb") : NULL;
    if (regular && !file && errno != EACCES) fail(path, errno);
    const size_t count = file ? fread(head, 1, room, file) : 0;
    const int code = file && ferror(file) ? errno : 0;
    *size = file ? (int64_t)is.st_size : 0;
    if (file) (void)fclose(file);
    if (code) fail(path, code);
    return count;
}

static int has_gguf_magic(const char *path) {
    char head[4];
    int64_t size;
    return read_head(path, head, sizeof head, &size) == sizeof head && memcmp(head, "GGUF", sizeof head) == 0;
}

/* A safetensors file begins with the size of its header, 64 bits, and an object of JSON. */
static int is_safetensors(const char *path) {
    unsigned char head[9];
    uint64_t length = 0;
    int64_t size;
    if (read_head(path, (char *)head, sizeof head, &size) != sizeof head || head[8] != '{') return 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | head[i];
    return length >= 2 && length <= (uint64_t)size - 8;
}

/* out = 1 for the numbers of a figure: {"kind": "NAME", "title": ..., which other programs' JSON with a kind has not. */
static int begins_figure(const char *text) {
    static const char kind[] = "{\n  \"kind\": \"", title[] = "\",\n  \"title\": ";
    if (strncmp(text, kind, sizeof kind - 1) != 0) return 0;
    text += sizeof kind - 1;
    return strncmp(text + strcspn(text, "\"\n"), title, sizeof title - 1) == 0;
}

/* out = 1 for JSON that begins as Gyre's results and journals do. */
static int is_own_json(const char *path) {
    static const char *const begins[] = {"{\n  \"path\": ", "{\n  \"model\": \"", "{\n  \"model\": {\n    \"path\": ",
                                         "{\n  \"a\": {",   "{\n  \"command\": ", "{\n  \"card\": ",
                                         "{\"cell\":",      "{\"gyre_search\":"};
    char head[128] = "";
    int64_t size;
    head[read_head(path, head, sizeof head - 1, &size)] = '\0';
    const char *first = head + strspn(head, "\n"); /* a journal may begin with empty lines */
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(first, begins[i], strlen(begins[i])) == 0) return 1;
    return begins_figure(first);
}

/* out = the first character but for white space and the mark of UTF-8; NUL if there is none. */
static char first_character(const char *path, int64_t *size) {
    enum { HEAD = 1 << 12 };
    char head[HEAD + 1] = "";
    head[read_head(path, head, HEAD, size)] = '\0';
    const char *first = strncmp(head, "\xEF\xBB\xBF", 3) == 0 ? head + 3 : head;
    return first[strspn(first, " \t\r\n")];
}

/* out = 1 for what may be JSON, and 0 for other text, which a run without --json writes to any name. */
static int begins_json(const char *path) {
    int64_t size;
    const char first = first_character(path, &size);
    return first == '\0' || first == '{' || first == '[';
}

/* out = 1 if the text of the file has one of the keys, in quotes.  Blocks overlap by the longest. */
static int has_any_text(const char *path, const char *const *keys) {
    enum { BLOCK = 1 << 16, OVERLAP = 64 };
    char quoted[OVERLAP];
    size_t used = 0, count = 1;
    int found = 0;
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, errno);
    char *block = malloc(BLOCK + OVERLAP + 1);
    if (!block) fail(path, ENOMEM);
    while (!found && (count = fread(block + used, 1, BLOCK, file)) > 0) {
        used += count;
        for (size_t i = 0; i < used; i++)
            if (block[i] == '\0') block[i] = ' '; /* which would end the search */
        block[used] = '\0';
        for (const char *const *key = keys; *key && !found; key++) {
            snprintf(quoted, sizeof quoted, "\"%s\"", *key);
            found = strstr(block, quoted) != NULL;
        }
        const size_t kept = used < OVERLAP ? used : OVERLAP;
        memmove(block, block + used - kept, kept);
        used = kept;
    }
    const int code = ferror(file) ? errno : 0;
    free(block);
    (void)fclose(file);
    if (code) fail(path, code);
    return found;
}

static int has_any_key(const json_t *root, const char *const *keys) {
    int found = json_is_object(json_object_get(root, "text_config"));
    for (; *keys; keys++)
        found |= json_object_get(root, *keys) != NULL;
    return found;
}

/* out = 1 for JSON with one of the keys, or a text_config: the config of a model.  Of one that jansson does not read, such
 * as one with Infinity, the text has the key.  Gyre's own JSON may state a model_type too, beside the path. */
static int is_config_with(const char *path, const char *const *keys) {
    enum { MOST_BYTES = 64 << 20 };
    int64_t size;
    if (first_character(path, &size) != '{' || size > MOST_BYTES || is_own_json(path)) return 0;
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) fail(path, ENOMEM);
    const int is_result = json_object_get(root, "path") && !json_object_get(root, "architectures");
    const int found = root ? has_any_key(root, keys) && !is_result : has_any_text(path, keys);
    json_decref(root);
    return found;
}

/* A config of an old family may have none of the keys that are looked for. */
static int is_readable_config(const char *path) {
    gyre_reading *reading = NULL;
    int64_t size;
    if (first_character(path, &size) != '{' || is_own_json(path)) return 0;
    const gyre_status status = gyre_reading_open(&reading, path, NULL, NULL);
    gyre_reading_free(reading);
    if (status == GYRE_ENOMEM) fail(path, ENOMEM);
    return !status;
}

/* out = 1 for what no text may replace: other programs than Transformers have a model_type too. */
static int is_config(const char *path) {
    static const char *const keys[] = {"model_type", "architectures", "max_position_embeddings", "text_config", NULL};
    return is_config_with(path, keys) || is_readable_config(path);
}

/* out = 1 for what a config may replace. */
static int is_config_of_transformer(const char *path) {
    static const char *const keys[] = {"architectures", "max_position_embeddings", NULL};
    return is_config_with(path, keys) || is_readable_config(path);
}

int guard_holds_model(const char *path) {
    return has_gguf_magic(path) || is_safetensors(path) || is_config(path);
}

static int has_name_of_model(const char *path) {
    const char *name = gyre_path_name(path);
    return strcmp(name, GYRE_CONFIG_FILE) != 0 && guard_is_model_name(name);
}

static int is_beside_config(const char *path) {
    char folder[PATH_MAX];
    guard_folder_of(path, folder);
    return has_name_of_model(path) && guard_is_model_folder(folder);
}

int guard_is_file_of_model(const char *path) {
    char end[PATH_MAX];
    return is_beside_config(path) || (!gyre_link_end(path, end) && is_beside_config(end));
}

int guard_has_name_of_model(const char *path) {
    char end[PATH_MAX];
    return has_name_of_model(path) || (!gyre_link_end(path, end) && has_name_of_model(end));
}

int guard_is_model_file(const char *path) {
    return guard_is_model_name(gyre_path_name(path)) || gyre_ends_with(path, ".gguf") || guard_holds_model(path);
}

/* out = 1 for a part of a model under any name: its head has split.count, an unsigned 16-bit number above 1.  The key is
 * looked for byte by byte, since a head is as long as its vocabulary, which is not read here. */
static int is_part(const char *path) {
    static const char key[] = "\13\0\0\0\0\0\0\0split.count\2\0\0\0"; /* its length, the key, its type */
    enum { KEY = sizeof key - 1, HEAD = 64 << 20 };
    int64_t size;
    int part = 0;
    char *head = malloc(HEAD);
    if (!head) fail(path, ENOMEM);
    const size_t count = read_head(path, head, HEAD, &size);
    for (const char *at = head; !part && (at = memchr(at, key[0], count - (size_t)(at - head))); at++)
        if (count - (size_t)(at - head) >= KEY + 2 && memcmp(at, key, KEY) == 0)
            part = at[KEY + 1] || (unsigned char)at[KEY] > 1;
    free(head);
    return part;
}

/* out = 1 for a GGUF that holds a whole model, and no part of one or what a model sees with. */
static int is_model_gguf(const char *path) {
    gyre_reading *reading = NULL;
    char real[PATH_MAX];
    if (is_part_name(gyre_path_name(path)) || !has_gguf_magic(path) || is_part(path)) return 0;
    if (guard_real(path, real) && is_part_name(gyre_path_name(real))) return 0;
    const gyre_status status = gyre_reading_open(&reading, path, NULL, NULL);
    gyre_reading_free(reading);
    if (status == GYRE_ENOMEM) fail(path, ENOMEM);
    return !status;
}

int guard_is_gguf(const char *path) {
    return has_gguf_magic(path);
}

int guard_is_whole_model(const char *path, int gguf) {
    return gguf ? is_model_gguf(path) : is_config_of_transformer(path);
}

int guard_is_result(const char *path, int writes_model) {
    const char *name = gyre_path_name(path);
    if (!guard_is_result_name(name, writes_model)) return 0;
    if (writes_model && (gyre_ends_with(name, ".json") || gyre_ends_with(name, ".gguf")))
        return is_config_of_transformer(path) || is_model_gguf(path);
    if (gyre_ends_with(name, ".json")) return is_own_json(path) || !begins_json(path);
    return !guard_holds_model(path);
}

/* -- folders -- */
int guard_any_entry(const char *folder, int (*judge)(const char *path, void *arg), void *arg) {
    char path[PATH_MAX];
    int found = 0;
    DIR *dir = opendir(folder);
    if (!dir && (errno == EACCES || errno == EPERM)) return -1;
    if (!dir && !is_absence(errno)) fail(folder, errno);
    if (!dir) return 0;
    errno = 0;
    for (struct dirent *entry; !found && (entry = readdir(dir)); errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            found = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path && judge(path, arg);
    const int code = found ? 0 : errno;
    closedir(dir);
    if (code) fail(folder, code);
    return found;
}

static int is_file_at(const char *path, void *arg) {
    const struct stat *file = arg;
    return guard_is_same(file, path);
}

#if defined(__wasi__) /* which has no nftw; its files have one name each, and guard_is_below finds them */
int guard_is_in_tree(const struct stat *file, const char *folder) {
    struct stat is = *file;
    return guard_any_entry(folder, is_file_at, &is) == 1;
}
#else
static const struct stat *sought; /* nftw hands nothing through to its callback */

static int is_sought(const char *path, const struct stat *is, int kind, struct FTW *where) {
    struct stat behind = *is;
    (void)where;
    if (kind == FTW_SL) return is_file_at(path, (void *)sought);
    if (kind == FTW_NS && !guard_look(path, &behind)) return 0;
    return behind.st_dev == sought->st_dev && behind.st_ino == sought->st_ino;
}

int guard_is_in_tree(const struct stat *file, const char *folder) {
    enum { DESCRIPTORS = 16 };
    char top[PATH_MAX]; /* of a link, the folder behind it is walked */
    if (snprintf(top, sizeof top, "%s/.", folder) >= (int)sizeof top) return 0;
    sought = file;
    const int found = nftw(top, is_sought, DESCRIPTORS, FTW_PHYS);
    const int code = found < 0 ? errno : 0;
    sought = NULL;
    if (code && !is_absence(code)) fail(folder, code);
    return found == 1;
}
#endif
