/* extend_check_support.c: what a recipe needs in the model's config, and which programs understand it: by writing that
 * config and reading it as each of them does. */
#include "tools/common/cli.h"
#include "tools/extend/extend.h"
#include "util/checkpoint_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_COPIED_BYTES = 64 << 20 }; /* bytes of a GGUF */

const gyre_profile extend_readers[EXTEND_READERS] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP};

static int is_gguf(const extension *e) {
    return strcmp(e->reading->format, "GGUF") == 0;
}

/* -- two configs, key by key -- */
typedef struct comparison {
    extend_key_change *changes;
    int count;
} comparison;

/* A list of numbers by its length and its ends. */
static void value_text(const json_t *value, char *out, size_t room) {
    const size_t count = json_array_size(value);
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, count - 1);
    if (count > 4 && json_is_number(first) && json_is_number(last)) {
        snprintf(out, room, "%zu numbers, %.6g to %.6g", count, json_number_value(first), json_number_value(last));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    snprintf(out, room, "%s", text ? text : "");
    free(text);
}

static void note(comparison *c, const char *key, const json_t *before, const json_t *after) {
    if (c->count == EXTEND_MAX_KEY_CHANGES) return;
    extend_key_change *change = &c->changes[c->count++];
    *change = (extend_key_change){"", "", ""};
    snprintf(change->key, sizeof change->key, "%s", key);
    if (before) value_text(before, change->before, sizeof change->before);
    if (after) value_text(after, change->after, sizeof change->after);
}

static void compare_values(comparison *c, const char *key, json_t *before, json_t *after);

static void compare_objects(comparison *c, const char *prefix, json_t *before, json_t *after) {
    char path[256];
    const char *key;
    json_t *value;
    json_object_foreach(after, key, value) {
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        compare_values(c, path, json_object_get(before, key), value);
    }
    json_object_foreach(before, key, value) {
        if (json_object_get(after, key)) continue;
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        compare_values(c, path, value, NULL);
    }
}

static void compare_values(comparison *c, const char *key, json_t *before, json_t *after) {
    if ((!before || json_is_null(before) || json_is_object(before)) &&
        (!after || json_is_null(after) || json_is_object(after)) && (json_is_object(before) || json_is_object(after)))
        compare_objects(c, key, before, after);
    else if (!before || !after || !json_equal(before, after))
        note(c, key, before, after);
}

/* -- two GGUF files, as far as their readings speak of keys -- */
static const char *value_under(const gyre_reading *reading, const char *key) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        for (int64_t f = 0; f < reading->groups[i].fields_count; f++) {
            const gyre_reading_field *field = &reading->groups[i].fields[f];
            if (field->origin == GYRE_ORIGIN_FILE && field->key && strcmp(field->key, key) == 0) return field->value;
        }
    return "";
}

/* Notes what other says under the keys of reading, where that is something else. */
static void compare_keys(comparison *c, const gyre_reading *reading, const gyre_reading *before, const gyre_reading *after) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        for (int64_t f = 0; f < reading->groups[i].fields_count; f++) {
            const gyre_reading_field *field = &reading->groups[i].fields[f];
            if (field->origin != GYRE_ORIGIN_FILE || !field->key) continue;
            const char *was = value_under(before, field->key), *is = value_under(after, field->key);
            int known = strcmp(was, is) == 0 || c->count == EXTEND_MAX_KEY_CHANGES;
            for (int k = 0; k < c->count; k++)
                known |= strcmp(c->changes[k].key, field->key) == 0;
            if (known) continue;
            extend_key_change *change = &c->changes[c->count++];
            snprintf(change->key, sizeof change->key, "%s", field->key);
            snprintf(change->before, sizeof change->before, "%s", was);
            snprintf(change->after, sizeof change->after, "%s", is);
        }
}

static int compare_readings(const gyre_reading *before, const char *path,
                            extend_key_change changes[EXTEND_MAX_KEY_CHANGES]) {
    comparison c = {changes, 0};
    gyre_reading *after = NULL;
    if (gyre_reading_open(&after, path, GYRE_PROFILE_DEFAULT, before->context_length, NULL) != GYRE_OK) return 0;
    compare_keys(&c, after, before, after);
    compare_keys(&c, before, before, after);
    gyre_reading_free(after);
    return c.count;
}

int extend_changes(const extension *e, const char *after, extend_key_change changes[EXTEND_MAX_KEY_CHANGES]) {
    comparison c = {changes, 0};
    const char *before = e->reading->path;
    if (is_gguf(e)) return compare_readings(e->reading, after, changes);
    json_t *a = json_load_file(before, 0, NULL), *b = json_load_file(after, 0, NULL);
    compare_values(&c, "", a, b);
    json_decref(a);
    json_decref(b);
    return c.count;
}

/* -- a config in short -- */
static void append(char text[EXTEND_CONFIG_TEXT], const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, EXTEND_CONFIG_TEXT - used, "%s%s", used ? ", " : "", more);
}

static void append_key(char text[EXTEND_CONFIG_TEXT], const char *key, const json_t *value) {
    static const struct {
        const char *key, *word;
    } words[] = {{"factor", "factor"},
                 {"original_max_position_embeddings", "original"},
                 {"attention_factor", "attention_factor"},
                 {"beta_fast", "beta_fast"},
                 {"beta_slow", "beta_slow"},
                 {"truncate", "truncate"},
                 {"mscale", "mscale"},
                 {"mscale_all_dim", "mscale_all_dim"},
                 {"low_freq_factor", "low"},
                 {"high_freq_factor", "high"}};
    char one[80];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].key, key) != 0) continue;
        if (json_is_number(value))
            snprintf(one, sizeof one, "%s %.10g", words[i].word, json_number_value(value));
        else
            snprintf(one, sizeof one, "%s %s", words[i].word, json_is_true(value) ? "true" : "false");
        append(text, one);
    }
}

/* out = the dict that scales the layers called `layers`, or NULL. */
static const json_t *dict_in(const json_t *object, const char *layers) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const int named = strcmp(key, "rope_scaling") == 0 || strcmp(key, "rope_parameters") == 0;
        if (!json_is_object(value)) continue;
        const json_t *kind = json_object_get(value, layers);
        if (named) return json_is_object(kind) ? kind : value;
        const json_t *inside = dict_in(value, layers);
        if (inside) return inside;
    }
    return NULL;
}

static void describe_dict(const json_t *dict, char text[EXTEND_CONFIG_TEXT]) {
    const char *type = json_string_value(json_object_get(dict, "rope_type")), *key;
    json_t *value;
    if (!type) type = json_string_value(json_object_get(dict, "type"));
    append(text, type ? type : "default");
    json_object_foreach((json_t *)dict, key, value) {
        append_key(text, key, value);
        char one[40];
        if (strcmp(key, "long_factor") != 0 || !json_is_array(value)) continue;
        snprintf(one, sizeof one, "lists of %zu", json_array_size(value));
        append(text, one);
    }
}

/* Of a GGUF, from what is asked of it. */
static void describe_gguf(const gyre_config *c, char text[EXTEND_CONFIG_TEXT]) {
    const struct gyre_rope_config *rope = &c->rope;
    const double dim = (double)(rope->dim ? rope->dim : c->head_dim);
    const int parts = rope->scaling == GYRE_SCALING_YARN || rope->scaling == GYRE_SCALING_BY_PARTS;
    if (rope->scaling == GYRE_SCALING_NTK)
        snprintf(text, EXTEND_CONFIG_TEXT, "none, freq_base %.9g", rope->base * pow(rope->factor, dim / (dim - 2)));
    else if (parts)
        snprintf(text, EXTEND_CONFIG_TEXT, "yarn, factor %.10g, original %lld%s", rope->factor, (long long)c->trained_length,
                 rope->scaling == GYRE_SCALING_BY_PARTS ? ", attn_factor" : "");
    else
        snprintf(text, EXTEND_CONFIG_TEXT, "%s, factor %.10g", rope->scaling == GYRE_SCALING_LINEAR ? "linear" : "none",
                 rope->factor);
}

static void describe_config(const extension *e, const char *after, char text[EXTEND_CONFIG_TEXT]) {
    extend_key_change changes[EXTEND_MAX_KEY_CHANGES];
    const int count = extend_changes(e, after, changes);
    json_t *root = json_load_file(after, 0, NULL);
    *text = '\0';
    describe_dict(dict_in(root, e->group->name), text);
    for (int i = 0; i < count; i++) {
        const char *dot = strrchr(changes[i].key, '.'), *key = dot ? dot + 1 : changes[i].key;
        char one[120];
        if (!changes[i].after[0] || (!strstr(key, "theta") && !strstr(key, "base"))) continue;
        snprintf(one, sizeof one, "%.40s %.12g", key, strtod(changes[i].after, NULL));
        append(text, one);
    }
    json_decref(root);
}

/* -- as every program reads it -- */
static const gyre_layer_reading *same_layers(const gyre_reading *reading, const char *name) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (strcmp(reading->groups[i].name, name) == 0) return &reading->groups[i];
    return &reading->groups[0];
}

/* Relative differences that count as rounding: the keys of a GGUF are floats. */
static double rounding(const extension *e) {
    return is_gguf(e) ? 1e-6 : 1e-9;
}

static int differ(const extension *e, double a, double b) {
    return !(fabs(a - b) <= rounding(e) * fabs(b));
}

static gyre_status compare_encodings(const extension *e, const gyre_encoding *want, const gyre_encoding *got, char why[200],
                                     gyre_error *err) {
    const int64_t length = e->to;
    const int64_t pairs = gyre_encoding_get_config(want)->rope.dim / 2;
    double *a = calloc((size_t)pairs, 2 * sizeof *a), factor_a = 0, factor_b = 0, most = 0;
    if (!a) return gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (extend)");
    if (gyre_encoding_get_config(got)->kind != GYRE_KIND_ROPE || gyre_encoding_get_config(got)->rope.dim != 2 * pairs) {
        snprintf(why, 200, "turns other channels");
        free(a);
        return GYRE_OK;
    }
    gyre_status status = gyre_encoding_frequencies(want, length, a, &factor_a);
    if (status == GYRE_OK) status = gyre_encoding_frequencies(got, length, a + pairs, &factor_b);
    for (int64_t i = 0; i < pairs && status == GYRE_OK; i++)
        if (a[i] != a[pairs + i]) most = fmax(most, fabs(a[i] - a[pairs + i]) / fmax(fabs(a[i]), fabs(a[pairs + i])));
    if (most > rounding(e))
        snprintf(why, 200, "frequencies differ by up to %.3g %%", 100 * most);
    else if (differ(e, factor_b, factor_a))
        snprintf(why, 200, "attention factor %.6g, not %.6g", factor_b, factor_a);
    free(a);
    return status;
}

/* " (PATH, line 1)" at the end of a message: of a file that soon is gone, or that the table has named. */
static void drop_location(char *text, const char *path) {
    char *place = strstr(text, path);
    if (place && place - text >= 2 && place[-1] == '(') place[-2] = '\0';
}

static gyre_status check_reader(const extension *e, const char *path, const gyre_encoding *want, double softmax, int reader,
                                extend_effect *out, gyre_error *err) {
    gyre_reading *reading = NULL;
    gyre_encoding *got = NULL;
    gyre_error refusal = {0, ""};
    char *why = out->why[reader];
    out->support[reader] = EXTEND_SUPPORT_NONE;
    if (is_gguf(e) && extend_readers[reader] != GYRE_PROFILE_LLAMA_CPP) return GYRE_OK; /* no file of theirs */
    gyre_status status = gyre_reading_open(&reading, path, extend_readers[reader], e->to, &refusal);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refusal.text);
    if (status != GYRE_OK) {
        drop_location(refusal.text, path);
        snprintf(why, sizeof out->why[reader], "%.190s", refusal.text);
        return GYRE_OK;
    }
    const gyre_layer_reading *group = same_layers(reading, e->group->name);
    status = gyre_encoding_create(&got, &group->config, NULL, err);
    if (status == GYRE_OK) status = compare_encodings(e, want, got, why, err);
    if (status == GYRE_OK && !*why && differ(e, group->softmax_multiplier, softmax))
        snprintf(why, sizeof out->why[reader], "softmax multiplied by %.6g, not %.6g", group->softmax_multiplier, softmax);
    out->support[reader] = *why ? EXTEND_SUPPORT_DIFFERENT : EXTEND_SUPPORT_SAME;
    gyre_encoding_free(got);
    gyre_reading_free(reading);
    return status;
}

/* path: a config that says the recipe, as transformers reads it. */
static gyre_status check_readers(const extend_method *r, const extension *e, const char *path, extend_effect *out,
                                 gyre_error *err) {
    gyre_config config;
    gyre_encoding *want = NULL;
    gyre_reading *usual = NULL;
    gyre_status status = extend_method_config(r, e, &config, err);
    if (status == GYRE_OK) status = gyre_encoding_create(&want, &config, NULL, err);
    if (status == GYRE_OK) status = gyre_reading_open(&usual, path, GYRE_PROFILE_DEFAULT, e->to, err);
    const double softmax = usual ? same_layers(usual, e->group->name)->softmax_multiplier : 1;
    for (int i = 0; i < EXTEND_READERS && status == GYRE_OK; i++)
        status = check_reader(e, path, want, softmax, i, out, err);
    gyre_reading_free(usual);
    gyre_encoding_free(want);
    return status;
}

/* -- the folder it is tried in -- */
static void set_unsupported(const extension *e, extend_effect *out, const char *why) {
    snprintf(out->config, sizeof out->config, "no config says it");
    for (int i = 0; i < EXTEND_READERS; i++) {
        out->support[i] = EXTEND_SUPPORT_NONE;
        if (is_gguf(e) && extend_readers[i] != GYRE_PROFILE_LLAMA_CPP) continue;
        snprintf(out->why[i], sizeof out->why[i], "%.190s", why);
    }
}

static gyre_status check_in_folder(const char *folder, const extend_method *r, const extension *e, extend_effect *out,
                                   gyre_error *err) {
    char path[4200];
    gyre_config config;
    gyre_error refusal = {0, ""};
    snprintf(path, sizeof path, "%s/%s", folder, is_gguf(e) ? "model.gguf" : GYRE_CONFIG_FILE);
    gyre_status status = extend_method_config(r, e, &config, err);
    if (status != GYRE_OK) return status;
    status = gyre_reading_write(e->path, &config, e->to, path, &refusal);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refusal.text);
    if (status != GYRE_OK) {
        drop_location(refusal.text, e->reading->path);
        set_unsupported(e, out, refusal.text);
        return GYRE_OK;
    }
    if (is_gguf(e))
        describe_gguf(&config, out->config);
    else
        describe_config(e, path, out->config);
    status = check_readers(r, e, path, out, err);
    unlink(path);
    return status;
}

/* A GGUF of many gigabytes is not copied for a row of a table. */
static int is_too_large(const extension *e) {
    struct stat info;
    return is_gguf(e) && stat(e->reading->path, &info) == 0 && info.st_size > MAX_COPIED_BYTES;
}

static gyre_status describe_unchecked(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err) {
    gyre_config config;
    const gyre_status status = extend_method_config(r, e, &config, err);
    if (status != GYRE_OK) return status;
    const gyre_scaling s = config.rope.scaling;
    const int has_keys = s == GYRE_SCALING_NONE || s == GYRE_SCALING_LINEAR || s == GYRE_SCALING_NTK ||
                         s == GYRE_SCALING_YARN || s == GYRE_SCALING_BY_PARTS;
    set_unsupported(e, out, "llama.cpp has no keys for this");
    if (!has_keys || config.rope.resonance || config.rope.far != GYRE_FAR_AS_NEAR) return GYRE_OK;
    describe_gguf(&config, out->config);
    for (int i = 0; i < EXTEND_READERS; i++)
        if (extend_readers[i] == GYRE_PROFILE_LLAMA_CPP) {
            out->support[i] = EXTEND_SUPPORT_UNKNOWN;
            out->why[i][0] = '\0';
        }
    return GYRE_OK;
}

gyre_status extend_check_support(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err) {
    char folder[4096];
    const char *where = getenv("TMPDIR");
    if (method_is_none(&r->method)) {
        snprintf(out->config, sizeof out->config, "as it is");
        return check_readers(r, e, e->reading->path, out, err);
    }
    if (is_too_large(e)) return describe_unchecked(r, e, out, err);
    if (snprintf(folder, sizeof folder, "%s/gyre-extend-XXXXXX", where && *where ? where : "/tmp") >= (int)sizeof folder)
        return gyre_fail(err, GYRE_EIO, "TMPDIR: the path is too long (extend)");
    if (!mkdtemp(folder)) return gyre_fail(err, GYRE_EIO, "%s: no temporary folder can be made there (extend)", folder);
    const gyre_status status = check_in_folder(folder, r, e, out, err);
    rmdir(folder);
    return status;
}
