/* read_settings.c: the settings of a trainer: which text they are, and whose reader takes them. */
#include "files/yaml_read.h"
#include "reading/trainers/trainer_settings.h"
#include "util/error.h"

#include <string.h>

static const struct {
    gyre_trainer_read *read;
    gyre_profile profile;
    int changes_config; /* 1 = what is read in the end is a config.json, by transformers */
} trainers[] = {{gyre_read_megatron, GYRE_PROFILE_MEGATRON, 0},
                {gyre_read_torchtitan, GYRE_PROFILE_TORCHTITAN, 0},
                {gyre_read_axolotl, GYRE_PROFILE_AXOLOTL, 1},
                {gyre_read_llama_factory, GYRE_PROFILE_LLAMA_FACTORY, 1},
                {gyre_read_nanotron, GYRE_PROFILE_NANOTRON, 0}};

static gyre_status parse(gyre_settings *out, const char *text, size_t bytes, gyre_profile profile, gyre_error *err) {
    if (bytes > GYRE_SETTINGS_MAX_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "settings: longer than 1 MiB (%.300s)", out->path);
    if (memchr(text, 0, bytes)) return gyre_fail(err, GYRE_EFORMAT, "settings: not a text (%.300s)", out->path);
    if (profile == GYRE_PROFILE_TORCHTITAN) return gyre_settings_of_python(out, text, bytes, err);
    if (profile == GYRE_PROFILE_MEGATRON && gyre_settings_are_arguments(text, bytes))
        return gyre_settings_of_arguments(out, text, bytes, err);
    return gyre_yaml_read(&out->root, &out->lines, text, bytes, out->path, err);
}

gyre_status gyre_read_settings(gyre_reading **out, const char *text, size_t bytes, const char *path, int is_file,
                               gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_settings settings = {NULL, NULL, path, is_file};
    size_t i = 0;
    while (trainers[i].profile != profile)
        i++;
    gyre_status status = parse(&settings, text, bytes, profile, err);
    if (!status && json_object_get(settings.root, "model_type"))
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "model_type: %.30s reads settings, and this is a config.json (%.300s)",
                           gyre_profile_name(profile), path);
    if (!status) {
        gyre_build *build =
            gyre_build_begin(path, "settings", trainers[i].changes_config ? GYRE_PROFILE_HF_5 : profile, length, err);
        const gyre_json_source source = {build, text, bytes, gyre_key_marks_new(), settings.lines};
        const gyre_scope root = {&source, settings.root, ""};
        if (build) {
            trainers[i].read(&settings, &root);
            gyre_build_set_profile(build, profile);
        }
        gyre_key_marks_free(source.marks);
        status = build ? gyre_build_finish(build, out) : GYRE_ENOMEM;
    }
    json_decref(settings.root);
    json_decref(settings.lines);
    return status;
}
