/* reading.c: finds out what a path or a piece of memory holds, and calls its reader. */
#include "core/sized.h"
#include "files/file_read.h"
#include "files/gguf.h"
#include "reading/config_document.h"
#include "reading/family.h"
#include "reading/trainers/trainer_settings.h"
#include "util/error.h"

#include <stdlib.h>

static gyre_status check_arguments(gyre_profile profile, int64_t length, gyre_error *err) {
    if (profile != GYRE_PROFILE_DEFAULT && !gyre_profile_name(profile))
        return gyre_fail(err, GYRE_EINVAL, "profile: %d does not exist", (int)profile);
    if (length < 0) return gyre_fail(err, GYRE_EINVAL, "length: below 0");
    return GYRE_OK;
}

/* -- GGUF or JSON -- */
static gyre_status read_gguf(gyre_reading **out, const void *bytes, size_t size, int mapped, const char *path,
                             gyre_profile profile, int64_t length, gyre_error *err) {
    if (profile == GYRE_PROFILE_DEFAULT) profile = GYRE_PROFILE_LLAMA_CPP;
    gyre_build *build = gyre_build_begin(path, "GGUF", profile, length, err);
    if (!build) return GYRE_ENOMEM;
    gyre_read_gguf(build, bytes, size, mapped);
    return gyre_build_finish(build, out);
}

gyre_status gyre_reading_from_document(gyre_reading **out, const gyre_config_document *document, gyre_profile profile,
                                       int64_t length, gyre_error *err) {
    gyre_status status = check_arguments(profile, length, err);
    if (status) return status;
    if (profile == GYRE_PROFILE_DEFAULT) profile = GYRE_PROFILE_HF_5;
    if (gyre_profile_is_trainer(profile))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "profile: %s reads the settings of a trainer, not a config.json (%.300s)",
                         gyre_profile_name(profile), document->path);
    gyre_build *build = gyre_build_begin(document->path, "config.json", profile, length, err);
    if (!build) return GYRE_ENOMEM;
    const gyre_json_source source = {build, document->text, document->bytes, gyre_key_marks_new(), NULL};
    gyre_read_config_json(&source, document->root);
    gyre_warn_unread_keys(&source, document->root);
    gyre_key_marks_free(source.marks);
    return gyre_build_finish(build, out);
}

gyre_status gyre_reading_options_read(gyre_reading_options *own, const gyre_reading_options *given, gyre_error *err) {
    *own = (gyre_reading_options)GYRE_INIT(gyre_reading_options);
    if (!given) return GYRE_OK;
    const gyre_status status = gyre_sized_read(own, sizeof *own, given, "gyre_reading_options", err);
    return status ? status : check_arguments(own->profile, own->context_length, err);
}

gyre_status gyre_reading_parse(gyre_reading **out, const void *bytes, size_t size, const gyre_reading_options *options,
                               gyre_error *err) {
    gyre_config_document document;
    gyre_reading_options read;
    gyre_status status = gyre_reading_options_read(&read, options, err);
    if (status) return status;
    if (!out || (!bytes && size > 0)) return gyre_fail(err, GYRE_EINVAL, "gyre_reading_parse: an argument is missing");
    const gyre_profile profile = read.profile;
    const int64_t length = read.context_length;
    const char *name = read.name ? read.name : "memory";
    if (gyre_profile_is_trainer(profile))
        return gyre_read_settings(out, bytes ? bytes : "", size, name, 0, profile, length, err);
    if (gyre_gguf_has_magic(bytes, size)) return read_gguf(out, bytes, size, 0, name, profile, length, err);
    status = gyre_config_document_parse(&document, bytes, size, name, err);
    if (status) return status;
    status = gyre_reading_from_document(out, &document, profile, length, err);
    gyre_config_document_free(&document);
    return status;
}

static gyre_status open_settings(gyre_reading **out, const char *path, gyre_profile profile, int64_t length,
                                 gyre_error *err) {
    char *text;
    size_t bytes;
    gyre_status status = gyre_file_read(path, GYRE_SETTINGS_MAX_BYTES, &text, &bytes, err);
    if (status) return status;
    status = gyre_read_settings(out, text, bytes, path, 1, profile, length, err);
    free(text);
    return status;
}

static gyre_status open_file(gyre_reading **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_mapping map = {0};
    gyre_config_document document;
    int is_gguf;
    if (gyre_profile_is_trainer(profile)) return open_settings(out, path, profile, length, err);
    gyre_status status = gyre_gguf_is_file(path, &is_gguf, err);
    if (status) return status;
    if (is_gguf) {
        status = gyre_mapping_open(&map, path, err);
        gyre_reading *reading = NULL;
        if (!status) status = read_gguf(&reading, map.bytes, map.size, 1, path, profile, length, err);
        if (!status) status = gyre_mapping_check(&map, path, err);
        if (!status)
            *out = reading;
        else
            gyre_reading_free(reading);
        gyre_mapping_close(&map);
        return status;
    }
    status = gyre_config_document_open(&document, path, err);
    if (status) return status;
    status = gyre_reading_from_document(out, &document, profile, length, err);
    gyre_config_document_free(&document);
    return status;
}

gyre_status gyre_reading_open(gyre_reading **out, const char *path, const gyre_reading_options *options, gyre_error *err) {
    char file[PATH_MAX];
    gyre_reading_options read;
    gyre_status status = gyre_reading_options_read(&read, options, err);
    if (status) return status;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "gyre_reading_open: an argument is missing");
    status = gyre_model_path_check(path, err);
    if (!status) status = gyre_config_path(path, file, err);
    return !status ? open_file(out, file, read.profile, read.context_length, err) : status;
}
