/* cli_guard.c: refuses to write over what a run reads, or to append to it. */
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_guard_files.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/write_target.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/path.h"
#include "util/temporary.h"
#if !defined(__wasi__)
#include <fcntl.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WRITES = 8 };
static const char **reads, *model_read; /* model_read: NULL, or one of reads */
static unsigned char *are_texts;        /* [reads_count] */
static char written_model[PATH_MAX];    /* the file of --write */
typedef struct output {
    const char *option, *path;
    cli_guard_kind kind;
} output;
static output writes[MAX_WRITES];
static int reads_count, writes_count;

void cli_guard_read(const char *path) {
    if (!path || !*path) return;
    const char **more = realloc(reads, ((size_t)reads_count + 1) * sizeof *more);
    if (more) reads = more;
    unsigned char *more_texts = realloc(are_texts, (size_t)reads_count + 1);
    if (more_texts) are_texts = more_texts;
    if (!more || !more_texts) exit(cli_fail("%s: out of memory (names of files)", path));
    are_texts[reads_count] = 0;
    reads[reads_count++] = path;
}

void cli_guard_read_text(const char *path) {
    const int count = reads_count;
    cli_guard_read(path);
    if (reads_count > count) are_texts[count] = 1;
}

void cli_guard_read_model(const char *path) {
    cli_guard_read(path);
    model_read = path;
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
    writes[i].option = option; /* given twice: the last one counts */
    writes[i].path = path;
    writes[i].kind = kind;
    if (i == writes_count) writes_count++;
}

/* -- one file that is read, and the files beside it -- */
/* out = 1 for a folder that is read as a model.  One of texts may have a config.json too.  input: one of reads, or behind
 * their links. */
static int is_model_folder(const char *input) {
    for (int k = 0; k < reads_count; k++)
        if (reads[k] == input && are_texts[k]) return 0;
    return guard_is_model_folder(input);
}

/* The role in its folder of a file that is read. */
typedef enum standing {
    STANDS_ALONE,
    STANDS_FOR_WEIGHTS, /* a model's file: others there, such as the parts of a GGUF, are kept */
    STANDS_FOR_MODEL    /* it is beside a config.json: all is kept but what is plainly a result */
} standing;

static int writes_model(const output *w) {
    return w->kind == CLI_GUARD_MODEL;
}

static int is_journal(const output *w) {
    return strcmp(w->option, "journal") == 0;
}

static standing standing_of(const char *input, const char *folder) {
    if (!guard_is_model_file(input)) return STANDS_ALONE;
    return guard_is_model_folder(folder) ? STANDS_FOR_MODEL : STANDS_FOR_WEIGHTS;
}

/* out = 1 for a file beside one that is read that w may not replace. */
static int is_kept(const output *w, const char *path, standing of) {
    if (of == STANDS_FOR_MODEL && !is_journal(w)) return !guard_is_result(path, writes_model(w));
    return guard_is_model_file(path) && !(writes_model(w) && guard_is_result(path, 1));
}

typedef struct search {
    const struct stat *file;
    const output *w;
    standing of;
} search;

static int is_kept_name(const char *path, void *arg) {
    const search *s = arg;
    return guard_is_same(s->file, path) && is_kept(s->w, path, s->of);
}

/* out = 1 if a name of the file in the folder is one that w may not replace.  Where the folder may not be listed, the
 * name that w has there is looked at, and a file with several names counts as kept. */
static int is_neighbour(const output *w, const struct stat *file, const char *folder, standing of) {
    char path[PATH_MAX], own[PATH_MAX], home[PATH_MAX];
    struct stat is;
    search s = {file, w, of};
    const int found = guard_any_entry(folder, is_kept_name, &s);
    if (found >= 0 || !guard_real(w->path, own)) return found > 0;
    guard_folder_of(own, home);
    if (!guard_look(home, &is) || !guard_is_same(&is, folder)) return file->st_nlink > 1;
    return snprintf(path, sizeof path, "%s/%s", folder, gyre_path_name(own)) >= (int)sizeof path || is_kept(w, path, of);
}

/* The name of a file that is read, and the one behind its links: both have neighbours. */
static int is_beside(const output *w, const struct stat *file, const char *input, standing *of) {
    char folder[PATH_MAX], real[PATH_MAX];
    guard_folder_of(input, folder);
    *of = standing_of(input, folder);
    if (*of != STANDS_ALONE && is_neighbour(w, file, folder, *of)) return 1;
    if (!guard_real(input, real)) return 0;
    guard_folder_of(real, folder);
    *of = standing_of(real, folder);
    return *of != STANDS_ALONE && is_neighbour(w, file, folder, *of);
}

/* -- the rules -- */
static int is_file_of(const char *path, void *arg) {
    return guard_is_same(arg, path);
}

static int is_model_file_of(const char *path, void *arg) {
    return (guard_is_model_name(gyre_path_name(path)) || gyre_ends_with(path, ".gguf")) && guard_is_same(arg, path);
}

/* out = 1 if the file is one of the folder's own, under any name; of model files alone, if asked. */
static int is_entry_of(const struct stat *file, const char *folder, int model_files) {
    struct stat is = *file;
    const int found = guard_any_entry(folder, model_files ? is_model_file_of : is_file_of, &is);
    return found > 0 || (found < 0 && file->st_nlink > 1);
}

static int is_file_with_weights(const char *path, void *arg) {
    (void)arg;
    const char *name = gyre_path_name(path);
    return gyre_ends_with(name, ".gguf") || (guard_is_model_name(name) && strcmp(name, GYRE_CONFIG_FILE) != 0);
}

/* out = 1 for the config of --write below the model's folder, in a separate folder without other files of a model. */
static int is_config_apart(const output *w, const char *path, const char *model) {
    char folder[PATH_MAX];
    struct stat is;
    guard_folder_of(path, folder);
    return writes_model(w) && strcmp(gyre_path_name(path), GYRE_CONFIG_FILE) == 0 && guard_look(folder, &is) &&
           !guard_is_same(&is, model) && guard_any_entry(folder, is_file_with_weights, NULL) == 0;
}

/* The folder of a model stands for its config.json.  Files below it are kept by the same rule. */
static int is_kept_in_model(const output *w, const struct stat *is, const char *model) {
    char real[PATH_MAX];
    if (is_neighbour(w, is, model, STANDS_FOR_MODEL)) return 1;
    if (is_journal(w) || !guard_is_below(w->path, model) || !guard_real(w->path, real)) return 0;
    return is_kept(w, real, STANDS_FOR_MODEL) && !is_config_apart(w, real, model);
}

static void check_file(const output *w, const struct stat *is, const char *input) {
    const char *option = w->option, *path = w->path;
    standing of;
    if (guard_is_same(is, input)) cli_usage_error("--%s: %s is read by this run; name another file", option, path);
    if (guard_is_folder(input)) {
        if (is_model_folder(input) ? is_kept_in_model(w, is, input)
                                   : is_entry_of(is, input, 0) || guard_is_below(path, input) || guard_is_in_tree(is, input))
            cli_usage_error("--%s: %s is a file of %s, which this run reads; name another file", option, path, input);
        return;
    }
    if (!is_beside(w, is, input, &of)) return;
    if (of == STANDS_FOR_WEIGHTS)
        cli_usage_error("--%s: %s is a model's file beside %s, which this run reads; name another file", option, path,
                        input);
    cli_usage_error("--%s: %s is a file of the model of %s, which this run reads; name another file", option, path, input);
}

/* out = 1 if w is a GGUF and no config: convert's, and what extend writes for a GGUF. */
static int writes_gguf(const output *w) {
    return strcmp(w->option, "output") == 0 || (model_read && guard_is_gguf(model_read));
}

/* Other programs have a config.json too.  The working folder, or one above it, would lose its name to a new one. */
static void check_replaced_folder(const output *w) {
    char path[PATH_MAX], real[PATH_MAX];
    if (w->kind != CLI_GUARD_FOLDER || strcmp(w->option, "output") != 0) return;
    if (guard_real(".", real) && (strcmp(real, guard_real(w->path, path) ? path : "") == 0 || guard_is_below(".", w->path)))
        cli_usage_error("--output: the working folder is %s, which would be replaced; change to another folder first",
                        w->path);
    if (guard_is_model_folder(w->path) && snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, w->path) < (int)sizeof path &&
        !guard_is_whole_model(path, 0))
        cli_usage_error("--output: %s exists and is not a model's config; name another folder, or remove it first", path);
}

/* A text result never replaces a model's file, in any folder.  A config replaces only a config, and a GGUF only a GGUF. */
static void check_any_model(const output *w, const struct stat *is) {
    const char *option = w->option, *path = w->path;
    if (S_ISDIR(is->st_mode)) check_replaced_folder(w);
    if (!S_ISREG(is->st_mode) || is->st_size == 0 || is_journal(w)) return; /* a journal is read before lines are added */
    if (writes_model(w)) {
        if (gyre_descriptor_of(path) >= 0) return; /* which its writer refuses */
        const int gguf = writes_gguf(w);
        if (guard_is_whole_model(path, gguf)) return;
        cli_usage_error("--%s: %s exists and is not a %s, which this run writes; name another file, or remove it first",
                        option, path, gguf ? "GGUF of a whole model" : "config");
    }
    if (guard_holds_model(path) || guard_has_name_of_model(path))
        cli_usage_error("--%s: %s is a model's file; name another file, or remove it first", option, path);
}

/* A file of that name beside a config would be read with the model. */
static void check_new_of_model(const output *w) {
    if (w->kind != CLI_GUARD_FOLDER && guard_is_file_of_model(w->path))
        cli_usage_error("--%s: %s would be a file of the model beside it; name another file", w->option, w->path);
}

static int may_be_new(const output *w, const char *name, standing of) {
    if (of == STANDS_FOR_MODEL && !is_journal(w)) return guard_is_result_name(name, writes_model(w));
    return of == STANDS_ALONE || !guard_is_model_name(name);
}

/* A name that the folder of a model may get. */
static const char *advice_on(const output *w) {
    if (!writes_model(w)) return ", or choose another name, such as result.txt";
    return writes_gguf(w) ? ", or choose another name, such as new.gguf" : ", or choose another name, such as new.json";
}

/* A file that is not there yet would be refused by the next run, so this one refuses it too.  path: behind links. */
static void check_new_file(const output *w, const char *path, const char *input) {
    const char *option = w->option, *name = gyre_path_name(path);
    char folder[PATH_MAX], of_input[PATH_MAX], real[PATH_MAX];
    struct stat is;
    guard_folder_of(path, folder);
    if (!guard_look(folder, &is)) return;
    if (guard_is_folder(input)) {
        const int inside = guard_is_same(&is, input) || guard_is_below(folder, input);
        const int allowed =
            is_model_folder(input) && (may_be_new(w, name, STANDS_FOR_MODEL) || is_config_apart(w, path, input));
        if (inside && !allowed)
            cli_usage_error("--%s: %s would be a file of %s, which this run reads; name a file elsewhere%s", option, path,
                            input, is_model_folder(input) ? advice_on(w) : "");
        return;
    }
    for (int behind = 0; behind < 2; behind++) { /* the folder of the name, and of the file behind its links */
        if (behind && !guard_real(input, real)) return;
        guard_folder_of(behind ? real : input, of_input);
        if (guard_is_same(&is, of_input) && !may_be_new(w, name, standing_of(behind ? real : input, of_input)))
            cli_usage_error("--%s: %s would be a file of the model of %s, which this run reads; name a file elsewhere%s",
                            option, path, input, advice_on(w));
    }
}

/* A checkpoint, or a folder of --write, below a folder of texts becomes one of them, and the next run reads another text. */
static void check_folder_in_texts(const output *w, const char *input) {
    char name[PATH_MAX], above[PATH_MAX];
    struct stat is;
    int there;
    if (!guard_is_folder(input) || is_model_folder(input)) return;
    snprintf(name, sizeof name, "%s", w->path);
    do { /* to the first folder above that is there: the others are made */
        name[gyre_path_length(name)] = '\0';
        guard_folder_of(name, above);
        memcpy(name, above, sizeof name);
        there = guard_look(above, &is);
    } while (!there && strchr(above, '/'));
    if (there && (guard_is_same(&is, input) || guard_is_below(above, input)))
        cli_usage_error("--%s: %s would be a part of %s, whose files this run reads; name one elsewhere", w->option, w->path,
                        input);
}

static int is_lab_name(const char *path) {
    static const char *const names[] = {"lab.json", "cells.jsonl", "results.jsonl"};
    int written = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        written |= strcmp(gyre_path_name(path), names[i]) == 0;
    return written;
}

static int is_written_by_lab(const char *path, void *arg) {
    const struct stat *input = arg;
    if (guard_is_folder(path))
        return (guard_is_model_folder(path) || guard_has_file(path, GYRE_TRAINING_FILE)) &&
               (guard_is_same(input, path) || is_entry_of(input, path, 0));
    return is_lab_name(path) && guard_is_same(input, path);
}

/* A report may be in the work folder, but not in place of a journal there, nor in the folder of one of its models. */
static void check_beside_work(const output *work, const output *other) {
    char folder[PATH_MAX];
    struct stat is;
    if (strcmp(work->option, "work") != 0 || other == work) return;
    guard_folder_of(other->path, folder);
    if (guard_is_below(folder, work->path) ||
        (is_lab_name(other->path) && guard_look(folder, &is) && guard_is_same(&is, work->path)))
        cli_usage_error("--%s: %s has the place of a file of the work folder %s; name another file", other->option,
                        other->path, work->path);
}

/* gyre lab adds to the journals of its work folder, and replaces files of the models in it. */
static void check_work(const output *w, const char *input) {
    struct stat is;
    if (!guard_look(input, &is)) return;
    if (guard_is_same(&is, w->path) || guard_any_entry(w->path, is_written_by_lab, &is) > 0)
        cli_usage_error("--%s: %s is read by this run, which writes it in %s; name another folder", w->option, input,
                        w->path);
}

/* train, convert and extend replace or fill a folder. */
static void check_folder(const output *w, const char *input) {
    char folder[PATH_MAX];
    struct stat is;
    if (strcmp(w->option, "output") != 0) return;
    if (guard_is_folder(input) && guard_look(w->path, &is) && guard_is_same(&is, input))
        cli_usage_error("--%s: %s is the model itself, which this run reads; name another folder", w->option, w->path);
    guard_folder_of(input, folder);
    const int inside = guard_is_below(input, w->path) || guard_is_below(folder, w->path) ||
                       (guard_look(folder, &is) && guard_is_same(&is, w->path));
    if (inside) cli_usage_error("--%s: %s holds %s, which this run reads; name another folder", w->option, w->path, input);
}

/* out = 1 for one name in one folder, of files that need not be there yet. */
static int is_same_name(const char *a, const char *b) {
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    struct stat is;
    if (strcmp(gyre_path_name(a), gyre_path_name(b)) != 0) return 0;
    guard_folder_of(a, folder_a);
    guard_folder_of(b, folder_b);
    return guard_look(folder_a, &is) && guard_is_same(&is, folder_b);
}

static void check_pair(const output *first, const output *second) {
    struct stat is;
    const char *a = first->path, *b = second->path;
    char end_a[PATH_MAX], end_b[PATH_MAX];
    const int linked = !gyre_link_end(a, end_a) && !gyre_link_end(b, end_b) && is_same_name(end_a, end_b);
    if (guard_look(a, &is) && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode)) return; /* /dev/null takes any number */
    if (linked || is_same_name(a, b) || (guard_look(a, &is) && S_ISREG(is.st_mode) && guard_is_same(&is, b)))
        cli_usage_error("--%s: %s is the file of --%s too", second->option, b, first->option);
}

/* out = the path behind links, without slashes at its end, or the path itself. */
static void end_of(const char *path, char end[PATH_MAX]) {
    char plain[PATH_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)gyre_path_length(path), path);
    if (gyre_link_end(plain, end) != 0) memcpy(end, plain, sizeof plain);
}

/* A folder has a lock beside it, which the run removes at its end. */
static void check_lock(const output *w) {
    char lock[PATH_MAX], end[PATH_MAX];
    struct stat is;
    if (w->kind != CLI_GUARD_FOLDER || cli_lock_name(w->path, lock) != 0) return;
    for (const output *other = writes; other < writes + writes_count; other++)
        if (other != w && !gyre_link_end(other->path, end) && is_same_name(lock, end))
            cli_usage_error("--%s: %s is the lock of --%s %s; name another file", other->option, other->path, w->option,
                            w->path);
    for (int k = 0; k < reads_count && guard_look(lock, &is); k++)
        if (guard_is_same(&is, reads[k]))
            cli_usage_error("--%s: its lock, %s, is read by this run; name another", w->option, lock);
}

/* out = 1 for the name of a temporary of the output `end`, which a run removes: NAME.gyre-1234-0.tmp, or .old. */
static int is_temporary_of(const char *path, const char *end) {
    char beside[PATH_MAX], plain[PATH_MAX];
    const char *name = gyre_path_name(path), *of = gyre_path_name(end);
    int aside;
    if (!gyre_temporary_pid(name, of, &aside)) return 0;
    guard_folder_of(path, beside);
    if (snprintf(plain, sizeof plain, "%s/%s", beside, of) >= (int)sizeof plain) return 0;
    return is_same_name(plain, end);
}

/* What a killed run left is removed by the next, but not if it is what the next one reads. */
static void check_temporary(const output *w, const char *input) {
    char end[PATH_MAX], of_input[PATH_MAX], folder[PATH_MAX];
    end_of(w->path, end);
    for (int behind = 0; behind < 2; behind++) {
        if (behind && !guard_real(input, of_input)) return;
        if (!behind) end_of(input, of_input);
        guard_folder_of(of_input, folder);
        folder[strlen(folder) > 1 ? strlen(folder) - 1 : 1] = '\0'; /* without its slash */
        if (is_temporary_of(of_input, end) || is_temporary_of(folder, end))
            cli_usage_error("--%s: %s, which this run reads, has the name of a temporary of %s, which it removes; rename it "
                            "first",
                            w->option, input, w->path);
    }
}

/* out = 1, and the folder of the model, for a real path in a Hugging Face cache: .../models--ORG--NAME/snapshots/... */
static int is_in_cache(const char *real, char model[PATH_MAX]) {
    const char *at = real;
    int found = 0;
    while (at && !found && (at = strstr(at, "/models--"))) {
        at += strcspn(at + 1, "/") + 1;
        found = strncmp(at, "/snapshots", 10) == 0 || strncmp(at, "/blobs", 6) == 0 || strncmp(at, "/refs", 5) == 0;
    }
    if (found) snprintf(model, PATH_MAX, "%.*s", (int)(at - real), real);
    return found;
}

/* However a model of a cache was named: by the folder of its snapshot, by one of the links in that, or by another link. */
static int cache_of(const char *path, char model[PATH_MAX]) {
    char folder[PATH_MAX], real[PATH_MAX];
    guard_folder_of(path, folder);
    return (guard_real(path, real) && is_in_cache(real, model)) || (guard_real(folder, real) && is_in_cache(real, model));
}

/* Every file in a Hugging Face cache is a model's. */
static void check_cache(const output *w) {
    char end[PATH_MAX], folder[PATH_MAX], real[PATH_MAX], model[PATH_MAX];
    end_of(w->path, end);
    guard_folder_of(end, folder);
    if (guard_real(folder, real) && is_in_cache(real, model))
        cli_usage_error("--%s: %s is in the cache of a model, %s; name a file elsewhere", w->option, w->path, model);
}

static void check_read(const output *w, const struct stat *is, const char *input) {
    char room[PATH_MAX];
    const int folder = is && S_ISDIR(is->st_mode);
    if (folder && strcmp(w->option, "work") == 0) check_work(w, input);
    if (is ? w->kind == CLI_GUARD_FOLDER && folder : w->kind != CLI_GUARD_FILE) check_folder_in_texts(w, input);
    check_temporary(w, input);
    if (folder)
        check_folder(w, input);
    else if (is && S_ISREG(is->st_mode))
        check_file(w, is, input);
    else if (!is && (w->kind != CLI_GUARD_FOLDER || guard_is_model_name(gyre_path_name(w->path)))) /* which is no folder's */
        check_new_file(w, gyre_link_end(w->path, room) ? w->path : room, input);
}

typedef struct link_check {
    const output *w;
    const struct stat *is;
} link_check;

/* Every name on the way of a link: to replace a folder that holds one of them would lead it elsewhere. */
static int check_link(const char *path, void *arg) {
    const link_check *check = arg;
    enum { MOST_LINKS = 40 };
    char at[PATH_MAX], next[PATH_MAX], real[PATH_MAX], model[PATH_MAX];
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode) || guard_is_folder(path) || !guard_real(path, real)) return 0;
    snprintf(at, sizeof at, "%s", path);
    for (int i = 0; i < MOST_LINKS && gyre_link_step(at, next) == 0; i++) {
        check_read(check->w, check->is, next);
        memcpy(at, next, sizeof at);
    }
    check_read(check->w, check->is, real);
    if (cache_of(real, model)) check_read(check->w, check->is, model);
    return 0;
}

/* A model's folder may hold links: the files behind them are read, wherever they are. */
static void check_links(const output *w, const struct stat *is, const char *input) {
    link_check check = {w, is};
    if (guard_is_folder(input) && is_model_folder(input)) (void)guard_any_entry(input, check_link, &check);
}

/* --write DIR writes DIR/config.json, or in it a GGUF of the name of the one that is read. */
static void find_written_model(output *w) {
    const char *name = GYRE_CONFIG_FILE;
    struct stat is;
    if (strcmp(w->option, "write") != 0) return;
    if (!file_target_is_folder(w->path, guard_look(w->path, &is) ? &is : NULL)) return;
    if (model_read && guard_is_gguf(model_read)) name = gyre_path_name(model_read);
    if (snprintf(written_model, PATH_MAX, "%s/%s", w->path, name) < PATH_MAX) w->path = written_model;
}

void cli_guard_forget(void) {
    free(reads);
    free(are_texts);
    reads = NULL;
    are_texts = NULL;
    model_read = NULL;
    reads_count = writes_count = 0;
}

/* -- what a shell appends to: gyre ... >>FILE, 2>>FILE -- */
#if defined(__wasi__) /* whose streams are a page's */
static void check_stream(int descriptor) {
    (void)descriptor;
}
#else
/* out = 1 if the file is the input, a file of its model, or one of the texts in it.  A new file among texts is empty. */
static int is_input_of_run(const struct stat *file, const char *input) {
    char folder[PATH_MAX];
    if (guard_is_same(file, input)) return 1;
    if (guard_is_folder(input))
        return is_model_folder(input) ? is_entry_of(file, input, 1) : file->st_size > 0 && guard_is_in_tree(file, input);
    guard_folder_of(input, folder);
    return standing_of(input, folder) != STANDS_ALONE && is_entry_of(file, folder, 1);
}

/* out = 1 if the run writes the file by its name, as a result, a journal, or one of a work folder. */
static int is_file_of_output(const struct stat *file, const output *w) {
    struct stat is = *file;
    if (gyre_descriptor_of(w->path) >= 0) return 0; /* -o /dev/stdout is the stream itself */
    if (strcmp(w->option, "work") == 0 && guard_any_entry(w->path, is_written_by_lab, &is) > 0) return 1;
    return guard_is_same(file, w->path);
}

/* Standard error that is such a file cannot take the message that says so: standard output does, unless it is a file too. */
static void leave_standard_error(void) {
    struct stat out;
    const int taken = fstat(STDOUT_FILENO, &out) != 0 || S_ISREG(out.st_mode);
    const int other = taken ? open("/dev/null", O_WRONLY | O_CLOEXEC) : STDOUT_FILENO;
    if (other < 0 || dup2(other, STDERR_FILENO) < 0) exit(CLI_USAGE);
}

static void check_stream(int descriptor) {
    const char *name = descriptor == STDOUT_FILENO ? "standard output" : "standard error";
    struct stat is;
    if (fstat(descriptor, &is) != 0 || !S_ISREG(is.st_mode)) return;
    for (int k = 0; k < reads_count; k++)
        if (is_input_of_run(&is, reads[k])) {
            if (descriptor == STDERR_FILENO) leave_standard_error();
            cli_usage_error("%s: it is %s%s, which this run reads; name another file", name,
                            guard_is_same(&is, reads[k]) ? "" : "a file of ", reads[k]);
        }
    for (const output *w = writes; w < writes + writes_count; w++)
        if (is_file_of_output(&is, w)) {
            if (descriptor == STDERR_FILENO) leave_standard_error();
            cli_usage_error("%s: it is the file of --%s %s too; name another file", name, w->option, w->path);
        }
}
#endif

void cli_guard_check(void) {
    char model[PATH_MAX];
    struct stat is;
    check_stream(STDERR_FILENO); /* first: it takes the messages of the others */
    check_stream(STDOUT_FILENO);
    for (output *w = writes; w < writes + writes_count; w++)
        find_written_model(w);
    for (const output *w = writes; w < writes + writes_count; w++) {
        const int exists = guard_look(w->path, &is);
        for (int k = 0; k < reads_count; k++) {
            check_read(w, exists ? &is : NULL, reads[k]);
            check_links(w, exists ? &is : NULL, reads[k]);
            /* Its references, blobs and snapshots are read too. */
            if (cache_of(reads[k], model)) check_read(w, exists ? &is : NULL, model);
        }
        if (exists)
            check_any_model(w, &is);
        else
            check_new_of_model(w);
        check_cache(w);
        for (const output *other = w + 1; other < writes + writes_count; other++)
            check_pair(w, other);
        for (const output *other = writes; other < writes + writes_count; other++)
            check_beside_work(w, other);
        check_lock(w);
    }
    cli_guard_forget();
}
