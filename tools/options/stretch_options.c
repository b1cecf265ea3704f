/* stretch_options.c: --to, --trained and --write. */
#include "tools/options/stretch_options.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/write_target.h"
#include "util/path.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void stretch_options_check(const stretch_options *o) {
    if (!o->to) cli_usage_error("--to: missing; name the context length wanted, such as 128k");
}

/* -- the target of --write -- */
gyre_status stretch_target_find(const char *write, const char *name, stretch_target *out, gyre_error *err) {
    struct stat is;
    stretch_target target = {.path = ""};
    const size_t length = gyre_path_length(write);
    const int exists = stat(write, &is) == 0, in_folder = file_target_is_folder(write, exists ? &is : NULL);
    const int written = in_folder ? snprintf(target.path, STRETCH_PATH, "%.*s/%s", (int)length, write, name)
                                  : snprintf(target.path, STRETCH_PATH, "%s", write);
    if (written >= STRETCH_PATH) return gyre_fail(err, GYRE_EINVAL, "--write: too long a name (%s)", write);
    if (in_folder && !exists) snprintf(target.folder, STRETCH_PATH, "%.*s", (int)length, write);
    *out = target;
    return GYRE_OK;
}

gyre_status stretch_target_make_folder(const stretch_target *target, gyre_error *err) {
    if (!*target->folder || mkdir(target->folder, 0777) == 0 || errno == EEXIST) return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "--write: %s (%s)", strerror(errno), target->folder);
}

void stretch_target_discard(const stretch_target *target) {
    if (*target->folder) (void)rmdir(target->folder);
}

int stretch_check_length(const stretch_options *o, int64_t trained, const char *path) {
    if (trained < STRETCH_MIN_TRAINED)
        return cli_fail("trained length: the model does not say it; name it with --trained (%s)", path);
    if (o->to <= trained)
        return cli_fail("--to: %lld is within the trained length of %lld, which needs no stretching (%s)", (long long)o->to,
                        (long long)trained, path);
    return 0;
}
