/* model_path.c: a path, a bundled model, or a model in the Hugging Face cache, in this order. */
#include "tools/common/model_path.h"
#include "tools/cli/cli_error.h"
#include "tools/common/bundled_models.h"
#include "tools/common/hub_cache.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODELS = 8 };
static struct {
    const char *name; /* of argv */
    char path[HUB_PATH];
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

const char *model_path_find(const char *model) {
    gyre_error err = {0, ""};
    if (!model || !*model || access(model, F_OK) == 0) return model;
    const char *bundled = bundled_model_find(model);
    if (bundled != model || found_count == MODELS || !hub_cache_is_name(model)) return bundled;
    const gyre_status status = hub_cache_find(model, found[found_count].path, &err);
    if (!status) {
        found[found_count].name = model;
        return found[found_count++].path;
    }
    if (hub_cache_has_organisation(model) && !looks_like_path(model)) exit(cli_fail_error(&err));
    return model;
}

const char *model_path_hub_name(const char *path) {
    for (int i = 0; i < found_count; i++)
        if (strcmp(found[i].path, path) == 0) return found[i].name;
    return NULL;
}
