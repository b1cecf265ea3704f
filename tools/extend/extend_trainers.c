/* extend_trainers.c: gyre extend --write-for: the rotation in the words of a trainer, read back before it is printed. */
#include "tools/extend/extend_trainers.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/temporary_folder.h"
#include "tools/common/model_path.h"
#include "tools/extend/extend_patch.h"
#include "tools/extend/extend_verdict.h"
#include "tools/options/reading_options.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/plain_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the settings are made from, and where they go. */
typedef struct writing {
    const extension *e;
    const gyre_config *config; /* with the method; NTK-aware is its larger base */
    json_t *after;             /* the config.json with the method; NULL = no config.json states it */
    const char *trainer;       /* its name in the command */
    FILE *text, *checked;      /* checked: the same settings of a model that lies in `folder` */
    const char *folder;
    gyre_error *err;
} writing;

static gyre_status refuse(const writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static gyre_status refuse(const writing *w, const char *format, ...) {
    char why[300];
    va_list arguments;
    va_start(arguments, format);
    gyre_plain_vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return gyre_fail(w->err, GYRE_EUNSUPPORTED, "--write-for %s: %s (%.300s)", w->trainer, why, w->e->reading->path);
}

static void put(const writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const writing *w, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    gyre_plain_vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fputs(line, w->text);
    fputs(line, w->checked);
}

typedef struct real_text {
    char digits[40];
} real_text;

/* "500000.0", "1.25": to PyYAML and argparse an exponent may be a text. */
static real_text real(double value) {
    real_text out;
    gyre_plain_snprintf(out.digits, sizeof out.digits, value == floor(value) && fabs(value) < 1e15 ? "%.1f" : "%.15g",
                        value);
    return out;
}

static int rotates_alike(const struct gyre_rope_config *a, const struct gyre_rope_config *b) {
    return a->base == b->base && a->dim == b->dim && a->scaling == b->scaling && a->factor == b->factor;
}

/* Each model of these trainers has one rotation. */
static gyre_status check_one_rotation(const writing *w) {
    const gyre_reading *reading = w->e->reading;
    const struct gyre_rope_config *rope = &w->config->rope;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *group = reading->groups[i];
        if (reading_is_beside(group) || !gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES)) continue;
        if (!rotates_alike(&group->config.rope, &w->e->group->config.rope))
            return refuse(w, "its models have one rotation, and the layers %.60s of this one have another than %.60s",
                          group->name, w->e->group->name);
    }
    if (rope->first_channel > 0) return refuse(w, "the rotation of latent attention is not written");
    if (rope->axes > 1) return refuse(w, "positions of several axes are not written");
    return GYRE_OK;
}

/* out = 1 if some layers do not rotate. */
static int has_still_layers(const writing *w) {
    const gyre_reading *reading = w->e->reading;
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (!gyre_kind_has(reading->groups[i]->config.kind, GYRE_TRAIT_ROTATES) && !reading_is_beside(reading->groups[i]))
            return 1;
    return 0;
}

/* -- Megatron-LM -- */
static void put_still_layers(const writing *w) {
    const gyre_reading *reading = w->e->reading;
    int64_t layers = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        layers += reading->groups[i]->layers_count;
    put(w, "--num-layers %lld\n--no-rope-freq [", (long long)layers);
    for (int64_t layer = 0; layer < layers; layer++) {
        int rotates = 0;
        for (int64_t g = 0; g < reading->groups_count; g++)
            for (int64_t i = 0; i < reading->groups[g]->layers_count; i++)
                if (reading->groups[g]->layers[i] == layer)
                    rotates = gyre_kind_has(reading->groups[g]->config.kind, GYRE_TRAIT_ROTATES);
        put(w, "%s%d", layer ? "," : "", !rotates);
    }
    put(w, "]\n");
}

static gyre_status put_megatron_scaling(const writing *w) {
    const struct gyre_rope_config *rope = &w->config->rope;
    if (rope->scaling == GYRE_SCALING_LINEAR) {
        if (rope->factor != floor(rope->factor))
            return refuse(w, "--rotary-seq-len-interpolation-factor is a whole number, and the method needs %.10g",
                          rope->factor);
        put(w, "--rotary-seq-len-interpolation-factor %.0f\n", rope->factor);
    } else if (rope->scaling == GYRE_SCALING_LLAMA3) {
        put(w, "--use-rope-scaling\n--rope-scaling-factor %s\n", real(rope->factor).digits);
    } else if (rope->scaling == GYRE_SCALING_YARN) {
        put(w, "--rotary-scaling-factor %s\n--yarn-original-max-position-embeddings %lld\n", real(rope->factor).digits,
            (long long)w->config->trained_length);
        put(w, "--yarn-beta-fast %s\n--yarn-beta-slow %s\n", real(rope->beta_fast ? rope->beta_fast : 32).digits,
            real(rope->beta_slow ? rope->beta_slow : 1).digits);
        if (rope->fractional_bounds) put(w, "--no-yarn-correction-range-round-to-int\n");
    } else if (rope->scaling != GYRE_SCALING_NONE) {
        return refuse(w, "it has linear, yarn and Llama 3.1's scaling, and not %s", gyre_rope_type(rope->scaling));
    }
    return GYRE_OK;
}

static gyre_status write_megatron(const writing *w) {
    const struct gyre_rope_config *rope = &w->config->rope;
    gyre_status status = check_one_rotation(w);
    if (status) return status;
    if (rope->base != floor(rope->base) || rope->base >= 1e15)
        return refuse(w, "--rotary-base is a whole number, and the method needs %.10g", rope->base);
    put(w, "--position-embedding-type %s\n--rotary-base %.0f\n", rope->scaling == GYRE_SCALING_YARN ? "yarn" : "rope",
        rope->base);
    put(w, "--kv-channels %lld\n", (long long)w->config->head_dim);
    if (rope->dim && rope->dim != w->config->head_dim)
        put(w, "--rotary-percent %s\n", real((double)rope->dim / (double)w->config->head_dim).digits);
    if (rope->layout == GYRE_LAYOUT_INTERLEAVED) put(w, "--rotary-interleaved\n");
    put(w, "--max-position-embeddings %lld\n", (long long)w->e->to);
    if (has_still_layers(w)) put_still_layers(w);
    return put_megatron_scaling(w);
}

/* -- torchtitan -- */
static gyre_status write_torchtitan(const writing *w) {
    const struct gyre_rope_config *rope = &w->config->rope;
    const int llama = rope->scaling == GYRE_SCALING_LLAMA3, parts = rope->scaling == GYRE_SCALING_BY_PARTS;
    gyre_status status = check_one_rotation(w);
    if (status) return status;
    if (rope->scaling == GYRE_SCALING_YARN)
        return refuse(w, "its YaRN has no attention factor; --method by-parts is what it calls yarn");
    if (!llama && !parts && rope->scaling != GYRE_SCALING_NONE)
        return refuse(w, "it has by-parts and Llama 3.1's scaling, and not %s", gyre_rope_type(rope->scaling));
    if (llama) put(w, "# Neighbouring channels are pairs: torchtitan permutes the heads of Llama when it loads them.\n");
    put(w, "%s.Config(\n    dim=%lld,\n    max_context_length=%lld,\n    theta=%s,\n",
        llama || rope->layout == GYRE_LAYOUT_INTERLEAVED ? "ComplexRoPE" : "CosSinRoPE",
        (long long)(rope->dim ? rope->dim : w->config->head_dim), (long long)w->e->to, real(rope->base).digits);
    if (llama)
        put(w,
            "    scaling=\"llama\",\n    scaling_factor=%s,\n    low_freq_factor=%s,\n    high_freq_factor=%s,\n"
            "    original_max_position_embeddings=%lld,\n",
            real(rope->factor).digits, real(rope->low_freq).digits, real(rope->high_freq).digits,
            (long long)w->config->trained_length);
    if (parts)
        put(w,
            "    scaling=\"yarn\",\n    rope_factor=%s,\n    beta_fast=%s,\n    beta_slow=%s,\n    "
            "original_seq_len=%lld,\n%s",
            real(rope->factor).digits, real(rope->beta_fast ? rope->beta_fast : 32).digits,
            real(rope->beta_slow ? rope->beta_slow : 1).digits, (long long)w->config->trained_length,
            rope->fractional_bounds ? "    truncate=False,\n" : "");
    put(w, ")\n");
    return GYRE_OK;
}

/* -- axolotl and LLaMA-Factory, which begin from a config.json -- */
static void put_base_model(const writing *w, const char *key) {
    const char *hub = model_path_hub_name(w->e->path);
    if (hub)
        fprintf(w->text, "%s: %.*s\n", key, (int)strcspn(hub, "@"), hub);
    else
        fprintf(w->text, "%s: FOLDER # of the model\n", key);
    fprintf(w->checked, "%s: \"%s\"\n", key, w->folder);
}

static int is_of_gyre(const writing *w) {
    return strcmp(w->e->reading->model_type, "gyre") == 0;
}

static void put_value(const writing *w, const json_t *value) {
    size_t i;
    const json_t *entry;
    if (json_is_array(value)) {
        put(w, "[");
        json_array_foreach((json_t *)value, i, entry) {
            if (i) put(w, ", ");
            put_value(w, entry);
        }
        put(w, "]");
    } else if (json_is_real(value)) {
        put(w, "%s", real(json_real_value(value)).digits);
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY); /* which YAML reads too */
        put(w, "%s", text ? text : "null");
        free(text);
    }
}

static void put_object(const writing *w, const json_t *object, int indent) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value)) continue; /* an override can set a key, not remove one */
        put(w, "%*s%s:", indent, "", key);
        if (json_is_object(value)) {
            put(w, "\n");
            put_object(w, value, indent + 2);
        } else {
            put(w, " ");
            put_value(w, value);
            put(w, "\n");
        }
    }
}

static gyre_status write_axolotl(const writing *w) {
    if (is_of_gyre(w)) return refuse(w, "it trains models of transformers, and this is one of Gyre's own");
    json_t *changes = w->after ? extend_patch_between(w->e->config, w->after) : NULL, *keys = NULL;
    if (!w->after) return refuse(w, "it changes keys of config.json, and no config.json states this method");
    if (!changes) return gyre_fail(w->err, GYRE_ENOMEM, "settings: out of memory (extend)");
    if (json_object_size(changes) > 0 && !extend_patch_is_plain(changes)) {
        json_decref(changes);
        return refuse(
            w, "it replaces keys at the top level of config.json, and this model has its rotation within another object");
    }
    json_decref(changes);
    keys = extend_patch_as_rope_parameters(w->e->config, w->after, w->config->rope.base);
    if (!keys) return gyre_fail(w->err, GYRE_ENOMEM, "settings: out of memory (extend)");
    put_base_model(w, "base_model");
    put(w, "sequence_len: %lld\noverrides_of_model_config:\n", (long long)w->e->to);
    put_object(w, keys, 2);
    json_decref(keys);
    return GYRE_OK;
}

static gyre_status write_llama_factory(const writing *w) {
    static const gyre_scaling known[] = {GYRE_SCALING_LINEAR, GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_YARN,
                                         GYRE_SCALING_LLAMA3};
    const gyre_scaling scaling = w->config->rope.scaling;
    int is_known = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= known[i] == scaling;
    if (!w->e->config) return refuse(w, "it changes a config.json, and this is a GGUF");
    if (is_of_gyre(w)) return refuse(w, "it trains models of transformers, and this is one of Gyre's own");
    if (scaling == GYRE_SCALING_NONE) return refuse(w, "it states scalings, and this method has none");
    if (!is_known) return refuse(w, "it has linear, dynamic, yarn and llama3, and not %s", gyre_rope_type(scaling));
    put_base_model(w, "model_name_or_path");
    put(w, "rope_scaling: %s # needs transformers 4; with transformers 5 LLaMA-Factory stops\ncutoff_len: %lld\n",
        gyre_rope_type(scaling), (long long)w->e->to);
    return GYRE_OK;
}

/* -- nanotron -- */
static gyre_status write_nanotron(const writing *w) {
    const struct gyre_rope_config *rope = &w->config->rope;
    gyre_status status = check_one_rotation(w);
    if (status) return status;
    if (has_still_layers(w)) return refuse(w, "which layers do not rotate is not written");
    if (rope->scaling != GYRE_SCALING_NONE && rope->scaling != GYRE_SCALING_LINEAR)
        return refuse(w, "its models read no rope_scaling, only a base and a linear factor, and not %s",
                      gyre_rope_type(rope->scaling));
    put(w, "model:\n  model_config:\n    is_qwen2_config: true\n    rope_theta: %s\n    rope_interleaved: %s\n",
        real(rope->base).digits, rope->layout == GYRE_LAYOUT_INTERLEAVED ? "true" : "false");
    if (rope->scaling == GYRE_SCALING_LINEAR)
        put(w, "    rope_seq_len_interpolation_factor: %s # only nanotron's Qwen2 reads it\n", real(rope->factor).digits);
    put(w, "    max_position_embeddings: %lld\n", (long long)w->e->to);
    /* Its heads have the width over their number. */
    const json_int_t width = json_integer_value(json_object_get(w->e->config, "hidden_size")),
                     heads = json_integer_value(json_object_get(w->e->config, "num_attention_heads"));
    const int is_there = width > 0 && heads > 0;
    fprintf(w->checked, "    hidden_size: %lld\n    num_attention_heads: %lld\n",
            is_there ? (long long)width : (long long)w->config->head_dim, is_there ? (long long)heads : 1LL);
    return GYRE_OK;
}

/* -- all -- */
static const struct {
    gyre_profile profile;
    gyre_status (*write)(const writing *w);
} writers[] = {{GYRE_PROFILE_MEGATRON, write_megatron},
               {GYRE_PROFILE_TORCHTITAN, write_torchtitan},
               {GYRE_PROFILE_AXOLOTL, write_axolotl},
               {GYRE_PROFILE_LLAMA_FACTORY, write_llama_factory},
               {GYRE_PROFILE_NANOTRON, write_nanotron}};

/* The multiplier of scores of the changed model. */
static double wanted_softmax(const writing *w) {
    char *text = w->after ? json_dumps(w->after, JSON_REAL_PRECISION(17)) : NULL;
    gyre_reading *reading = NULL;
    double out = w->e->group->softmax_multiplier;
    if (text && !gyre_reading_parse(&reading, text, strlen(text),
                                    GYRE_ARGS(gyre_reading_options, .context_length = w->e->to), NULL)) {
        const gyre_layer_reading *group = reading_find_group(reading, w->e->group->name);
        out = (group ? group : reading->groups[0])->softmax_multiplier;
        gyre_reading_free(reading);
    }
    free(text);
    return out;
}

/* Reads the settings at `path` as the trainer does.  EUNSUPPORTED: they rotate otherwise than the method. */
static gyre_status read_back(const writing *w, const char *path, gyre_profile trainer) {
    gyre_reading *reading = NULL;
    gyre_encoding *encoding = NULL;
    gyre_error refusal = {0, ""};
    extend_support support = EXTEND_SUPPORT_NONE;
    char why[200] = "";
    gyre_status status = gyre_encoding_create(&encoding, w->config, NULL, w->err);
    if (status) return status;
    const extend_expected want = {encoding, wanted_softmax(w)};
    status = gyre_reading_open(&reading, path,
                               GYRE_ARGS(gyre_reading_options, .profile = trainer, .context_length = w->e->to), &refusal);
    if (!status) {
        status = extend_compare_reading(w->e, reading, &want, &support, why, w->err);
        if (!status && support != EXTEND_SUPPORT_SAME)
            status = refuse(w, "its settings would rotate otherwise: %.190s", why);
    } else if (status == GYRE_ENOMEM || status == GYRE_EIO) {
        gyre_fail(w->err, status, "%s", refusal.text);
    } else {
        extend_drop_location(refusal.text, path);
        status = refuse(w, "%.250s", refusal.text);
    }
    gyre_reading_free(reading);
    gyre_encoding_free(encoding);
    return status;
}

/* Writes the settings into w->text, and into the folder to read them back. */
static gyre_status write_and_check(writing *w, gyre_profile trainer) {
    char config[2200], path[2200];
    size_t i = 0;
    snprintf(config, sizeof config, "%s/" GYRE_CONFIG_FILE, w->folder);
    snprintf(path, sizeof path, "%s/settings", w->folder);
    while (i < sizeof writers / sizeof *writers && writers[i].profile != trainer)
        i++;
    if (i == sizeof writers / sizeof *writers) return refuse(w, "its settings are read, and not written");
    if (w->e->config && json_dump_file(w->e->config, config, JSON_REAL_PRECISION(17)))
        return gyre_fail(w->err, GYRE_EIO, "config: cannot be written (%.300s)", config);
    if (!(w->checked = fopen(path, "w"))) return gyre_fail(w->err, GYRE_EIO, "settings: cannot be written (%.300s)", path);
    gyre_status status = writers[i].write(w);
    const int failed = ferror(w->checked);
    if ((fclose(w->checked) || failed) && !status)
        status = gyre_fail(w->err, GYRE_EIO, "settings: cannot be written (%.300s)", path);
    return status ? status : read_back(w, path, trainer);
}

/* NTK-aware scaling only enlarges the base, by s^(d / (d - 2)), which a trainer without a name for it can state. */
static void state_ntk_as_base(gyre_config *config) {
    struct gyre_rope_config *rope = &config->rope;
    const double channels = (double)(rope->dim ? rope->dim : config->head_dim);
    if (rope->scaling != GYRE_SCALING_NTK || !(channels > 2)) return;
    rope->base *= pow(rope->factor, channels / (channels - 2));
    rope->scaling = GYRE_SCALING_NONE;
    rope->factor = 0;
}

gyre_status extend_trainer_settings(const extend_method *r, const extension *e, gyre_profile trainer, char **text,
                                    gyre_error *err) {
    gyre_config config;
    temporary_folder folder;
    size_t bytes;
    *text = NULL;
    writing w = {.e = e, .config = &config, .trainer = gyre_profile_name(trainer), .err = err};
    gyre_status status = extend_method_config(r, e, &config, err);
    if (!status) state_ntk_as_base(&config);
    if (!status) status = temporary_folder_create(&folder, "extend", err);
    if (status) return status;
    w.folder = folder.path;
    w.text = open_memstream(text, &bytes);
    if (!w.text) status = gyre_fail(err, GYRE_ENOMEM, "settings: out of memory (extend)");
    if (!status && e->config && method_is_none(&r->method))
        w.after = json_incref(e->config);
    else if (!status && e->config)
        status = extend_changed_config(e, &config, &w.after, err);
    if (!status) status = write_and_check(&w, trainer);
    if (w.text && fclose(w.text) && !status) status = gyre_fail(err, GYRE_ENOMEM, "settings: out of memory (extend)");
    json_decref(w.after);
    temporary_folder_remove(&folder);
    if (!status) return GYRE_OK;
    free(*text);
    *text = NULL;
    return status;
}
