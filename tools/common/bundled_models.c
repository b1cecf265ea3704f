/* bundled_models.c: where the models that come with gyre are. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier): POSIX names this macro */
#include "tools/common/bundled_models.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

static void read_link(const char *path, char *out, size_t size) {
    const ssize_t length = readlink(path, out, size - 1);
    out[length > 0 ? length : 0] = 0;
}

/* Writes the path by which the program was started, behind its links. */
static void started_as(char *out, size_t size) {
#if defined(__linux__)
    const char *name = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr): it is an address
    char *real = name ? realpath(name, NULL) : NULL;
    snprintf(out, size, "%s", real ? real : "");
    free(real);
#else
    if (size) *out = 0;
#endif
}

/* Writes the folder of the running program; empty if the system does not provide it.  A chroot may have no /proc. */
static void program_folder(char *out, size_t size) {
    read_link("/proc/self/exe", out, size);
    if (!*out) started_as(out, size);
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

/* Writes the models/ of the sources, to which the build makes a link beside the command; empty if there is no link, as
 * beside an installed one, which names no folder of its build.  Where the system names no folder, as in the explorer:
 * that of the current one. */
static void source_models(const char *bin, char *out, size_t size) {
    char beside[BUNDLED_PATH];
    *out = 0;
    if (!*bin)
        snprintf(out, size, "models");
    else if (snprintf(beside, sizeof beside, "%s/" GYRE_MODELS_LINK, bin) < (int)sizeof beside)
        read_link(beside, out, size);
}

/* out = 1 if the folder holds a config.json. */
static int is_model(const char *folder) {
    char path[BUNDLED_PATH + 16];
    return snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, folder) < (int)sizeof path && access(path, R_OK) == 0;
}

gyre_status bundled_model_path(const char *name, char path[BUNDLED_PATH], gyre_error *err) {
    char bin[BUNDLED_PATH / 2], source[BUNDLED_PATH / 2];
    program_folder(bin, sizeof bin);
    source_models(bin, source, sizeof source);
    int n = snprintf(path, BUNDLED_PATH, "%s/%s/%s", bin, GYRE_MODELS_FROM_BIN, name);
    if (n > 0 && n < BUNDLED_PATH && *source && !is_model(path)) n = snprintf(path, BUNDLED_PATH, "%s/%s", source, name);
    if (n < 0 || n >= BUNDLED_PATH) return gyre_fail(err, GYRE_EINVAL, "path: too long (%s)", name);
    return GYRE_OK;
}

gyre_status bundled_explorer_path(char path[BUNDLED_PATH], gyre_error *err) {
    const char *given = getenv("GYRE_EXPLORER");
    char bin[BUNDLED_PATH / 2], source[BUNDLED_PATH / 2];
    program_folder(bin, sizeof bin);
    source_models(bin, source, sizeof source);
    int n = given && *given ? snprintf(path, BUNDLED_PATH, "%s", given)
                            : snprintf(path, BUNDLED_PATH, "%s/%s/../explorer.html", bin, GYRE_MODELS_FROM_BIN);
    if (n > 0 && n < BUNDLED_PATH && *source && !(given && *given) && access(path, R_OK) != 0)
        n = snprintf(path, BUNDLED_PATH, "%s/../build/explorer/explorer.html", source);
    if (n < 0 || n >= BUNDLED_PATH) return gyre_fail(err, GYRE_EINVAL, "path: too long (explorer.html)");
    return GYRE_OK;
}

const char *bundled_model_find(const char *model) {
    enum { MODELS = 8 };
    static char found[MODELS][BUNDLED_PATH];
    static int count;
    static const char folder[] = "models/";
    if (!model || !*model || count == MODELS || !gyre_is_absent(model)) return model;
    const char *given = strncmp(model, folder, sizeof folder - 1) == 0 ? model + sizeof folder - 1 : model;
    char name[BUNDLED_PATH / 2];
    size_t length = strlen(given);
    while (length && given[length - 1] == '/') /* as of a folder that the shell completed */
        length--;
    if (length >= sizeof name) return model;
    snprintf(name, sizeof name, "%.*s", (int)length, given);
    if (!*name || *name == '.' || strchr(name, '/')) return model;
    if (bundled_model_path(name, found[count], NULL) || !is_model(found[count])) return model;
    return found[count++];
}
