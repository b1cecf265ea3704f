/* lab_bundled.c: where the models that come with gyre are. */
#include "tools/lab/lab.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <unistd.h>

/* Writes the folder of the running program; empty if the system does not tell. */
static void program_folder(char *out, size_t size) {
    const ssize_t length = readlink("/proc/self/exe", out, size - 1);
    out[length > 0 ? length : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

gyre_status lab_bundled_path(const char *name, char path[LAB_PATH], gyre_error *err) {
    char bin[LAB_PATH / 2];
    const int from_sources = access(GYRE_MODELS_SOURCE "/rope/" GYRE_CONFIG_FILE, R_OK) == 0;
    program_folder(bin, sizeof bin);
    const int n = from_sources ? snprintf(path, LAB_PATH, "%s/%s", GYRE_MODELS_SOURCE, name)
                               : snprintf(path, LAB_PATH, "%s/%s/%s", bin, GYRE_MODELS_FROM_BIN, name);
    if (n < 0 || n >= LAB_PATH) return gyre_fail(err, GYRE_EINVAL, "path: too long (%s)", name);
    return GYRE_OK;
}
