/* extend_engines.c: what to write for transformers, vLLM and llama.cpp, each read back as that engine reads it. */
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_parse.h"
#include "tools/cli/temporary_folder.h"
#include "tools/common/model_path.h"
#include "tools/extend/extend_llama_cpp.h"
#include "tools/extend/extend_patch.h"
#include "tools/extend/extend_verdict.h"
#include "tools/options/reading_options.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/path.h"
#include "util/plain_numbers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const extend_engine_names[EXTEND_ENGINES] = {"transformers", "vLLM", "llama.cpp"};

/* What the advice is made from. */
typedef struct advice_source {
    const extension *e;
    const extend_effect *effect;
    int is_none;
    extend_expected want;
    json_t *before, *after; /* the config and its changed copy; NULL for a GGUF and where no config says the method */
} advice_source;

/* -- the changed config -- */
gyre_status extend_changed_config(const extension *e, const gyre_config *config, json_t **after, gyre_error *err) {
    temporary_folder folder;
    char path[4200];
    gyre_error refusal = {0, ""};
    gyre_status status = temporary_folder_create(&folder, "extend", err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, folder.path);
    status = gyre_reading_write(e->path, config, e->to, path, &refusal);
    if (!status) *after = cli_json_load(path);
    if (status == GYRE_EUNSUPPORTED && config->rope.far == GYRE_FAR_CHUNKED) *after = extend_with_chunks(e->config, config);
    temporary_folder_remove(&folder);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refusal.text);
    return GYRE_OK; /* a refusal: no config says it */
}

/* Reads the changed config as a program does.  *support, why: as in extend_compare_reading. */
static gyre_status check_config(const advice_source *s, const json_t *patch, gyre_profile profile, extend_support *support,
                                char why[200], gyre_error *err) {
    json_t *config = extend_patch_apply(s->before, patch);
    char *text = config ? json_dumps(config, JSON_REAL_PRECISION(15)) : NULL;
    gyre_reading *reading = NULL;
    gyre_error refusal = {0, ""};
    *support = EXTEND_SUPPORT_NONE;
    why[0] = 0;
    gyre_status status = text ? gyre_reading_parse(&reading, text, strlen(text),
                                                   GYRE_ARGS(gyre_reading_options, .profile = profile,
                                                             .context_length = s->e->to, .name = "config"),
                                                   &refusal)
                              : gyre_fail(&refusal, GYRE_ENOMEM, "config: out of memory (extend)");
    if (status == GYRE_ENOMEM)
        status = gyre_fail(err, status, "%s", refusal.text);
    else if (!status)
        status = extend_compare_reading(s->e, reading, &s->want, support, why, err);
    else {
        extend_drop_location(refusal.text, "config");
        gyre_plain_snprintf(why, 200, "%.190s", refusal.text);
        status = GYRE_OK;
    }
    gyre_reading_free(reading);
    free(text);
    json_decref(config);
    return status;
}

/* *keys = the first form of the changes that the program reads as wanted, else the last form; the caller frees it. */
static gyre_status choose_form(const advice_source *s, int old, gyre_profile profile, json_t **keys, extend_support *support,
                               char why[200], gyre_error *err) {
    const double base = gyre_encoding_get_config(s->want.encoding)->rope.base;
    json_t *forms[3] = {NULL, NULL, extend_patch_between(s->before, s->after)};
    const int plain = forms[2] && !s->is_none && extend_patch_is_plain(forms[2]);
    gyre_status status = GYRE_OK;
    if (plain && old) {
        forms[0] = extend_patch_as_rope_scaling(s->before, s->after, base);
        forms[1] = extend_patch_as_three_keys(s->before, s->after, base);
    } else if (plain) {
        forms[0] = extend_patch_as_rope_parameters(s->before, s->after, base);
    }
    *keys = NULL;
    *support = EXTEND_SUPPORT_NONE;
    for (int i = 0; i < 3 && !status && *support != EXTEND_SUPPORT_SAME; i++) {
        if (!forms[i]) continue;
        status = check_config(s, forms[i], profile, support, why, err);
        json_decref(*keys);
        *keys = json_incref(forms[i]);
    }
    for (int i = 0; i < 3; i++)
        json_decref(forms[i]);
    return status;
}

/* -- transformers -- */
static void add_reader(char readers[160], gyre_profile profile) {
    const size_t used = strlen(readers);
    snprintf(readers + used, 160 - used, "%s%s", used ? ", " : "", gyre_profile_name(profile));
}

static gyre_status advise_transformers(const advice_source *s, extend_advice *out, gyre_error *err) {
    static const gyre_profile old[] = {GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_4_55, GYRE_PROFILE_HF_4_51,
                                       GYRE_PROFILE_HF_4_43};
    extend_support support;
    char why[200];
    if (!s->is_none && extend_transformers_lacks(s->e, out->why)) {
        out->support = EXTEND_SUPPORT_NONE;
        return GYRE_OK;
    }
    gyre_status status = choose_form(s, 0, GYRE_PROFILE_HF_5, &out->keys, &out->support, out->why, err);
    if (!status && out->support == EXTEND_SUPPORT_SAME) add_reader(out->readers, GYRE_PROFILE_HF_5);
    if (!status) status = choose_form(s, 1, GYRE_PROFILE_HF_4_56, &out->old_keys, &support, why, err);
    for (size_t i = 0; i < sizeof old / sizeof *old && !status && out->old_keys; i++) {
        status = check_config(s, out->old_keys, old[i], &support, why, err);
        if (!status && support == EXTEND_SUPPORT_SAME)
            add_reader(out->readers, old[i]);
        else if (!status && !*out->note)
            snprintf(out->note, sizeof out->note, "%s: %s", gyre_profile_name(old[i]), why);
    }
    /* Keys that no version 4 reads as meant are no advice. */
    const int is_unread = !strstr(out->readers, "hf-4");
    if (out->keys && out->old_keys && (is_unread || json_equal(out->keys, out->old_keys))) {
        json_decref(out->old_keys);
        out->old_keys = NULL;
    }
    return status;
}

/* -- command lines -- */
/* What vLLM calls the model: its name on the hub, else its folder; MODEL for a file that is no folder's config.json. */
static void model_word(const extension *e, char out[4200]) {
    const char *hub = model_path_hub_name(e->path);
    if (hub)
        snprintf(out, 4200, "%.*s", (int)strcspn(hub, "@"), hub);
    else if (!extend_is_config_alone(e))
        snprintf(out, 4200, "%s", e->path);
    else if (strcmp(gyre_path_name(e->path), GYRE_CONFIG_FILE) == 0)
        (void)gyre_path_folder(e->path, out, 4200);
    else
        snprintf(out, 4200, "MODEL");
}

static gyre_status set_command(extend_advice *out, int count, char **words, gyre_error *err) {
    out->command = malloc(EXTEND_COMMAND);
    if (!out->command) return gyre_fail(err, GYRE_ENOMEM, "command: out of memory (extend)");
    cli_command_line(count, words, out->command, EXTEND_COMMAND);
    return GYRE_OK;
}

/* -- vLLM -- */
static const json_t *text_config(const json_t *config) {
    const json_t *inner = json_object_get(config, "text_config");
    return json_is_object(inner) ? inner : config;
}

/* out = the longest context that vLLM derives from a config: max_position_embeddings under YaRN (before September 2026 L s:
 * the smaller one), llama3, longrope and without scaling, else times the factor.  0 = not known. */
static double derived_length(const json_t *config) {
    const json_t *inner = text_config(config), *dict = json_object_get(inner, "rope_parameters");
    if (!json_is_object(dict)) dict = json_object_get(inner, "rope_scaling");
    const char *type = json_string_value(json_object_get(dict, "rope_type"));
    const double states = json_number_value(json_object_get(inner, "max_position_embeddings"));
    const double factor = json_number_value(json_object_get(dict, "factor"));
    const double original = json_number_value(json_object_get(dict, "original_max_position_embeddings"));
    if (!type) type = json_string_value(json_object_get(dict, "type"));
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "llama3") == 0 || strcmp(type, "longrope") == 0) return states;
    if (strcmp(type, "yarn") == 0 && original > 0) return original * factor < states ? original * factor : states;
    return states * (factor > 1 ? factor : 1);
}

/* Omits from the overrides what vLLM does not need: the length, if its own derivation reaches far enough. */
static gyre_status trim_overrides(const advice_source *s, extend_advice *out, gyre_error *err) {
    json_t *less = json_deep_copy(out->keys), *config;
    extend_support support = EXTEND_SUPPORT_NONE;
    char why[200];
    if (!less || json_object_del(less, "max_position_embeddings")) {
        json_decref(less);
        return GYRE_OK;
    }
    config = extend_patch_apply(s->before, less);
    gyre_status status = check_config(s, less, GYRE_PROFILE_VLLM, &support, why, err);
    if (!status && support == EXTEND_SUPPORT_SAME && derived_length(config) >= (double)s->e->to) {
        json_decref(out->keys);
        out->keys = json_incref(less);
    }
    json_decref(config);
    json_decref(less);
    return status;
}

/* vLLM counts the ramp of a rotation with several axes from four times the original length.  out = the keys with a quarter
 * of it, wherever it stands in them; NULL if there is none. */
static json_t *with_quarter_length(const json_t *keys) {
    static const char original[] = "original_max_position_embeddings";
    json_t *copy = json_deep_copy(keys), *outer = json_object_get(copy, "text_config"), *dict;
    dict = json_object_get(outer ? outer : copy, "rope_parameters");
    if (!dict) dict = json_object_get(outer ? outer : copy, "rope_scaling");
    const json_int_t length = json_integer_value(json_object_get(dict, original));
    if (copy && length >= 4 && length % 4 == 0 && !json_object_set_new(dict, original, json_integer(length / 4)))
        return copy;
    json_decref(copy);
    return NULL;
}

static gyre_status quarter_length(const advice_source *s, extend_advice *out, gyre_error *err) {
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(s->want.encoding)->rope;
    extend_support support = EXTEND_SUPPORT_NONE;
    char why[200];
    json_t *keys = rope->axes > 1 && rope->scaling == GYRE_SCALING_YARN ? with_quarter_length(out->keys) : NULL;
    if (!keys) return GYRE_OK;
    const gyre_status status = check_config(s, keys, GYRE_PROFILE_VLLM, &support, why, err);
    if (!status && support == EXTEND_SUPPORT_SAME) {
        json_t *old = out->keys;
        out->keys = json_incref(keys);
        json_decref(old);
        out->support = EXTEND_SUPPORT_SAME;
        out->why[0] = 0;
    }
    json_decref(keys);
    return status;
}

static gyre_status advise_vllm(const advice_source *s, extend_advice *out, gyre_error *err) {
    int is_quarter = 0;
    gyre_status status = choose_form(s, 0, GYRE_PROFILE_VLLM, &out->keys, &out->support, out->why, err);
    if (!status && out->support == EXTEND_SUPPORT_DIFFERENT) {
        status = quarter_length(s, out, err);
        is_quarter = out->support == EXTEND_SUPPORT_SAME;
    }
    if (status || out->support != EXTEND_SUPPORT_SAME) return status;
    if (!is_quarter) status = trim_overrides(s, out, err);
    if (status) return status;
    json_t *config = extend_patch_apply(s->before, out->keys), *overrides_only = extend_patch_without_nulls(out->keys);
    char serve[] = "vllm serve", allowed[] = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve", model[4200], length[24];
    char max[] = "--max-model-len", overrides[] = "--hf-overrides";
    const int needs_leave = derived_length(config) < (double)s->e->to;
    const int replaces = !json_equal(overrides_only, out->keys);
    char *text = json_dumps(overrides_only, JSON_REAL_PRECISION(15));
    json_decref(out->keys);
    out->keys = overrides_only;
    char *words[] = {needs_leave ? allowed : serve, model, max, length, overrides, text};
    json_decref(config);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "command: out of memory (extend)");
    model_word(s->e, model);
    snprintf(length, sizeof length, "%lld", (long long)s->e->to);
    const int has_overrides = json_object_size(out->keys) > 0;
    status = set_command(out, has_overrides ? 6 : 4, words, err);
    free(text);
    const char *type = json_string_value(json_object_get(json_object_get(out->keys, "rope_parameters"), "rope_type"));
    if (json_object_get(out->keys, "dual_chunk_attention_config"))
        snprintf(out->note, sizeof out->note,
                 "vLLM runs dual chunks up to 0.10; later versions have no backend for them and stop with a TypeError");
    else if (is_quarter)
        snprintf(
            out->note, sizeof out->note,
            "original_max_position_embeddings is a quarter of the real one: vLLM counts YaRN's ramp of a model with "
            "several axes from four times the number. The keys belong under text_config where the model has one; at the "
            "top level they have no effect");
    else if (type && strcmp(type, "default") != 0)
        snprintf(out->note, sizeof out->note,
                 "vLLM before 0.11.1: --rope-scaling with the object of rope_scaling above, in place of --hf-overrides%s",
                 replaces
                     ? "; with transformers 4 under vLLM, rope_scaling takes the place of rope_parameters in the overrides"
                     : "");
    return status;
}

/* -- llama.cpp -- */
static int is_yarn(const advice_source *s) {
    return gyre_encoding_get_config(s->want.encoding)->rope.scaling == GYRE_SCALING_YARN;
}

/* out = the converter's name of the model's architecture, where it is that of its type. */
static const char *architecture_word(const extension *e) {
    static const char *const same[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "granite", NULL};
    for (int i = 0; same[i]; i++)
        if (strcmp(same[i], e->reading->model_type) == 0) return same[i];
    return strcmp(e->reading->model_type, "mistral") == 0 ? "llama" : "ARCHITECTURE";
}

static gyre_status advise_llama_cpp(const advice_source *s, const extend_method *r, extend_advice *out, gyre_error *err) {
    const extension *e = s->e;
    const int gguf = extend_is_gguf(e);
    extend_flags flags;
    extend_support written = EXTEND_SUPPORT_NONE;
    for (int i = 0; i < EXTEND_READERS; i++)
        if (extend_readers[i] == GYRE_PROFILE_LLAMA_CPP) written = s->effect->support[i];
    gyre_status status = extend_llama_cpp_flags(e, &s->want, s->is_none, &flags, &out->support, out->why, err);
    if (status) return status;
    char server[] = "llama-server -m", file[4200] = "MODEL.gguf", *words[EXTEND_MAX_FLAGS + 2] = {server, file};
    if (out->support == EXTEND_SUPPORT_SAME) {
        if (gguf) snprintf(file, sizeof file, "%s", e->path);
        for (int i = 0; i < flags.count; i++)
            words[2 + i] = flags.word[i];
        if (e->to > extend_stated_length(e))
            snprintf(out->note, sizeof out->note,
                     "%s--override-kv %s.context_length=int:%lld too, because the server caps the context at the length in "
                     "the file",
                     is_yarn(s)
                         ? "llama.cpp of September 2026 or later (with #28030) lifts the context by these flags alone; "
                           "an older server needs "
                         : "the server needs ",
                     gguf ? e->reading->model_type : architecture_word(e), (long long)e->to);
        return set_command(out, 2 + flags.count, words, err);
    }
    if (s->is_none && out->support == EXTEND_SUPPORT_DIFFERENT) {
        if (gguf) snprintf(file, sizeof file, "%s", e->path);
        for (int i = 0; i < flags.count; i++)
            words[2 + i] = flags.word[i];
        gyre_plain_snprintf(out->note, sizeof out->note,
                            "it reads the model otherwise than transformers: %.190s; gyre diff shows where", out->why);
        return set_command(out, 2 + flags.count, words, err);
    }
    if (written != EXTEND_SUPPORT_SAME) return GYRE_OK;
    /* Flags cannot say it, a file can. */
    char write[] = "gyre extend", model[4200], to[] = "--to", length[24], by[] = "--method", name[METHOD_LABEL];
    char option[] = "--write", target[] = "STRETCHED", target_file[] = "STRETCHED.gguf";
    char *steps[] = {write, model, to, length, by, name, option, gguf ? target_file : target};
    snprintf(model, sizeof model, "%s", model_path_as_given(e->path));
    snprintf(length, sizeof length, "%lld", (long long)e->to);
    snprintf(name, sizeof name, "%s", r->label);
    gyre_plain_snprintf(out->note, sizeof out->note, "flags cannot say it: %.190s; a file can%s", out->why,
                        gguf ? "" : ": convert the changed config with the weights to a GGUF");
    out->support = EXTEND_SUPPORT_SAME;
    out->why[0] = 0;
    return set_command(out, 8, steps, err);
}

/* -- all three -- */
static gyre_status advise(const advice_source *s, const extend_method *r, extend_advice out[EXTEND_ENGINES],
                          gyre_error *err) {
    gyre_status status = GYRE_OK;
    char why[200];
    if (extend_part_of_gyre(s->e, why)) {
        for (int i = 0; i < EXTEND_ENGINES; i++) {
            out[i].support = EXTEND_SUPPORT_NONE;
            snprintf(out[i].why, sizeof out[i].why, "%s", why);
        }
        return GYRE_OK;
    }
    if (s->after) {
        status = advise_transformers(s, &out[EXTEND_TRANSFORMERS], err);
        if (!status) status = advise_vllm(s, &out[EXTEND_VLLM], err);
    } else {
        for (int i = EXTEND_TRANSFORMERS; i <= EXTEND_VLLM; i++)
            snprintf(out[i].why, sizeof out[i].why, "%s",
                     extend_is_gguf(s->e) ? "its settings go into a config.json, and this is a GGUF"
                                          : "no config.json can state it");
    }
    return status ? status : advise_llama_cpp(s, r, &out[EXTEND_LLAMA_CPP], err);
}

static gyre_status load_configs(advice_source *s, const gyre_config *config, gyre_error *err) {
    gyre_reading *known = NULL;
    if (extend_is_gguf(s->e)) return GYRE_OK;
    s->before = json_incref(s->e->config);
    gyre_status status = GYRE_OK;
    if (s->is_none)
        s->after = json_incref(s->before);
    else
        status = extend_changed_config(s->e, config, &s->after, err);
    if (status || !s->after) return status;
    char *text = json_dumps(s->after, JSON_REAL_PRECISION(17));
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "config: out of memory (extend)");
    status = gyre_reading_parse(&known, text, strlen(text),
                                GYRE_ARGS(gyre_reading_options, .context_length = s->e->to, .name = "config"), err);
    free(text);
    if (status) return status;
    const gyre_layer_reading *group = reading_find_group(known, s->e->group->name);
    s->want.softmax = (group ? group : known->groups[0])->softmax_multiplier;
    gyre_reading_free(known);
    return GYRE_OK;
}

gyre_status extend_advice_make(const extend_method *r, const extend_effect *effect, const extension *e,
                               extend_advice out[EXTEND_ENGINES], gyre_error *err) {
    gyre_config config;
    gyre_encoding *encoding = NULL;
    advice_source s = {.e = e, .effect = effect, .is_none = method_is_none(&r->method)};
    gyre_status status = extend_method_config(r, e, &config, err);
    if (!status) status = gyre_encoding_create(&encoding, &config, NULL, err);
    s.want = (extend_expected){encoding, e->group->softmax_multiplier};
    if (!status) status = load_configs(&s, &config, err);
    if (!status) status = advise(&s, r, out, err);
    gyre_encoding_free(encoding);
    json_decref(s.before);
    json_decref(s.after);
    return status;
}

void extend_advice_free(extend_advice advice[EXTEND_ENGINES]) {
    for (int i = 0; i < EXTEND_ENGINES; i++) {
        json_decref(advice[i].keys);
        json_decref(advice[i].old_keys);
        free(advice[i].command);
    }
}
