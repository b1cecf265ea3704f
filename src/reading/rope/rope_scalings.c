/* rope_scalings.c: the keys of each scaling, as far as transformers and the papers agree. */
#include "reading/rope/read_rope.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

gyre_build *gyre_rope_build_of(const gyre_rope_source *source) {
    return source->root.source->build;
}

void gyre_rope_note_number(const gyre_rope_source *source, gyre_layer_group *group, const char *name, const char *key,
                           gyre_origin fallback, const char *why, double value) {
    gyre_rope_provenance found = {fallback, {NULL, 0, 0}};
    if (key && gyre_scope_value(&source->dict, key)) found = gyre_rope_provenance_of(source, &source->dict, key);
    gyre_build_set_number(gyre_rope_build_of(source), group, name, found.origin, &found.place, why, value);
}

void gyre_rope_note_scaling(const gyre_rope_source *source, gyre_layer_group *group, gyre_scaling scaling) {
    const char *name = gyre_rope_type(scaling);
    const char *key = gyre_scope_value(&source->dict, source->type_key) ? source->type_key : NULL;
    gyre_rope_provenance found = {GYRE_ORIGIN_READER, {NULL, 0, 0}};
    if (key) found = gyre_rope_provenance_of(source, &source->dict, key);
    const char *written = key ? gyre_scope_string(&source->dict, key, name) : name;
    const char *why = strcmp(written, name) == 0
                          ? NULL
                          : gyre_build_format(gyre_rope_build_of(source), "\"%.40s\" means %s here", written, name);
    group->config.rope.scaling = scaling;
    if ((scaling == GYRE_SCALING_NTK || scaling == GYRE_SCALING_DYNAMIC_NTK) && group->config.rope.dim == 2)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, source->type_key,
                        "\"%.40s\" with a single pair: the exponent divides by 0", written);
    gyre_build_set_field(gyre_rope_build_of(source), group, "scaling", found.origin, &found.place, why, "%s", name);
}

/* -- factor and lengths -- */
void gyre_rope_read_factor(const gyre_rope_source *source, gyre_layer_group *group, double fallback) {
    const gyre_scope *dict = &source->dict;
    const double factor = gyre_scope_number(dict, "factor", fallback);
    if (factor < 1.0) gyre_scope_fail(dict, GYRE_EFORMAT, "factor", "%g is below 1", factor);
    /* Far beyond this, the 1 in s n / L - (s - 1) is lost to rounding. */
    if (factor > 0x1p32) gyre_scope_fail(dict, GYRE_EFORMAT, "factor", "%g is above 2^32", factor);
    if (gyre_profile_is_hf_4(gyre_build_profile(gyre_rope_build_of(source))) &&
        json_is_integer(gyre_scope_value(dict, "factor")))
        gyre_scope_warn(dict, "factor", "factor: transformers 4 warns about a whole number, expects 8.0, and continues");
    group->config.rope.factor = factor;
    gyre_rope_note_number(source, group, "factor", "factor", GYRE_ORIGIN_READER, NULL, factor);
}

int64_t gyre_rope_read_length(const gyre_scope *scope, const char *key, int64_t fallback) {
    const json_t *value = gyre_scope_value(scope, key);
    const int64_t length = gyre_scope_integer(scope, key, 1, fallback);
    if (json_is_real(value))
        gyre_scope_warn(scope, key, "%s: a number with a decimal point; transformers expects a whole number", key);
    return length;
}

void gyre_rope_set_trained_length(const gyre_rope_source *source, gyre_layer_group *group, int64_t length,
                                  const gyre_rope_provenance *found, const char *why) {
    if (length <= 0)
        gyre_scope_fail(&source->root, GYRE_EFORMAT, "max_position_embeddings", "missing; %s counts from it", source->type);
    group->config.trained_length = length;
    gyre_build_set_number(gyre_rope_build_of(source), group, "trained_length", found->origin, &found->place, why,
                          (double)length);
}

/* -- the parts of YaRN and Llama 3 -- */
/* 0 means the default, as a missing key does. */
static double read_ramp_beta(const gyre_rope_source *source, gyre_layer_group *group, const char *key, double usual) {
    const double given = gyre_scope_number(&source->dict, key, 0.0);
    if (given < 0.0) gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%g is below 0", given);
    const double value = given == 0.0 ? usual : given;
    const char *why = given == 0.0 && gyre_scope_value(&source->dict, key) ? "0 means the default" : NULL;
    gyre_rope_note_number(source, group, key, key, GYRE_ORIGIN_READER, why, value);
    return value;
}

static void read_truncate(const gyre_rope_source *source, gyre_layer_group *group, int whole) {
    const char *key = "truncate";
    const int given = gyre_scope_value(&source->dict, key) != NULL;
    const int expected = gyre_scope_bool(&source->dict, key, 1), used = expected || whole;
    gyre_rope_provenance found = {GYRE_ORIGIN_READER, {NULL, 0, 0}};
    const char *why = NULL;
    if (given) found = gyre_rope_provenance_of(source, &source->dict, key);
    if (used != expected) {
        const char *program = gyre_profile_program(gyre_build_profile(gyre_rope_build_of(source)));
        why = gyre_build_format(gyre_rope_build_of(source), "%s always rounds the ramp's ends", program);
        gyre_scope_warn(&source->dict, key, "truncate: %s does not read it%s", program,
                        source->nested ? " in an object for one type of layers" : "");
    }
    group->config.rope.fractional_bounds = !used;
    gyre_build_set_field(gyre_rope_build_of(source), group, "truncate", found.origin, &found.place, why, "%s",
                         used ? "true" : "false");
}

void gyre_rope_read_ramp(const gyre_rope_source *source, gyre_layer_group *group, int whole) {
    struct gyre_rope_config *rope = &group->config.rope;
    rope->beta_fast = read_ramp_beta(source, group, "beta_fast", 32.0);
    rope->beta_slow = read_ramp_beta(source, group, "beta_slow", 1.0);
    if (rope->beta_fast < rope->beta_slow)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, "beta_fast", "%g is below beta_slow, %g: the ramp would be reversed",
                        rope->beta_fast, rope->beta_slow);
    read_truncate(source, group, whole);
}

void gyre_rope_read_freq_factors(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char *const keys[] = {"low_freq_factor", "high_freq_factor"};
    struct gyre_rope_config *rope = &group->config.rope;
    double *const out[] = {&rope->low_freq, &rope->high_freq};
    for (int i = 0; i < 2; i++) {
        *out[i] = gyre_scope_number(&source->dict, keys[i], NAN);
        if (!(*out[i] > 0.0)) gyre_scope_fail(&source->dict, GYRE_EFORMAT, keys[i], "%g is not above 0", *out[i]);
        gyre_rope_note_number(source, group, keys[i], keys[i], GYRE_ORIGIN_READER, NULL, *out[i]);
    }
    if (rope->high_freq < rope->low_freq)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, "high_freq_factor", "%g is below low_freq_factor, %g", rope->high_freq,
                        rope->low_freq);
}

/* -- LongRoPE's lists -- */
static const double *read_list(const gyre_rope_source *source, gyre_layer_group *group, const char *key) {
    const int64_t pairs = group->config.rope.dim / 2;
    const double *list = gyre_scope_numbers(&source->dict, key, pairs);
    if (!list) return NULL;
    double minimum = list[0], maximum = list[0];
    for (int64_t i = 0; i < pairs; i++) {
        if (!(list[i] >= 0x1p-10 && isfinite(list[i])))
            gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "entry %" PRId64 ", %g, is not a number of at least 2^-10", i,
                            list[i]);
        minimum = fmin(minimum, list[i]);
        maximum = fmax(maximum, list[i]);
    }
    const gyre_place place = gyre_scope_place(&source->dict, key);
    gyre_build_set_field(gyre_rope_build_of(source), group, key, GYRE_ORIGIN_FILE, &place, NULL,
                         "%" PRId64 " numbers, %.6g to %.6g", pairs, minimum, maximum);
    return list;
}

void gyre_rope_read_longrope_factors(const gyre_rope_source *source, gyre_layer_group *group) {
    group->config.rope.short_factor = read_list(source, group, "short_factor");
    group->config.rope.long_factor = read_list(source, group, "long_factor");
}

/* -- proportional -- */
/* The fraction is one of pairs, not of channels: the whole head is paired, and some pairs do not rotate. */
void gyre_rope_read_proportion(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_rope_provenance found;
    const double fraction = gyre_rope_read_partial_factor(source, &found);
    struct gyre_rope_config *rope = &group->config.rope;
    if (found.origin != GYRE_ORIGIN_FILE && !source->from_class)
        gyre_scope_warn(&source->dict, source->type_key, "partial_rotary_factor: missing; a proportional rotation takes %g",
                        fraction);
    rope->proportion = fraction;
    if (!(fraction * (double)rope->dim / 2.0 >= 1.0))
        gyre_build_fail(gyre_rope_build_of(source), GYRE_EFORMAT, &found.place,
                        "partial_rotary_factor: %g leaves no pair to rotate", fraction);
    gyre_build_set_number(gyre_rope_build_of(source), group, "partial", found.origin, &found.place,
                          "the share of pairs that rotate", fraction);
}

/* -- attention -- */
int gyre_rope_read_attention_factor(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = "attention_factor";
    if (!gyre_scope_value(&source->dict, key)) return 0;
    const double factor = gyre_scope_number(&source->dict, key, 1.0);
    if (!(factor > 0.0)) gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%g is not above 0", factor);
    group->config.rope.attention_factor = factor;
    gyre_rope_note_number(source, group, key, key, GYRE_ORIGIN_READER, NULL, factor);
    return 1;
}

void gyre_rope_derive_attention_factor(const gyre_rope_source *source, gyre_layer_group *group, double value, int fixed) {
    if (fixed) group->config.rope.attention_factor = value;
    gyre_build_set_number(gyre_rope_build_of(source), group, "attention_factor", GYRE_ORIGIN_DERIVED, NULL, NULL, value);
}

double gyre_rope_yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

double gyre_rope_longrope_attention_factor(double factor, int64_t length) {
    return factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log((double)length));
}

void gyre_rope_scale_softmax(const gyre_rope_source *source, gyre_layer_group *group, double multiplier, const char *key) {
    if (group->scale == 0.0) group->scale = 1.0 / sqrt((double)group->config.head_dim);
    group->scale *= multiplier;
    group->softmax_multiplier = multiplier;
    const int there = key && gyre_scope_value(&source->dict, key);
    const gyre_place place = there ? gyre_scope_place(&source->dict, key) : (gyre_place){NULL, 0, 0};
    gyre_build_set_number(gyre_rope_build_of(source), group, "softmax_multiplier", GYRE_ORIGIN_DERIVED, &place, NULL,
                          multiplier);
    gyre_build_set_number(gyre_rope_build_of(source), group, "score_scale", GYRE_ORIGIN_DERIVED, NULL, NULL, group->scale);
}

/* -- families with their own rules -- */
int gyre_rope_read_short_long_mscale(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char *const keys[] = {"short_mscale", "long_mscale"};
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    const char *key = keys[gyre_build_length(gyre_rope_build_of(source)) > group->config.trained_length];
    if (strcmp(source->family->model_type, "phimoe") != 0 && profile != GYRE_PROFILE_REFERENCE) return 0;
    if (!gyre_scope_value(&source->dict, key)) return 0;
    const double magnitude = gyre_scope_number(&source->dict, key, 1.0);
    if (!(magnitude > 0.0)) gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%g is not above 0", magnitude);
    group->config.rope.attention_factor = magnitude;
    gyre_rope_note_number(source, group, "attention_factor", key, GYRE_ORIGIN_READER, NULL, magnitude);
    return 1;
}

static void set_ntk(const gyre_rope_source *source, gyre_layer_group *group, double factor,
                    const gyre_rope_provenance *found, const char *why) {
    group->config.rope.scaling = GYRE_SCALING_NTK;
    group->config.rope.factor = factor;
    gyre_build_set_field(gyre_rope_build_of(source), group, "scaling", found->origin, &found->place, why, "ntk");
    gyre_build_set_number(gyre_rope_build_of(source), group, "factor", found->origin, &found->place, NULL, factor);
}

int gyre_rope_read_alpha(const gyre_rope_source *source, gyre_layer_group *group) {
    const double alpha = gyre_scope_number(&source->dict, "alpha", 0.0);
    if (strncmp(source->family->model_type, "hunyuan", 7) != 0 || alpha == 0.0) return 0;
    if (alpha < 1.0) gyre_scope_fail(&source->dict, GYRE_EFORMAT, "alpha", "%g is below 1", alpha);
    const gyre_rope_provenance found = gyre_rope_provenance_of(source, &source->dict, "alpha");
    set_ntk(source, group, alpha, &found, "alpha changes the base at every length");
    return 1;
}

const char *gyre_rope_trained_length_key(const gyre_rope_source *source) {
    const char *const own = "seq_length";
    const int is_qwen = strcmp(source->family->model_type, "qwen") == 0;
    return is_qwen && gyre_scope_value(&source->root, own) ? own : gyre_rope_length_key(&source->root);
}

void gyre_rope_read_qwen_dynamic_ntk(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = gyre_rope_trained_length_key(source);
    const double length = (double)gyre_build_length(gyre_rope_build_of(source));
    const double trained =
        key ? (double)gyre_rope_read_length(&source->root, key, source->max_positions) : (double)source->max_positions;
    if (strcmp(source->family->model_type, "qwen") != 0 || !(trained > 0.0) || length <= trained) return;
    if (!gyre_scope_bool(&source->root, "use_dynamic_ntk", 1)) return;
    const gyre_rope_provenance found = {GYRE_ORIGIN_DERIVED, {NULL, 0, 0}};
    set_ntk(source, group, exp2(ceil(log2(length / trained) + 1.0)) - 1.0, &found,
            "use_dynamic_ntk: the base grows in steps past the trained length");
}

/* YaRN with 0.07 ln s + 1 instead of 0.1 ln s + 1, where s is the ratio of the lengths, whatever factor says. */
int gyre_rope_read_telechat3(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char *const keys[] = {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate",
                                       NULL};
    const char *original = keys[1];
    const gyre_scope *dict = &source->dict;
    if (strcmp(source->type, "telechat3-yarn") != 0 || strcmp(source->family->model_type, "telechat3") != 0) return 0;
    gyre_scope_warn(dict, source->type_key, "telechat3-yarn: %s has no such type; read as the model's own code does",
                    gyre_profile_program(gyre_build_profile(gyre_rope_build_of(source))));
    gyre_rope_note_scaling(source, group, GYRE_SCALING_YARN);
    const int64_t length = gyre_rope_read_length(dict, original, 0);
    if (length == 0) gyre_scope_fail(dict, GYRE_EFORMAT, original, "missing");
    if (gyre_build_status(gyre_rope_build_of(source))) return 1;
    const gyre_rope_provenance found = gyre_rope_provenance_of(source, dict, original);
    gyre_rope_set_trained_length(source, group, length, &found, NULL);
    gyre_rope_note_number(source, group, "original_length", original, GYRE_ORIGIN_FILE, NULL, (double)length);
    const double ratio = (double)source->max_positions / (double)length, given = gyre_scope_number(dict, "factor", ratio);
    if (ratio < 1.0) gyre_scope_fail(dict, GYRE_EFORMAT, original, "above max_position_embeddings");
    if (given != ratio)
        gyre_scope_warn(dict, "factor", "factor: telechat3-yarn takes the ratio of the lengths, %g, and not %g", ratio,
                        given);
    group->config.rope.factor = ratio;
    gyre_build_set_number(gyre_rope_build_of(source), group, "factor", GYRE_ORIGIN_DERIVED, NULL, "the ratio of the lengths",
                          ratio);
    gyre_rope_read_ramp(source, group, 0);
    gyre_rope_derive_attention_factor(source, group, 0.07 * log(ratio) + 1.0, 1);
    gyre_rope_warn_unread_keys(source, keys);
    return 1;
}
