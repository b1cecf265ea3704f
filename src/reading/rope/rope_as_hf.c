/* rope_as_hf.c: scalings as four versions of transformers compute them. */
#include "reading/rope/read_rope.h"

#include <math.h>
#include <string.h>

static const char original_length_key[] = "original_max_position_embeddings";

typedef void read_scaling(const gyre_rope_source *source, gyre_layer_group *group);

static gyre_profile version(const gyre_rope_source *source) {
    return gyre_build_profile(gyre_rope_build_of(source));
}

/* L = L'. */
static void set_trained_to_max_positions(const gyre_rope_source *source, gyre_layer_group *group, const char *why) {
    const char *key = gyre_rope_length_key(&source->root);
    const gyre_rope_provenance found =
        key ? gyre_rope_provenance_of(source, &source->root, key) : (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    gyre_rope_set_trained_length(source, group, source->max_positions, &found, why);
}

/* L = L', for formulas that do not use it. */
static void set_trained_if_known(const gyre_rope_source *source, gyre_layer_group *group) {
    if (source->max_positions > 0) set_trained_to_max_positions(source, group, NULL);
}

static double length_ratio(const gyre_rope_source *source, int64_t length) {
    return length > 0 ? (double)source->max_positions / (double)length : 0.0;
}

/* -- scalings that are the same in every version -- */
static void read_default(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = gyre_rope_trained_length_key(source);
    gyre_rope_read_qwen_dynamic_ntk(source, group);
    if (!key || key == gyre_rope_length_key(&source->root)) {
        set_trained_if_known(source, group);
        return;
    }
    const gyre_rope_provenance found = gyre_rope_provenance_of(source, &source->root, key);
    gyre_rope_set_trained_length(source, group, gyre_rope_read_length(&source->root, key, 0), &found,
                                 "the trained length, less than the model serves");
}

static void read_linear(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_read_factor(source, group, NAN);
    set_trained_if_known(source, group);
}

static void read_dynamic(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *why = NULL;
    /* HunYuan has a fixed base.  Until 5.19 transformers dropped it beyond the length that the model serves. */
    const int is_long = gyre_build_length(gyre_rope_build_of(source)) > source->max_positions;
    const int is_dropped = is_long && version(source) != GYRE_PROFILE_HF_5;
    if (!is_dropped && gyre_rope_read_alpha(source, group)) {
        set_trained_if_known(source, group);
        if (is_long)
            gyre_scope_warn(&source->dict, "alpha",
                            "alpha: transformers before 5.20 ignored it past max_position_embeddings");
        return;
    }
    if (gyre_scope_value(&source->dict, "alpha"))
        gyre_scope_warn(&source->dict, "alpha",
                        is_dropped ? "alpha: transformers before 5.20 ignores it past max_position_embeddings"
                                   : "alpha: only the classes of HunYuan read it");
    gyre_rope_read_factor(source, group, NAN);
    if (gyre_scope_value(&source->dict, original_length_key)) {
        why = "transformers counts dynamic NTK from max_position_embeddings, whatever the original length";
        gyre_scope_warn(&source->dict, original_length_key,
                        "%s: dynamic NTK does not read it, but counts from max_position_embeddings", original_length_key);
    }
    set_trained_to_max_positions(source, group, why);
}

/* -- the original length -- */
/* Phi-3's class has this attribute even if the file does not. */
static int64_t original_in_root(const gyre_rope_source *source, gyre_rope_provenance *found) {
    const int is_phi = (source->family->traits & GYRE_YARN_IS_LONGROPE) != 0;
    if (gyre_scope_value(&source->root, original_length_key)) {
        *found = gyre_rope_provenance_of(source, &source->root, original_length_key);
        return gyre_rope_read_length(&source->root, original_length_key, 0);
    }
    *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    return is_phi ? 4096 : 0;
}

/* Some classes make an object for each layer type, or hand the rotation's keys alone to a part of theirs. */
static int looks_beside(const gyre_rope_source *source) {
    const char *type = source->family->model_type;
    const unsigned traits = source->family->traits;
    if (source->nested || traits & (GYRE_DUAL_BASE | GYRE_SCALING_FULL_ONLY)) return 0;
    return strcmp(type, "qwen2_vl") != 0 && strcmp(type, "qwen2_5_vl") != 0 && strcmp(type, "fuyu") != 0;
}

/* transformers 5: the key beside the dict overrides the one in it, where a class looks there. */
static void read_original_hf_5(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_provenance found;
    int64_t length = original_in_root(source, &found);
    const int64_t inside = gyre_rope_read_length(&source->dict, original_length_key, 0);
    if (!looks_beside(source)) length = 0;
    if (length == 0 && !source->nested && gyre_scope_value(&source->root, original_length_key))
        gyre_scope_warn(&source->root, original_length_key, "%s: transformers 5 reads it only in the object of a %s",
                        original_length_key, source->family->model_type);
    if (length > 0 && inside > 0 && inside != length)
        gyre_scope_warn(&source->dict, original_length_key, "%s: transformers 5 takes the other value, beside the object",
                        original_length_key);
    if (length == 0 && inside > 0) {
        found = gyre_rope_provenance_of(source, &source->dict, original_length_key);
        length = inside;
    }
    if (length == 0) {
        set_trained_to_max_positions(source, group, "no original length is given");
        if (strcmp(source->type, "llama3") != 0) /* llama3 has its own message */
            gyre_scope_warn(&source->dict, source->type_key,
                            "original_max_position_embeddings: missing; max_position_embeddings is taken for what the model "
                            "was trained with");
        return;
    }
    gyre_rope_set_trained_length(source, group, length, &found, NULL);
    gyre_build_set_number(gyre_rope_build_of(source), group, "original_length", found.origin, &found.place, NULL,
                          (double)length);
}

/* transformers 4: YaRN and Llama 3 read only the key in the dict. */
static void read_original_in_dict(const gyre_rope_source *source, gyre_layer_group *group) {
    const int64_t length = gyre_rope_read_length(&source->dict, original_length_key, 0);
    if (length == 0) {
        set_trained_to_max_positions(source, group, "no original length is given in rope_scaling");
        gyre_scope_warn(&source->dict, source->type_key,
                        "original_max_position_embeddings: missing; max_position_embeddings is taken for what the model was "
                        "trained with");
        return;
    }
    const gyre_rope_provenance found = gyre_rope_provenance_of(source, &source->dict, original_length_key);
    gyre_rope_set_trained_length(source, group, length, &found, NULL);
    gyre_build_set_number(gyre_rope_build_of(source), group, "original_length", found.origin, &found.place, NULL,
                          (double)length);
}

/* -- YaRN -- */
/* 4.43 computes the ramp for the length served.  Later versions use the original length if there is one. */
static void read_yarn_length(const gyre_rope_source *source, gyre_layer_group *group) {
    if (version(source) == GYRE_PROFILE_HF_5) {
        read_original_hf_5(source, group);
    } else if (!gyre_profile_before(version(source), 51)) {
        read_original_in_dict(source, group);
    } else if (gyre_scope_value(&source->dict, original_length_key)) {
        gyre_scope_warn(&source->dict, original_length_key,
                        "%s: transformers before 4.51 does not read it; YaRN's ramp counts from max_position_embeddings",
                        original_length_key);
        set_trained_to_max_positions(source, group,
                                     "transformers before 4.51 counts YaRN's ramp from max_position_embeddings");
    } else {
        set_trained_to_max_positions(source, group, NULL);
    }
}

/* Uses the ratio of the lengths as the factor. */
static void set_factor_to_length_ratio(const gyre_rope_source *source, gyre_layer_group *group, const char *why) {
    const double ratio = length_ratio(source, group->config.trained_length);
    const int given = gyre_scope_value(&source->dict, "factor") != NULL;
    const gyre_place place = given ? gyre_scope_place(&source->dict, "factor") : (gyre_place){NULL, 0, 0};
    if (ratio < 1.0)
        gyre_scope_fail(&source->root, GYRE_EFORMAT, "max_position_embeddings",
                        "%g of the original length; the factor is their ratio and cannot be below 1", ratio);
    group->config.rope.factor = ratio;
    gyre_build_set_number(gyre_rope_build_of(source), group, "factor", GYRE_ORIGIN_DERIVED, &place, why, ratio);
}

/* 4.51 to 4.55 use the ratio of the lengths even if a factor is given. */
static void read_yarn_factor(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *dict = &source->dict;
    const int has_original =
        group->config.trained_length != source->max_positions || gyre_scope_value(dict, original_length_key);
    const double ratio = length_ratio(source, group->config.trained_length);
    const int is_old = gyre_profile_before(version(source), 56);
    const int takes_ratio = is_old && !gyre_profile_before(version(source), 51);
    if (!gyre_scope_has(dict, "factor")) {
        gyre_scope_fail(dict, GYRE_EFORMAT, "factor", "missing");
    } else if (takes_ratio && gyre_scope_value(dict, original_length_key)) {
        const double given = gyre_scope_number(dict, "factor", ratio);
        if (given != ratio)
            gyre_scope_warn(dict, "factor",
                            "factor: transformers 4.51 to 4.55 takes the ratio of the lengths, %g, and not %g", ratio,
                            given);
        set_factor_to_length_ratio(
            source, group, given != ratio ? "transformers 4.51 to 4.55 takes the ratio of the lengths instead" : NULL);
    } else if (!gyre_scope_value(dict, "factor") && !is_old) {
        set_factor_to_length_ratio(source, group, "null means the ratio of the lengths");
    } else {
        gyre_rope_read_factor(source, group, NAN);
        if (has_original && ratio != 1.0 && fabs(ratio - group->config.rope.factor) > 1e-9 * ratio && !is_old)
            gyre_scope_warn(dict, "factor", "factor: %g, but the ratio of the lengths is %g; the factor is taken",
                            group->config.rope.factor, ratio);
    }
}

static void yarn_attention(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *dict = &source->dict;
    struct gyre_rope_config *rope = &group->config.rope;
    const double mscale = gyre_scope_number(dict, "mscale", 0.0), all = gyre_scope_number(dict, "mscale_all_dim", 0.0);
    const int knows = !gyre_profile_before(version(source), 51);
    if (mscale < 0.0) gyre_scope_fail(dict, GYRE_EFORMAT, "mscale", "%g is below 0", mscale);
    if (all < 0.0) gyre_scope_fail(dict, GYRE_EFORMAT, "mscale_all_dim", "%g is below 0", all);
    if (json_is_integer(gyre_scope_value(dict, "attention_factor")))
        gyre_scope_warn(dict, "attention_factor", "attention_factor: transformers warns about a whole number and continues");
    const int given = gyre_rope_read_attention_factor(source, group);
    if (knows && !given && mscale != 0.0 && all != 0.0) {
        rope->mscale = mscale;
        rope->mscale_all_dim = all;
        gyre_rope_note_number(source, group, "mscale", "mscale", GYRE_ORIGIN_READER, NULL, mscale);
        gyre_rope_note_number(source, group, "mscale_all_dim", "mscale_all_dim", GYRE_ORIGIN_READER, NULL, all);
        gyre_rope_derive_attention_factor(
            source, group, gyre_rope_yarn_mscale(rope->factor, mscale) / gyre_rope_yarn_mscale(rope->factor, all), 0);
        return;
    }
    if (!given) gyre_rope_derive_attention_factor(source, group, gyre_rope_yarn_mscale(rope->factor, 1.0), 0);
    if (knows && (mscale != 0.0) != (all != 0.0) && !given)
        gyre_scope_warn(dict, mscale != 0.0 ? "mscale" : "mscale_all_dim",
                        "%s: transformers reads mscale and mscale_all_dim only if both are set and not 0",
                        mscale != 0.0 ? "mscale" : "mscale_all_dim");
    if (knows && given && mscale != 0.0) gyre_scope_warn(dict, "mscale", "mscale: attention_factor replaces it");
}

/* Classes with latent attention that scale the softmax.  DeepSeek-V3's always did, by the factor in the file.  V2's and
 * Mistral 4's do since mid-2026. */
static void yarn_softmax(const gyre_rope_source *source, gyre_layer_group *group) {
    const double all = gyre_scope_number(&source->dict, "mscale_all_dim", 0.0);
    const char *type = source->family->model_type;
    const int is_late = strcmp(type, "deepseek_v2") == 0 || strncmp(type, "mistral4", 8) == 0;
    if (!(source->family->traits & GYRE_MLA) || all == 0.0) return;
    if (is_late && version(source) != GYRE_PROFILE_HF_5 && !gyre_profile_before(version(source), 51)) {
        gyre_scope_warn(
            &source->dict, "mscale_all_dim",
            "mscale_all_dim: %s does not multiply the softmax by its square here, but the model was trained with that",
            gyre_profile_program(version(source)));
        return;
    }
    const double factor = gyre_scope_number(&source->dict, "factor", group->config.rope.factor);
    const double g = gyre_rope_yarn_mscale(factor, all);
    gyre_rope_note_number(source, group, "mscale_all_dim", "mscale_all_dim", GYRE_ORIGIN_READER, NULL, all);
    gyre_rope_scale_softmax(source, group, g * g, "mscale_all_dim");
}

/* Before transformers had classes with latent attention, the models came with their own code.  It takes L and the factor
 * from the file, multiplies cos and sin by g(s, mscale) / g(s, mscale_all_dim), where a missing mscale is 1, and the
 * softmax by the square of the latter. */
static void read_remote_code_yarn(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *dict = &source->dict;
    gyre_scope_warn(dict, source->type_key, "%s: %s has no class for a %s; read as the model's own code does",
                    source->type_key, gyre_profile_program(version(source)), source->family->model_type);
    read_original_in_dict(source, group);
    gyre_rope_read_factor(source, group, NAN);
    gyre_rope_read_ramp(source, group, 1);
    const double s = group->config.rope.factor, all = gyre_scope_number(dict, "mscale_all_dim", 0.0);
    const double mscale = gyre_scope_number(dict, "mscale", 1.0);
    if (mscale < 0.0 || all < 0.0)
        gyre_scope_fail(dict, GYRE_EFORMAT, mscale < 0.0 ? "mscale" : "mscale_all_dim", "%g is below 0", fmin(mscale, all));
    gyre_rope_note_number(source, group, "mscale", "mscale", GYRE_ORIGIN_READER, NULL, mscale);
    gyre_rope_derive_attention_factor(source, group, gyre_rope_yarn_mscale(s, mscale) / gyre_rope_yarn_mscale(s, all), 1);
    yarn_softmax(source, group);
}

static void read_yarn(const gyre_rope_source *source, gyre_layer_group *group) {
    if (gyre_profile_before(version(source), 51) && (source->family->traits & GYRE_MLA)) {
        read_remote_code_yarn(source, group);
        return;
    }
    /* With a dict for each layer type, transformers 5 looks for truncate in the outer object. */
    const int is_nested =
        version(source) == GYRE_PROFILE_HF_5 && (source->nested || gyre_rope_becomes_nested(source->family));
    read_yarn_length(source, group);
    read_yarn_factor(source, group);
    gyre_rope_read_ramp(source, group, is_nested || gyre_profile_before(version(source), 55));
    yarn_attention(source, group);
    yarn_softmax(source, group);
}

/* -- LongRoPE -- */
static void read_longrope_hf_4(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_provenance found;
    /* MiniCPM's own code also uses the ratio of the lengths, and finds L in the dict. */
    if (strncmp(source->family->model_type, "minicpm", 7) == 0 && gyre_scope_value(&source->dict, original_length_key)) {
        read_original_in_dict(source, group);
        set_factor_to_length_ratio(source, group, NULL);
        return;
    }
    const int64_t length = original_in_root(source, &found);
    if (length > 0) {
        gyre_rope_set_trained_length(source, group, length, &found, NULL);
        gyre_build_set_number(gyre_rope_build_of(source), group, "original_length", found.origin, &found.place, NULL,
                              (double)length);
        const int given = gyre_scope_value(&source->dict, "factor") != NULL;
        const double ratio = length_ratio(source, length), factor = gyre_scope_number(&source->dict, "factor", ratio);
        if (factor != ratio)
            gyre_scope_warn(&source->dict, "factor", "factor: transformers 4 takes the ratio of the lengths, %g, and not %g",
                            ratio, factor);
        set_factor_to_length_ratio(source, group, given ? "transformers 4 takes the ratio of the lengths instead" : NULL);
        return;
    }
    if (gyre_scope_value(&source->dict, original_length_key))
        gyre_scope_warn(&source->dict, original_length_key, "%s: transformers 4 reads only the one beside rope_scaling",
                        original_length_key);
    set_trained_to_max_positions(source, group, NULL);
    gyre_rope_read_factor(source, group, NAN);
}

static void read_longrope_hf_5(const gyre_rope_source *source, gyre_layer_group *group) {
    read_original_hf_5(source, group);
    if (gyre_scope_value(&source->dict, "factor"))
        gyre_rope_read_factor(source, group, NAN);
    else if (source->max_positions >= group->config.trained_length)
        set_factor_to_length_ratio(source, group, NULL);
    else
        gyre_rope_read_factor(source, group, 1.0); /* a ratio below 1 gives an attention factor of 1 */
}

/* Before 4.51 only the classes of Phi-3 and what came with its own code looked at the length again. */
static void keep_short_list(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *type = source->family->model_type;
    const int looks_again = strncmp(type, "phi3", 4) == 0 || strncmp(type, "phi4", 4) == 0 || strcmp(type, "phimoe") == 0 ||
                            strncmp(type, "minicpm", 7) == 0;
    if (looks_again || !gyre_profile_before(version(source), 51)) return;
    gyre_scope_warn(&source->dict, "long_factor",
                    "long_factor: transformers before 4.51 never uses it for a %s; short_factor is used at every length",
                    type);
    group->config.rope.long_factor = group->config.rope.short_factor;
}

static void read_longrope(const gyre_rope_source *source, gyre_layer_group *group) {
    if (version(source) == GYRE_PROFILE_HF_5)
        read_longrope_hf_5(source, group);
    else
        read_longrope_hf_4(source, group);
    gyre_rope_read_longrope_factors(source, group);
    keep_short_list(source, group);
    if (group->config.trained_length == 1)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, original_length_key, "1; longrope divides by its logarithm, 0");
    if (gyre_rope_read_short_long_mscale(source, group)) return;
    if (!gyre_rope_read_attention_factor(source, group))
        gyre_rope_derive_attention_factor(
            source, group, gyre_rope_longrope_attention_factor(group->config.rope.factor, group->config.trained_length), 0);
}

/* -- Llama 3, proportional -- */
static void read_llama3(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_read_factor(source, group, NAN);
    if (version(source) == GYRE_PROFILE_HF_5)
        read_original_hf_5(source, group);
    else if (gyre_scope_value(&source->dict, original_length_key))
        read_original_in_dict(source, group);
    else
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, original_length_key, "missing");
    if (group->config.trained_length >= source->max_positions && source->max_positions > 0)
        gyre_scope_warn(&source->dict, original_length_key,
                        "%s: not below max_position_embeddings, so nothing is longer than trained", original_length_key);
    gyre_rope_read_freq_factors(source, group);
}

static void read_proportional(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_read_factor(source, group, 1.0);
    gyre_rope_read_proportion(source, group);
    set_trained_if_known(source, group);
}

/* -- Gyre's own names -- */
static void read_native_scaling(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scaling scaling = group->config.rope.scaling;
    gyre_scope_warn(&source->dict, source->type_key, "%s: a scaling of Gyre, which transformers does not have",
                    source->type);
    gyre_rope_read_factor(source, group, NAN);
    if (scaling == GYRE_SCALING_BY_PARTS || scaling == GYRE_SCALING_BY_PARTS_PAPER) {
        read_original_hf_5(source, group);
        gyre_rope_read_ramp(source, group, 0);
    } else {
        set_trained_if_known(source, group);
    }
}

/* -- dispatch -- */
#define LENGTHS "factor", "original_max_position_embeddings"
static const char *const default_keys[] = {NULL};
static const char *const linear_keys[] = {"factor", NULL};
static const char *const dynamic_keys[] = {LENGTHS, "alpha", NULL};
static const char *const yarn_keys[] = {LENGTHS,  "attention_factor", "beta_fast", "beta_slow",
                                        "mscale", "mscale_all_dim",   "truncate",  NULL};
static const char *const old_yarn_keys[] = {LENGTHS, "attention_factor", "beta_fast", "beta_slow", "truncate", NULL};
static const char *const phimoe_keys[] = {
    LENGTHS, "attention_factor", "short_factor", "long_factor", "short_mscale", "long_mscale", NULL};
static const char *const longrope_keys[] = {LENGTHS, "attention_factor", "short_factor", "long_factor", NULL};
static const char *const llama3_keys[] = {LENGTHS, "low_freq_factor", "high_freq_factor", NULL};

static const struct {
    const char *name;
    gyre_scaling scaling;
    int hf_5_only, is_native;
    read_scaling *read;
    const char *const *keys;
} types[] = {{"default", GYRE_SCALING_NONE, 0, 0, read_default, default_keys},
             {"linear", GYRE_SCALING_LINEAR, 0, 0, read_linear, linear_keys},
             {"dynamic", GYRE_SCALING_DYNAMIC_NTK, 0, 0, read_dynamic, dynamic_keys},
             {"yarn", GYRE_SCALING_YARN, 0, 0, read_yarn, yarn_keys},
             {"longrope", GYRE_SCALING_LONGROPE, 0, 0, read_longrope, longrope_keys},
             {"llama3", GYRE_SCALING_LLAMA3, 0, 0, read_llama3, llama3_keys},
             {"proportional", GYRE_SCALING_PROPORTIONAL, 1, 0, read_proportional, linear_keys},
             {"ntk", GYRE_SCALING_NTK, 1, 1, read_native_scaling, linear_keys},
             {"ntk-mixed", GYRE_SCALING_NTK_MIXED, 1, 1, read_native_scaling, linear_keys},
             {"by-parts", GYRE_SCALING_BY_PARTS, 1, 1, read_native_scaling, yarn_keys},
             {"by-parts-paper", GYRE_SCALING_BY_PARTS_PAPER, 1, 1, read_native_scaling, yarn_keys}};

/* The other types have no attention factor: the key is ignored. */
static void note_ignored_attention(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = "attention_factor";
    const gyre_scaling scaling = group->config.rope.scaling;
    if (scaling == GYRE_SCALING_YARN || scaling == GYRE_SCALING_LONGROPE || !gyre_scope_value(&source->dict, key)) return;
    const gyre_place place = gyre_scope_place(&source->dict, key);
    const char *why =
        gyre_build_format(gyre_rope_build_of(source), "transformers does not read it for type %s", source->type);
    gyre_build_set_number(gyre_rope_build_of(source), group, key, GYRE_ORIGIN_READER, &place, why, 1.0);
}

/* Some classes check the type themselves. */
static void check_class(const gyre_rope_source *source, gyre_scaling scaling) {
    const int is_phi = (source->family->traits & GYRE_YARN_IS_LONGROPE) && scaling != GYRE_SCALING_LONGROPE;
    const int is_ernie = (source->family->traits & GYRE_MROPE_ERNIE) != 0;
    const int is_mistral4 = strcmp(source->family->model_type, "mistral4") == 0;
    if (scaling == GYRE_SCALING_NONE && is_mistral4 && version(source) == GYRE_PROFILE_HF_5)
        gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, source->type_key,
                        "\"default\"; transformers' mistral4 class computes angles for the whole head, but rotates only a "
                        "part of it and fails");
    if (scaling == GYRE_SCALING_NONE || !(is_phi || is_ernie)) return;
    gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, source->type_key,
                    "\"%.60s\"; transformers' %s class takes only default%s", source->type, source->family->model_type,
                    is_phi ? " and longrope" : "");
}

/* Before transformers 5 the configuration of Phi-3 and Phi-4 refused an object of any other shape. */
static void check_three_fields(const gyre_rope_source *source, gyre_scaling scaling) {
    const gyre_scope *dict = &source->dict;
    if (!(source->family->traits & GYRE_YARN_IS_LONGROPE) || scaling != GYRE_SCALING_LONGROPE) return;
    if (!gyre_profile_is_hf_4(version(source)) || !dict->object) return;
    if (json_object_size(dict->object) == 3 && gyre_scope_value(dict, "type")) return;
    gyre_scope_fail(dict, GYRE_EUNSUPPORTED, source->type_key,
                    "transformers 4 refuses the object for a %s unless it has exactly type, short_factor and long_factor",
                    source->family->model_type);
}

static int ignores_scaling(const gyre_rope_source *source) {
    if (gyre_rope_is_plain(source)) return 1;
    return (source->family->traits & GYRE_HF_4_UNSCALED) && gyre_profile_is_hf_4(version(source));
}

/* Qwen2-VL's classes of early versions of 5 computed their frequencies once, without a length. */
static void warn_once_frozen(const gyre_rope_source *source, const gyre_layer_group *group) {
    const char *type = source->family->model_type;
    const gyre_scaling scaling = group->config.rope.scaling;
    if (version(source) != GYRE_PROFILE_HF_5) return;
    if (strncmp(type, "qwen2_vl", 8) != 0 && strncmp(type, "qwen2_5_vl", 10) != 0) return;
    if (scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_LONGROPE)
        gyre_scope_warn(&source->dict, source->type_key,
                        "%s: transformers 5.0 to 5.16 did not recompute the frequencies of a %s for a longer sequence",
                        source->type, type);
}

void gyre_rope_as_hf(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_profile profile = version(source);
    size_t i = 0;
    if (gyre_rope_read_telechat3(source, group)) return;
    while (i < sizeof types / sizeof *types && strcmp(types[i].name, source->type) != 0)
        i++;
    if (i == sizeof types / sizeof *types) {
        gyre_rope_fail_unknown_type(source, profile == GYRE_PROFILE_HF_5
                                                ? "default, linear, dynamic, yarn, longrope, llama3, proportional"
                                                : "default, linear, dynamic, yarn, longrope, llama3");
        return;
    }
    if (types[i].hf_5_only && profile != GYRE_PROFILE_HF_5) {
        gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, source->type_key, "\"%s\" is not a type that %s knows%s",
                        source->type, gyre_profile_program(profile),
                        types[i].is_native ? " (it is Gyre's own)" : "; transformers 5.5 was the first");
        return;
    }
    check_class(source, types[i].scaling);
    check_three_fields(source, types[i].scaling);
    if (types[i].scaling != GYRE_SCALING_NONE && ignores_scaling(source)) {
        gyre_scope_warn(&source->dict, source->type_key, "%s: %s has no scalings for a %s", source->type,
                        gyre_rope_is_plain(source) ? "transformers" : "transformers 4", source->family->model_type);
        i = 0;
    }
    gyre_rope_note_scaling(source, group, types[i].scaling);
    types[i].read(source, group);
    warn_once_frozen(source, group);
    note_ignored_attention(source, group);
    const int is_old_yarn =
        types[i].scaling == GYRE_SCALING_YARN && gyre_profile_before(profile, 51) && !(source->family->traits & GYRE_MLA);
    const int is_phimoe = types[i].scaling == GYRE_SCALING_LONGROPE && strcmp(source->family->model_type, "phimoe") == 0;
    gyre_rope_warn_unread_keys(source, is_old_yarn ? old_yarn_keys : is_phimoe ? phimoe_keys : types[i].keys);
}
