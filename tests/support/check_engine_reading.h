/* check_engine_reading.h: the RoPE reader of one engine on its own, for any model class, without the code that finds the
 * rotation in a config.json; and the formulas of the papers, written independently of the library. */
#ifndef GYRE_TESTS_CHECK_ENGINE_READING_H
#define GYRE_TESTS_CHECK_ENGINE_READING_H
#include "check_reading_fields.h"
#include "reading/rope/rope_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model class and the text of its file.  layer_type: NULL = the dict applies to all layers. */
typedef struct engine_file {
    const char *model_type;
    unsigned traits;
    gyre_layout layout;
    const char *layer_type, *text;
    int64_t length;
} engine_file;

static inline gyre_status engine_try(gyre_rope_profile_reader *as, gyre_profile profile, const engine_file *file,
                                     gyre_reading **out, gyre_error *err) {
    json_t *root = json_loads(file->text, 0, NULL);
    assert_non_null(root);
    gyre_build *build = gyre_build_begin("config.json", "config.json", profile, file->length, err);
    const gyre_json_source source = {build, file->text, strlen(file->text), NULL, NULL};
    const gyre_family family = {.model_type = file->model_type, .layout = file->layout, .traits = file->traits};
    const gyre_scope top = {&source, root, ""};
    gyre_scope dict = gyre_scope_child(&top, gyre_scope_value(&top, "rope_parameters") ? "rope_parameters" : "rope_scaling");
    if (file->layer_type) dict = gyre_scope_child(&dict, file->layer_type);
    gyre_rope_source rope = {.family = &family, .root = top, .dict = dict, .layer_type = file->layer_type};
    rope.type_key = "rope_type";
    rope.nested = file->layer_type != NULL;
    static const char *const type_keys[] = {"rope_type", "type", NULL};
    if (gyre_scope_first(&dict, type_keys)) rope.type_key = gyre_scope_first(&dict, type_keys);
    rope.type = gyre_scope_string(&dict, rope.type_key, "default");
    rope.max_positions = gyre_scope_integer(&top, "max_position_embeddings", 1, 2048);
    gyre_layer_group *group = gyre_build_add_group(build, "all");
    gyre_config *config = &group->config;
    config->kind = GYRE_KIND_ROPE;
    config->head_dim = gyre_scope_integer(&top, "head_dim", 1, 128);
    config->rope.first_channel = gyre_scope_integer(&top, "qk_nope_head_dim", 0, 0);
    config->rope.dim = config->head_dim - config->rope.first_channel;
    config->trained_length = rope.max_positions;
    config->rope.layout = file->layout;
    config->context_length = file->length;
    config->rope.base = gyre_scope_number(&dict, "rope_theta", gyre_scope_number(&top, "rope_theta", 10000.0));
    if (profile != GYRE_PROFILE_VLLM_2026_05 && profile != GYRE_PROFILE_VLLM_2026_09 &&
        (file->traits & GYRE_LLAMA4_SCALING_BETA))
        config->query.temperature = GYRE_TEMPERATURE_MINISTRAL;
    const json_t *sections = gyre_scope_value(&dict, "mrope_section");
    if (sections && (file->traits & GYRE_MROPE_INTERLEAVED)) {
        config->rope.axes = 3;
        config->rope.axes_layout = GYRE_AXES_INTERLEAVED;
        for (size_t a = 0; a < 3; a++)
            config->rope.axis_pairs[a] = (int64_t)json_integer_value(json_array_get(sections, a));
    }
    as(&rope, group);
    const gyre_status status = gyre_build_finish(build, out);
    json_decref(root);
    return status;
}

static inline gyre_reading *engine_read(gyre_rope_profile_reader *as, gyre_profile profile, const engine_file *file) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (engine_try(as, profile, file, &reading, &err)) fail_msg("%s\n%s", err.text, file->text);
    return reading;
}

/* Fails unless reading fails with this status and a message that contains `part`. */
static inline void engine_refuses(gyre_rope_profile_reader *as, gyre_profile profile, const engine_file *file,
                                  gyre_status status, const char *part) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const gyre_status got = engine_try(as, profile, file, &reading, &err);
    if (!got) gyre_reading_free(reading);
    if (got != status || !strstr(err.text, part)) fail_msg("%d \"%s\" for\n%s", (int)got, err.text, file->text);
}

/* -- results -- */
enum { ENGINE_PAIRS = 256 };
typedef struct engine_figures {
    double omega[ENGINE_PAIRS], attention;
    int64_t pairs;
} engine_figures;

/* Frequencies and attention factor at a context of `length`; 0: the length of the reading. */
static inline engine_figures engine_at(const gyre_reading *reading, int64_t length) {
    engine_figures out = {{0}, 0, 0};
    gyre_encoding *encoding = test_encoding(&reading->groups[0]->config);
    out.pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    assert_true(out.pairs <= ENGINE_PAIRS);
    assert_ok(gyre_encoding_frequencies(encoding, length, out.omega, &out.attention));
    gyre_encoding_free(encoding);
    return out;
}

static inline const gyre_reading_field *engine_field(const gyre_reading *reading, const char *name) {
    return field_of(reading->groups[0], name);
}

static inline void engine_says(const gyre_reading *reading, const char *name, const char *value, const char *why) {
    const gyre_reading_field *field = engine_field(reading, name);
    assert_string_equal(field->value, value);
    if (why && (!field->note || !strstr(field->note, why))) fail_msg("%s: \"%s\"", name, field->note ? field->note : "");
    if (!why && field->note) fail_msg("%s: \"%s\"", name, field->note);
}

static inline void engine_is(long double got, long double want, const char *what) {
    test_close(got, want, 1e-13L * fabsl(want), what);
}

/* -- formulas -- */
static inline long double paper_theta(long double base, int64_t channels, int64_t pair) {
    return powl(base, -2.0L * (long double)pair / (long double)channels);
}

/* 0.1 k ln s + 1. */
static inline long double paper_magnitude(long double s, long double k) {
    return 0.1L * k * logl(s) + 1.0L;
}

/* YaRN's theta, scaled by s with the ramp between low and high.  Pairs below the ramp keep `fraction` of the trained
 * theta. */
static inline long double paper_ramp(long double theta, int64_t pair, long double s, long double low, long double high,
                                     long double fraction) {
    long double r = ((long double)pair - low) / (high - low);
    r = r < 0.0L ? 0.0L : r > 1.0L ? 1.0L : r;
    const long double trained = fraction * (1.0L - r);
    return theta / s * (1.0L - trained) + theta * trained;
}

static inline long double paper_llama3(long double theta, long double s, long double slow, long double fast,
                                       long double length) {
    const long double wavelength = 6.283185307179586476925286766559L / theta;
    if (wavelength < length / fast) return theta;
    if (wavelength > length / slow) return theta / s;
    const long double trained = (length / wavelength - slow) / (fast - slow);
    return (1.0L - trained) * theta / s + trained * theta;
}

/* Fails unless the frequencies are those of RoPE with this base. */
static inline void check_base(const engine_figures *got, long double base) {
    for (int64_t i = 0; i < got->pairs; i++)
        engine_is(got->omega[i], paper_theta(base, 2 * got->pairs, i), "frequency");
}

/* Fails unless the frequencies are those of paper_ramp over RoPE with this base. */
static inline void check_ramp(const engine_figures *got, long double base, long double s, long double low, long double high,
                              long double fraction) {
    for (int64_t i = 0; i < got->pairs; i++)
        test_close(got->omega[i], paper_ramp(paper_theta(base, 2 * got->pairs, i), i, s, low, high, fraction),
                   1e-9L * paper_theta(base, 2 * got->pairs, i), "frequency");
}

#endif
