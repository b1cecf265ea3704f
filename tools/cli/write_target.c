/* write_target.c: checks of files that a command will write. */
#include "tools/cli/write_target.h"
#include "tools/cli/cli_error.h"
#include "util/checkpoint_files.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- the model's own files -- */
static int same_file(const struct stat *a, const char *path) {
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/* out = 1 if programs read a file of this name in a model folder. */
static int is_model_name(const char *name) {
    static const char *const ends[] = {GYRE_CONFIG_FILE, ".safetensors", ".index.json", GYRE_TOKENIZER_FILE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t length = strlen(name), end = strlen(ends[i]);
        if (length >= end && strcmp(name + length - end, ends[i]) == 0) return 1;
    }
    return 0;
}

void cli_check_target(const char *option, const char *target, const char *model) {
    struct stat is;
    char path[PATH_MAX];
    if (!target || !model || stat(target, &is) || !S_ISREG(is.st_mode)) return;
    int own = same_file(&is, model);
    DIR *folder = opendir(model);
    for (struct dirent *entry; !own && folder && (entry = readdir(folder));)
        own = is_model_name(entry->d_name) &&
              snprintf(path, sizeof path, "%s/%s", model, entry->d_name) < (int)sizeof path && same_file(&is, path);
    if (folder) closedir(folder);
    if (own) cli_usage_error("%s: %s is the model's own file", option, target);
}

void cli_check_output(const char *output, const char *model) {
    cli_check_target("--output", output, model);
}

/* -- whether it can be written -- */
static int in_path(const char *program) {
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        const size_t length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
        if (length && access(file, X_OK) == 0) return 1;
        path += length + (path[length] == ':');
    }
    return 0;
}

gyre_status file_target_check(const char *what, const char *path, gyre_error *err) {
    char folder[4096];
    struct stat is;
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode)) return gyre_fail(err, GYRE_EIO, "%s: is a folder (%s)", what, path);
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) : 1;
    if (length >= (int)sizeof folder) return gyre_fail(err, GYRE_EINVAL, "%s: too long a name (%s)", what, path);
    snprintf(folder, sizeof folder, "%.*s", length ? length : 1, slash ? path : ".");
    if (access(folder, W_OK) != 0) return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", what, strerror(errno), path);
    return GYRE_OK;
}

gyre_status report_target_check(const char *path, gyre_error *err) {
    if (!in_path("gnuplot")) return gyre_fail(err, GYRE_EIO, "gnuplot: not found in PATH; it draws the figures (%s)", path);
    return file_target_check("report", path, err);
}
