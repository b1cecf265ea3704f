/* rope_as_vllm.c: scalings as vLLM reads them, in May and in September 2026.  Between the two, vllm#56446 made its YaRN that
 * of transformers 5.
 *
 * vLLM builds one table of angles at the start, so nothing depends on the length of a sequence: dynamic NTK has one
 * base, LongRoPE one list.  The length of a reading is taken as max_model_len. */
#include "reading/rope/rope_vllm_shared.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef void scaling_reader(const gyre_rope_engine *e);

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

static const gyre_scope *dict_of(const gyre_rope_engine *e) {
    return &e->source->dict;
}

static int has_key(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(dict_of(e), key) != NULL;
}

static int is_may(const gyre_rope_engine *e) {
    return gyre_build_profile(e->build) == GYRE_PROFILE_VLLM_2026_05;
}

/* -- the type -- */
static int same_type(const char *modern, const char *legacy) {
    return strcmp(modern, legacy) == 0 || (strcmp(legacy, "su") == 0 && strcmp(modern, "longrope") == 0) ||
           (strcmp(legacy, "mrope") == 0 && strcmp(modern, "default") == 0);
}

/* In May, a dict with a scaling had to name its type.  Later, transformers 5 takes it for "default". */
static int describes_scaling(const gyre_rope_engine *e) {
    static const char *const keys[] = {"factor", "alpha", "short_factor", "long_factor", "low_freq_factor", "mixed_b", NULL};
    return gyre_scope_first(dict_of(e), keys) != NULL;
}

/* out = the type; NULL if the build has failed. */
static const char *type_of(const gyre_rope_engine *e) {
    const gyre_scope *dict = dict_of(e);
    const char *modern = gyre_scope_string(dict, "rope_type", ""), *legacy = gyre_scope_string(dict, "type", "");
    if (failed(e)) return NULL;
    if (*modern && *legacy && !same_type(modern, legacy))
        gyre_scope_fail(dict, GYRE_EUNSUPPORTED, "type", "\"%.40s\" contradicts rope_type \"%.40s\"; vLLM fails on that",
                        legacy, modern);
    if (!*modern && !*legacy && is_may(e) && describes_scaling(e))
        gyre_scope_fail(dict, GYRE_EFORMAT, "rope_type", "missing; vLLM has no default for it");
    if (failed(e)) return NULL;
    const char *raw = *modern ? modern : legacy;
    if (strcmp(raw, "xdrope") == 0 && is_may(e)) return raw;
    if (strcmp(raw, "mrope") == 0 && !is_may(e) && !has_key(e, "mrope_section"))
        gyre_scope_fail(dict, GYRE_EFORMAT, "mrope_section", "missing; vLLM fails on \"mrope\" without it");
    if (strcmp(raw, "mrope") == 0) return failed(e) ? NULL : "default";
    return strcmp(raw, "su") == 0 ? "longrope" : e->source->type;
}

/* -- types -- */
static void as_default(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, NULL);
    if (gyre_scope_bool(dict_of(e), "use_fope", 0))
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, "use_fope",
                        "vLLM mixes sines of several frequencies by trained weights here, which is not a rotation");
}

/* The base of dynamic NTK for n = max_position_embeddings and the trained length L, by default n itself: no change. */
static void as_dynamic(const gyre_rope_engine *e) {
    static const char key[] = "max_trained_positions";
    if (has_key(e, "alpha")) {
        gyre_vllm_read_alpha(e);
        return;
    }
    const double s = gyre_engine_read_factor(e), n = (double)e->source->max_positions;
    const double trained = (double)gyre_rope_read_length(dict_of(e), key, e->source->max_positions);
    if (failed(e)) return;
    const double growth = trained > 0.0 ? s * n / trained - (s - 1.0) : 1.0;
    if (growth != 1.0) {
        gyre_vllm_set_ntk_base(
            e, key, growth, "vLLM computes the dynamic base once, for max_position_embeddings tokens",
            gyre_build_format(e->build, "s n / L - (s - 1) for the file's s = %g, n = %g and L = %g", s, n, trained));
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE,
                            "vLLM grows the base for max_position_embeddings tokens over max_trained_positions, which by "
                            "default is the same: by nothing");
    e->group->config.rope.factor = 1.0;
    gyre_engine_note_number(e, "factor", "factor", "without effect", 1.0);
}

/* omega_i = (base s)^(-2 i / d) / s^(2 / d); or divisors exp(a (i + 1)^b). */
static void as_ntk(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    const double s = gyre_engine_read_factor(e), channels = (double)rope->dim;
    if (failed(e)) return;
    if (has_key(e, "mixed_b")) {
        const double exponent = gyre_scope_number(dict_of(e), "mixed_b", NAN);
        if (exponent < 0.0) gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, "mixed_b", "%g is below 0", exponent);
        gyre_engine_set_scaling(
            e, exponent == 0.0 ? GYRE_SCALING_LINEAR : GYRE_SCALING_NTK_MIXED,
            gyre_build_format(e->build, "vLLM's ntk with mixed_b %g: pair i is divided by exp(a (i + 1)^b)", exponent));
        rope->mixed_exponent = exponent;
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_LINEAR,
                            "vLLM's ntk: the base times the factor, and all pairs divided by factor^(2 / d)");
    rope->base = rope->base * s;
    rope->factor = pow(s, 2.0 / channels);
    gyre_engine_note_number(e, "base", "factor", "the file's base times its factor", rope->base);
    gyre_engine_note_number(e, "factor", "factor", gyre_build_format(e->build, "the file's %g^(2 / d)", s), rope->factor);
}

/* -- YaRN -- */
/* With several axes, the table is built for 4 L tokens, and revolutions are counted over that length too. */
static void set_table_length(const gyre_rope_engine *e, int64_t original) {
    e->group->config.trained_length = 4 * original;
    gyre_engine_note_number(e, "trained_length", "original_max_position_embeddings",
                            "with several axes vLLM computes a table four times as long, and counts revolutions over that",
                            4.0 * (double)original);
}

/* out = s.  What YaRN has at both dates. */
static double begin_yarn(const gyre_rope_engine *e, const char *why) {
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN, why);
    const double s = gyre_engine_read_factor(e);
    const int64_t original = gyre_engine_read_original_length(e);
    gyre_vllm_read_ramp(e, 1);
    if (has_key(e, "mrope_section") && original < INT64_MAX / 4) set_table_length(e, original);
    return s;
}

/* As transformers: attention_factor, else the ratio of both mscale keys if neither is 0, else 0.1 ln s + 1. */
static void transformers_attention(const gyre_rope_engine *e, double s) {
    static const char *const dropped[] = {"attn_factor", NULL};
    if (gyre_rope_read_attention_factor(e->source, e->group)) return;
    const double mscale = gyre_scope_number(dict_of(e), "mscale", 0.0);
    const double all = gyre_scope_number(dict_of(e), "mscale_all_dim", 0.0);
    if (failed(e)) return;
    if (mscale == 0.0 || all == 0.0) {
        gyre_vllm_set_attention(e, gyre_rope_yarn_mscale(s, 1.0), 0, dropped);
        return;
    }
    const gyre_place place = gyre_scope_place(dict_of(e), "mscale");
    gyre_engine_set_attention_factor(e, gyre_rope_yarn_mscale(s, mscale) / gyre_rope_yarn_mscale(s, all), &place,
                                     "the ratio of mscale and mscale_all_dim");
}

static void as_yarn(const gyre_rope_engine *e) {
    const double s = begin_yarn(e, NULL);
    if (!failed(e)) transformers_attention(e, s);
}

/* Becomes YaRN with an attention_factor when the config is loaded. */
static void as_telechat3(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", "mscale", "mscale_all_dim", "attn_factor", NULL};
    const double s = begin_yarn(e, "telechat3-yarn: YaRN with 0.07 ln s + 1 for 0.1 ln s + 1");
    if (!failed(e)) gyre_vllm_set_attention(e, 0.07 * log(s) + 1.0, 0, unread);
}

static void as_yarn_of_may(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", "mscale", "mscale_all_dim", NULL};
    const int axes = has_key(e, "mrope_section");
    const double s = begin_yarn(e, NULL);
    const int applied = axes || gyre_scope_bool(dict_of(e), "apply_yarn_scaling", 1);
    if (failed(e)) return;
    gyre_vllm_set_attention(e, applied ? gyre_rope_yarn_mscale(s, 1.0) : 1.0, 1, unread);
    gyre_vllm_weaken_ramp(e);
}

/* 0.07 ln s + 1, where s is the ratio of the lengths. */
static void as_telechat3_of_may(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", "mscale", "mscale_all_dim", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN, "telechat3-yarn: YaRN with 0.07 ln s + 1 for 0.1 ln s + 1");
    const int64_t original = gyre_engine_read_original_length(e);
    gyre_vllm_read_ramp(e, 1);
    if (failed(e)) return;
    rope->factor = (double)e->source->max_positions / (double)original;
    gyre_engine_note_number(e, "factor", "factor",
                            "max_position_embeddings / original_max_position_embeddings, whatever factor says",
                            rope->factor);
    if (rope->factor < 1.0)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "original_max_position_embeddings", "above max_position_embeddings");
    if (failed(e)) return;
    gyre_vllm_set_attention(e, 0.07 * log(rope->factor) + 1.0, 1, unread);
    gyre_vllm_weaken_ramp(e);
}

/* The class renames every type except default without looking at it. */
static void as_deepseek(const gyre_rope_engine *e) {
    const char *type = e->source->type;
    if (strcmp(type, "yarn") != 0 && strcmp(type, "deepseek_yarn") != 0 && strcmp(type, "deepseek_llama_scaling") != 0)
        gyre_scope_warn(dict_of(e), e->source->type_key,
                        "vLLM reads \"%.40s\" as deepseek_yarn for models with latent attention", type);
    const int scores = strcmp(type, "deepseek_llama_scaling") != 0 && gyre_scope_bool(dict_of(e), "apply_yarn_scaling", 1);
    gyre_vllm_read_latent_yarn(e, scores, is_may(e));
}

/* -- LongRoPE -- */
static void as_longrope(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", "attention_factor", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_place place;
    gyre_engine_set_scaling(e, GYRE_SCALING_LONGROPE, NULL);
    const int64_t original = gyre_engine_read_original_length(e), asked = gyre_build_length(e->build),
                  served = asked ? asked : original;
    if (original == 1)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "original_max_position_embeddings",
                        "1; longrope divides by its logarithm, 0");
    if (rope->layout != GYRE_LAYOUT_HALF)
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, e->source->type_key, "vLLM has longrope only for pairs (i, i + d/2)");
    if (failed(e)) return;
    const double ratio = (double)e->source->max_positions / (double)original;
    rope->factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note_number(e, "factor", NULL, "max_position_embeddings / original_max_position_embeddings", rope->factor);
    gyre_engine_choose_longrope_list(e, served, original);
    const char *why = gyre_engine_ignored_keys(e, unread, &place), *own = served > original ? "long_mscale" : "short_mscale";
    double value = gyre_rope_longrope_attention_factor(ratio, original);
    if (has_key(e, own)) {
        value = gyre_scope_number(dict_of(e), own, value);
        place = gyre_scope_place(dict_of(e), own);
        why = gyre_build_format(e->build, "%s, which transformers does not read", place.key);
    }
    if (!failed(e)) gyre_engine_set_attention_factor(e, value, &place, why);
}

/* -- other keys -- */
/* rope_dim overrides the fraction.  The fraction counts in every class, while transformers' classes modelled on Llama
 * ignore it. */
static void read_rope_dim(const gyre_rope_engine *e) {
    static const char key[] = "rope_dim";
    gyre_config *config = &e->group->config;
    const int64_t dim = gyre_scope_integer(dict_of(e), key, 2, 0);
    if (failed(e)) return;
    const gyre_place place = gyre_scope_place(dict_of(e), key);
    if (dim % 2 != 0 || dim > config->head_dim)
        gyre_build_fail(e->build, GYRE_EFORMAT, &place,
                        "%s: %" PRId64 " rotated channels of %" PRId64 " are not whole pairs", place.key, dim,
                        config->head_dim);
    if (dim > 0) {
        config->rope.dim = dim;
        gyre_build_set_number(e->build, e->group, "rotary_dim", GYRE_ORIGIN_FILE, &place, "rope_dim, a key of vLLM",
                              (double)dim);
    } else if ((e->source->family->traits & GYRE_WHOLE_HEAD) && config->rope.dim < config->head_dim) {
        gyre_build_set_number(e->build, e->group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL,
                              "vLLM rotates a share of the head in this class too; transformers rotates the whole head",
                              (double)config->rope.dim);
    }
}

/* A warning mentions the key already.  The field is for comparing two readings. */
static void temperature(const gyre_rope_engine *e) {
    static const char key[] = "llama_4_scaling_beta";
    const int is_hot = e->group->config.query.temperature != GYRE_TEMPERATURE_NONE;
    if (is_hot || !(e->source->family->traits & GYRE_LLAMA4_SCALING_BETA) || !has_key(e, key)) return;
    const gyre_place place = gyre_scope_place(dict_of(e), key);
    gyre_build_set_field(e->build, e->group, "query_temperature", GYRE_ORIGIN_DERIVED, &place,
                         "vLLM reads it only under llama_4_scaling, beside the rotation's keys", "none");
}

/* max_model_len if the user gives none.  Gemma 3's max_position_embeddings includes the factor already, and from September
 * 2026 on that of every YaRN does. */
static void note_max_model_len(const gyre_rope_engine *e, const char *type) {
    const int yarn = strstr(type, "yarn") != NULL, longrope = strcmp(type, "longrope") == 0;
    double factor = has_key(e, "factor") ? gyre_scope_number(dict_of(e), "factor", 1.0) : 1.0;
    if (yarn && !is_may(e)) return;
    if (strcmp(type, "llama3") == 0 || longrope || strncmp(e->source->family->model_type, "gemma3", 6) == 0) factor = 1.0;
    if (failed(e) || e->source->max_positions <= 0) return;
    const int64_t counted = e->group->config.trained_length;
    const double trained = (double)(strcmp(type, "yarn") == 0 && has_key(e, "mrope_section") ? counted / 4 : counted);
    const double length = factor * (yarn || longrope ? trained : (double)e->source->max_positions);
    if (failed(e) || length == (double)e->source->max_positions) return;
    const gyre_place place = gyre_scope_place(&e->source->root, "max_position_embeddings");
    const char *why =
        longrope ? "max_model_len, if not given: the original length"
        : yarn   ? "max_model_len, if not given: the factor times the original length"
                 : "max_model_len, if not given: max_position_embeddings times the factor, even if it includes the factor";
    gyre_build_set_number(e->build, e->group, "max_length", GYRE_ORIGIN_DERIVED, &place, why, floor(length));
}

/* Goes before any scaling: the rotation has the plain frequencies. */
static int uses_dual_chunk(const gyre_rope_engine *e) {
    static const char key[] = "dual_chunk_attention_config", sparse[] = "sparse_attention_config";
    if (!gyre_rope_read_chunks(e->source, e->group)) return 0;
    const gyre_scope chunks = gyre_scope_child(&e->source->root, key);
    gyre_scope_warn(
        &e->source->root, key,
        "Dual Chunk Attention, which vLLM runs up to 0.10; later versions have no backend for it and fail with a TypeError");
    if (gyre_scope_value(&chunks, sparse) || gyre_scope_bool(&chunks, "sparse_attention_enabled", 0))
        gyre_scope_warn(
            &chunks, gyre_scope_value(&chunks, sparse) ? sparse : "sparse_attention_enabled",
            "past 32768 tokens, or sparse_attention_threshold, vLLM omits keys of a prompt; Gyre does not describe that");
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, "dual_chunk_attention_config has precedence over any scaling");
    return 1;
}

#define YARN_KEYS                                                                                                           \
    "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", \
        "attn_factor", "truncate"
#define AXES_KEYS "mrope_section", "mrope_interleaved", "rope_dim"
/* Keys that are read, or that the note of another field mentions. */
static const char *const plain_keys[] = {AXES_KEYS, "use_fope", NULL};
static const char *const factor_keys[] = {AXES_KEYS, "factor", NULL};
static const char *const ntk_keys[] = {AXES_KEYS, "factor", "mixed_b", NULL};
static const char *const dynamic_keys[] = {AXES_KEYS, "factor", "alpha", "max_trained_positions", "xdrope_section", NULL};
static const char *const dynamic_keys_of_may[] = {AXES_KEYS, "factor", "alpha", "xdrope_section", NULL};
static const char *const yarn_keys[] = {AXES_KEYS, YARN_KEYS, NULL};
static const char *const latent_keys[] = {AXES_KEYS, YARN_KEYS, "apply_yarn_scaling", NULL};
static const char *const ramp_keys_of_may[] = {AXES_KEYS, YARN_KEYS, "extrapolation_factor", "apply_yarn_scaling", NULL};
static const char *const llama3_keys[] = {AXES_KEYS,         "factor",           "original_max_position_embeddings",
                                          "low_freq_factor", "high_freq_factor", NULL};
static const char *const longrope_keys[] = {AXES_KEYS,          "factor",       "original_max_position_embeddings",
                                            "attention_factor", "short_factor", "long_factor",
                                            "long_mscale",      "short_mscale", NULL};

typedef struct reader {
    const char *type;
    scaling_reader *read;
    const char *const *keys;
} reader;
#define READERS_OF_BOTH                                                                                                     \
    {"default", as_default, plain_keys}, {"linear", gyre_vllm_read_linear, factor_keys}, {"ntk", as_ntk, ntk_keys},         \
        {"llama3", gyre_vllm_read_llama3, llama3_keys}, {"longrope", as_longrope, longrope_keys}, {                         \
        "proportional", gyre_vllm_read_proportional, factor_keys                                                            \
    }
static const reader readers[] = {
    {"deepseek_yarn", as_deepseek, latent_keys}, {"deepseek_llama_scaling", as_deepseek, latent_keys},
    {"dynamic", as_dynamic, dynamic_keys},       {"yarn", as_yarn, yarn_keys},
    {"telechat3-yarn", as_telechat3, yarn_keys}, READERS_OF_BOTH};
static const reader readers_of_may[] = {{"deepseek_yarn", as_deepseek, ramp_keys_of_may},
                                        {"deepseek_llama_scaling", as_deepseek, ramp_keys_of_may},
                                        {"dynamic", gyre_vllm_read_dynamic, dynamic_keys_of_may},
                                        {"xdrope", gyre_vllm_read_alpha, dynamic_keys_of_may},
                                        {"yarn", as_yarn_of_may, ramp_keys_of_may},
                                        {"telechat3-yarn", as_telechat3_of_may, ramp_keys_of_may},
                                        READERS_OF_BOTH};

static const reader *reader_of(const gyre_rope_engine *e, const char *type) {
    const reader *rows = is_may(e) ? readers_of_may : readers;
    const size_t count = is_may(e) ? sizeof readers_of_may / sizeof *readers_of_may : sizeof readers / sizeof *readers;
    if (gyre_vllm_is_latent(e) && strcmp(type, "default") != 0) return &rows[0];
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].type, type) == 0) return &rows[i];
    return NULL;
}

void gyre_rope_as_vllm(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_rope_engine engine = gyre_engine_begin(source, group), *e = &engine;
    const char *type = type_of(e);
    if (!type) return;
    const reader *found = reader_of(e, type);
    if (!found) {
        gyre_rope_fail_unknown_type(source, "default, linear, dynamic, ntk, yarn, llama3, longrope, proportional");
        return;
    }
    read_rope_dim(e);
    temperature(e);
    if (uses_dual_chunk(e)) return;
    if (gyre_rope_is_plain(source) && strcmp(type, "default") != 0) {
        gyre_scope_warn(dict_of(e), source->type_key, "%s: vLLM has no scalings for a %s", type, source->family->model_type);
        gyre_engine_set_scaling(e, GYRE_SCALING_NONE, "vLLM builds the rotation from rope_ratio alone");
        return;
    }
    found->read(e);
    note_max_model_len(e, found->read == as_deepseek ? "deepseek_yarn" : type);
    gyre_rope_warn_unread_keys(source, found->keys);
}
