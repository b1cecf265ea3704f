/* extend_support.c: what a method needs in the model's config, and which programs understand it.  Writes that config and
 * reads it as each program does. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_signals.h"
#include "tools/cli/temporary_folder.h"
#include "tools/extend/extend.h"
#include "tools/options/reading_options.h"
#include "util/checkpoint_files.h"
#include "util/plain_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_COPIED_BYTES = 64 << 20 }; /* of a GGUF */

const gyre_profile extend_readers[EXTEND_READERS] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP};

int extend_is_gguf(const extension *e) {
    return strcmp(e->reading->format, "GGUF") == 0;
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

/* out = the dict with the scaling of the layers called `layers`, or NULL. */
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

/* Describes a GGUF by the config that it is to have. */
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

static gyre_status describe_config(const extension *e, const char *after, char text[EXTEND_CONFIG_TEXT], gyre_error *err) {
    extend_key_change changes[EXTEND_MAX_KEY_CHANGES];
    json_t *root = cli_json_load(after);
    int count = 0;
    const gyre_status status = extend_changes(e, after, root, changes, &count, err);
    *text = '\0';
    describe_dict(dict_in(root, e->group->name), text);
    for (int i = 0; i < count; i++) {
        const char *dot = strrchr(changes[i].key, '.'), *key = dot ? dot + 1 : changes[i].key;
        char one[120];
        if (!changes[i].after[0] || (!strstr(key, "theta") && !strstr(key, "base"))) continue;
        gyre_plain_snprintf(one, sizeof one, "%.40s %.12g", key, strtod(changes[i].after, NULL));
        append(text, one);
    }
    json_decref(root);
    return status;
}

/* -- as each program reads it -- */
static const gyre_layer_reading *same_layers(const gyre_reading *reading, const char *name) {
    const gyre_layer_reading *found = reading_find_group(reading, name);
    return found ? found : reading->groups[0];
}

/* out = the largest relative difference that counts as rounding; keys of a GGUF are floats. */
static double rounding(const extension *e) {
    return extend_is_gguf(e) ? 1e-6 : 1e-9;
}

static int differ(const extension *e, double a, double b) {
    return !(fabs(a - b) <= rounding(e) * fabs(b));
}

static int64_t starts_in_use(const gyre_config *c, int64_t length) {
    return length > c->trained_length ? c->rope.longrope.start_tokens : 0;
}

json_t *extend_with_chunks(const json_t *config, const gyre_config *want) {
    json_t *out = json_deep_copy(config), *chunks;
    chunks = json_pack("{s:I, s:I}", "chunk_size", (json_int_t)want->rope.chunk.size, "local_size",
                       (json_int_t)want->rope.chunk.local);
    if (out && !json_object_set_new(out, "dual_chunk_attention_config", chunks)) return out;
    json_decref(out);
    return NULL;
}

/* The reason why keys rotate otherwise although all frequencies are the same, if there is one. */
static void compare_reach(const gyre_config *want, const gyre_config *got, int64_t length, char why[200]) {
    const int64_t starts[2] = {starts_in_use(want, length), starts_in_use(got, length)};
    const int far = want->rope.far != got->rope.far ||
                    (want->rope.far != GYRE_FAR_AS_NEAR &&
                     (want->rope.far_window != got->rope.far_window || want->rope.far_factor != got->rope.far_factor ||
                      want->rope.chunk.size != got->rope.chunk.size || want->rope.chunk.local != got->rope.chunk.local));
    if (far)
        snprintf(why, 200, "keys further away rotate otherwise");
    else if (starts[0] != starts[1])
        snprintf(why, 200, "%lld start tokens, not %lld", (long long)starts[1], (long long)starts[0]);
}

gyre_status extend_compare_encodings(const extension *e, const gyre_encoding *want, const gyre_encoding *got, char why[200],
                                     gyre_error *err) {
    const int64_t length = e->to;
    const int64_t pairs = gyre_encoding_get_config(want)->rope.dim / 2;
    double *a = calloc((size_t)pairs, 2 * sizeof *a), factor_a = 0, factor_b = 0, max = 0;
    if (!a) return gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (extend)");
    if (!gyre_kind_has(gyre_encoding_get_config(got)->kind, GYRE_TRAIT_ROTATES) ||
        gyre_encoding_get_config(got)->rope.dim != 2 * pairs) {
        snprintf(why, 200, "rotates other channels");
        free(a);
        return GYRE_OK;
    }
    gyre_status status = gyre_encoding_frequencies(want, length, a, &factor_a);
    if (!status) status = gyre_encoding_frequencies(got, length, a + pairs, &factor_b);
    for (int64_t i = 0; i < pairs && !status; i++)
        if (a[i] != a[pairs + i]) max = fmax(max, fabs(a[i] - a[pairs + i]) / fmax(fabs(a[i]), fabs(a[pairs + i])));
    if (max > rounding(e))
        snprintf(why, 200, "frequencies differ by up to %.3g %%", 100 * max);
    else if (differ(e, factor_b, factor_a))
        snprintf(why, 200, "attention factor %.6g, not %.6g", factor_b, factor_a);
    else if (!status)
        compare_reach(gyre_encoding_get_config(want), gyre_encoding_get_config(got), length, why);
    free(a);
    return status;
}

int64_t extend_first_difference(const extension *e, const gyre_encoding *a, const gyre_encoding *b) {
    const int64_t pairs = gyre_encoding_get_config(a)->rope.dim / 2;
    const int alike = gyre_encoding_get_config(b)->rope.dim == 2 * pairs &&
                      gyre_kind_has(gyre_encoding_get_config(b)->kind, GYRE_TRAIT_ROTATES);
    if (!alike) return -1;
    double *theta = calloc((size_t)pairs, 2 * sizeof *theta), max = 0;
    if (!theta) cli_end_without_memory();
    gyre_status status = gyre_encoding_frequencies(a, e->to, theta, NULL);
    if (!status) status = gyre_encoding_frequencies(b, e->to, theta + pairs, NULL);
    if (status == GYRE_ENOMEM) cli_end_without_memory();
    for (int64_t i = 0; i < pairs && !status; i++)
        max = fmax(max, fabs(theta[i] - theta[pairs + i]));
    free(theta);
    return !status && max * (double)e->to > 0.01 ? (int64_t)floor(0.01 / max) + 1 : -1;
}

void extend_drop_location(char *text, const char *path) {
    char *place = strstr(text, path);
    if (place && place - text >= 2 && place[-1] == '(') place[-2] = '\0';
}

gyre_status extend_compare_reading(const extension *e, const gyre_reading *reading, const extend_expected *want,
                                   extend_support *support, char why[200], gyre_error *err) {
    gyre_encoding *got = NULL;
    const gyre_layer_reading *group = same_layers(reading, e->group->name);
    gyre_status status = gyre_encoding_create(&got, &group->config, NULL, err);
    if (!status) status = extend_compare_encodings(e, want->encoding, got, why, err);
    if (!status && !*why && differ(e, group->softmax_multiplier, want->softmax))
        snprintf(why, 200, "softmax multiplied by %.6g, not %.6g", group->softmax_multiplier, want->softmax);
    *support = *why ? EXTEND_SUPPORT_DIFFERENT : EXTEND_SUPPORT_SAME;
    gyre_encoding_free(got);
    return status;
}

/* known: the default reading of the file, used instead of reading it again if it has the reader's profile. */
static gyre_status check_reader(const extension *e, const gyre_reading *known, const extend_expected *want, int reader,
                                extend_effect *out, gyre_error *err) {
    gyre_reading *reading = NULL;
    gyre_error refusal = {0, ""};
    out->support[reader] = EXTEND_SUPPORT_NONE;
    if (extend_is_gguf(e) && extend_readers[reader] != GYRE_PROFILE_LLAMA_CPP) return GYRE_OK;
    if (known->profile == extend_readers[reader])
        return extend_compare_reading(e, known, want, &out->support[reader], out->why[reader], err);
    gyre_status status = gyre_reading_open(
        &reading, known->path, GYRE_ARGS(gyre_reading_options, .profile = extend_readers[reader], .context_length = e->to),
        &refusal);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refusal.text);
    if (status) {
        extend_drop_location(refusal.text, known->path);
        gyre_plain_snprintf(out->why[reader], sizeof out->why[reader], "%.190s", refusal.text);
        return GYRE_OK;
    }
    status = extend_compare_reading(e, reading, want, &out->support[reader], out->why[reader], err);
    gyre_reading_free(reading);
    return status;
}

/* path: a config that expresses the method, as transformers reads it. */
static gyre_status check_readers(const extend_candidate *c, const extension *e, const char *path, extend_effect *out,
                                 gyre_error *err) {
    gyre_reading *known = NULL;
    gyre_status status = gyre_reading_open(&known, path, GYRE_ARGS(gyre_reading_options, .context_length = e->to), err);
    if (status) return status;
    const extend_expected want = {c->encoding, same_layers(known, e->group->name)->softmax_multiplier};
    for (int i = 0; i < EXTEND_READERS && !status; i++)
        status = check_reader(e, known, &want, i, out, err);
    gyre_reading_free(known);
    return status;
}

int extend_transformers_lacks(const extension *e, char why[200]) {
    if (strcmp(e->reading->model_type, "qwen") != 0) return 0;
    snprintf(why, 200,
             "transformers has no class of it, and its published code reads use_dynamic_ntk and use_logn_attn, not "
             "rope_scaling");
    return 1;
}

/* -- parts of layers -- */
static int has_field(const extension *e, const char *name) {
    for (int64_t f = 0; f < e->group->fields_count; f++)
        if (strcmp(e->group->fields[f].name, name) == 0) return 1;
    return 0;
}

/* out = the key of a part that makes queries and keys, in the place of the rotation (1) or before it (0); NULL = none. */
static const char *head_part(const extension *e, int replaces) {
    const gyre_head_part_facts *part;
    for (int i = 0; (part = gyre_head_part_facts_at(i)); i++)
        if (part->replaces_rotation == replaces && has_field(e, part->key)) return part->key;
    return NULL;
}

const char *extend_part_in_place(const extension *e) {
    return head_part(e, 1);
}

static const char bases[] = "layer_rope_theta";

/* 1: the layers of a model made here have bases of their own. */
static int lists_bases(const extension *e) {
    const char *key = NULL;
    for (int64_t f = 0; f < e->group->fields_count; f++)
        if (strcmp(e->group->fields[f].name, "base") == 0) key = e->group->fields[f].key;
    return key && strcmp(key, bases) == 0 && strcmp(e->reading->model_type, "gyre") == 0;
}

const char *extend_part_of_gyre(const extension *e, char why[200]) {
    const char *part = head_part(e, 0);
    if (!part && has_field(e, "forget_gates")) part = "forget_gates";
    if (part) snprintf(why, 200, "%s: no other program has such layers, and no GGUF states them; gyre alone runs it", part);
    if (!part && lists_bases(e)) {
        part = bases;
        snprintf(why, 200, "%s: no other program reads it in a gyre, and no GGUF states it; gyre alone runs it", part);
    }
    return part;
}

/* -- the temporary folder -- */
static void set_unsupported(const extension *e, extend_effect *out, const char *why) {
    snprintf(out->config, sizeof out->config, "no config can state it");
    for (int i = 0; i < EXTEND_READERS; i++) {
        out->support[i] = EXTEND_SUPPORT_NONE;
        if (extend_is_gguf(e) && extend_readers[i] != GYRE_PROFILE_LLAMA_CPP) continue;
        gyre_plain_snprintf(out->why[i], sizeof out->why[i], "%.190s", why);
    }
}

/* Dual chunks are written by hand alone, but there is a key, so each program is asked what it makes of it. */
static gyre_status check_chunks(const char *path, const extend_candidate *c, const extension *e, extend_effect *out,
                                gyre_error *err) {
    const struct gyre_chunk_config *chunk = &c->config.rope.chunk;
    json_t *config = extend_with_chunks(e->config, &c->config);
    const int written = config && !json_dump_file(config, path, JSON_REAL_PRECISION(17));
    json_decref(config);
    if (!written) return gyre_fail(err, GYRE_EIO, "%s: the config cannot be written (extend)", path);
    snprintf(out->config, sizeof out->config, "dual_chunk_attention_config, chunk_size %lld, local_size %lld",
             (long long)chunk->size, (long long)chunk->local);
    return check_readers(c, e, path, out, err);
}

static gyre_status check_in_folder(const char *folder, const extend_candidate *c, const extension *e, extend_effect *out,
                                   gyre_error *err) {
    char path[4200];
    gyre_error refusal = {0, ""};
    snprintf(path, sizeof path, "%s/%s", folder, extend_is_gguf(e) ? "model.gguf" : GYRE_CONFIG_FILE);
    gyre_status status = gyre_reading_write(e->path, &c->config, e->to, path, &refusal);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refusal.text);
    if (status) {
        if (c->config.rope.far == GYRE_FAR_CHUNKED && e->config) return check_chunks(path, c, e, out, err);
        extend_drop_location(refusal.text, e->reading->path);
        set_unsupported(e, out, refusal.text);
        return GYRE_OK;
    }
    if (extend_is_gguf(e))
        describe_gguf(&c->config, out->config);
    else
        status = describe_config(e, path, out->config, err);
    if (!status) status = check_readers(c, e, path, out, err);
    for (int i = 0; i < EXTEND_READERS; i++)
        if (extend_readers[i] == GYRE_PROFILE_HF_5 && !extend_is_gguf(e) && extend_transformers_lacks(e, out->why[i]))
            out->support[i] = EXTEND_SUPPORT_NONE;
    return status;
}

/* A GGUF of many gigabytes is not copied for one row of a table. */
static int is_too_large(const extension *e) {
    struct stat info;
    return extend_is_gguf(e) && stat(e->reading->path, &info) == 0 && info.st_size > MAX_COPIED_BYTES;
}

static void describe_unchecked(const extend_candidate *c, const extension *e, extend_effect *out) {
    const struct gyre_rope_config *rope = &c->config.rope;
    const gyre_scaling s = rope->scaling;
    const int has_keys = s == GYRE_SCALING_NONE || s == GYRE_SCALING_LINEAR || s == GYRE_SCALING_NTK ||
                         s == GYRE_SCALING_YARN || s == GYRE_SCALING_BY_PARTS;
    set_unsupported(e, out, "llama.cpp has no keys for this");
    if (!has_keys || rope->resonance || rope->far != GYRE_FAR_AS_NEAR || c->config.rope.clip.mode != GYRE_CLIP_NONE) return;
    describe_gguf(&c->config, out->config);
    for (int i = 0; i < EXTEND_READERS; i++)
        if (extend_readers[i] == GYRE_PROFILE_LLAMA_CPP) {
            out->support[i] = EXTEND_SUPPORT_UNKNOWN;
            out->why[i][0] = '\0';
        }
}

/* What the config says under the method stays; no program but Gyre runs it. */
static void keep_to_gyre(const extension *e, extend_effect *out) {
    char why[200];
    for (int i = 0; i < EXTEND_READERS && extend_part_of_gyre(e, why); i++) {
        out->support[i] = EXTEND_SUPPORT_NONE;
        memcpy(out->why[i], why, sizeof why);
    }
}

gyre_status extend_check_support(const extend_candidate *c, const extension *e, extend_effect *out, gyre_error *err) {
    temporary_folder folder;
    if (method_is_none(&c->method->method)) {
        snprintf(out->config, sizeof out->config, "as it is");
        const gyre_status status = check_readers(c, e, e->reading->path, out, err);
        keep_to_gyre(e, out);
        return status;
    }
    if (is_too_large(e)) {
        describe_unchecked(c, e, out);
        return GYRE_OK;
    }
    gyre_status status = temporary_folder_create(&folder, "extend", err);
    if (status) return status;
    status = check_in_folder(folder.path, c, e, out, err);
    keep_to_gyre(e, out);
    temporary_folder_remove(&folder);
    return status;
}
