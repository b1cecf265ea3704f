/* search_config.c: writing the factors found into a config. */
#include "gyre/gyre_fields.h"
#include "tools/cli/temporary_folder.h"
#include "tools/search/search.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <unistd.h>

/* A config that was written must read back as the factors found, to the last digit. */
static gyre_status check_written(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err) {
    gyre_reading *reading = NULL;
    const gyre_status status =
        gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .context_length = w->options->stretch.to), err);
    if (status) return status;
    int same = 0;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const struct gyre_rope_config *rope = &reading->groups[g]->config.rope;
        if (!gyre_kind_has(reading->groups[g]->config.kind, GYRE_TRAIT_ROTATES) || rope->scaling != GYRE_SCALING_LONGROPE)
            continue;
        same = rope->attention_factor == rescale->attention &&
               reading->groups[g]->config.rope.longrope.start_tokens == rescale->start_tokens &&
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

gyre_status search_write_result(search_work *w, const search_rescale *rescale, gyre_error *err) {
    stretch_target *target = &w->target;
    gyre_status status = stretch_target_find(w->options->stretch.write, GYRE_CONFIG_FILE, target, err);
    if (!status) status = stretch_target_make_folder(target, err);
    if (status) return status;
    status = search_write_config(w, rescale, target->path, err);
    if (status) stretch_target_discard(target);
    return status;
}

int search_check_target(const search_options *o) {
    const char *write = o->stretch.write;
    stretch_target target;
    gyre_error err = {0, ""};
    if (!write) return 0;
    if (stretch_target_find(write, GYRE_CONFIG_FILE, &target, &err)) return cli_fail_error(&err);
    /* Of a folder that is not there yet, its own folder must be writable. */
    const char *path = *target.folder ? target.folder : target.path;
    return file_target_check("--write", path, &err) ? cli_fail_error(&err) : 0;
}

int search_try_config(const search_work *w) {
    temporary_folder folder;
    char path[4200];
    gyre_error err = {0, ""};
    if (!w->options->stretch.write) return 0;
    if (temporary_folder_create(&folder, "search", &err)) return cli_fail_error(&err);
    snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, folder.path);
    search_rescale rescale = w->initial[SEARCH_INITIAL_YARN].rescale;
    if (w->space.starts_count) rescale.start_tokens = w->space.starts[w->space.starts_count - 1];
    const gyre_status status = search_write_config(w, &rescale, path, &err);
    temporary_folder_remove(&folder);
    return status ? cli_fail_error(&err) : 0;
}
