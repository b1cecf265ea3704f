/* rope_as_reference.c: scalings as the papers and their authors' code have them, on every key that is there. */
#include "reading/rope/rope_plan.h"

#include <math.h>
#include <string.h>

static const char original[] = "original_max_position_embeddings";

/* L: the key in the object, which is nearer, then the one beside it, then what the model serves. */
static void read_original(const gyre_rope_source *source, gyre_layers *group) {
    const gyre_scope *scope = gyre_scope_value(&source->dict, original) ? &source->dict : &source->root;
    gyre_rope_found found = {GYRE_FROM_FAMILY, {NULL, 0, 0}};
    int64_t length = gyre_rope_length_at(scope, original, 0);
    const char *served = gyre_rope_length_key(&source->root);
    if (length > 0) {
        found = gyre_rope_found_at(source, scope, original);
        gyre_build_number(gyre_rope_build(source), group, "original_length", found.origin, &found.place, NULL,
                          (double)length);
    } else {
        length = source->max_positions;
        if (served) found = (gyre_rope_found){GYRE_FROM_FILE, gyre_scope_place(&source->root, served)};
    }
    gyre_rope_set_trained(source, group, length, &found, NULL);
}

/* s: the key, else the ratio of the lengths. */
static void read_factor(const gyre_rope_source *source, gyre_layers *group) {
    const double ratio = (double)source->max_positions / fmax(1.0, (double)group->config.trained_length);
    if (gyre_scope_value(&source->dict, "factor") || source->max_positions <= 0) {
        gyre_rope_read_factor(source, group, NAN);
        return;
    }
    group->config.rope.factor = fmax(1.0, ratio);
    gyre_build_number(gyre_rope_build(source), group, "factor", GYRE_DERIVED, NULL, "the ratio of the lengths",
                      group->config.rope.factor);
}

static double mscale_at(const gyre_rope_source *source, gyre_layers *group, const char *key, double usual) {
    const double value = gyre_scope_number(&source->dict, key, usual);
    if (value < 0.0) gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%g is below 0", value);
    if (gyre_scope_value(&source->dict, key)) gyre_rope_note(source, group, key, key, GYRE_FROM_READER, NULL, value);
    return value;
}

/* DeepSeek's own inference code has no factor on the angles: all of it, g(s, mscale)^2, goes to the softmax; and neither
 * that nor the ramp where the model serves no more than it was trained with. */
static void read_deepseek_attention(const gyre_rope_source *source, gyre_layers *group) {
    const double mscale = mscale_at(source, group, "mscale", 1.0);
    const double g = gyre_rope_magnitude(group->config.rope.factor, mscale);
    (void)mscale_at(source, group, "mscale_all_dim", 0.0);
    gyre_rope_derive_attention_factor(source, group, 1.0, 1);
    gyre_rope_set_softmax(source, group, g * g, "mscale");
}

static void read_yarn(const gyre_rope_source *source, gyre_layers *group) {
    const int is_latent = (source->family->traits & GYRE_LATENT) != 0;
    read_original(source, group);
    read_factor(source, group);
    gyre_rope_read_ramp(source, group, 0);
    if (is_latent && source->max_positions > 0 && source->max_positions <= group->config.trained_length) {
        group->config.rope.factor = 1.0;
        gyre_rope_note(source, group, "factor", "factor", GYRE_DERIVED,
                       "DeepSeek's code leaves it out where the model serves no more than it was trained with", 1.0);
    }
    if (gyre_rope_read_attention_factor(source, group)) return;
    if (is_latent) {
        read_deepseek_attention(source, group);
        return;
    }
    /* One of the two alone counts, as in the code that introduced them: a missing mscale is 1, a missing other 0. */
    const double s = group->config.rope.factor, mscale = mscale_at(source, group, "mscale", 1.0);
    const double over = gyre_rope_magnitude(s, mscale_at(source, group, "mscale_all_dim", 0.0));
    gyre_rope_derive_attention_factor(source, group, gyre_rope_magnitude(s, mscale) / over, 1);
}

/* Dynamic scaling (YaRN, section 3.3): s is the ratio of the length in use, whatever factor says.  The code released with it
 * (jquesnelle/yarn) does so past max_position_embeddings alone. */
static void read_dynamic_yarn(const gyre_rope_source *source, gyre_layers *group) {
    read_original(source, group);
    gyre_rope_read_factor(source, group, 1.0);
    gyre_rope_read_ramp(source, group, 0);
    const int64_t trained = group->config.trained_length, length = gyre_build_length(gyre_rope_build(source));
    if (source->max_positions > trained)
        gyre_scope_warn(&source->dict, original,
                        "original_max_position_embeddings: below max_position_embeddings, up to which the released code has "
                        "one factor for all lengths; read as the paper has it");
    if (gyre_rope_read_attention_factor(source, group)) return;
    const double s = (double)length / fmax(1.0, (double)trained);
    gyre_rope_derive_attention_factor(source, group, gyre_rope_magnitude(s, 1.0), 0);
}

/* The paper's factor is the ratio of the lengths; a key that says another is taken at its word.  Microsoft's code takes the
 * magnitudes from short_mscale and long_mscale where they are. */
static void read_longrope(const gyre_rope_source *source, gyre_layers *group) {
    read_original(source, group);
    read_factor(source, group);
    gyre_rope_read_lists(source, group);
    if (group->config.trained_length == 1)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, original, "1 has logarithm 0, which longrope divides by");
    if (gyre_rope_read_attention_factor(source, group)) return;
    if (gyre_rope_read_magnitudes(source, group)) return;
    gyre_rope_derive_attention_factor(
        source, group, gyre_rope_longrope_magnitude(group->config.rope.factor, group->config.trained_length), 0);
}

static void read_other(const gyre_rope_source *source, gyre_layers *group) {
    const gyre_scaling scaling = group->config.rope.scaling;
    if (scaling == GYRE_UNSCALED) gyre_rope_read_steps(source, group);
    if (scaling == GYRE_DYNAMIC_NTK && gyre_rope_read_alpha(source, group)) return;
    if (scaling != GYRE_UNSCALED) gyre_rope_read_factor(source, group, scaling == GYRE_PROPORTIONAL ? 1.0 : NAN);
    if (scaling == GYRE_DYNAMIC_NTK || scaling == GYRE_LLAMA3 || scaling == GYRE_BY_PARTS || scaling == GYRE_BY_PARTS_PAPER)
        read_original(source, group);
    if (scaling == GYRE_LLAMA3) gyre_rope_read_bands(source, group);
    if (scaling == GYRE_BY_PARTS || scaling == GYRE_BY_PARTS_PAPER) gyre_rope_read_ramp(source, group, 0);
    if (scaling == GYRE_PROPORTIONAL) gyre_rope_read_proportion(source, group);
    (void)gyre_rope_read_attention_factor(source, group);
}

#define LENGTHS "factor", "original_max_position_embeddings", "attention_factor"
static const char *const plain_keys[] = {"attention_factor", NULL};
static const char *const factor_keys[] = {"factor", "attention_factor", NULL};
static const char *const dynamic_keys[] = {LENGTHS, "alpha", NULL};
static const char *const yarn_keys[] = {LENGTHS, "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", NULL};
static const char *const parts_keys[] = {LENGTHS, "beta_fast", "beta_slow", "truncate", NULL};
static const char *const longrope_keys[] = {LENGTHS, "short_factor", "long_factor", "short_mscale", "long_mscale", NULL};
static const char *const llama3_keys[] = {LENGTHS, "low_freq_factor", "high_freq_factor", NULL};

static const struct {
    const char *name;
    gyre_scaling scaling;
    gyre_rope_as *read;
    const char *const *keys;
} types[] = {{"default", GYRE_UNSCALED, read_other, plain_keys},
             {"linear", GYRE_LINEAR, read_other, factor_keys},
             {"ntk", GYRE_NTK, read_other, factor_keys},
             {"ntk-mixed", GYRE_NTK_MIXED, read_other, factor_keys},
             {"dynamic", GYRE_DYNAMIC_NTK, read_other, dynamic_keys},
             {"by-parts", GYRE_BY_PARTS, read_other, parts_keys},
             {"by-parts-paper", GYRE_BY_PARTS_PAPER, read_other, parts_keys},
             {"yarn", GYRE_YARN, read_yarn, yarn_keys},
             {"dynamic-yarn", GYRE_DYNAMIC_YARN, read_dynamic_yarn, parts_keys},
             {"llama3", GYRE_LLAMA3, read_other, llama3_keys},
             {"longrope", GYRE_LONGROPE, read_longrope, longrope_keys},
             {"proportional", GYRE_PROPORTIONAL, read_other, factor_keys}};

/* L, until a scaling says otherwise. */
static void note_served(const gyre_rope_source *source, gyre_layers *group) {
    const char *key = gyre_rope_length_key(&source->root);
    const gyre_rope_found found = {key ? GYRE_FROM_FILE : GYRE_FROM_FAMILY,
                                   key ? gyre_scope_place(&source->root, key) : (gyre_place){NULL, 0, 0}};
    gyre_rope_set_trained(source, group, source->max_positions, &found, NULL);
}

void gyre_rope_as_reference(const gyre_rope_source *source, gyre_layers *group) {
    size_t i = 0;
    if (gyre_rope_read_telechat3(source, group)) return;
    while (i < sizeof types / sizeof *types && strcmp(types[i].name, source->type) != 0)
        i++;
    if (i == sizeof types / sizeof *types) {
        gyre_rope_unknown_type(
            source, "default, linear, dynamic, yarn, dynamic-yarn, longrope, llama3, proportional, ntk, by-parts");
        return;
    }
    gyre_rope_note_scaling(source, group, types[i].scaling);
    if (source->max_positions > 0) note_served(source, group);
    types[i].read(source, group);
    gyre_rope_check_keys(source, types[i].keys);
}
