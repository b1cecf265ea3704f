/* cli_guard.c: refuses to write over what a run reads. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "tools/cli/cli_guard.h"
#include "gyre/gyre_reading.h"
#include "tools/cli/cli_error.h"
#include "util/checkpoint_files.h"
#include "util/link_end.h"
#include <dirent.h>
#include <jansson.h>
#if !defined(__wasi__)
#include <ftw.h>
#endif
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__wasi__)
char *realpath(const char *path, char *out); /* wasi-libc has none; explorer/wasm/platform/absent.c does */
#endif

enum { MAX_WRITES = 8 };
static const char **reads;
static struct {
    const char *option, *path;
    cli_guard_kind kind;
} writes[MAX_WRITES];
static int reads_count, writes_count;

void cli_guard_read(const char *path) {
    if (!path || !*path) return;
    const char **more = realloc(reads, ((size_t)reads_count + 1) * sizeof *more);
    if (!more) exit(cli_fail("%s: out of memory (names of files)", path));
    reads = more;
    reads[reads_count++] = path;
}

void cli_guard_write(const char *option, const char *path, cli_guard_kind kind) {
    if (!*path) cli_usage_error("--%s: the name of the file is empty", option);
    int i = 0;
    while (i < writes_count && strcmp(writes[i].option, option) != 0)
        i++;
    if (i == MAX_WRITES) cli_usage_error("--%s: one result too many", option);
    writes[i].option = option; /* given twice: the last one counts */
    writes[i].path = path;
    writes[i].kind = kind;
    if (i == writes_count) writes_count++;
}

/* -- files -- */
static int is_same(const struct stat *a, const char *path) {
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static int ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* out = 1 if programs read a file of this name in a model's folder. */
static int is_model_name(const char *name) {
    static const char *const names[] = {
        GYRE_CONFIG_FILE,         GYRE_TOKENIZER_FILE,        GYRE_TOKENIZER_CONFIG_FILE, GYRE_TRAINING_FILE,  "vocab.json",
        "generation_config.json", "preprocessor_config.json", "special_tokens_map.json",  "added_tokens.json", "merges.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return ends_with(name, ".safetensors") || ends_with(name, ".index.json") || ends_with(name, ".model");
}

/* out = 1 if the file is one of the folder's own, under any name; of model files alone, if asked. */
static int is_entry_of(const struct stat *file, const char *folder, int model_files) {
    static const char *const known[] = {GYRE_CONFIG_FILE, GYRE_WEIGHTS_FILE, GYRE_WEIGHTS_INDEX_FILE, GYRE_TOKENIZER_FILE};
    char path[PATH_MAX];
    int found = 0;
    DIR *dir = opendir(folder);
    for (size_t i = 0; !dir && !found && i < sizeof known / sizeof *known; i++) /* a folder that cannot be listed */
        found = snprintf(path, sizeof path, "%s/%s", folder, known[i]) < (int)sizeof path && is_same(file, path);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        if (!model_files || is_model_name(entry->d_name))
            found = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path && is_same(file, path);
    if (dir) closedir(dir);
    return found;
}

/* out = 1 if `path` lies somewhere below the folder. */
static int is_below(const char *path, const char *folder) {
    char *file = realpath(path, NULL), *top = realpath(folder, NULL);
    const size_t length = top ? strlen(top) : 0;
    const int below = file && top && strncmp(file, top, length) == 0 && (file[length] == '/' || top[length - 1] == '/');
    free(file);
    free(top);
    return below;
}

/* -- a tree of texts -- */
#if defined(__wasi__) /* which has no nftw; its files have one name each, and is_below finds them */
static int is_in_tree(const struct stat *file, const char *folder) {
    return is_entry_of(file, folder, 0);
}
#else
static const struct stat *sought; /* nftw hands nothing through to its callback */

static int is_sought(const char *path, const struct stat *is, int kind, struct FTW *where) {
    struct stat behind;
    (void)where;
    if (kind == FTW_SL && stat(path, &behind) == 0) is = &behind;
    return kind != FTW_NS && is->st_dev == sought->st_dev && is->st_ino == sought->st_ino;
}

/* out = 1 if a name anywhere below the folder is the file's: its own, a hard link's, or that of a link to it. */
static int is_in_tree(const struct stat *file, const char *folder) {
    enum { DESCRIPTORS = 16 };
    char top[PATH_MAX]; /* of a link, the folder behind it is walked */
    if (snprintf(top, sizeof top, "%s/.", folder) >= (int)sizeof top) return 0;
    sought = file;
    const int found = nftw(top, is_sought, DESCRIPTORS, FTW_PHYS) == 1;
    sought = NULL;
    return found;
}
#endif

static int is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int has_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && stat(path, &info) == 0;
}

static int is_model_folder(const char *folder) {
    return has_file(folder, GYRE_CONFIG_FILE);
}

/* folder = the folder of a file: "." for a plain name. */
static void folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* out = 1 for JSON that begins as Gyre's results do. */
static int is_own_json(const char *path) {
    static const char *const begins[] = {"{\n  \"path\": ", "{\n  \"model\": ", "{\n  \"a\": {",
                                         "{\n  \"kind\": ", "{\n  \"command\": "};
    char head[24] = "";
    struct stat is;
    FILE *file = stat(path, &is) == 0 && S_ISREG(is.st_mode) ? fopen(path, "r") : NULL;
    head[file ? fread(head, 1, sizeof head - 1, file) : 0] = '\0';
    if (file) (void)fclose(file);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(head, begins[i], strlen(begins[i])) == 0) return 1;
    return 0;
}

/* out = 1 for the config of a model: an earlier result of --write, or what the user names to be one. */
static int is_config(const char *path) {
    enum { MOST_BYTES = 64 << 20 };
    struct stat is;
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size > MOST_BYTES) return 0;
    json_t *root = json_load_file(path, 0, NULL);
    const int found = json_is_string(json_object_get(root, "model_type"));
    json_decref(root);
    return found;
}

/* out = 1 for a GGUF that holds a whole model, and no part of one or what a model sees with. */
static int is_model_gguf(const char *path) {
    gyre_reading *reading = NULL;
    if (gyre_reading_open(&reading, path, GYRE_PROFILE_DEFAULT, 0, NULL) != GYRE_OK) return 0;
    const int found = strcmp(reading->format, "GGUF") == 0;
    gyre_reading_free(reading);
    return found;
}

/* out = 1 for a file beside a model's that a run may replace, since no program reads a model from one of this name: a list
 * of what is a result, because nobody knows all the files of models. */
static int is_result(const char *option, const char *folder, const char *name) {
    static const char *const endings[] = {".html", ".svg", ".csv", ".tsv", ".jsonl", ".log", ".pdf", ".png"};
    static const char *const texts[] = {"vocab", "merges", "README", "LICENSE", "NOTICE", "requirements"};
    char path[PATH_MAX];
    if (is_model_name(name)) return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i])) return 1;
    if (ends_with(name, ".json")) /* --write replaces a config that is named itself */
        return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
               (strcmp(option, "write") == 0 ? is_config(path) : is_own_json(path));
    int is_of_model = !ends_with(name, ".txt");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_of_model |= strstr(name, texts[i]) != NULL;
    return !is_of_model;
}

/* What a file that is read stands for in its folder. */
typedef enum standing {
    STANDS_ALONE,
    STANDS_FOR_WEIGHTS, /* a GGUF: other weights there, such as its parts, are kept */
    STANDS_FOR_MODEL    /* it has a name of a model's file, or is a config or a GGUF beside a config.json */
} standing;

static standing standing_of(const char *option, const char *input, const char *folder) {
    const char *name = name_of(input);
    const int gguf = ends_with(name, ".gguf"), writes_config = strcmp(option, "write") == 0;
    if (is_model_name(name)) return STANDS_FOR_MODEL;
    if (!writes_config && (gguf || ends_with(name, ".json")) && is_model_folder(folder)) return STANDS_FOR_MODEL;
    return gguf ? STANDS_FOR_WEIGHTS : STANDS_ALONE;
}

static int is_kept(const char *option, const char *folder, const char *name, standing of) {
    char path[PATH_MAX];
    if (of == STANDS_FOR_MODEL) return !is_result(option, folder, name);
    if (!ends_with(name, ".gguf")) return is_model_name(name);
    /* --write replaces a model that is named itself */
    return strcmp(option, "write") != 0 || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
           !is_model_gguf(path);
}

/* out = 1 if a name of the file in the folder is one that a run may not replace. */
static int is_neighbour(const char *option, const struct stat *file, const char *folder, standing of) {
    char path[PATH_MAX];
    int found = 0;
    DIR *dir = opendir(folder);
    if (!dir) return is_entry_of(file, folder, 1);
    for (struct dirent *entry; !found && (entry = readdir(dir));)
        found = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path && is_same(file, path) &&
                is_kept(option, folder, entry->d_name, of);
    closedir(dir);
    return found;
}

/* -- the rules -- */
static void check_file(const char *option, const char *path, const struct stat *is, const char *input) {
    char folder[PATH_MAX];
    if (is_same(is, input)) cli_usage_error("--%s: %s is read by this run; name another file", option, path);
    if (is_folder(input)) {
        /* A journal may lie beside a model; in a folder of texts it would be one of them. */
        const int model = is_model_folder(input);
        const int journal = model && strcmp(option, "journal") == 0;
        if (is_entry_of(is, input, journal) || (!journal && is_below(path, input)) || (!model && is_in_tree(is, input)))
            cli_usage_error("--%s: %s is a file of %s, which this run reads; name another file", option, path, input);
        return;
    }
    folder_of(input, folder);
    const standing of = standing_of(option, input, folder);
    if (of == STANDS_ALONE) return;
    char *real = realpath(input, NULL), behind[PATH_MAX] = "";
    if (real) folder_of(real, behind); /* of a link, such as those of a Hugging Face cache to its blobs */
    free(real);
    if (!is_neighbour(option, is, folder, of) && !(*behind && is_neighbour(option, is, behind, of))) return;
    if (of == STANDS_FOR_WEIGHTS)
        cli_usage_error("--%s: %s is a model's file beside %s, which this run reads; name another file", option, path,
                        input);
    cli_usage_error("--%s: %s is a file of the model in %s, which this run reads; name another file", option, path, folder);
}

/* A file that is not there yet would be refused by the next run, so this one refuses it too. */
static void check_new_file(const char *option, const char *path, const char *input) {
    char folder[PATH_MAX], of_input[PATH_MAX];
    struct stat is;
    folder_of(path, folder);
    if (stat(folder, &is) != 0) return;
    if (is_folder(input)) {
        const int journal = strcmp(option, "journal") == 0 && is_model_folder(input) && !is_model_name(name_of(path));
        if (!journal && (is_same(&is, input) || is_below(folder, input)))
            cli_usage_error("--%s: %s would be a file of %s, which this run reads; name a file elsewhere", option, path,
                            input);
        return;
    }
    folder_of(input, of_input);
    if (is_model_name(name_of(input)) && is_model_name(name_of(path)) && is_same(&is, of_input))
        cli_usage_error("--%s: %s would be a file of the model in %s, which this run reads; name another file", option, path,
                        of_input);
}

/* A checkpoint below a folder of texts becomes one of them, and the next run reads another text. */
static void check_folder_in_texts(const char *option, const char *path, const char *input) {
    char name[PATH_MAX], above[PATH_MAX];
    struct stat is;
    if (!is_folder(input) || is_model_folder(input)) return;
    snprintf(name, sizeof name, "%s", path);
    do { /* to the first folder above that is there: the others are made */
        for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
            name[n - 1] = '\0';
        folder_of(name, above);
        memcpy(name, above, sizeof name);
    } while (stat(above, &is) != 0 && strchr(above, '/'));
    if (stat(above, &is) == 0 && (is_same(&is, input) || is_below(above, input)))
        cli_usage_error("--%s: %s would be a part of %s, whose files this run reads; name a folder elsewhere", option, path,
                        input);
}

/* gyre lab adds to the journals of its work folder, and replaces files of the models in it. */
static void check_work(const char *option, const char *path, const char *input) {
    char sub[PATH_MAX];
    struct stat is;
    if (stat(input, &is) != 0) return;
    int taken = is_same(&is, path); /* the folder itself */
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && !taken && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (snprintf(sub, sizeof sub, "%s/%s", path, name) >= (int)sizeof sub) continue;
        if (is_folder(sub))
            taken = (is_model_folder(sub) || has_file(sub, GYRE_TRAINING_FILE)) &&
                    (is_same(&is, sub) || is_entry_of(&is, sub, 0));
        else
            taken = (ends_with(name, ".jsonl") || ends_with(name, ".json") || ends_with(name, ".lock")) && is_same(&is, sub);
    }
    if (dir) closedir(dir);
    if (taken)
        cli_usage_error("--%s: %s is read by this run, which writes it in %s; name another folder", option, input, path);
}

/* train, convert and extend replace or fill a folder. */
static void check_folder(const char *option, const char *path, const char *input) {
    char config[PATH_MAX];
    struct stat is;
    if (strcmp(option, "output") == 0 && is_folder(input) && stat(path, &is) == 0 && is_same(&is, input))
        cli_usage_error("--%s: %s is the model itself, which this run reads; name another folder", option, path);
    if (strcmp(option, "output") == 0 && is_below(input, path))
        cli_usage_error("--%s: %s holds %s, which this run reads; name another folder", option, path, input);
    if (strcmp(option, "write") == 0 &&
        snprintf(config, sizeof config, "%s/%s", path, GYRE_CONFIG_FILE) < (int)sizeof config && stat(config, &is) == 0)
        check_file(option, config, &is, input);
}

/* out = 1 for one name in one folder, of files that need not be there yet. */
static int is_same_name(const char *a, const char *b) {
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    struct stat is;
    if (strcmp(name_of(a), name_of(b)) != 0) return 0;
    folder_of(a, folder_a);
    folder_of(b, folder_b);
    return stat(folder_a, &is) == 0 && is_same(&is, folder_b);
}

static void check_pair(int i, int j) {
    struct stat is;
    const char *a = writes[i].path, *b = writes[j].path;
    char end_a[PATH_MAX], end_b[PATH_MAX];
    const int linked = !gyre_link_end(a, end_a) && !gyre_link_end(b, end_b) && is_same_name(end_a, end_b);
    if (linked || is_same_name(a, b) || (stat(a, &is) == 0 && S_ISREG(is.st_mode) && is_same(&is, b)))
        cli_usage_error("--%s: %s is the file of --%s too", writes[j].option, b, writes[i].option);
}

/* A journal and a folder have a lock beside them, which the run removes at its end. */
static void check_lock(int i) {
    char lock[PATH_MAX], end[PATH_MAX];
    struct stat is;
    const char *option = writes[i].option, *path = writes[i].path;
    int length = (int)strlen(path);
    if (strcmp(option, "journal") != 0 && writes[i].kind != CLI_GUARD_FOLDER) return;
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (snprintf(lock, sizeof lock, "%.*s.lock", length, path) >= (int)sizeof lock) return;
    for (int j = 0; j < writes_count; j++)
        if (j != i && !gyre_link_end(writes[j].path, end) && is_same_name(lock, end))
            cli_usage_error("--%s: %s is the lock of --%s %s; name another file", writes[j].option, writes[j].path, option,
                            path);
    for (int k = 0; stat(lock, &is) == 0 && k < reads_count; k++)
        if (is_same(&is, reads[k])) cli_usage_error("--%s: its lock, %s, is read by this run; name another", option, lock);
}

/* out = 1, and the folder of the model, for a file or folder in a Hugging Face cache: .../models--ORG--NAME/snapshots/... */
static int cache_of(const char *path, char model[PATH_MAX]) {
    char folder[PATH_MAX];
    folder_of(path, folder);
    char *real = realpath(is_folder(path) ? path : folder, NULL), *at = real;
    int found = 0;
    while (at && !found && (at = strstr(at, "/models--"))) {
        at += strcspn(at + 1, "/") + 1;
        found = strncmp(at, "/snapshots", 10) == 0 || strncmp(at, "/blobs", 6) == 0;
    }
    if (found) snprintf(model, PATH_MAX, "%.*s", (int)(at - real), real);
    free(real);
    return found;
}

static void check_read(int i, const struct stat *is, const char *input) {
    const char *option = writes[i].option, *path = writes[i].path;
    char room[PATH_MAX];
    const int exists = is != NULL;
    if (exists && strcmp(option, "work") == 0 && S_ISDIR(is->st_mode) && input != path) /* not --work */
        check_work(option, path, input);
    if (writes[i].kind == CLI_GUARD_FOLDER && (!exists || S_ISDIR(is->st_mode))) check_folder_in_texts(option, path, input);
    if (exists && S_ISREG(is->st_mode))
        check_file(option, path, is, input);
    else if (exists && S_ISDIR(is->st_mode))
        check_folder(option, path, input);
    else if (!exists && writes[i].kind == CLI_GUARD_FILE)
        check_new_file(option, gyre_link_end(path, room) ? path : room, input);
}

void cli_guard_forget(void) {
    free(reads);
    reads = NULL;
    reads_count = writes_count = 0;
}

void cli_guard_check(void) {
    char model[PATH_MAX];
    struct stat is;
    for (int i = 0; i < writes_count; i++) {
        const int exists = stat(writes[i].path, &is) == 0;
        for (int k = 0; k < reads_count; k++) {
            check_read(i, exists ? &is : NULL, reads[k]);
            /* However a model of a cache was named, its references, blobs and snapshots are read too. */
            if (cache_of(reads[k], model)) check_read(i, exists ? &is : NULL, model);
        }
        for (int j = i + 1; j < writes_count; j++)
            check_pair(i, j);
        check_lock(i);
    }
    cli_guard_forget();
}
