/* rope_engine.c: what the readers for vLLM and llama.cpp share. */
#include "reading/rope/rope_engine.h"

#include "reading/config_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gyre_place nowhere = {NULL, 0, 0};

static int failed(const gyre_rope_engine *e) {
    return gyre_build_status(e->build) != GYRE_OK;
}

gyre_rope_engine gyre_engine_begin(const gyre_rope_source *source, gyre_layers *group) {
    gyre_build *build = gyre_rope_build(source);
    const gyre_rope_engine e = {gyre_profile_program(gyre_build_profile(build)), source, group, build};
    const char *key = gyre_rope_length_key(&source->root);
    const gyre_place place = key ? gyre_scope_place(&source->root, key) : nowhere;
    if (source->max_positions > 0)
        gyre_build_number(build, group, "trained_length", key ? GYRE_FROM_FILE : GYRE_FROM_FAMILY, &place, NULL,
                          (double)source->max_positions);
    return e;
}

/* Where a key of the dict stands; nowhere, by that origin, where the dict has no such key. */
static gyre_rope_found found_in_dict(const gyre_rope_engine *e, const char *key, gyre_origin otherwise) {
    const gyre_rope_source *s = e->source;
    if (key && gyre_scope_value(&s->dict, key)) return gyre_rope_found_at(s, &s->dict, key);
    return (gyre_rope_found){otherwise, nowhere};
}

/* -- notes ----------------------------------------------------------------------------------------------------------- */
void gyre_engine_scaling(const gyre_rope_engine *e, gyre_scaling scaling, const char *why) {
    const gyre_rope_found found = found_in_dict(e, e->source->type_key, GYRE_FROM_READER);
    e->group->config.rope.scaling = scaling;
    gyre_build_field(e->build, e->group, "scaling", found.origin, &found.place, why, "%s",
                     gyre_config_text_of(gyre_rope_types, (int)scaling));
}

void gyre_engine_note(const gyre_rope_engine *e, const char *name, const char *key, const char *why, double value) {
    const gyre_rope_found found = found_in_dict(e, key, GYRE_DERIVED);
    gyre_build_number(e->build, e->group, name, GYRE_DERIVED, &found.place, why, value);
}

double gyre_engine_number(const gyre_rope_engine *e, const char *name, const char *key, double fallback) {
    const double value = gyre_scope_number(&e->source->dict, key, fallback);
    if (!failed(e)) gyre_rope_note(e->source, e->group, name, key, GYRE_FROM_READER, NULL, value);
    return value;
}

double gyre_engine_positive(const gyre_rope_engine *e, const char *name, const char *key, double fallback) {
    const double value = gyre_engine_number(e, name, key, fallback);
    if (failed(e)) return 1.0;
    if (value > 0.0) return value;
    gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, key, "%g is not above 0", value);
    return 1.0;
}

double gyre_engine_factor(const gyre_rope_engine *e) {
    gyre_rope_read_factor(e->source, e->group, NAN);
    return e->group->config.rope.factor;
}

/* Where the original length stands; NULL = nowhere. */
static const gyre_scope *original_at(const gyre_rope_source *s, const char *key) {
    if (!s->nested && gyre_scope_value(&s->root, key)) return &s->root;
    return gyre_scope_value(&s->dict, key) ? &s->dict : NULL;
}

int64_t gyre_engine_original(const gyre_rope_engine *e) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const gyre_scope *scope = original_at(s, key);
    const int is_phi = (s->family->traits & GYRE_YARN_IS_LONGROPE) != 0;
    gyre_rope_found found = {is_phi ? GYRE_FROM_FAMILY : GYRE_FROM_READER, nowhere};
    const char *why = NULL;
    int64_t length = is_phi ? 4096 : s->max_positions;
    if (scope) {
        found = gyre_rope_found_at(s, scope, key);
        length = gyre_rope_length_at(scope, key, 0);
        if (scope == &s->root && gyre_scope_value(&s->dict, key))
            why = "the key beside the rotation's own goes before the one within";
    } else if (!is_phi) {
        why = gyre_build_text(
            e->build, "missing: transformers 5, which reads the file for %s, takes max_position_embeddings", e->program);
    }
    gyre_rope_set_trained(s, e->group, length, &found, NULL);
    if (failed(e)) return 1;
    gyre_build_number(e->build, e->group, "original_length", found.origin, &found.place, why, (double)length);
    return length;
}

/* -- keys that go unread ----------------------------------------------------------------------------------------------- */
const char *gyre_engine_unread(const gyre_rope_engine *e, const char *const *keys, gyre_place *first) {
    const char *text = NULL;
    *first = nowhere;
    for (; *keys; keys++) {
        const json_t *value = gyre_scope_value(&e->source->dict, *keys);
        if (!value) continue;
        const gyre_place place = gyre_scope_place(&e->source->dict, *keys);
        char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(10));
        if (!text) *first = place;
        text = gyre_build_text(e->build,
                               text ? "%s, %s (line %" PRId64 ": %.40s)" : "%s does not read %s (line %" PRId64 ": %.40s)",
                               text ? text : e->program, place.key, place.line, shown ? shown : "?");
        free(shown);
    }
    return text;
}

/* -- what multiplies scores -------------------------------------------------------------------------------------------- */
static double derived_attention(const gyre_config *config) {
    if (config->rope.scaling == GYRE_YARN) return gyre_rope_magnitude(config->rope.factor, 1.0);
    if (config->rope.scaling != GYRE_LONGROPE) return 1.0;
    return gyre_rope_longrope_magnitude(config->rope.factor, config->trained_length);
}

void gyre_engine_attention(const gyre_rope_engine *e, double value, const gyre_place *place, const char *why) {
    gyre_config *config = &e->group->config;
    if (!(value >= 0x1p-64 && value <= 0x1p64))
        gyre_build_fail(e->build, GYRE_EUNSUPPORTED, place->key ? place : NULL,
                        "attention factor: %g, by which %s would multiply cos and sin", value, e->program);
    config->rope.attention_factor = fabs(value - derived_attention(config)) <= 1e-15 * fabs(value) ? 0.0 : value;
    gyre_build_number(e->build, e->group, "attention_factor", GYRE_DERIVED, place->key ? place : NULL, why, value);
}

void gyre_engine_softmax(const gyre_rope_engine *e, double multiplier, const char *key, const char *why) {
    if (multiplier != 1.0) gyre_rope_set_softmax(e->source, e->group, multiplier, key);
    gyre_engine_note(e, "softmax_multiplier", key, why, multiplier);
}

/* -- lists ------------------------------------------------------------------------------------------------------------- */
/* Notes the list again, with what becomes of it. */
static void tell_of_list(const gyre_rope_engine *e, const char *key, const char *why) {
    const gyre_place place = gyre_scope_place(&e->source->dict, key);
    const gyre_layers *group = e->group;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, key) == 0) {
            gyre_build_field(e->build, e->group, key, GYRE_FROM_FILE, &place, why, "%s", group->fields[i].value);
            return;
        }
}

void gyre_engine_longrope(const gyre_rope_engine *e, int64_t served, int64_t switched) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    const int is_long = served > switched;
    gyre_rope_read_lists(e->source, e->group);
    if (failed(e)) return;
    rope->short_factor = rope->long_factor = is_long ? rope->long_factor : rope->short_factor;
    const char *rest =
        gyre_build_text(e->build, "not used: %s chooses once, for the %" PRId64 " tokens that it serves, %s %" PRId64,
                        e->program, served, is_long ? "above" : "not above", switched);
    const char *chosen = gyre_build_text(
        e->build, "used at every length: %s chooses once, for the %" PRId64 " tokens that it serves", e->program, served);
    tell_of_list(e, "short_factor", is_long ? rest : chosen);
    tell_of_list(e, "long_factor", is_long ? chosen : rest);
}

/* The end of the ramp where a pair makes `turns` turns, as the released code has it: clamped by all channels, not pairs. */
static double ramp_end(const gyre_config *config, double channels, double turns) {
    const double two_pi = 6.283185307179586;
    return channels * log((double)config->trained_length / (two_pi * turns)) / (2.0 * log(config->rope.base));
}

static double kept_at(int64_t pair, double low, double high) {
    const double x = ((double)pair - low) / (high - low);
    return 1.0 - (x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x);
}

void gyre_engine_set_list(gyre_config *config, const double *divisors) {
    struct gyre_rope_config *rope = &config->rope;
    if (rope->attention_factor == 0.0) rope->attention_factor = derived_attention(config);
    rope->scaling = GYRE_LONGROPE;
    rope->short_factor = rope->long_factor = divisors;
    /* Both lists are one, so that it does not matter; but LongRoPE has no use for fewer. */
    if (config->trained_length < 2) config->trained_length = 2;
}

void gyre_engine_weaken(const gyre_rope_engine *e, double share) {
    gyre_config *config = &e->group->config;
    const int64_t channels = config->rope.dim;
    double *divisors = gyre_build_numbers(e->build, channels / 2);
    if (!divisors || failed(e)) return;
    double low = ramp_end(config, (double)channels, config->rope.beta_fast);
    double high = ramp_end(config, (double)channels, config->rope.beta_slow);
    if (!config->rope.fractional_bounds) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)(channels - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < channels / 2; i++) {
        const double kept = share * kept_at(i, low, high);
        const double turned = (1.0 - kept) / config->rope.factor + kept;
        if (!(turned > 0.0 && turned <= 0x1p10))
            gyre_scope_fail(&e->source->dict, GYRE_EUNSUPPORTED, "extrapolation_factor",
                            "pair %" PRId64 " would turn %g times as fast as trained", i, turned);
        divisors[i] = turned > 0.0 ? 1.0 / turned : 1.0;
    }
    gyre_engine_set_list(config, divisors);
}
