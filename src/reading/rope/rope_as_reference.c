/* rope_as_reference.c: scalings as defined by the papers and their authors' code, reading every key that is present. */
#include "reading/rope/read_rope.h"

#include <math.h>
#include <string.h>

static const char original_length_key[] = "original_max_position_embeddings";

/* L: the key in the dict, else the one beside it, else the length served. */
static void read_original(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *scope = gyre_scope_value(&source->dict, original_length_key) ? &source->dict : &source->root;
    gyre_rope_provenance found = {GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    int64_t length = gyre_rope_read_length(scope, original_length_key, 0);
    const char *served = gyre_rope_length_key(&source->root);
    if (length > 0) {
        found = gyre_rope_provenance_of(source, scope, original_length_key);
        gyre_build_set_number(gyre_rope_build_of(source), group, "original_length", found.origin, &found.place, NULL,
                              (double)length);
    } else {
        length = source->max_positions;
        if (served) found = (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(&source->root, served)};
    }
    gyre_rope_set_trained_length(source, group, length, &found, NULL);
}

/* s: the key, else the ratio of the lengths. */
static void read_factor(const gyre_rope_source *source, gyre_layer_group *group) {
    const double ratio = (double)source->max_positions / fmax(1.0, (double)group->config.trained_length);
    if (gyre_scope_value(&source->dict, "factor") || source->max_positions <= 0) {
        gyre_rope_read_factor(source, group, NAN);
        return;
    }
    group->config.rope.factor = fmax(1.0, ratio);
    gyre_build_set_number(gyre_rope_build_of(source), group, "factor", GYRE_ORIGIN_DERIVED, NULL, "the ratio of the lengths",
                          group->config.rope.factor);
}

static double read_mscale(const gyre_rope_source *source, gyre_layer_group *group, const char *key, double usual) {
    const double value = gyre_scope_number(&source->dict, key, usual);
    if (value < 0.0) gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%g is below 0", value);
    if (gyre_scope_value(&source->dict, key))
        gyre_rope_note_number(source, group, key, key, GYRE_ORIGIN_READER, NULL, value);
    return value;
}

/* DeepSeek's inference code does not scale cos and sin: all of g(s, mscale)^2 goes to the softmax.  If the model serves
 * no more than its trained length, neither that nor the ramp applies. */
static void read_deepseek_attention(const gyre_rope_source *source, gyre_layer_group *group) {
    const double mscale = read_mscale(source, group, "mscale", 1.0);
    const double g = gyre_rope_yarn_mscale(group->config.rope.factor, mscale);
    (void)read_mscale(source, group, "mscale_all_dim", 0.0);
    gyre_rope_derive_attention_factor(source, group, 1.0, 1);
    gyre_rope_scale_softmax(source, group, g * g, "mscale");
}

static void read_yarn(const gyre_rope_source *source, gyre_layer_group *group) {
    const int is_latent = (source->family->traits & GYRE_MLA) != 0;
    read_original(source, group);
    read_factor(source, group);
    gyre_rope_read_ramp(source, group, 0);
    if (is_latent && source->max_positions > 0 && source->max_positions <= group->config.trained_length) {
        group->config.rope.factor = 1.0;
        gyre_rope_note_number(source, group, "factor", "factor", GYRE_ORIGIN_DERIVED,
                              "DeepSeek's code omits it if the model serves no more than the trained length", 1.0);
    }
    if (gyre_rope_read_attention_factor(source, group)) return;
    if (is_latent) {
        read_deepseek_attention(source, group);
        return;
    }
    /* One key alone counts, as in the code that introduced them: mscale defaults to 1, mscale_all_dim to 0. */
    const double s = group->config.rope.factor, mscale = read_mscale(source, group, "mscale", 1.0);
    const double over = gyre_rope_yarn_mscale(s, read_mscale(source, group, "mscale_all_dim", 0.0));
    gyre_rope_derive_attention_factor(source, group, gyre_rope_yarn_mscale(s, mscale) / over, 1);
}

/* Dynamic scaling (YaRN, section 3.3): s is the ratio of the length in use, whatever factor says.  The released code
 * (jquesnelle/yarn) does this beyond max_position_embeddings only. */
static void read_dynamic_yarn(const gyre_rope_source *source, gyre_layer_group *group) {
    read_original(source, group);
    gyre_rope_read_factor(source, group, 1.0);
    gyre_rope_read_ramp(source, group, 0);
    const int64_t trained = group->config.trained_length, length = gyre_build_length(gyre_rope_build_of(source));
    if (source->max_positions > trained)
        gyre_scope_warn(&source->dict, original_length_key,
                        "original_max_position_embeddings: below max_position_embeddings; the released code has one factor "
                        "up to that, and it is read as in the paper");
    if (gyre_rope_read_attention_factor(source, group)) return;
    const double s = (double)length / fmax(1.0, (double)trained);
    gyre_rope_derive_attention_factor(source, group, gyre_rope_yarn_mscale(s, 1.0), 0);
}

/* As the released code calls them (rope_args of longrope_mixed). */
static void read_start_tokens(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char key[] = "start_token_idx";
    if (!gyre_scope_value(&source->dict, key)) return;
    struct gyre_longrope_config *longrope = &group->config.rope.longrope;
    longrope->start_tokens = gyre_scope_integer(&source->dict, key, 0, 0);
    longrope->starts = longrope->start_tokens > 0 ? GYRE_LONGROPE_START_RELEASED : GYRE_LONGROPE_START_PAPER;
    gyre_rope_note_number(source, group, "start_tokens", key, GYRE_ORIGIN_FILE,
                          "past the trained length, positions below it rotate as without a scaling",
                          (double)longrope->start_tokens);
}

/* The paper's factor is the ratio of the lengths; a key with another value overrides it.  Microsoft's code takes the
 * magnitudes from short_mscale and long_mscale if present. */
static void read_longrope(const gyre_rope_source *source, gyre_layer_group *group) {
    read_original(source, group);
    read_factor(source, group);
    gyre_rope_read_longrope_factors(source, group);
    read_start_tokens(source, group);
    if (group->config.trained_length == 1)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, original_length_key, "1; longrope divides by its logarithm, 0");
    if (gyre_rope_read_attention_factor(source, group)) return;
    if (gyre_rope_read_short_long_mscale(source, group)) return;
    gyre_rope_derive_attention_factor(
        source, group, gyre_rope_longrope_attention_factor(group->config.rope.factor, group->config.trained_length), 0);
}

static void read_simple_scaling(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scaling scaling = group->config.rope.scaling;
    if (scaling == GYRE_SCALING_NONE) gyre_rope_read_qwen_dynamic_ntk(source, group);
    if (scaling == GYRE_SCALING_DYNAMIC_NTK && gyre_rope_read_alpha(source, group)) return;
    if (scaling != GYRE_SCALING_NONE) gyre_rope_read_factor(source, group, scaling == GYRE_SCALING_PROPORTIONAL ? 1.0 : NAN);
    if (scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_LLAMA3 || scaling == GYRE_SCALING_BY_PARTS ||
        scaling == GYRE_SCALING_BY_PARTS_PAPER)
        read_original(source, group);
    if (scaling == GYRE_SCALING_LLAMA3) gyre_rope_read_freq_factors(source, group);
    if (scaling == GYRE_SCALING_BY_PARTS || scaling == GYRE_SCALING_BY_PARTS_PAPER) gyre_rope_read_ramp(source, group, 0);
    if (scaling == GYRE_SCALING_PROPORTIONAL) gyre_rope_read_proportion(source, group);
    (void)gyre_rope_read_attention_factor(source, group);
}

#define LENGTHS "factor", "original_max_position_embeddings", "attention_factor"
static const char *const plain_keys[] = {"attention_factor", NULL};
static const char *const factor_keys[] = {"factor", "attention_factor", NULL};
static const char *const dynamic_keys[] = {LENGTHS, "alpha", NULL};
static const char *const yarn_keys[] = {LENGTHS, "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", NULL};
static const char *const by_parts_keys[] = {LENGTHS, "beta_fast", "beta_slow", "truncate", NULL};
static const char *const longrope_keys[] = {LENGTHS,       "short_factor",    "long_factor", "short_mscale",
                                            "long_mscale", "start_token_idx", NULL};
static const char *const llama3_keys[] = {LENGTHS, "low_freq_factor", "high_freq_factor", NULL};

static const struct {
    const char *name;
    gyre_scaling scaling;
    gyre_rope_profile_reader *read;
    const char *const *keys;
} types[] = {{"default", GYRE_SCALING_NONE, read_simple_scaling, plain_keys},
             {"linear", GYRE_SCALING_LINEAR, read_simple_scaling, factor_keys},
             {"ntk", GYRE_SCALING_NTK, read_simple_scaling, factor_keys},
             {"ntk-mixed", GYRE_SCALING_NTK_MIXED, read_simple_scaling, factor_keys},
             {"dynamic", GYRE_SCALING_DYNAMIC_NTK, read_simple_scaling, dynamic_keys},
             {"by-parts", GYRE_SCALING_BY_PARTS, read_simple_scaling, by_parts_keys},
             {"by-parts-paper", GYRE_SCALING_BY_PARTS_PAPER, read_simple_scaling, by_parts_keys},
             {"yarn", GYRE_SCALING_YARN, read_yarn, yarn_keys},
             {"dynamic-yarn", GYRE_SCALING_DYNAMIC_YARN, read_dynamic_yarn, by_parts_keys},
             {"llama3", GYRE_SCALING_LLAMA3, read_simple_scaling, llama3_keys},
             {"longrope", GYRE_SCALING_LONGROPE, read_longrope, longrope_keys},
             {"proportional", GYRE_SCALING_PROPORTIONAL, read_simple_scaling, factor_keys}};

/* Records L, until a scaling sets another. */
static void note_trained_length(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = gyre_rope_trained_length_key(source);
    const int64_t length = key ? gyre_rope_read_length(&source->root, key, source->max_positions) : source->max_positions;
    const gyre_rope_provenance found = {key ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                                        key ? gyre_scope_place(&source->root, key) : (gyre_place){NULL, 0, 0}};
    gyre_rope_set_trained_length(source, group, length, &found, NULL);
}

void gyre_rope_as_reference(const gyre_rope_source *source, gyre_layer_group *group) {
    size_t i = 0;
    if (gyre_rope_read_telechat3(source, group)) return;
    while (i < sizeof types / sizeof *types && strcmp(types[i].name, source->type) != 0)
        i++;
    if (i == sizeof types / sizeof *types) {
        gyre_rope_fail_unknown_type(
            source, "default, linear, dynamic, yarn, dynamic-yarn, longrope, llama3, proportional, ntk, by-parts");
        return;
    }
    gyre_rope_note_scaling(source, group, types[i].scaling);
    if (source->max_positions > 0) note_trained_length(source, group);
    types[i].read(source, group);
    (void)gyre_rope_read_chunks(source, group);
    gyre_rope_read_clip(source, group);
    gyre_rope_read_imaginary(source, group);
    gyre_rope_warn_unread_keys(source, types[i].keys);
}
