/* cli_guard.c: refuses to write over what a run reads. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_error.h"
#include "util/checkpoint_files.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__wasi__)
char *realpath(const char *path, char *out); /* wasi-libc has none; explorer/wasm/platform/absent.c does */
#endif

enum { MAX_WRITES = 8 };
static const char **reads;
static struct { const char *option, *path; } writes[MAX_WRITES];
static int reads_count, writes_count;

void cli_guard_read(const char *path) {
    if (!path || !*path) return;
    const char **more = realloc(reads, ((size_t)reads_count + 1) * sizeof *more);
    if (!more) exit(cli_fail("%s: out of memory (names of files)", path));
    reads = more;
    reads[reads_count++] = path;
}

void cli_guard_write(const char *option, const char *path) {
    if (!*path) cli_usage_error("--%s: the name of the file is empty", option);
    int i = 0;
    while (i < writes_count && strcmp(writes[i].option, option) != 0)
        i++;
    if (i == MAX_WRITES) cli_usage_error("--%s: one result too many", option);
    writes[i].option = option; /* given twice: the last one counts */
    writes[i].path = path;
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

static int is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* -- the rules -- */
static void check_file(const char *option, const char *path, const struct stat *is, const char *input) {
    char folder[PATH_MAX];
    if (is_same(is, input)) cli_usage_error("--%s: %s is read by this run; name another file", option, path);
    if (is_folder(input)) {
        /* A journal may lie beside a model; in a folder of texts it would be one of them. */
        char config[PATH_MAX];
        struct stat info;
        const int model = snprintf(config, sizeof config, "%s/%s", input, GYRE_CONFIG_FILE) < (int)sizeof config &&
                          stat(config, &info) == 0;
        const int journal = model && strcmp(option, "journal") == 0;
        if (is_entry_of(is, input, journal) || (!journal && is_below(path, input)))
            cli_usage_error("--%s: %s is a file of %s, which this run reads; name another file", option, path, input);
        return;
    }
    const char *slash = strrchr(input, '/');
    if (!is_model_name(slash ? slash + 1 : input)) return;
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - input) + 1 : 1, slash ? input : ".") >=
        (int)sizeof folder)
        return;
    if (is_entry_of(is, folder, 1))
        cli_usage_error("--%s: %s is a file of the model in %s, which this run reads; name another file", option, path,
                        folder);
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
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    struct stat is;
    if (strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b) != 0) return 0;
    snprintf(folder_a, sizeof folder_a, "%.*s", slash_a ? (int)(slash_a - a) + 1 : 1, slash_a ? a : ".");
    snprintf(folder_b, sizeof folder_b, "%.*s", slash_b ? (int)(slash_b - b) + 1 : 1, slash_b ? b : ".");
    return stat(folder_a, &is) == 0 && is_same(&is, folder_b);
}

static void check_pair(int i, int j) {
    struct stat is;
    const char *a = writes[i].path, *b = writes[j].path;
    if (is_same_name(a, b) || (stat(a, &is) == 0 && S_ISREG(is.st_mode) && is_same(&is, b)))
        cli_usage_error("--%s: %s is the file of --%s too", writes[j].option, b, writes[i].option);
}

void cli_guard_check(void) {
    struct stat is;
    for (int i = 0; i < writes_count; i++) {
        const int exists = stat(writes[i].path, &is) == 0;
        for (int k = 0; k < reads_count && exists; k++)
            if (S_ISREG(is.st_mode))
                check_file(writes[i].option, writes[i].path, &is, reads[k]);
            else if (S_ISDIR(is.st_mode))
                check_folder(writes[i].option, writes[i].path, reads[k]);
        for (int j = i + 1; j < writes_count; j++)
            check_pair(i, j);
    }
    free(reads);
    reads = NULL;
    reads_count = writes_count = 0;
}
