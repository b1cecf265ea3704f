/* write_positions.c: gyre_reading_write: a copy of a model's description with other positions.
 *
 * A config.json of transformers has one dict for all rotating layers (rope_scaling; since version 5 rope_parameters) or
 * one for each kind of layer.  With several dicts, layers that attend to all tokens get the new scaling.  Layers with a
 * sliding window keep theirs, because none of their distances grows.  If all layers have windows, all get the new
 * scaling. */
#include "core/config/config_names.h"
#include "files/gguf.h"
#include "files/target_path.h"
#include "reading/config_document.h"
#include "reading/config_edit.h"
#include "reading/family.h"
#include "reading/gguf/gguf_rewrite_positions.h"
#include "reading/rope/rope_parameters.h"
#include "reading/scaling_traits.h"
#include "reading/temperature_check.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/file_write.h"
#include "util/path.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_PATH = 256 };

typedef struct config_rewrite {
    const gyre_encoding *encoding; /* the requested positions */
    int64_t length;
    gyre_reading *old_reading;
    json_t *root;
    char decoder[MAX_KEY_PATH]; /* "" or "text_config": the object that describes the decoder */
    gyre_config_edit edit;
    gyre_rope_parameters parameters;
    gyre_error *err;
} config_rewrite;

/* -- which layers -- */
static int is_rope_group(const gyre_layer_reading *group) {
    return gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES) && strcmp(group->name, "vision") != 0;
}

/* out = 1 if the group's layers get the scaling. */
static int is_target_group(const gyre_reading *reading, const gyre_layer_reading *group) {
    int some_see_all = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        some_see_all |= is_rope_group(reading->groups[i]) && reading->groups[i]->window == 0;
    return is_rope_group(group) && (group->window == 0 || !some_see_all);
}

static const gyre_layer_reading *first_target_group(const gyre_reading *reading) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (is_target_group(reading, reading->groups[i])) return reading->groups[i];
    return NULL;
}

/* out = the key that a field of the group was read from, or NULL. */
static const char *key_of(const gyre_layer_reading *group, const char *name) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0 && group->fields[i].origin == GYRE_ORIGIN_FILE)
            return group->fields[i].key;
    return NULL;
}

/* -- objects -- */
static void join_path(config_rewrite *w, const char *object, const char *key, char out[MAX_KEY_PATH]) {
    const int length = snprintf(out, MAX_KEY_PATH, "%s%s%s", object, *object ? "." : "", key);
    if (length >= MAX_KEY_PATH && !w->edit.status)
        w->edit.status = gyre_fail(w->err, GYRE_EUNSUPPORTED, "%.100s...: nested under names that are too long (%s)", out,
                                   w->old_reading->path);
}

/* "a.b.c" = object "a.b", key "c". */
static const char *split_path(const char *path, char object[MAX_KEY_PATH]) {
    const char *dot = strrchr(path, '.');
    snprintf(object, MAX_KEY_PATH, "%.*s", dot ? (int)(dot - path) : 0, path);
    return dot ? dot + 1 : path;
}

static json_t *decoder_of(const config_rewrite *w) {
    json_t *object = w->root;
    char path[MAX_KEY_PATH], *rest = path;
    snprintf(path, sizeof path, "%s", w->decoder);
    for (char *key; (key = strtok_r(rest, ".", &rest)) != NULL;)
        object = json_object_get(object, key);
    return object;
}

/* "text_config.rope_scaling.factor" and "text_config.head_dim" both give "text_config". */
static void decoder_of_key(const char *key, char out[MAX_KEY_PATH]) {
    static const char *const inner[] = {"rope_scaling.", "rope_parameters.", "attn_config."};
    const char *dict = NULL;
    for (size_t i = 0; i < sizeof inner / sizeof *inner && !dict; i++)
        dict = strstr(key, inner[i]);
    if (dict)
        snprintf(out, MAX_KEY_PATH, "%.*s", dict > key ? (int)(dict - key) - 1 : 0, key);
    else
        split_path(key, out);
}

/* Derives the decoder's object from the keys that the reader used, preferring keys that are certainly beside the
 * rotation's dict. */
static void find_decoder(config_rewrite *w) {
    static const char *const names[] = {"max_length", "head_dim", "base"};
    const gyre_layer_reading *group = first_target_group(w->old_reading);
    const char *key = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !key; i++)
        key = key_of(group, names[i]);
    for (int64_t i = 0; i < group->fields_count && !key; i++)
        if (group->fields[i].origin == GYRE_ORIGIN_FILE) key = group->fields[i].key;
    if (key) decoder_of_key(key, w->decoder);
    if (!json_is_object(decoder_of(w))) *w->decoder = '\0';
}

/* out = 1 if every value is an object or null: a dict for each kind of layer. */
static int is_nested(const json_t *dict) {
    const char *key;
    json_t *value;
    int objects = 0;
    json_object_foreach((json_t *)dict, key, value) {
        if (!json_is_object(value) && !json_is_null(value)) return 0;
        objects += json_is_object(value);
    }
    return objects > 0;
}

/* -- one dict -- */
/* A key that states YaRN's own default is kept: other programs may have other defaults. */
static int is_default_of(const char *type, const char *key, const json_t *value) {
    if (strcmp(type, "yarn") != 0) return 0;
    if (strcmp(key, "truncate") == 0) return json_is_true(value);
    const double number = json_number_value(value);
    return (strcmp(key, "beta_fast") == 0 && number == 32.0) || (strcmp(key, "beta_slow") == 0 && number == 1.0);
}

/* partial_rotary_factor is a number of the proportional scaling: the share of the pairs that rotate.  With other types
 * programs read it as the share of the channels. */
static int is_scaling_key(const json_t *dict, const char *key) {
    const json_t *type = json_object_get(dict, json_object_get(dict, "rope_type") ? "rope_type" : "type");
    const int proportional = json_is_string(type) && strcmp(json_string_value(type), "proportional") == 0;
    return !gyre_rope_key_is_not_scaling(key) || (proportional && strcmp(key, "partial_rotary_factor") == 0);
}

/* Removes the keys of the old scaling that the new one does not have. */
static void drop_old_keys(config_rewrite *w, const char *path, const json_t *dict) {
    const char *key;
    json_t *value;
    const int temperature = json_object_get(dict, "llama_4_scaling_beta") != NULL;
    json_object_foreach((json_t *)dict, key, value) {
        if (!is_scaling_key(dict, key) || strcmp(key, "type") == 0 || strcmp(key, "rope_type") == 0) continue;
        if (temperature && strcmp(key, "original_max_position_embeddings") == 0) continue;
        if (!json_object_get(w->parameters.values, key) && !is_default_of(w->parameters.type, key, value))
            gyre_edit_remove(&w->edit, path, key);
    }
}

static gyre_rope_dialect dialect_of(const gyre_reading *reading) {
    const gyre_family *family = gyre_family_of(reading->model_type);
    if (strcmp(reading->model_type, "gyre") == 0) return GYRE_DIALECT_NATIVE;
    return family && family->traits & GYRE_YARN_IS_LONGROPE ? GYRE_DIALECT_LONGROPE_ONLY : GYRE_DIALECT_TRANSFORMERS;
}

/* Before transformers 5 the configuration of Phi-3 and Phi-4 takes exactly type, short_factor and long_factor.  The
 * original length is then beside the object, and the factor is the ratio of the lengths. */
static int takes_three_fields(const config_rewrite *w) {
    const json_t *values = w->parameters.values, *original = json_object_get(values, "original_max_position_embeddings");
    const double factor = json_number_value(json_object_get(values, "factor"));
    if (dialect_of(w->old_reading) != GYRE_DIALECT_LONGROPE_ONLY || strcmp(w->parameters.type, "longrope") != 0) return 0;
    if (!original || json_object_get(values, "attention_factor")) return 0;
    return factor * json_number_value(original) == (double)w->parameters.length;
}

/* Makes rope_scaling the three fields. */
static void set_three_fields(config_rewrite *w, const char *path, const json_t *dict) {
    static const char *const lists[] = {"short_factor", "long_factor"};
    const char *key;
    json_t *value;
    if (json_object_size(dict) == 0) {
        gyre_edit_set(&w->edit, w->decoder, "rope_scaling", json_pack("{s:s}", "type", w->parameters.type), "rope_theta");
    } else {
        gyre_edit_set(&w->edit, path, "type", json_string(w->parameters.type), NULL);
        json_object_foreach((json_t *)dict, key, value) {
            const int kept = strcmp(key, "type") == 0 || strcmp(key, "short_factor") == 0 || strcmp(key, "long_factor") == 0;
            if (!kept) gyre_edit_remove(&w->edit, path, key);
        }
    }
    for (int i = 0; i < 2; i++)
        gyre_edit_set(&w->edit, path, lists[i], json_incref(json_object_get(w->parameters.values, lists[i])), NULL);
}

/* Sets the type under the name, or both names, that the dict uses. */
static void set_type(config_rewrite *w, const char *path, const json_t *dict) {
    const int as_type = json_object_get(dict, "type") != NULL;
    const char *old = json_string_value(json_object_get(dict, as_type ? "type" : "rope_type"));
    /* "mrope" is "default" with a rule for its axes. */
    if (old && strcmp(old, "mrope") == 0 && strcmp(w->parameters.type, "default") == 0) return;
    if (as_type) gyre_edit_set(&w->edit, path, "type", json_string(w->parameters.type), NULL);
    if (!as_type || json_object_get(dict, "rope_type"))
        gyre_edit_set(&w->edit, path, "rope_type", json_string(w->parameters.type), NULL);
}

static void set_values(config_rewrite *w, const char *path, const json_t *dict) {
    const char *key, *after = json_object_get(dict, "rope_type") || !json_object_get(dict, "type") ? "rope_type" : "type";
    json_t *value;
    json_object_foreach(w->parameters.values, key, value) {
        gyre_edit_set(&w->edit, path, key, json_incref(value), after);
        after = key;
    }
}

/* Ministral's temperature counts from the original length, and without that key from the model's, which changes. */
static void keep_temperature(config_rewrite *w, const char *path, const json_t *dict) {
    static const char original[] = "original_max_position_embeddings";
    const struct gyre_query_config *query = &gyre_encoding_get_config(w->encoding)->query;
    if (query->temperature != GYRE_TEMPERATURE_MINISTRAL || !json_object_get(dict, "llama_4_scaling_beta")) return;
    if (json_object_get(w->parameters.values, original)) return;
    if (!json_object_get(dict, original) && query->reference_length == w->parameters.length) return;
    if (json_number_value(json_object_get(dict, original)) == (double)query->reference_length) return;
    gyre_edit_set(&w->edit, path, original, json_integer(query->reference_length), "llama_4_scaling_beta");
}

static void change_dict(config_rewrite *w, const char *path, const json_t *dict) {
    drop_old_keys(w, path, dict);
    set_type(w, path, dict);
    set_values(w, path, dict);
    keep_temperature(w, path, dict);
}

/* out = 1 if nothing would remain in the dict except a type that says nothing. */
static int becomes_empty(const config_rewrite *w, const json_t *dict) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)dict, key, value) {
        if (!is_scaling_key(dict, key)) return 0;
    }
    return strcmp(w->parameters.type, "default") == 0 && json_object_size(w->parameters.values) == 0;
}

/* mistral4 and ministral3 without a dict have a temperature of queries by default, which a new dict must state.  The
 * base of that default is lost with it. */
static int put_what_class_had(const config_rewrite *w, json_t *object) {
    static const char original[] = "original_max_position_embeddings", base[] = "rope_theta";
    const struct gyre_query_config *query = &gyre_encoding_get_config(w->encoding)->query;
    const gyre_family *family = gyre_family_of(w->old_reading->model_type);
    if (query->temperature != GYRE_TEMPERATURE_MINISTRAL || !family || !(family->traits & GYRE_LLAMA4_SCALING_BETA))
        return 1;
    if (json_object_set_new(object, base, json_real(w->parameters.base))) return 0;
    if (!json_object_get(object, original) && json_object_set_new(object, original, json_integer(query->reference_length)))
        return 0;
    return json_object_set_new(object, "llama_4_scaling_beta", json_real(query->slope)) == 0;
}

/* Adds a new dict: first an object with the values that fit on a line, then the lists. */
static void add_dict(config_rewrite *w, const char *name) {
    char path[MAX_KEY_PATH];
    const char *key;
    json_t *value, *object = json_object();
    join_path(w, w->decoder, name, path);
    int ok = json_object_set_new(object, "rope_type", json_string(w->parameters.type)) == 0;
    json_object_foreach(w->parameters.values, key, value) {
        if (!json_is_array(value)) ok = ok && json_object_set(object, key, value) == 0;
    }
    ok = ok && put_what_class_had(w, object);
    if (!ok) {
        json_decref(object);
        object = NULL;
    }
    gyre_edit_set(&w->edit, w->decoder, name, object, "rope_theta");
    json_object_foreach(w->parameters.values, key, value) {
        if (json_is_array(value)) gyre_edit_set(&w->edit, path, key, json_incref(value), NULL);
    }
}

/* -- the whole config -- */
/* out = 1 if the group was read from this dict, or has its name. */
static int is_read_from(const gyre_layer_reading *group, const char *kind, const char *path) {
    const size_t length = strlen(path);
    if (strcmp(group->name, kind) == 0) return 1;
    for (int64_t i = 0; i < group->fields_count; i++) {
        const char *key = group->fields[i].origin == GYRE_ORIGIN_FILE ? group->fields[i].key : NULL;
        if (key && strncmp(key, path, length) == 0 && key[length] == '.') return 1;
    }
    return 0;
}

/* Changes the dicts of those kinds of layers that get the scaling. */
static void change_nested(config_rewrite *w, const char *path, const json_t *dict) {
    const char *kind;
    json_t *inner;
    json_object_foreach((json_t *)dict, kind, inner) {
        char inner_path[MAX_KEY_PATH];
        int targeted = 0;
        join_path(w, path, kind, inner_path);
        for (int64_t i = 0; i < w->old_reading->groups_count; i++)
            targeted |= is_target_group(w->old_reading, w->old_reading->groups[i]) &&
                        is_read_from(w->old_reading->groups[i], kind, inner_path);
        if (targeted && json_is_object(inner)) change_dict(w, inner_path, inner);
    }
}

/* out = 1 if the layers have no scaling in the edited text.  For some classes, such as gpt-oss, a missing dict means a
 * scaling of their own. */
static int is_unscaled(const config_rewrite *w) {
    gyre_reading *now = NULL;
    if (w->edit.status || gyre_reading_parse(&now, w->edit.text, w->edit.bytes,
                                             GYRE_ARGS(gyre_reading_options, .context_length = w->length), NULL))
        return 1; /* reading the result back reports the error */
    const gyre_layer_reading *group = first_target_group(now);
    const int unscaled = !group || group->config.rope.scaling == GYRE_SCALING_NONE;
    gyre_reading_free(now);
    return unscaled;
}

/* A dict that would only say "no scaling" becomes null, as long as the class reads that as no scaling. */
static void clear_scaling(config_rewrite *w, const char *name, const json_t *old) {
    if (json_object_size(old) > 0) gyre_edit_set(&w->edit, w->decoder, name, json_null(), NULL);
    if (!is_unscaled(w)) add_dict(w, name);
}

/* Changes the dict that is read: a rope_scaling with contents takes precedence over rope_parameters. */
static void change_scaling(config_rewrite *w) {
    const json_t *decoder = decoder_of(w), *old = json_object_get(decoder, "rope_scaling");
    const char *name = "rope_scaling";
    const gyre_family *family = gyre_family_of(w->old_reading->model_type);
    /* Only classes of transformers 5 complete the object of their own name. */
    const int is_late = family && family->traits & GYRE_LLAMA4_SCALING_BETA;
    if (json_object_size(old) == 0 && (is_late || json_object_get(decoder, "rope_parameters"))) {
        name = "rope_parameters";
        old = json_object_get(decoder, name);
    }
    char path[MAX_KEY_PATH];
    join_path(w, w->decoder, name, path);
    const int nothing = becomes_empty(w, old);
    if (strcmp(name, "rope_scaling") == 0 && takes_three_fields(w))
        set_three_fields(w, path, old);
    else if (is_nested(old))
        change_nested(w, path, old);
    else if (nothing && (json_object_size(old) == 0 || strcmp(name, "rope_scaling") == 0))
        clear_scaling(w, name, old);
    else if (json_object_size(old) == 0)
        add_dict(w, name);
    else
        change_dict(w, path, old);
}

/* A list with a base for each layer: sets those of layers that rotate, if they are all the group's. */
static gyre_status change_layer_bases(config_rewrite *w, const char *path, const json_t *list, double base) {
    char object[MAX_KEY_PATH];
    const char *key = split_path(path, object);
    json_t *bases = json_array(), *entry;
    size_t i;
    int failed = !bases, others = 0;
    json_array_foreach((json_t *)list, i, entry) {
        const double old = json_number_value(entry);
        others |= old != 0.0 && old != base;
        failed |= json_array_append_new(bases, old == 0.0 ? json_deep_copy(entry) : json_real(w->parameters.base)) != 0;
    }
    if (!failed && !others) {
        gyre_edit_set(&w->edit, object, key, bases, NULL);
        return GYRE_OK;
    }
    json_decref(bases);
    return failed ? gyre_fail(w->err, GYRE_ENOMEM, "%s: out of memory (%s)", path, w->old_reading->path)
                  : gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s: layers have different bases, and a method is for one (%s)",
                              path, w->old_reading->path);
}

/* Changes one base, under the key that it was read from, else under its usual name.  One that the file does not state, and
 * that another version of transformers would not have, is stated. */
static gyre_status change_base(config_rewrite *w, const gyre_layer_reading *group) {
    const char *path = key_of(group, "base");
    char object[MAX_KEY_PATH], inside[MAX_KEY_PATH];
    const double base = group->config.rope.base != 0.0 ? group->config.rope.base : 10000.0;
    const gyre_family *family = gyre_family_of(w->old_reading->model_type);
    const int unsure = !path && family && gyre_family_hf_5_base(family) > 0.0;
    if (base == w->parameters.base && !unsure) return GYRE_OK;
    if (!path) {
        join_path(w, w->decoder, "rope_parameters", inside);
        const int has_dict = json_is_object(json_object_get(decoder_of(w), "rope_parameters")) &&
                             json_object_size(json_object_get(decoder_of(w), "rope_scaling")) == 0;
        const int is_neox = family && family->traits & GYRE_OLDER_NAMES && !has_dict;
        const char *name = is_neox ? "rotary_emb_base" : "rope_theta";
        gyre_edit_set(&w->edit, has_dict ? inside : w->decoder, name, json_real(w->parameters.base), NULL);
        return GYRE_OK;
    }
    const char *key = split_path(path, object);
    if (!strstr(key, "theta") && !strstr(key, "base"))
        return gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s: the base follows from it and cannot be set to %.17g (%s)", path,
                         w->parameters.base, w->old_reading->path);
    const json_t *list = json_object_get(decoder_of(w), key);
    if (json_is_array(list)) return change_layer_bases(w, path, list, base);
    gyre_edit_set(&w->edit, object, key, json_real(w->parameters.base), NULL);
    return GYRE_OK;
}

static gyre_status change_bases(config_rewrite *w) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < w->old_reading->groups_count && !status; i++)
        if (is_target_group(w->old_reading, w->old_reading->groups[i])) status = change_base(w, w->old_reading->groups[i]);
    return status;
}

static void change_lengths(config_rewrite *w) {
    static const char original[] = "original_max_position_embeddings";
    const json_t *decoder = decoder_of(w);
    const char *path = key_of(first_target_group(w->old_reading), "max_length"), *key = "max_position_embeddings";
    char object[MAX_KEY_PATH];
    snprintf(object, sizeof object, "%s", w->decoder);
    if (path) key = split_path(path, object);
    gyre_edit_set(&w->edit, object, key, json_integer(w->parameters.length), NULL);
    const json_t *inside = json_object_get(w->parameters.values, original);
    /* In transformers this key overrides the one in the dict.  Version 4 looks for LongRoPE's nowhere else.  llama.cpp's
     * converter does the same for Llama 3 and otherwise assumes 8192. */
    const int longrope = strcmp(w->parameters.type, "longrope") == 0, llama3 = strcmp(w->parameters.type, "llama3") == 0;
    const int asked_for =
        (longrope && !json_object_get(decoder, "rope_parameters")) || (llama3 && json_integer_value(inside) != 8192);
    const int native = strcmp(w->old_reading->model_type, "gyre") == 0;
    if (inside && (json_object_get(decoder, original) || (asked_for && !native)))
        gyre_edit_set(&w->edit, w->decoder, original, json_integer(json_integer_value(inside)), key);
}

/* Everything about positions that is not the scaling must be unchanged. */
static gyre_status check_other_fields(const config_rewrite *w, const gyre_layer_reading *group) {
    const gyre_config *a = gyre_encoding_get_config(w->encoding);
    const gyre_config *b = gyre_encoding_get_config(gyre_reading_encoding(w->old_reading, group));
    const char *what = NULL;
    if (a->rope.far != b->rope.far || a->rope.far_window != b->rope.far_window) what = "far positions";
    if (a->rope.chunk.size != b->rope.chunk.size || a->rope.chunk.local != b->rope.chunk.local ||
        a->rope.chunk.original_length != b->rope.chunk.original_length)
        what = "other chunks";
    if (a->query.temperature != b->query.temperature) what = "a temperature of queries";
    if (a->rope.xpos_base != b->rope.xpos_base) what = "xPos";
    if (a->head_dim != b->head_dim || a->rope.dim != b->rope.dim || a->rope.first_channel != b->rope.first_channel)
        what = "other rotated channels";
    if (a->length_policy != b->length_policy)
        what = "another length policy";
    else if (a->length_policy == GYRE_LENGTH_POLICY_CAUSAL && a->length_block != b->length_block)
        what = "another block of lengths";
    if (a->rope.layout != b->rope.layout || a->rope.clockwise != b->rope.clockwise) what = "another layout";
    if (a->rope.far == GYRE_FAR_CHUNKED && b->rope.far == GYRE_FAR_AS_NEAR)
        return gyre_fail(w->err, GYRE_EUNSUPPORTED,
                         "far positions: dual_chunk_attention_config, which vLLM reads, is not "
                         "written (%s)",
                         w->old_reading->path);
    if (!what) return GYRE_OK;
    return gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s: no key of a config.json states that (%s)", what, w->old_reading->path);
}

/* Models of Gyre's own whose layers trained what a scaling would change. */
static gyre_status check_untrained(const config_rewrite *w) {
    const gyre_head_part_facts *part;
    for (int i = 0; (part = gyre_head_part_facts_at(i)) && dialect_of(w->old_reading) == GYRE_DIALECT_NATIVE; i++)
        if (part->replaces_rotation && json_is_true(json_object_get(w->root, part->key)))
            return gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s: trained parameters replace the rotation of the model (%s)",
                             part->key, w->old_reading->path);
    return GYRE_OK;
}

/* A number and a word of Gyre's own.  Without the number both go, because a reader takes it from 1 on. */
static void change_pair(config_rewrite *w, const char *number_key, int64_t number, const char *word_key, const char *word) {
    if (number < 1) {
        gyre_edit_remove(&w->edit, "", number_key);
        gyre_edit_remove(&w->edit, "", word_key);
        return;
    }
    gyre_edit_set(&w->edit, "", number_key, json_integer(number), "rope_scaling");
    gyre_edit_set(&w->edit, "", word_key, json_string(word), number_key);
}

static void change_clip_and_start(config_rewrite *w) {
    const gyre_config *c = gyre_encoding_get_config(w->encoding);
    change_pair(w, "rope_clip_pairs", c->rope.clip.mode == GYRE_CLIP_NONE ? 0 : c->rope.clip.pairs, "rope_clip",
                gyre_clip_name(c->rope.clip.mode));
    change_pair(w, "rope_start_tokens", c->rope.longrope.start_tokens, "rope_starts",
                gyre_longrope_start_name(c->rope.longrope.starts));
}

static gyre_status change_all(config_rewrite *w) {
    gyre_status status = gyre_rope_parameters_of(w->encoding, w->length, dialect_of(w->old_reading), &w->parameters, w->err);
    if (status) return status;
    find_decoder(w);
    change_scaling(w);
    status = change_bases(w);
    change_lengths(w);
    if (dialect_of(w->old_reading) == GYRE_DIALECT_NATIVE &&
        (w->parameters.resonance || gyre_edit_has(&w->edit, "", "rope_resonance")))
        gyre_edit_set(&w->edit, "", "rope_resonance", json_boolean(w->parameters.resonance), "rope_scaling");
    if (dialect_of(w->old_reading) == GYRE_DIALECT_NATIVE) change_clip_and_start(w);
    return status ? status : w->edit.status;
}

/* -- reading it back -- */
static int nearly_equal(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Fails unless `got` has the frequencies of w->encoding at this length. */
static gyre_status compare_frequencies(const config_rewrite *w, const gyre_encoding *got, const gyre_layer_reading *group) {
    const int64_t pairs = gyre_encoding_get_config(w->encoding)->rope.dim / 2;
    double *a = calloc((size_t)pairs, 2 * sizeof *a), factor_a = 0.0, factor_b = 0.0;
    if (!a) return gyre_fail(w->err, GYRE_ENOMEM, "%s: no memory to read it back", w->old_reading->path);
    gyre_status status = gyre_encoding_frequencies(w->encoding, w->length, a, &factor_a);
    if (!status) status = gyre_encoding_frequencies(got, w->length, a + pairs, &factor_b);
    for (int64_t i = 0; i < pairs && !status; i++)
        if (!nearly_equal(a[pairs + i], a[i]))
            status = gyre_fail(w->err, GYRE_EUNSUPPORTED,
                               "%s layers: read back, pair %lld has frequency %.17g, not %.17g: this config cannot say the "
                               "scaling (%s)",
                               group->name, (long long)i, a[pairs + i], a[i], w->old_reading->path);
    if (!status && !nearly_equal(factor_b, factor_a))
        status = gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s layers: read back, the attention factor is %.17g, not %.17g (%s)",
                           group->name, factor_b, factor_a, w->old_reading->path);
    free(a);
    return status;
}

/* What the reader says of a file that is about to vanish, without its path, which ends the message. */
static gyre_status fail_reading_back(const config_rewrite *w, const char *path, gyre_status status, gyre_error *why) {
    char *place = strstr(why->text, path);
    if (place && place - why->text >= 2) place[-2] = '\0';
    return gyre_fail(w->err, status, "read back: %.300s (%.150s)", why->text, w->old_reading->path);
}

static gyre_status verify(const config_rewrite *w, const char *path) {
    gyre_reading *after = NULL;
    gyre_error why = {0, ""};
    const gyre_temperature_expected temperature = {gyre_encoding_get_config(w->encoding)->query, 1e-12,
                                                   "original_max_position_embeddings", w->old_reading->path};
    gyre_status status = gyre_reading_open(&after, path, GYRE_ARGS(gyre_reading_options, .context_length = w->length), &why);
    if (status) return fail_reading_back(w, path, status, &why);
    for (int64_t i = 0; !status && i < after->groups_count; i++) {
        if (!is_target_group(after, after->groups[i])) continue;
        const gyre_encoding *got = gyre_reading_encoding(after, after->groups[i]);
        if (gyre_encoding_get_config(got)->rope.dim != gyre_encoding_get_config(w->encoding)->rope.dim)
            status = gyre_fail(w->err, GYRE_EUNSUPPORTED, "%s layers: other channels rotate there (%s)",
                               after->groups[i]->name, w->old_reading->path);
        if (!status) status = compare_frequencies(w, got, after->groups[i]);
        if (!status)
            status = gyre_temperature_check_written(&gyre_encoding_get_config(got)->query, &temperature,
                                                    after->groups[i]->name, w->err);
    }
    gyre_reading_free(after);
    return status;
}

/* -- the call -- */
static gyre_status fail_writing(const char *path, int code, gyre_error *err) {
    return gyre_fail(err, gyre_status_of_errno(code), "writing: %s (%.380s)", strerror(code), path);
}

/* The new file gets its name only after it was read back and checked. */
static gyre_status replace_config(config_rewrite *w, const char *target) {
    gyre_atomic_file file;
    int code = gyre_atomic_open(&file, target);
    if (code) return fail_writing(target, code, w->err);
    code = gyre_write_all(file.fd, w->edit.text, w->edit.bytes);
    if (!code) code = gyre_atomic_close(&file);
    gyre_status status = code ? fail_writing(target, code, w->err) : verify(w, file.temporary);
    if (!status && (code = gyre_atomic_commit(&file)) != 0) status = fail_writing(target, code, w->err);
    gyre_atomic_discard(&file);
    return status;
}

static gyre_status write_config(config_rewrite *w, const char *target) {
    char path[PATH_MAX];
    gyre_status status = gyre_target_path(path, w->old_reading->path, target, GYRE_CONFIG_FILE, w->err);
    if (!status) status = gyre_atomic_check_whole(path, w->err);
    if (!status) status = change_all(w);
    if (!status) status = replace_config(w, path);
    json_decref(w->parameters.values);
    return status;
}

static gyre_status change_config(const gyre_encoding *encoding, const char *path, int64_t length, const char *target,
                                 gyre_error *err) {
    config_rewrite w = {.encoding = encoding, .length = length, .err = err};
    gyre_config_document document;
    gyre_status status = gyre_config_document_open(&document, path, err);
    if (status) return status;
    w.root = document.root;
    status = gyre_reading_from_document(&w.old_reading, &document, GYRE_PROFILE_DEFAULT, length, err);
    const gyre_layer_reading *group = !status ? first_target_group(w.old_reading) : NULL;
    if (!status && !group)
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "positions: no layers rotate, so no scaling can be written (%s)", path);
    if (!status) status = check_other_fields(&w, group);
    if (!status) status = check_untrained(&w);
    if (!status) {
        gyre_edit_begin(&w.edit, document.text, document.bytes, err);
        status = !w.edit.status ? write_config(&w, target) : w.edit.status;
        gyre_edit_end(&w.edit);
    }
    gyre_reading_free(w.old_reading);
    gyre_config_document_free(&document);
    return status;
}

/* In a folder, the new file has the name of the old one.  The reading reports what is wrong with the source. */
static gyre_status change_gguf(const char *path, const gyre_config *position, int64_t length, const char *target,
                               gyre_error *err) {
    gyre_reading *reading = NULL;
    char written[PATH_MAX];
    gyre_status status = gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .context_length = length), err);
    gyre_reading_free(reading);
    if (!status) status = gyre_target_path(written, path, target, gyre_path_name(path), err);
    return !status ? gyre_gguf_rewrite_positions(path, position, length, written, err) : status;
}

static gyre_status check_arguments(const char *path, const gyre_config *position, int64_t length, const char *target,
                                   gyre_error *err) {
    if (!path || !position || !target) return gyre_fail(err, GYRE_EINVAL, "gyre_reading_write: an argument is missing");
    if (length < 1) return gyre_fail(err, GYRE_EINVAL, "length: %lld is below 1", (long long)length);
    if (!gyre_kind_has(position->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: only rotations are written, but this is another kind (%d)",
                         (int)position->kind);
    if (position->trained_length < 1) return gyre_fail(err, GYRE_EINVAL, "trained_length: below 1");
    return GYRE_OK;
}

gyre_status gyre_reading_write(const char *path, const gyre_config *position, int64_t length, const char *target,
                               gyre_error *err) {
    char file[PATH_MAX];
    gyre_encoding *encoding = NULL;
    gyre_status status = check_arguments(path, position, length, target, err);
    if (!status) status = gyre_config_path(path, file, err);
    if (status) return status;
    int is_gguf;
    status = gyre_gguf_is_file(file, &is_gguf, err);
    if (status) return status;
    if (is_gguf) return change_gguf(file, position, length, target, err);
    status = gyre_encoding_create(&encoding, position, NULL, err);
    if (!status) status = change_config(encoding, file, length, target, err);
    gyre_encoding_free(encoding);
    return status;
}
