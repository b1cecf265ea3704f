/* rope_engine.c: shared by the readers for vLLM and llama.cpp. */
#include "reading/rope/rope_engine.h"
#include "files/json_write.h"

#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gyre_place nowhere = {NULL, 0, 0};

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

gyre_rope_engine gyre_engine_begin(const gyre_rope_source *source, gyre_layer_group *group) {
    gyre_build *build = gyre_rope_build_of(source);
    const gyre_rope_engine e = {gyre_profile_program(gyre_build_profile(build)), source, group, build};
    const char *key = gyre_rope_length_key(&source->root);
    const gyre_place place = key ? gyre_scope_place(&source->root, key) : nowhere;
    if (source->max_positions > 0)
        gyre_build_set_number(build, group, "trained_length", key ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, &place, NULL,
                              (double)source->max_positions);
    return e;
}

/* out = where a key of the dict is; nowhere, with this origin, if the dict does not have it. */
static gyre_rope_provenance found_in_dict(const gyre_rope_engine *e, const char *key, gyre_origin otherwise) {
    const gyre_rope_source *s = e->source;
    if (key && gyre_scope_value(&s->dict, key)) return gyre_rope_provenance_of(s, &s->dict, key);
    return (gyre_rope_provenance){otherwise, nowhere};
}

/* -- recording fields -- */
void gyre_engine_set_scaling(const gyre_rope_engine *e, gyre_scaling scaling, const char *why) {
    const gyre_rope_provenance found = found_in_dict(e, e->source->type_key, GYRE_ORIGIN_READER);
    e->group->config.rope.scaling = scaling;
    gyre_build_set_field(e->build, e->group, "scaling", found.origin, &found.place, why, "%s", gyre_rope_type(scaling));
}

void gyre_engine_note_number(const gyre_rope_engine *e, const char *name, const char *key, const char *why, double value) {
    const gyre_rope_provenance found = found_in_dict(e, key, GYRE_ORIGIN_DERIVED);
    gyre_build_set_number(e->build, e->group, name, GYRE_ORIGIN_DERIVED, &found.place, why, value);
}

double gyre_engine_read_number(const gyre_rope_engine *e, const char *name, const char *key, double fallback) {
    const double value = gyre_scope_number(&e->source->dict, key, fallback);
    if (!failed(e)) gyre_rope_note_number(e->source, e->group, name, key, GYRE_ORIGIN_READER, NULL, value);
    return value;
}

double gyre_engine_read_positive(const gyre_rope_engine *e, const char *name, const char *key, double fallback) {
    const double value = gyre_engine_read_number(e, name, key, fallback);
    if (failed(e)) return 1.0;
    if (value > 0.0) return value;
    gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, key, "%g is not above 0", value);
    return 1.0;
}

double gyre_engine_read_factor(const gyre_rope_engine *e) {
    gyre_rope_read_factor(e->source, e->group, NAN);
    return e->group->config.rope.factor;
}

/* out = the object that has the original length; NULL = none. */
static const gyre_scope *original_length_scope(const gyre_rope_source *s, const char *key) {
    if (!s->nested && gyre_scope_value(&s->root, key)) return &s->root;
    return gyre_scope_value(&s->dict, key) ? &s->dict : NULL;
}

int64_t gyre_engine_read_original_length(const gyre_rope_engine *e) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const gyre_scope *scope = original_length_scope(s, key);
    const int is_phi = (s->family->traits & GYRE_YARN_IS_LONGROPE) != 0;
    gyre_rope_provenance found = {is_phi ? GYRE_ORIGIN_FAMILY : GYRE_ORIGIN_READER, nowhere};
    const char *why = NULL;
    int64_t length = is_phi ? 4096 : s->max_positions;
    if (scope) {
        found = gyre_rope_provenance_of(s, scope, key);
        length = gyre_rope_read_length(scope, key, 0);
        if (scope == &s->root && gyre_scope_value(&s->dict, key))
            why = "the key beside the rotation's object has precedence over the one inside";
    } else if (!is_phi) {
        why = gyre_build_format(
            e->build, "missing; transformers 5, which reads the file for %s, takes max_position_embeddings", e->program);
    }
    gyre_rope_set_trained_length(s, e->group, length, &found, NULL);
    if (failed(e)) return 1;
    gyre_build_set_number(e->build, e->group, "original_length", found.origin, &found.place, why, (double)length);
    return length;
}

/* -- unread keys -- */
const char *gyre_engine_ignored_keys(const gyre_rope_engine *e, const char *const *keys, gyre_place *first) {
    const char *text = NULL;
    *first = nowhere;
    for (; *keys; keys++) {
        const json_t *value = gyre_scope_value(&e->source->dict, *keys);
        if (!value) continue;
        const gyre_place place = gyre_scope_place(&e->source->dict, *keys);
        char *value_text = gyre_json_text(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(10));
        const char *line = place.line > 0 ? gyre_build_format(e->build, "line %" PRId64 ": ", place.line) : "";
        if (!text) *first = place;
        text = gyre_build_format(e->build, text ? "%s, %s (%s%.40s)" : "%s does not read %s (%s%.40s)",
                                 text ? text : e->program, place.key, line, value_text ? value_text : "?");
        free(value_text);
    }
    return text;
}

/* -- what multiplies scores -- */
static double derived_attention_factor(const gyre_config *config) {
    if (config->rope.scaling == GYRE_SCALING_YARN) return gyre_rope_yarn_mscale(config->rope.factor, 1.0);
    if (config->rope.scaling != GYRE_SCALING_LONGROPE) return 1.0;
    return gyre_rope_longrope_attention_factor(config->rope.factor, config->trained_length);
}

void gyre_engine_set_attention_factor(const gyre_rope_engine *e, double value, const gyre_place *place, const char *why) {
    gyre_config *config = &e->group->config;
    if (!(value >= 0x1p-64 && value <= 0x1p64))
        gyre_build_fail(e->build, GYRE_EUNSUPPORTED, place->key ? place : NULL,
                        "attention factor: %g, by which %s would multiply cos and sin", value, e->program);
    config->rope.attention_factor = fabs(value - derived_attention_factor(config)) <= 1e-15 * fabs(value) ? 0.0 : value;
    gyre_build_set_number(e->build, e->group, "attention_factor", GYRE_ORIGIN_DERIVED, place->key ? place : NULL, why,
                          value);
}

void gyre_engine_set_softmax(const gyre_rope_engine *e, double multiplier, const char *key, const char *why) {
    if (multiplier != 1.0) gyre_rope_scale_softmax(e->source, e->group, multiplier, key);
    gyre_engine_note_number(e, "softmax_multiplier", key, why, multiplier);
}

/* -- lists -- */
/* Records the list again, with what becomes of it. */
static void note_list(const gyre_rope_engine *e, const char *key, const char *why) {
    const gyre_place place = gyre_scope_place(&e->source->dict, key);
    const gyre_layer_group *group = e->group;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, key) == 0) {
            gyre_build_set_field(e->build, e->group, key, GYRE_ORIGIN_FILE, &place, why, "%s", group->fields[i].value);
            return;
        }
}

void gyre_engine_choose_longrope_list(const gyre_rope_engine *e, int64_t served, int64_t switch_length) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    const int is_long = served > switch_length;
    gyre_rope_read_longrope_factors(e->source, e->group);
    if (failed(e)) return;
    rope->short_factor = rope->long_factor = is_long ? rope->long_factor : rope->short_factor;
    const char *rest =
        gyre_build_format(e->build, "not used: %s chooses once, for the %" PRId64 " tokens that it serves, %s %" PRId64,
                          e->program, served, is_long ? "above" : "not above", switch_length);
    const char *chosen = gyre_build_format(
        e->build, "used at every length: %s chooses once, for the %" PRId64 " tokens that it serves", e->program, served);
    if (served == GYRE_ENGINE_ANY_LENGTH) {
        rest = gyre_build_format(e->build, "not used: %s has no choice", e->program);
        chosen = gyre_build_format(e->build, "used at every length: %s has no choice", e->program);
    }
    note_list(e, "short_factor", is_long ? rest : chosen);
    note_list(e, "long_factor", is_long ? chosen : rest);
}

/* out = the end of the ramp, where a pair makes this number of revolutions.  As in the released code, it is clamped by
 * channels, not pairs. */
static double yarn_corr_dim(const gyre_config *config, double channels, double revolutions) {
    const double two_pi = 6.283185307179586;
    return channels * log((double)config->trained_length / (two_pi * revolutions)) / (2.0 * log(config->rope.base));
}

static double yarn_ramp_mask(int64_t pair, double low, double high) {
    const double x = ((double)pair - low) / (high - low);
    return 1.0 - (x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x);
}

void gyre_engine_set_divisors(gyre_config *config, const double *divisors) {
    struct gyre_rope_config *rope = &config->rope;
    if (rope->attention_factor == 0.0) rope->attention_factor = derived_attention_factor(config);
    rope->scaling = GYRE_SCALING_LONGROPE;
    rope->short_factor = rope->long_factor = divisors;
    /* With two equal lists L does not matter, but LongRoPE requires at least 2. */
    if (config->trained_length < 2) config->trained_length = 2;
}

void gyre_engine_apply_extrapolation_factor(const gyre_rope_engine *e, double extrapolation_factor) {
    gyre_config *config = &e->group->config;
    const int64_t channels = config->rope.dim;
    double *divisors = gyre_build_alloc_numbers(e->build, channels / 2);
    if (!divisors || failed(e)) return;
    double low = yarn_corr_dim(config, (double)channels, config->rope.beta_fast);
    double high = yarn_corr_dim(config, (double)channels, config->rope.beta_slow);
    if (!config->rope.fractional_bounds) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)(channels - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < channels / 2; i++) {
        const double extrapolated = extrapolation_factor * yarn_ramp_mask(i, low, high);
        const double frequency_ratio = (1.0 - extrapolated) / config->rope.factor + extrapolated;
        if (!(frequency_ratio > 0.0 && frequency_ratio <= 0x1p10))
            gyre_scope_fail(&e->source->dict, GYRE_EUNSUPPORTED, "extrapolation_factor",
                            "pair %" PRId64 " would rotate %g times as fast as trained", i, frequency_ratio);
        divisors[i] = frequency_ratio > 0.0 ? 1.0 / frequency_ratio : 1.0;
    }
    gyre_engine_set_divisors(config, divisors);
}
