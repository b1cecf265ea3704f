/* search_config.c: writing the factors found into a config. */
#include "tools/cli/temporary_folder.h"
#include "tools/search/search.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A config that was written must read back as the factors found, to the last digit. */
static gyre_status check_written(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err) {
    gyre_reading *reading = NULL;
    const gyre_status status = gyre_reading_open(&reading, path, GYRE_PROFILE_DEFAULT, w->options->stretch.to, err);
    if (status) return status;
    int same = 0;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const struct gyre_rope_config *rope = &reading->groups[g]->config.rope;
        if (reading->groups[g]->config.kind != GYRE_KIND_ROPE || rope->scaling != GYRE_SCALING_LONGROPE) continue;
        same = rope->attention_factor == rescale->attention &&
               memcmp(rope->long_factor, rescale->factor, (size_t)w->space.pairs * sizeof *rescale->factor) == 0;
        if (same) break;
    }
    gyre_reading_free(reading);
    return same ? GYRE_OK : gyre_fail(err, GYRE_EFORMAT, "--write: read back it is not what was found (%s)", path);
}

gyre_status search_write_config(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err) {
    gyre_config config;
    search_rescale_config(rescale, w->ones, &w->base, w->trained, w->options->stretch.to, &config);
    cli_set_pending_copy(path);
    gyre_status status = gyre_reading_write(w->options->model.path, &config, w->options->stretch.to, path, err);
    cli_set_pending_copy(NULL);
    return status ? status : check_written(w, rescale, path, err);
}

int search_check_target(const search_options *o) {
    const char *write = o->stretch.write;
    char path[4200];
    struct stat is;
    gyre_error err = {0, ""};
    cli_check_target("--journal", o->run.journal, o->model.path);
    if (!write) return 0;
    const int in_folder = stat(write, &is) == 0 && S_ISDIR(is.st_mode);
    if (snprintf(path, sizeof path, "%s%s", write, in_folder ? "/" GYRE_CONFIG_FILE : "") >= (int)sizeof path)
        return cli_fail("--write: too long a name (%s)", write);
    cli_check_target("--write", path, o->model.path);
    return file_target_check("--write", path, &err) ? cli_fail_error(&err) : 0;
}

int search_try_config(const search_work *w) {
    char folder[4096], path[4200];
    gyre_error err = {0, ""};
    if (!w->options->stretch.write) return 0;
    if (temporary_folder_create("search", folder, sizeof folder, &err)) return cli_fail_error(&err);
    snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, folder);
    const gyre_status status = search_write_config(w, &w->initial[SEARCH_INITIAL_YARN].rescale, path, &err);
    (void)unlink(path);
    (void)rmdir(folder);
    return status ? cli_fail_error(&err) : 0;
}
