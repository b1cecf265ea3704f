/* model_path.c: a path, a bundled model, or a model in the Hugging Face cache, in this order. */
#include "tools/common/model_path.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_guard.h"
#include "tools/common/bundled_models.h"
#include "tools/common/hub_cache.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MODELS = 8 };
static struct {
    const char *name; /* of argv */
    char path[HUB_PATH], repo[HUB_PATH];
    int hub; /* 1: a name of the hub */
} found[MODELS];
static int found_count;

/* out = 1 if the part before the slash is a folder here, or the name is that of a file: a wrong path, and no name of the
 * hub. */
static int looks_like_path(const char *model) {
    static const char *const endings[] = {".json", ".gguf", ".safetensors", ".bin"};
    const char *slash = strchr(model, '/'), *dot = strrchr(model, '.');
    struct stat info;
    char folder[256];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) : 0, model);
    int is_file = 0;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        is_file |= strcmp(dot, endings[i]) == 0;
    return is_file || (stat(folder, &info) == 0 && S_ISDIR(info.st_mode));
}

static const char *keep(const char *name, int hub) {
    found[found_count].name = name;
    found[found_count].hub = hub;
    return found[found_count++].path;
}

static const char *find(const char *model) {
    gyre_error err = {0, ""};
    if (!model || !*model || !gyre_is_absent(model) || found_count == MODELS) return model;
    char *path = found[found_count].path;
    const char *bundled = bundled_model_find(model);
    if (bundled != model && snprintf(path, HUB_PATH, "%s", bundled) < HUB_PATH) return keep(model, 0);
    if (!hub_cache_is_name(model)) return model;
    if (!hub_cache_find(model, path, &err)) return keep(model, 1);
    if (hub_cache_has_organisation(model) && !looks_like_path(model)) exit(cli_fail_error(&err));
    return model;
}

static const char *find_and_note(const char *model, void (*note)(const char *path)) {
    const char *path = find(model);
    note(path);
    for (int i = 0; i < found_count; i++) /* of a cache, its references, blobs and other snapshots too */
        if (found[i].hub && found[i].path == path && hub_cache_repo(model, found[i].repo)) cli_guard_read(found[i].repo);
    return path;
}

const char *model_path_find(const char *model) {
    return find_and_note(model, cli_guard_read_model);
}

int model_path_argument(void *at, char *text) {
    const char **path = at;
    if (*path) cli_usage_error("%s: one model at a time", text);
    *path = model_path_find(text);
    return 0;
}

const char *model_path_find_tokenizer(const char *model) {
    return find_and_note(model, cli_guard_read_tokenizer);
}

void model_path_forget(void) {
    found_count = 0;
}

const char *model_path_hub_name(const char *path) {
    for (int i = 0; i < found_count; i++)
        if (found[i].hub && strcmp(found[i].path, path) == 0) return found[i].name;
    return NULL;
}

const char *model_path_as_given(const char *path) {
    for (int i = 0; i < found_count; i++)
        if (strcmp(found[i].path, path) == 0) return found[i].name;
    return path;
}

const char *model_path_shown(const char *path) {
    const char *given = model_path_as_given(path), *name = given, *before = given;
    if (*given != '/') return given;
    for (const char *c = given; *c; c++)
        if (*c == '/' && c[1] && c[1] != '/') {
            before = name;
            name = c + 1;
        }
    return strcmp(name, GYRE_CONFIG_FILE) == 0 && *before != '/' ? before : name;
}
