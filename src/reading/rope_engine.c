/* rope_engine.c: what the readers for vLLM and llama.cpp share. */
#include "reading/rope_engine.h"

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

int64_t gyre_engine_channels(const gyre_rope_engine *e) {
    const gyre_config *config = &e->group->config;
    return config->rope.dim > 0 ? config->rope.dim : config->head_dim - config->rope.first;
}

double gyre_engine_magnitude(double s, double k) {
    return s <= 1.0 ? 1.0 : 0.1 * k * log(s) + 1.0;
}

/* -- notes ----------------------------------------------------------------------------------------------------------- */
void gyre_engine_scaling(const gyre_rope_engine *e, gyre_scaling scaling, const char *why) {
    const gyre_rope_source *s = e->source;
    const int said = s->type_key && gyre_scope_value(&s->dict, s->type_key) != NULL;
    const gyre_place place = said ? gyre_scope_place(&s->dict, s->type_key) : nowhere;
    e->group->config.rope.scaling = scaling;
    gyre_build_field(e->build, e->group, "scaling", said ? GYRE_FROM_FILE : GYRE_FROM_READER, said ? &place : NULL, why,
                     "%s", gyre_config_text_of(gyre_rope_types, (int)scaling));
}

void gyre_engine_note(const gyre_rope_engine *e, const char *name, const char *key, const char *why, double value) {
    const int said = key && gyre_scope_value(&e->source->dict, key) != NULL;
    const gyre_place place = said ? gyre_scope_place(&e->source->dict, key) : nowhere;
    gyre_build_number(e->build, e->group, name, GYRE_DERIVED, said ? &place : NULL, why, value);
}

double gyre_engine_number(const gyre_rope_engine *e, const char *name, const char *key, double fallback) {
    const gyre_scope *dict = &e->source->dict;
    const double value = gyre_scope_number(dict, key, fallback);
    if (failed(e)) return value;
    const int said = gyre_scope_value(dict, key) != NULL;
    const gyre_place place = said ? gyre_scope_place(dict, key) : nowhere;
    gyre_build_number(e->build, e->group, name, said ? GYRE_FROM_FILE : GYRE_FROM_READER, said ? &place : NULL, NULL, value);
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
    const double s = gyre_engine_positive(e, "factor", "factor", NAN);
    if (s < 1.0) gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "factor", "%g is below 1", s);
    return e->group->config.rope.factor = s < 1.0 ? 1.0 : s;
}

int64_t gyre_engine_original(const gyre_rope_engine *e) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const int beside = !s->layer_type && gyre_scope_value(&s->root, key);
    const gyre_scope *scope = beside ? &s->root : &s->dict;
    const int said = gyre_scope_value(scope, key) != NULL;
    const int64_t length = gyre_scope_size(scope, key, 1, s->max_positions);
    if (failed(e)) return 1;
    const gyre_place place = said ? gyre_scope_place(scope, key) : nowhere;
    const char *why = NULL;
    if (!said)
        why = gyre_build_text(
            e->build, "missing: transformers 5, which reads the file for %s, takes max_position_embeddings", e->program);
    else if (beside && gyre_scope_value(&s->dict, key))
        why = "the key beside the rotation's own goes before the one within";
    const gyre_origin origin = said ? GYRE_FROM_FILE : GYRE_FROM_READER;
    gyre_build_number(e->build, e->group, "original_length", origin, said ? &place : NULL, why, (double)length);
    gyre_build_number(e->build, e->group, "trained_length", GYRE_DERIVED, said ? &place : NULL, NULL, (double)length);
    return e->group->config.trained_length = length > 0 ? length : 1;
}

void gyre_engine_betas(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    rope->beta_fast = gyre_engine_positive(e, "beta_fast", "beta_fast", 32.0);
    rope->beta_slow = gyre_engine_positive(e, "beta_slow", "beta_slow", 1.0);
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
    const double s = config->rope.factor;
    if (config->rope.scaling == GYRE_YARN) return gyre_engine_magnitude(s, 1.0);
    if (config->rope.scaling == GYRE_LONGROPE && s > 1.0) return sqrt(1.0 + log(s) / log((double)config->trained_length));
    return 1.0;
}

void gyre_engine_attention(const gyre_rope_engine *e, double value, const gyre_place *place, const char *why) {
    gyre_config *config = &e->group->config;
    if (!(value > 0.0 && isfinite(value)))
        gyre_build_fail(e->build, GYRE_EUNSUPPORTED, place->key ? place : NULL,
                        "attention factor: %g, by which %s would multiply cos and sin", value, e->program);
    config->rope.attention_factor = fabs(value - derived_attention(config)) <= 1e-15 * fabs(value) ? 0.0 : value;
    gyre_build_number(e->build, e->group, "attention_factor", GYRE_DERIVED, place->key ? place : NULL, why, value);
}

void gyre_engine_softmax(const gyre_rope_engine *e, double multiplier, const char *key, const char *why) {
    const gyre_scope *root = &e->source->root;
    gyre_layers *group = e->group;
    gyre_engine_note(e, "softmax_multiplier", key, why, multiplier);
    group->softmax_multiplier = multiplier;
    if (multiplier == 1.0) return;
    if (group->scale == 0.0) {
        const int64_t still = gyre_scope_size(root, "qk_nope_head_dim", 0, 0);
        const int64_t turned = gyre_scope_size(root, "qk_rope_head_dim", 0, 0);
        group->scale = 1.0 / sqrt((double)(turned > 0 ? still + turned : group->config.head_dim));
    }
    group->scale *= multiplier;
    gyre_build_number(e->build, group, "score_scale", GYRE_DERIVED, NULL, NULL, group->scale);
}

/* -- lists ------------------------------------------------------------------------------------------------------------- */
static void note_list(const gyre_rope_engine *e, const char *key, const double *list, int64_t count, const char *why) {
    const gyre_place place = gyre_scope_place(&e->source->dict, key);
    double least = list[0], most = list[0];
    for (int64_t i = 1; i < count; i++) {
        least = fmin(least, list[i]);
        most = fmax(most, list[i]);
    }
    gyre_build_field(e->build, e->group, key, GYRE_FROM_FILE, &place, why, "%" PRId64 " numbers, %.6g to %.6g", count, least,
                     most);
}

void gyre_engine_longrope(const gyre_rope_engine *e, int64_t served, int64_t switched) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    const int64_t pairs = gyre_engine_channels(e) / 2;
    const double *near = gyre_scope_numbers(&e->source->dict, "short_factor", pairs);
    const double *far = gyre_scope_numbers(&e->source->dict, "long_factor", pairs);
    if (!near || !far || pairs < 1) return;
    const int is_long = served > switched;
    rope->short_factor = rope->long_factor = is_long ? far : near;
    const char *rest =
        gyre_build_text(e->build, "not used: %s chooses once, for the %" PRId64 " tokens that it serves, %s %" PRId64,
                        e->program, served, is_long ? "above" : "not above", switched);
    const char *chosen = gyre_build_text(
        e->build, "used at every length: %s chooses once, for the %" PRId64 " tokens that it serves", e->program, served);
    note_list(e, "short_factor", near, pairs, is_long ? rest : chosen);
    note_list(e, "long_factor", far, pairs, is_long ? chosen : rest);
}

/* The end of the ramp where a pair makes `turns` turns, as the released code has it: clamped by all channels, not pairs. */
static double ramp_end(const gyre_config *config, double channels, double turns) {
    const double two_pi = 6.283185307179586, base = config->rope.base > 0.0 ? config->rope.base : 10000.0;
    return channels * log((double)config->trained_length / (two_pi * turns)) / (2.0 * log(base));
}

static double kept_at(int64_t pair, double low, double high) {
    const double x = ((double)pair - low) / (high - low);
    return 1.0 - (x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x);
}

void gyre_engine_weaken(const gyre_rope_engine *e, double share) {
    gyre_config *config = &e->group->config;
    const int64_t channels = gyre_engine_channels(e);
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
        if (!(turned > 0.0))
            gyre_scope_fail(&e->source->dict, GYRE_EUNSUPPORTED, "extrapolation_factor",
                            "pair %" PRId64 " would turn backwards", i);
        divisors[i] = turned > 0.0 ? 1.0 / turned : 1.0;
    }
    config->rope.scaling = GYRE_LONGROPE;
    config->rope.short_factor = config->rope.long_factor = divisors;
}
