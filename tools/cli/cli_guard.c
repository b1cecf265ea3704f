/* cli_guard.c: refuses to replace a file unasked, and to write over what a run reads. */
#define _XOPEN_SOURCE 700 /* realpath, nftw; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/write_target.h"
#include "util/absent_path.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/path.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#if !defined(__wasi__)
#include <fcntl.h>
#include <ftw.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__wasi__)
char *realpath(const char *path, char *out); /* wasi-libc has none; explorer/wasm/platform/absent.c does */
#endif

enum { MAX_WRITES = 8 };
typedef enum reading_as { AS_FILES, AS_MODEL, AS_TOKENIZER } reading_as;
typedef struct input {
    const char *path;
    reading_as as;
} input;
typedef struct output {
    const char *option, *path;
    cli_guard_kind kind;
} output;
static input *reads; /* [reads_count] */
static output writes[MAX_WRITES];
static int reads_count, writes_count;
static char written_config[PATH_MAX]; /* the file in the folder of --write */

/* -- notes -- */
static void note(const char *path, reading_as as) {
    if (!path || !*path) return;
    input *more = realloc(reads, ((size_t)reads_count + 1) * sizeof *more);
    if (!more) exit(cli_fail("%s: out of memory (names of files)", path));
    reads = more;
    reads[reads_count++] = (input){path, as};
}

void cli_guard_read(const char *path) {
    note(path, AS_FILES);
}

void cli_guard_read_model(const char *path) {
    note(path, AS_MODEL);
}

void cli_guard_read_tokenizer(const char *path) {
    note(path, AS_TOKENIZER);
}

void cli_guard_write(const char *option, const char *path, cli_guard_kind kind) {
    if (!*path) cli_usage_error("--%s: the name of the file is empty", option);
    if (strcmp(path, "-") == 0)
        cli_usage_error("--%s: - is not the name of a file; without -o a command prints to standard output, and ./- is a "
                        "file of that name",
                        option);
    int i = 0;
    while (i < writes_count && strcmp(writes[i].option, option) != 0)
        i++;
    if (i == MAX_WRITES) cli_usage_error("--%s: one result too many", option);
    writes[i] = (output){option, path, kind}; /* given twice: the last one counts */
    if (i == writes_count) writes_count++;
}

void cli_guard_forget(void) {
    free(reads);
    reads = NULL;
    reads_count = writes_count = 0;
}

/* -- paths -- */
/* A file that exists but cannot be examined may be one that is read. */
_Noreturn static void fail(const char *path, int code) {
    exit(cli_fail("%s: %s (is it a file that this run reads?)", path, strerror(code)));
}

/* Nothing can be read or written at a name that is too long, or in a circle of links. */
static int is_absence(int code) {
    return gyre_is_absence(code) || code == ENAMETOOLONG || code == ELOOP;
}

/* out = 1, and *is, if there is such a file or folder. */
static int look(const char *path, struct stat *is) {
    if (stat(path, is) == 0) return 1;
    if (!is_absence(errno)) fail(path, errno);
    return 0;
}

static int is_same(const struct stat *a, const char *path) {
    struct stat b;
    return look(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static int is_folder(const char *path) {
    struct stat is;
    return look(path, &is) && S_ISDIR(is.st_mode);
}

/* real = the path without links; out = 0 if there is nothing at it. */
static int find_real(const char *path, char real[PATH_MAX]) {
    char *found = realpath(path, NULL);
    if (!found && !is_absence(errno)) fail(path, errno);
    snprintf(real, PATH_MAX, "%s", found ? found : "");
    free(found);
    return *real != '\0';
}

/* end = the path behind its links, without slashes at its end, or the path itself. */
static void find_end(const char *path, char end[PATH_MAX]) {
    if (gyre_folder_end(path, end) != 0) snprintf(end, PATH_MAX, "%s", path);
}

static void folder_of(const char *path, char folder[PATH_MAX]) {
    (void)gyre_path_folder(path, folder, PATH_MAX);
}

/* out = 1 if `path`, or what will be made there, is the folder or in it at any depth. */
static int is_inside(const char *path, const char *folder) {
    char at[PATH_MAX], above[PATH_MAX], real[PATH_MAX], top[PATH_MAX];
    if (!find_real(folder, top)) return 0;
    find_end(path, at);
    while (!find_real(at, real) && strcmp(at, ".") != 0) { /* to the first folder above that exists */
        folder_of(at, above);
        memcpy(at, above, sizeof at);
    }
    const size_t length = strlen(top);
    return strncmp(real, top, length) == 0 && (!real[length] || real[length] == '/' || top[length - 1] == '/');
}

/* out = 1 for one name in one folder, of files that need not exist yet. */
static int is_same_name(const char *a, const char *b) {
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    struct stat is;
    if (strcmp(gyre_path_name(a), gyre_path_name(b)) != 0) return 0;
    folder_of(a, folder_a);
    folder_of(b, folder_b);
    return look(folder_a, &is) && is_same(&is, folder_b);
}

/* -- the files of a folder -- */
#if defined(__wasi__) /* which has no nftw, and no links: is_inside finds a file by its name */
static int is_in_tree(const struct stat *file, const char *folder) {
    (void)file, (void)folder;
    return 0;
}
#else
static struct stat sought; /* nftw hands nothing through to its callback */

static int is_sought(const char *path, const struct stat *is, int kind, struct FTW *where) {
    (void)where;
    if (kind == FTW_SL || kind == FTW_NS) return is_same(&sought, path);
    return is->st_dev == sought.st_dev && is->st_ino == sought.st_ino;
}

/* out = 1 if a name anywhere below the folder is the file's: its own, a hard link's, or that of a link to it. */
static int is_in_tree(const struct stat *file, const char *folder) {
    enum { DESCRIPTORS = 16 };
    char top[PATH_MAX]; /* of a link, the folder behind it is walked */
    if (snprintf(top, sizeof top, "%s/.", folder) >= (int)sizeof top) return 0;
    sought = *file;
    const int found = nftw(top, is_sought, DESCRIPTORS, FTW_PHYS);
    if (found < 0 && !is_absence(errno)) fail(folder, errno);
    return found == 1;
}
#endif

/* out = 1 if readers of models look for a file of this name. */
static int is_model_name(const char *name) {
    static const char *const names[] = {"vocab.txt", "preprocessor_config.json", "processor_config.json",
                                        "adapter_config.json"};
    static const char *const endings[] = {".safetensors", ".index.json", ".model", ".jinja", ".bin", ".pt", ".pth", ".onnx"};
    const gyre_checkpoint_file *file = gyre_checkpoint_file_of(name);
    int found = file && file->role != GYRE_CHECKPOINT_NOTES;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcmp(name, names[i]) == 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        found |= gyre_ends_with(name, endings[i]);
    return found;
}

/* out = 1 for another part of the split GGUF `first`: NAME-00002-of-00003.gguf. */
static int is_part_beside(const char *name, const char *first) {
    enum { NUMBER = 5, TAIL = sizeof "00000-of-00000.gguf" - 1 };
    const size_t length = strlen(first), stem = length > TAIL ? length - TAIL : 0;
    return stem && strlen(name) == length && memcmp(name, first, stem) == 0 && strcmp(name, first) != 0 &&
           strncmp(name + stem + NUMBER, "-of-", 4) == 0 && strcmp(name + stem + NUMBER, first + stem + NUMBER) == 0;
}

/* Judges the files of the model at `path`: those in its folder, or beside it.  Of a folder that may not be listed, only the
 * one called `name`; NULL = none.  out = 1 if `judge` is for one of them. */
static int any_model_file(const char *path, const char *name, int (*judge)(const char *file, const char *with),
                          const char *with) {
    char folder[PATH_MAX], file[PATH_MAX];
    if (is_folder(path))
        snprintf(folder, sizeof folder, "%s", path);
    else
        folder_of(path, folder);
    DIR *entries = opendir(folder);
    const int listed = entries != NULL, code = listed ? 0 : errno;
    int found = 0;
    if (code && code != EACCES && code != EPERM && !is_absence(code)) fail(folder, code);
    while (!found && (listed || name)) {
        errno = 0;
        const struct dirent *entry = listed ? readdir(entries) : NULL;
        if (listed && !entry && errno) fail(folder, errno);
        if (listed && !entry) break;
        const char *is = listed ? entry->d_name : name;
        if (is_model_name(is) || is_part_beside(is, gyre_path_name(path)))
            found = snprintf(file, sizeof file, "%s/%s", folder, is) < (int)sizeof file && judge(file, with);
        if (!listed) break;
    }
    if (listed) closedir(entries);
    return found;
}

/* -- what is read -- */
static struct stat compared;

static int is_compared(const char *file, const char *with) {
    (void)with;
    return is_same(&compared, file);
}

/* out = 1 if the run reads the file as, or for, this input.  name: see any_model_file. */
static int reads_file(const input *in, const struct stat *file, const char *name) {
    char real[PATH_MAX];
    if (is_same(file, in->path)) return 1;
    if (in->as == AS_FILES) return is_folder(in->path) && is_in_tree(file, in->path);
    compared = *file;
    return any_model_file(in->path, name, is_compared, NULL) ||
           (find_real(in->path, real) && any_model_file(real, name, is_compared, NULL));
}

/* out = the input that the file is, or is read for; NULL = none. */
static const char *find_reader(const struct stat *file, const char *name) {
    for (const input *in = reads; in < reads + reads_count; in++)
        if (reads_file(in, file, name)) return in->path;
    return NULL;
}

static int is_held(const char *file, const char *folder) {
    struct stat is;
    return look(file, &is) && is_in_tree(&is, folder);
}

/* -- the rules -- */
static void check_file(const output *w, const struct stat *is, int force) {
    char end[PATH_MAX];
    find_end(w->path, end);
    const char *reader = find_reader(is, gyre_path_name(end));
    if (reader && is_same(is, reader))
        cli_usage_error("--%s: %s is read by this run; name another file", w->option, w->path);
    if (reader)
        cli_usage_error("--%s: %s is a file of %s, which this run reads; name another file", w->option, w->path, reader);
    if (!force && (w->kind == CLI_GUARD_FILE || w->kind == CLI_GUARD_CONFIG) && gyre_descriptor_of(w->path) < 0)
        cli_usage_error("--%s: %s exists; --force replaces it", w->option, w->path);
}

/* train, convert and lab replace or fill a folder, or files in it. */
static void check_folder(const output *w, const struct stat *is) {
    if (w->kind != CLI_GUARD_FOLDER) return;
    if (strcmp(w->option, "work") != 0 && is_inside(".", w->path))
        cli_usage_error("--%s: the working folder is %s, which would be replaced; change to another folder first", w->option,
                        w->path);
    for (const input *in = reads; in < reads + reads_count; in++) {
        if (is_same(is, in->path)) cli_usage_error("--%s: %s is read by this run; name another folder", w->option, w->path);
        if (is_held(in->path, w->path) || is_inside(in->path, w->path) ||
            (in->as != AS_FILES && any_model_file(in->path, NULL, is_held, w->path)))
            cli_usage_error("--%s: %s holds %s, which this run reads; name another folder", w->option, w->path, in->path);
    }
}

/* A new file in a folder of texts is one of them for the next run, and one of such a name is a part of the model beside
 * it. */
static void check_place(const output *w) {
    char end[PATH_MAX], config[PATH_MAX];
    struct stat is;
    for (const input *in = reads; in < reads + reads_count; in++)
        if (in->as == AS_FILES && is_folder(in->path) && is_inside(w->path, in->path))
            cli_usage_error("--%s: %s would be a part of %s, whose files this run reads; name one elsewhere", w->option,
                            w->path, in->path);
    find_end(w->path, end);
    folder_of(end, config);
    const size_t length = strlen(config);
    if (w->kind == CLI_GUARD_FOLDER || !is_model_name(gyre_path_name(end)) || look(end, &is)) return;
    if (snprintf(config + length, sizeof config - length, "/" GYRE_CONFIG_FILE) < (int)(sizeof config - length) &&
        look(config, &is))
        cli_usage_error("--%s: %s would be a file of the model beside it; name another file", w->option, w->path);
}

/* What a killed run left is removed by the next, but not if it is what the next one reads: TARGET.gyre-1234-0-...tmp. */
static void check_temporary(const output *w, const input *in) {
    char end[PATH_MAX], left[PATH_MAX], beside[PATH_MAX];
    int aside;
    find_end(w->path, end);
    find_end(in->path, left);
    for (int above = 0; above < 2; above++) { /* the input, or the folder that it is in */
        const int length = (int)(gyre_path_name(left) - left);
        if (gyre_temporary_pid(gyre_path_name(left), gyre_path_name(end), &aside) &&
            snprintf(beside, sizeof beside, "%.*s%s", length, left, gyre_path_name(end)) < (int)sizeof beside &&
            is_same_name(beside, end))
            cli_usage_error("--%s: %s, which this run reads, has the name of a temporary of %s, which it removes; rename it "
                            "first",
                            w->option, in->path, w->path);
        folder_of(left, beside);
        memcpy(left, beside, sizeof left);
    }
}

static void check_pair(const output *first, const output *second) {
    struct stat is;
    char end_a[PATH_MAX], end_b[PATH_MAX];
    const int exists = look(first->path, &is);
    if (exists && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode)) return; /* /dev/null takes any number */
    find_end(first->path, end_a);
    find_end(second->path, end_b);
    if (is_same_name(end_a, end_b) || (exists && S_ISREG(is.st_mode) && is_same(&is, second->path)))
        cli_usage_error("--%s: %s is the file of --%s too", second->option, second->path, first->option);
}

/* -- the work folder of gyre lab -- */
static const char *const work_files[] = {"lab.json", "cells.jsonl", "results.jsonl"};
enum { WORK_FILES = sizeof work_files / sizeof *work_files };

/* A report may be in the work folder, but not in place of a journal there, nor in the folder of one of its models. */
static void check_beside_work(const output *work, const output *other) {
    char folder[PATH_MAX];
    struct stat is;
    if (strcmp(work->option, "work") != 0 || other == work) return;
    folder_of(other->path, folder);
    const int is_in_work = look(folder, &is) && is_same(&is, work->path);
    int taken = !is_in_work && is_folder(work->path) && is_inside(folder, work->path);
    for (int i = 0; i < WORK_FILES && is_in_work; i++)
        taken |= strcmp(gyre_path_name(other->path), work_files[i]) == 0;
    if (taken)
        cli_usage_error("--%s: %s has the place of a file of the work folder %s; name another file", other->option,
                        other->path, work->path);
}

/* -- what a shell appends to: gyre ... >>FILE, 2>>FILE -- */
#if defined(__wasi__) /* whose streams are a page's */
static void check_stream(int descriptor) {
    (void)descriptor;
}
#else
/* out = 1 if the run writes the file by its name, as a result, a journal, or one of a work folder. */
static int is_written(const struct stat *file, const output *w) {
    char path[PATH_MAX];
    int found = gyre_descriptor_of(w->path) < 0 && is_same(file, w->path); /* -o /dev/stdout is the stream itself */
    for (int i = 0; i < WORK_FILES && strcmp(w->option, "work") == 0; i++)
        found |= snprintf(path, sizeof path, "%s/%s", w->path, work_files[i]) < (int)sizeof path && is_same(file, path);
    return found;
}

/* Standard error that is such a file cannot take the message that says so: standard output does, unless it is a file too. */
static void leave_standard_error(int descriptor) {
    struct stat out;
    if (descriptor != STDERR_FILENO) return;
    const int taken = fstat(STDOUT_FILENO, &out) != 0 || S_ISREG(out.st_mode);
    const int other = taken ? open("/dev/null", O_WRONLY | O_CLOEXEC) : STDOUT_FILENO;
    if (other < 0 || dup2(other, STDERR_FILENO) < 0) exit(CLI_USAGE);
}

static void check_stream(int descriptor) {
    const char *name = descriptor == STDOUT_FILENO ? "standard output" : "standard error";
    struct stat is;
    if (fstat(descriptor, &is) != 0 || !S_ISREG(is.st_mode)) return;
    const char *reader = find_reader(&is, NULL);
    if (reader) {
        leave_standard_error(descriptor);
        cli_usage_error("%s: it is %s%s, which this run reads; name another file", name,
                        is_same(&is, reader) ? "" : "a file of ", reader);
    }
    for (const output *w = writes; w < writes + writes_count; w++)
        if (is_written(&is, w)) {
            leave_standard_error(descriptor);
            cli_usage_error("%s: it is the file of --%s %s too; name another file", name, w->option, w->path);
        }
}
#endif

/* -- all of them -- */
static int is_gguf(const char *path) {
    char head[4] = "";
    FILE *file = is_folder(path) ? NULL : fopen(path, "rb");
    const int found = file && fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "GGUF", sizeof head) == 0;
    if (file) (void)fclose(file);
    return found;
}

/* --write DIR writes DIR/config.json, or in it a GGUF of the name of the one that is read. */
static void find_written_config(output *w) {
    const char *name = GYRE_CONFIG_FILE;
    struct stat is;
    if (w->kind != CLI_GUARD_CONFIG || !file_target_is_folder(w->path, look(w->path, &is) ? &is : NULL)) return;
    for (const input *in = reads; in < reads + reads_count; in++)
        if (in->as == AS_MODEL && is_gguf(in->path)) name = gyre_path_name(in->path);
    if (snprintf(written_config, PATH_MAX, "%.*s/%s", (int)gyre_path_length(w->path), w->path, name) < PATH_MAX)
        w->path = written_config;
}

void cli_guard_check(int force) {
    struct stat is;
    check_stream(STDERR_FILENO); /* first: it takes the messages of the others */
    check_stream(STDOUT_FILENO);
    for (output *w = writes; w < writes + writes_count; w++)
        find_written_config(w);
    for (const output *w = writes; w < writes + writes_count; w++) {
        const int exists = look(w->path, &is);
        for (int k = 0; k < reads_count; k++)
            check_temporary(w, &reads[k]);
        for (const output *other = writes; other < writes + writes_count; other++) {
            if (other > w) check_pair(w, other);
            check_beside_work(w, other);
        }
        if (exists && S_ISREG(is.st_mode)) check_file(w, &is, force);
        if (exists && S_ISDIR(is.st_mode)) check_folder(w, &is);
        if (!exists || S_ISREG(is.st_mode) || S_ISDIR(is.st_mode)) check_place(w);
    }
    cli_guard_forget();
}
