/* rope_axes_scale.c: what surrounds a rotation: several axes, the scale of scores, a temperature of queries. */
#include "reading/rope/read_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- axes -- */
/* out = the key of the sections in the dict, which has two names. */
static const char *sections_key(const gyre_rope_source *source) {
    static const char *const names[] = {"mrope_section", "xdrope_section", NULL};
    return gyre_scope_first(&source->dict, names);
}

static int read_sections(const gyre_rope_source *source, const char *key, struct gyre_rope_config *rope) {
    const json_t *list = gyre_scope_value(&source->dict, key);
    const size_t count = json_array_size(list);
    int64_t sum = 0;
    if (count < 2 || count > GYRE_MAX_AXES) {
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "not a list of two to %d numbers", (int)GYRE_MAX_AXES);
        return 0;
    }
    for (size_t a = 0; a < count; a++) {
        const json_t *pairs = json_array_get(list, a);
        const int64_t n = json_is_integer(pairs) ? (int64_t)json_integer_value(pairs) : -1;
        if (n < 0 || n > rope->dim / 2) {
            gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "entry %zu is not a number of pairs", a);
            return 0;
        }
        rope->axis_pairs[a] = n;
        sum += n;
    }
    if (sum != rope->dim / 2)
        gyre_scope_fail(&source->dict, GYRE_EFORMAT, key, "%" PRId64 " pairs in all, but %" PRId64 " rotate", sum,
                        rope->dim / 2);
    rope->axes = (int64_t)count;
    return 1;
}

/* key NULL: the class's own. */
static void note_axes(const gyre_rope_source *source, const char *key, gyre_layer_group *group) {
    static const char *const names[] = {"chunked", "interleaved", "axial"};
    const struct gyre_rope_config *rope = &group->config.rope;
    const gyre_place place = key ? gyre_scope_place(&source->dict, key) : (gyre_place){NULL, 0, 0};
    char text[120] = "";
    for (int64_t a = 0; a < rope->axes; a++) {
        const size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%" PRId64, a ? " " : "", rope->axis_pairs[a]);
    }
    gyre_build_set_number(gyre_rope_build_of(source), group, "axes", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)rope->axes);
    gyre_build_set_field(gyre_rope_build_of(source), group, "axes_layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         names[rope->axes_layout]);
    gyre_build_set_field(gyre_rope_build_of(source), group, "sections", key ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, &place,
                         NULL, "%s", text);
}

/* Interleaved, pair i is of axis i % 3 up to three times the axis's section, and of the first axis past it: any number of
 * pairs has axes.  out = how many each axis has. */
static void fit_interleaved(const int64_t *sections, int64_t pairs, int64_t *out) {
    const int64_t second = (pairs + 1) / 3, third = pairs / 3;
    out[1] = sections[1] < second ? sections[1] : second;
    out[2] = sections[2] < third ? sections[2] : third;
    out[0] = pairs - out[1] - out[2];
}

/* The sections that classes of transformers 5 take if no file states them.  In blocks, they fit the class's own size of a
 * head alone; the class fails on others. */
static void use_class_sections(const gyre_rope_source *source, gyre_layer_group *group) {
    static const struct {
        const char *prefix;
        int64_t pairs[3];
    } classes[] = {{"qwen2_vl", {16, 24, 24}},       {"qwen2_5_vl", {16, 24, 24}},
                   {"qwen2_5_omni", {16, 24, 24}},   {"glm4v", {8, 12, 12}},
                   {"glm_ocr", {8, 12, 12}},         {"glm_image", {8, 12, 12}},
                   {"qwen3_vl", {24, 20, 20}},       {"qwen3_omni_moe_talker_text", {11, 11, 10}},
                   {"qwen3_omni_moe", {24, 20, 20}}, {"qwen3_5", {11, 11, 10}},
                   {"qwen4_exp", {11, 11, 10}},      {"hy_v4_vl", {12, 10, 10}},
                   {"cosmos3_edge", {24, 20, 20}},   {"paddleocr_vl", {16, 24, 24}},
                   {"cohere_compass", {24, 20, 20}}};
    struct gyre_rope_config *rope = &group->config.rope;
    if (!(source->family->traits & (GYRE_MROPE_CHUNKED | GYRE_MROPE_INTERLEAVED))) return;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const int64_t *pairs = classes[i].pairs;
        if (strncmp(classes[i].prefix, source->family->model_type, strlen(classes[i].prefix)) != 0) continue;
        const int interleaved = (source->family->traits & GYRE_MROPE_INTERLEAVED) != 0;
        if (!interleaved && pairs[0] + pairs[1] + pairs[2] != rope->dim / 2) return;
        rope->axes = 3;
        rope->axes_layout = interleaved ? GYRE_AXES_INTERLEAVED : GYRE_AXES_CHUNKED;
        if (interleaved)
            fit_interleaved(pairs, rope->dim / 2, rope->axis_pairs);
        else
            memcpy(rope->axis_pairs, pairs, 3 * sizeof *pairs);
        note_axes(source, NULL, group);
        return;
    }
}

/* Axes of a class that states none, which no layout here has: pairs alternate between two axes, or all but the last. */
static void note_undescribed_axes(const gyre_rope_source *source) {
    const int is_ernie = (source->family->traits & GYRE_MROPE_ERNIE) != 0;
    if (!is_ernie && strcmp(source->family->model_type, "neomme") != 0) return;
    gyre_scope_warn(&source->root, "model_type",
                    "model_type: the distribution of this family's pairs over %s axes is described only for text, where all "
                    "axes are equal",
                    is_ernie ? "three" : "two");
}

void gyre_rope_read_axes(const gyre_rope_source *source, gyre_layer_group *group) {
    const unsigned traits = source->family->traits;
    const char *key = sections_key(source);
    const gyre_profile of = gyre_build_profile(gyre_rope_build_of(source));
    if (!key) note_undescribed_axes(source);
    if (!key && (of == GYRE_PROFILE_HF_5 || of == GYRE_PROFILE_REFERENCE)) use_class_sections(source, group);
    if (!key) return;
    if (traits & (GYRE_MROPE_ERNIE | GYRE_XDROPE)) {
        gyre_scope_warn(
            &source->dict, key,
            "%s: the distribution of this family's pairs over axes is described only for text, where all axes are equal",
            key);
        return;
    }
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    if (profile == GYRE_PROFILE_MLX_LM) {
        gyre_scope_warn(&source->dict, key, "%s: mlx-lm rotates by one position alone, which for text is that of every axis",
                        key);
        return;
    }
    const int stated = gyre_scope_bool(&source->dict, "mrope_interleaved", 0);
    const int is_known = (traits & (GYRE_MROPE_CHUNKED | GYRE_MROPE_INTERLEAVED)) != 0;
    if (!is_known && !gyre_family_is_assumed(source->family) && profile != GYRE_PROFILE_REFERENCE &&
        !gyre_profile_is_vllm(profile) && profile != GYRE_PROFILE_SGLANG)
        return; /* reported as an unread key */
    if (!read_sections(source, key, &group->config.rope)) return;
    const int interleaved = is_known ? (traits & GYRE_MROPE_INTERLEAVED) != 0 : stated;
    group->config.rope.axes_layout = interleaved ? GYRE_AXES_INTERLEAVED : GYRE_AXES_CHUNKED;
    if (!is_known && gyre_family_is_assumed(source->family))
        gyre_scope_doubt(&source->dict, GYRE_WARNING_ASSUMED, key, "%s: its axes are assumed to be %s", key,
                         interleaved ? "interleaved, as mrope_interleaved says"
                                     : "in blocks, because mrope_interleaved does not say otherwise");
    if (is_known && gyre_scope_value(&source->dict, "mrope_interleaved") && stated != interleaved)
        gyre_scope_warn(&source->dict, "mrope_interleaved", "mrope_interleaved: ignored; a %s distributes pairs %s",
                        source->family->model_type, interleaved ? "alternately" : "in blocks");
    note_axes(source, key, group);
}

/* -- the scale of scores -- */
static void set_scale(const gyre_rope_source *source, gyre_layer_group *group, const char *key, double scale) {
    const int there = key && gyre_scope_value(&source->root, key);
    const gyre_place place = there ? gyre_scope_place(&source->root, key) : (gyre_place){NULL, 0, 0};
    group->scale = scale;
    gyre_build_set_number(gyre_rope_build_of(source), group, "score_scale", there ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                          &place, NULL, scale);
}

/* Granite's classes multiply scores by 1 if no key is given.  llama.cpp, which then gets no key, uses the usual scale. */
static int granite_says(const gyre_rope_source *source) {
    return gyre_scope_value(&source->root, "attention_multiplier") ||
           gyre_build_profile(gyre_rope_build_of(source)) != GYRE_PROFILE_LLAMA_CPP;
}

void gyre_rope_set_scale_of_head(const gyre_rope_source *source, gyre_layer_group *group, int64_t head) {
    group->scale = 1.0 / sqrt((double)head);
    gyre_build_set_number(gyre_rope_build_of(source), group, "score_scale", GYRE_ORIGIN_DERIVED, NULL, NULL, group->scale);
}

/* Muse's queries are normalised and then multiplied by a number of the file. */
static int set_scale_of_muse(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char key[] = "qk_scale_factor", *const families[] = {"muse_glimmer", "muse_spark"};
    static const double usual[] = {3.87, 5.4730064863875};
    for (int i = 0; i < 2 && source->family->traits & GYRE_LAYER_THETA; i++) {
        if (strncmp(source->family->model_type, families[i], strlen(families[i])) != 0) continue;
        const int64_t head = gyre_rope_read_channels(&source->root, "head_dim", 1, source->family->head_dim);
        set_scale(source, group, key, gyre_scope_number(&source->root, key, usual[i]) / sqrt((double)head));
        return 1;
    }
    return 0;
}

/* Step's and Hyperclova's classes use the usual scale if no key is given. */
static int set_stated_scale(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char scalar[] = "query_pre_attn_scalar", multiplier[] = "attention_multiplier";
    const char *type = source->family->model_type;
    if (strncmp(type, "step3p", 6) == 0 && gyre_scope_value(&source->root, scalar)) {
        const double by = gyre_scope_number(&source->root, scalar, 1.0);
        if (!(by > 0.0)) gyre_scope_fail(&source->root, GYRE_EFORMAT, scalar, "%g is not above 0", by);
        set_scale(source, group, scalar, 1.0 / sqrt(by));
        return 1;
    }
    if (strcmp(type, "hyperclovax") != 0 || !gyre_scope_value(&source->root, multiplier)) return 0;
    set_scale(source, group, multiplier, gyre_scope_number(&source->root, multiplier, 1.0));
    return 1;
}

void gyre_rope_read_scale(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *root = &source->root;
    const unsigned traits = source->family->traits;
    if (set_scale_of_muse(source, group) || set_stated_scale(source, group)) return;
    if (traits & GYRE_UNIT_SCALE) {
        set_scale(source, group, NULL, 1.0);
    } else if (traits & GYRE_QUERY_PRE_ATTN_SCALAR) {
        const double scalar = gyre_scope_number(root, "query_pre_attn_scalar", 256.0);
        if (!(scalar > 0.0)) gyre_scope_fail(root, GYRE_EFORMAT, "query_pre_attn_scalar", "%g is not above 0", scalar);
        set_scale(source, group, "query_pre_attn_scalar", 1.0 / sqrt(scalar));
    } else if (strncmp(source->family->model_type, "granite", 7) == 0 && granite_says(source)) {
        const double usual = strncmp(source->family->model_type, "granite_docling", 15) == 0 ? 0.015625 : 1.0;
        set_scale(source, group, "attention_multiplier", gyre_scope_number(root, "attention_multiplier", usual));
    } else if (traits & GYRE_MLA) {
        gyre_rope_set_scale_of_head(source, group, group->config.head_dim);
    }
}

/* -- temperature -- */
/* Records each field with its own place; key NULL = the class default. */
static void note_temperature(const gyre_rope_source *source, gyre_layer_group *group, const char *name,
                             const gyre_rope_provenance *where, const gyre_rope_provenance *length,
                             const gyre_rope_provenance *slope) {
    gyre_build *build = gyre_rope_build_of(source);
    gyre_build_set_field(build, group, "query_temperature", where->origin, &where->place, NULL, "%s", name);
    gyre_build_set_number(build, group, "temperature_length", length->origin, &length->place, NULL,
                          (double)group->config.query.reference_length);
    if (slope)
        gyre_build_set_number(build, group, "temperature_slope", slope->origin, &slope->place, NULL,
                              group->config.query.slope);
}

/* out = where a key is, or the class default as origin. */
static gyre_rope_provenance found_or_class(const gyre_rope_source *source, const gyre_scope *scope, const char *key) {
    if (key && gyre_scope_value(scope, key)) return gyre_rope_provenance_of(source, scope, key);
    return (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
}

/* Llama 4, in layers that do not rotate: on by default, and 4 in some files. */
static void read_tuning(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *root = &source->root;
    const char *key = "attn_temperature_tuning";
    const json_t *on = gyre_scope_value(root, key);
    const gyre_rope_provenance where = found_or_class(source, root, key),
                               length = found_or_class(source, root, "floor_scale"),
                               slope = found_or_class(source, root, "attn_scale");
    if (json_is_false(on) || (json_is_number(on) && json_number_value(on) == 0.0)) return;
    if (on && !json_is_boolean(on) && !json_is_number(on))
        gyre_scope_fail(root, GYRE_EFORMAT, key, "neither true nor false");
    group->config.query.temperature = GYRE_TEMPERATURE_LLAMA4;
    group->config.query.reference_length = gyre_scope_integer(root, "floor_scale", 1, 8192);
    group->config.query.slope = gyre_scope_number(root, "attn_scale", 0.1);
    note_temperature(source, group, "llama4", &where, &length, &slope);
}

/* For these types transformers 5 moves the original length beside the rotation's object into it. */
static int is_moved_in(const gyre_rope_source *source) {
    const char *type = source->type;
    if (gyre_build_profile(gyre_rope_build_of(source)) != GYRE_PROFILE_HF_5) return 0;
    return strcmp(type, "yarn") == 0 || strcmp(type, "llama3") == 0 || strcmp(type, "longrope") == 0;
}

static void read_beta(const gyre_rope_source *source, const gyre_scope *own, const char *key, gyre_layer_group *group) {
    static const char original[] = "original_max_position_embeddings";
    const gyre_scope *scope = is_moved_in(source) && gyre_scope_value(&source->root, original) ? &source->root : own;
    const int64_t length = gyre_scope_integer(scope, original, 1, source->max_positions);
    const gyre_rope_provenance where = gyre_rope_provenance_of(source, own, key);
    const char *counted = gyre_scope_value(scope, original) ? original : NULL;
    const gyre_rope_provenance from = counted ? gyre_rope_provenance_of(source, scope, counted)
                                              : found_or_class(source, &source->root, gyre_rope_length_key(&source->root));
    if (length <= 0) gyre_scope_fail(scope, GYRE_EFORMAT, original, "missing; %s counts from it", key);
    group->config.query.slope = gyre_scope_number(own, key, 0.0);
    if (group->config.query.slope == 0.0) return;
    group->config.query.temperature = GYRE_TEMPERATURE_MINISTRAL;
    group->config.query.reference_length = length;
    note_temperature(source, group, "ministral", &where, &from, &where);
}

/* Qwen's first class, for sequences longer than it was trained with.  Engines with code of their own for it leave it out. */
static void read_logn(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    const char *key = gyre_rope_trained_length_key(source);
    const int64_t trained = key ? gyre_rope_read_length(&source->root, key, source->max_positions) : source->max_positions;
    const gyre_rope_provenance where = found_or_class(source, &source->root, "use_logn_attn");
    const gyre_rope_provenance length = found_or_class(source, &source->root, key);
    if (!gyre_scope_bool(&source->root, "use_logn_attn", 1) || trained < 2) return;
    if (gyre_profile_is_engine(profile)) {
        gyre_build *build = gyre_rope_build_of(source);
        gyre_build_set_field(build, group, "query_temperature", GYRE_ORIGIN_DERIVED, &where.place,
                             gyre_build_format(build, "%s does not scale the queries of this class",
                                               gyre_profile_is_vllm(profile) ? "vLLM" : gyre_profile_program(profile)),
                             "none");
        return;
    }
    group->config.query.temperature = GYRE_TEMPERATURE_LOG;
    group->config.query.reference_length = trained;
    note_temperature(source, group, "log", &where, &length, NULL);
}

void gyre_rope_read_temperature(const gyre_rope_source *source, int has_rope, gyre_layer_group *group) {
    const unsigned traits = source->family->traits;
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    const char *beta = "llama_4_scaling_beta";
    if ((traits & GYRE_ATTN_TEMPERATURE_TUNING) && !has_rope) read_tuning(source, group);
    if (strcmp(source->family->model_type, "qwen") == 0) read_logn(source, group);
    if (gyre_profile_is_vllm(profile)) {
        const gyre_scope own = gyre_scope_child(&source->root, "llama_4_scaling");
        if (gyre_scope_value(&own, "beta")) read_beta(source, &own, "beta", group);
        if (gyre_scope_value(&source->dict, beta))
            gyre_scope_warn(&source->dict, beta, "%s: vLLM reads it only under llama_4_scaling", beta);
    } else if ((traits & GYRE_LLAMA4_SCALING_BETA) && gyre_scope_value(&source->dict, beta)) {
        read_beta(source, &source->dict, beta, group);
    }
}
