/* read_changed_config.c: axolotl (July 2026) and LLaMA-Factory (August 2026): the config.json that their settings begin
 * from, with what they change in it, read as the transformers reads it that they run with. */
#include "files/file_read.h"
#include "reading/config_document.h"
#include "reading/family.h"
#include "reading/trainers/trainer_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char scaling_key[] = "rope_scaling", parameters_key[] = "rope_parameters", theta_key[] = "rope_theta",
                  share_key[] = "partial_rotary_factor", length_key[] = "max_position_embeddings",
                  original_key[] = "original_max_position_embeddings";

static int is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* out = 1 and folder = the model that the key names: from the working folder, as the trainer takes it, else beside the
 * settings. */
static int find_base(const gyre_settings *settings, const gyre_scope *s, const char *key, char folder[PATH_MAX]) {
    const char *name = gyre_scope_string(s, key, NULL), *slash = strrchr(settings->path, '/');
    if (gyre_build_status(s->source->build)) return 0;
    if (!settings->is_file) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, key, "only settings in a file can name a model");
        return 0;
    }
    const int length = snprintf(folder, PATH_MAX, "%s", name);
    if (length > 0 && length < PATH_MAX && is_folder(folder)) return 1;
    if (slash && *name != '/') {
        const int beside = snprintf(folder, PATH_MAX, "%.*s/%s", (int)(slash - settings->path), settings->path, name);
        if (beside > 0 && beside < PATH_MAX && is_folder(folder)) return 1;
    }
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, key,
                    "%.100s is no folder here, and nothing is downloaded; the settings only change the rotation of its "
                    "config.json",
                    name);
    return 0;
}

/* Opens the config.json of the model that the settings begin from.  out = 0 if the build has failed. */
static int open_base(const gyre_settings *settings, const gyre_scope *s, const char *key, char path[PATH_MAX],
                     gyre_config_document *out) {
    char folder[PATH_MAX];
    gyre_error err = {0, ""};
    if (!find_base(settings, s, key, folder)) return 0;
    gyre_status status = gyre_config_path(folder, path, &err);
    if (!status) status = gyre_config_document_open(out, path, &err);
    if (status) gyre_scope_fail(s, status, key, "%.250s", err.text);
    return !status;
}

/* lines: of the keys that the settings changed. */
static void read_changed(const gyre_scope *s, const json_t *changed, const json_t *lines) {
    const gyre_json_source source = {s->source->build, s->source->text, s->source->bytes, gyre_key_marks_new(), lines};
    gyre_read_config_json(&source, changed);
    gyre_warn_unread_keys(&source, changed);
    gyre_key_marks_free(source.marks);
}

/* -- axolotl -- */
static const json_t *rotation_of(const json_t *config) {
    const json_t *parameters = json_object_get(config, parameters_key);
    return json_is_object(parameters) ? parameters : json_object_get(config, scaling_key);
}

static const char overrides_key[] = "overrides_of_model_config";

/* out = 1 if the object, or each object in it, has the key: rope_parameters may be given by layer type. */
static int states(const json_t *object, const char *key) {
    const char *name;
    json_t *value;
    int inner = 0;
    if (json_object_get(object, key)) return 1;
    json_object_foreach((json_t *)object, name, value) {
        if (!json_is_object(value)) return 0;
        if (!json_object_get(value, key)) return 0;
        inner = 1;
    }
    return inner;
}

/* The overrides set attributes of the config that transformers 5 has already read.  Its rope_scaling is another name of
 * rope_parameters, which replaces the whole object; the keys that it read into this object have no effect any more. */
static void check_overrides(const gyre_scope *s, const gyre_scope *overrides) {
    static const char *const objects[] = {parameters_key, scaling_key, NULL}, *const late[] = {theta_key, share_key, NULL};
    const char *name = gyre_scope_first(overrides, objects);
    if (gyre_scope_value(s, scaling_key))
        gyre_scope_fail(s, GYRE_EFORMAT, scaling_key, "axolotl refuses it here; it belongs under %s", overrides_key);
    if (name && json_is_object(gyre_scope_value(overrides, name)) && !states(gyre_scope_value(overrides, name), theta_key))
        gyre_scope_fail(overrides, GYRE_EFORMAT, name,
                        "no rope_theta; the object replaces that of the model, and without a base transformers 5 stops");
    if (name == scaling_key)
        gyre_scope_warn(overrides, name, "rope_scaling: an old name of rope_parameters to transformers 5; write that");
    for (int i = 0; late[i]; i++)
        if (gyre_scope_value(overrides, late[i]))
            gyre_scope_warn(overrides, late[i],
                            "%s: has no effect; transformers 5 has read the config.json by then, and its "
                            "rotation follows rope_parameters, which is the object to write",
                            late[i]);
}

/* Puts the overrides into the config, as check_overrides describes.  out = 0 without memory. */
static int put_overrides(json_t *config, const json_t *overrides) {
    const char *key;
    json_t *value;
    int bad = 0;
    json_object_foreach((json_t *)overrides, key, value) {
        if (strcmp(key, theta_key) == 0 || strcmp(key, share_key) == 0 || json_is_null(value)) continue;
        if (strcmp(key, parameters_key) != 0 && strcmp(key, scaling_key) != 0) {
            bad |= json_object_set(config, key, value);
            continue;
        }
        const int was_partial = json_object_get(config, share_key) || json_object_get(rotation_of(config), share_key);
        json_t *copy = json_deep_copy(value);
        if (json_is_object(copy) && was_partial && !json_object_get(copy, share_key))
            bad |= json_object_set_new(copy, share_key, json_real(1.0));
        (void)json_object_del(config, scaling_key);
        (void)json_object_del(config, share_key);
        (void)json_object_del(config, theta_key);
        bad |= !copy || json_object_set_new(config, parameters_key, copy);
    }
    return !bad;
}

/* Lines of the overrides, under the names that the keys have in the config. */
static int put_lines(json_t *lines, const gyre_settings *settings, const char *prefix) {
    const size_t length = strlen(prefix), old = strlen(scaling_key);
    const char *key;
    json_t *value;
    int bad = 0;
    json_object_foreach(settings->lines, key, value) {
        char renamed[200];
        if (strncmp(key, prefix, length) != 0) continue;
        bad |= json_object_set(lines, key + length, value);
        if (strncmp(key + length, scaling_key, old) != 0) continue;
        const int size = snprintf(renamed, sizeof renamed, "%s%s", parameters_key, key + length + old);
        if (size > 0 && size < (int)sizeof renamed) bad |= json_object_set(lines, renamed, value);
    }
    return !bad;
}

void gyre_read_axolotl(const gyre_settings *settings, const gyre_scope *s) {
    static const char *const names[] = {"base_model_config", "base_model", NULL};
    char path[PATH_MAX];
    gyre_config_document base = {0};
    const gyre_scope overrides = gyre_scope_child(s, overrides_key);
    const char *name = gyre_scope_first(s, names);
    check_overrides(s, &overrides);
    if (!open_base(settings, s, name ? name : names[1], path, &base)) return;
    json_t *changed = json_deep_copy(base.root), *lines = json_object();
    if (!changed || !lines || !put_overrides(changed, overrides.object) || !put_lines(lines, settings, overrides.prefix))
        gyre_build_fail(s->source->build, GYRE_ENOMEM, NULL, "settings: no memory");
    else
        read_changed(s, changed, lines);
    json_decref(changed);
    json_decref(lines);
    gyre_config_document_free(&base);
}

/* -- LLaMA-Factory -- */
/* Replaces the model's scaling.  out = 0 without memory. */
static int stretch(json_t *config, const char *type, double factor, int64_t old) {
    json_t *rope = json_pack("{s:s, s:f}", "rope_type", type, "factor", factor);
    int bad = !rope;
    if (strcmp(type, "linear") != 0) bad |= json_object_set_new(rope, original_key, json_integer(old));
    if (strcmp(type, "llama3") == 0) {
        bad |= json_object_set_new(rope, "low_freq_factor", json_real(1.0));
        bad |= json_object_set_new(rope, "high_freq_factor", json_real(4.0));
    }
    bad |= json_object_set_new(config, length_key, json_integer((json_int_t)((double)old * factor)));
    bad |= json_object_set_new(config, scaling_key, rope);
    return !bad;
}

/* Changes the config where the length asked for is past that of the model. */
static void apply_scaling(const gyre_scope *s, json_t *config, json_t *lines) {
    static const char *const types[] = {"linear", "dynamic", "yarn", "llama3"};
    const char *type = gyre_scope_string(s, scaling_key, "");
    int known = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        known |= strcmp(types[i], type) == 0;
    if (!known) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, scaling_key, "\"%.40s\" is not known: linear, dynamic, yarn or llama3", type);
        return;
    }
    const json_t *given = json_object_get(json_object_get(config, scaling_key), original_key);
    if (!given) given = json_object_get(config, length_key);
    const int64_t old = json_is_integer(given) ? (int64_t)json_integer_value(given) : 0,
                  cutoff = gyre_scope_integer(s, "cutoff_len", 1, 2048);
    if (old <= 0 || old > 1 << 30 || cutoff > 1 << 30) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, scaling_key, "the model's config.json states no length, or one is too large");
        return;
    }
    if (cutoff <= old) {
        gyre_scope_warn(s, scaling_key,
                        "rope_scaling: LLaMA-Factory leaves it out, because cutoff_len, %" PRId64 ", is within the %" PRId64
                        " tokens of the model",
                        cutoff, old);
        return;
    }
    const json_t *line = json_object_get(s->source->lines, scaling_key),
                 *length = json_object_get(s->source->lines, "cutoff_len");
    if (!stretch(config, type, ceil((double)cutoff / (double)old), old) ||
        json_object_set(lines, scaling_key, (json_t *)line) ||
        (length && json_object_set(lines, length_key, (json_t *)length)))
        gyre_build_fail(s->source->build, GYRE_ENOMEM, NULL, "settings: no memory");
    /* transformers 5 takes this object for the whole rope_parameters, finds no base in it, and stops. */
    gyre_build_set_profile(s->source->build, GYRE_PROFILE_HF_4_56);
    gyre_scope_warn(s, scaling_key,
                    "rope_scaling: read as transformers 4.56 reads it; with transformers 5 LLaMA-Factory stops, because it "
                    "sets a rope_scaling without rope_theta");
}

void gyre_read_llama_factory(const gyre_settings *settings, const gyre_scope *s) {
    char path[PATH_MAX];
    gyre_config_document base = {0};
    if (!open_base(settings, s, "model_name_or_path", path, &base)) return;
    json_t *changed = json_deep_copy(base.root), *lines = json_object();
    if (!changed || !lines)
        gyre_build_fail(s->source->build, GYRE_ENOMEM, NULL, "settings: no memory");
    else if (gyre_scope_value(s, scaling_key))
        apply_scaling(s, changed, lines);
    if (!gyre_build_status(s->source->build)) read_changed(s, changed, lines);
    json_decref(changed);
    json_decref(lines);
    gyre_config_document_free(&base);
}
