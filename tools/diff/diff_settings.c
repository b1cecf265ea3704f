/* diff_settings.c: settings other than frequencies that differ between two configs: one row per setting that has an
 * effect. */
#include "tools/diff/diff_compare.h"
#include "tools/options/value_names.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef enum setting_type { SETTING_INTEGER, SETTING_REAL, SETTING_ENUM, SETTING_BOOL } setting_type;
typedef struct setting {
    const char *name;
    unsigned kinds; /* bits of the gyre_kinds that use it */
    setting_type type;
    size_t field_offset; /* in gyre_config */
    const char *const *value_names;
} setting;

static const char *const LAYOUTS[] = {"half", "interleaved", "interleaved-to-half"};
static const char *const AXES[] = {"chunked", "interleaved", "axial"};
static const char *const CLIP[] = {"none", "soft", "hard"};
static const char *const STARTS[] = {"paper", "released"};
static const char *const FAR[] = {"as near", "clamped", "leaky", "grouped", "chunked", "chunked-paper"};
static const char *const TEMPERATURES[] = {"none", "log", "llama4", "ministral"};
static const char *const SINUSOIDS[] = {"interleaved", "concatenated", "tensor2tensor", "cos-concatenated",
                                        "cos-tensor2tensor"};
static const char *const DECAYS[] = {"log", "power"};

#define KIND(name)         (1u << GYRE_KIND_##name)
#define OFFSET(field)      offsetof(gyre_config, field)
#define ANY_KIND           0xffffffffu
#define RELATIVE_VECTORS   (KIND(SHAW) | KIND(NEZHA) | KIND(BERT) | KIND(DEBERTA))
#define RELATIVE_DISTANCES (KIND(SHAW) | KIND(NEZHA) | KIND(DEBERTA) | KIND(T5) | KIND(TRANSFORMER_XL))

static const setting SETTINGS[] = {
    {"head_dim", KIND(ROPE) | KIND(TAPA) | RELATIVE_VECTORS, SETTING_INTEGER, OFFSET(head_dim), NULL},
    {"rotary_dim", KIND(ROPE), SETTING_INTEGER, OFFSET(rope.dim), NULL},
    {"first_channel", KIND(ROPE), SETTING_INTEGER, OFFSET(rope.first_channel), NULL},
    {"layout", KIND(ROPE), SETTING_ENUM, OFFSET(rope.layout), LAYOUTS},
    {"clockwise", KIND(ROPE), SETTING_BOOL, OFFSET(rope.clockwise), NULL},
    {"axes", KIND(ROPE), SETTING_INTEGER, OFFSET(rope.axes), NULL},
    {"axes_layout", KIND(ROPE), SETTING_ENUM, OFFSET(rope.axes_layout), AXES},
    {"xpos_base", KIND(ROPE), SETTING_REAL, OFFSET(rope.xpos_base), NULL},
    {"far", KIND(ROPE), SETTING_ENUM, OFFSET(rope.far), FAR},
    {"far_window", KIND(ROPE), SETTING_INTEGER, OFFSET(rope.far_window), NULL},
    {"far_factor", KIND(ROPE), SETTING_REAL, OFFSET(rope.far_factor), NULL},
    {"clip", KIND(ROPE), SETTING_ENUM, OFFSET(clip.mode), CLIP},
    {"clip_pairs", KIND(ROPE), SETTING_INTEGER, OFFSET(clip.pairs), NULL},
    {"start_tokens", KIND(ROPE), SETTING_INTEGER, OFFSET(longrope.start_tokens), NULL},
    {"starts", KIND(ROPE), SETTING_ENUM, OFFSET(longrope.starts), STARTS},
    {"chunk_size", KIND(ROPE), SETTING_INTEGER, OFFSET(chunk.size), NULL},
    {"chunk_local", KIND(ROPE), SETTING_INTEGER, OFFSET(chunk.local), NULL},
    {"chunk_length", KIND(ROPE), SETTING_INTEGER, OFFSET(chunk.original_length), NULL},
    {"query_temperature", ANY_KIND, SETTING_ENUM, OFFSET(query.temperature), TEMPERATURES},
    {"width", KIND(LEARNED) | KIND(SINUSOIDAL), SETTING_INTEGER, OFFSET(input.dim), NULL},
    {"table_rows", KIND(LEARNED), SETTING_INTEGER, OFFSET(input.positions), NULL},
    {"offset", KIND(LEARNED) | KIND(SINUSOIDAL), SETTING_INTEGER, OFFSET(input.offset), NULL},
    {"stretched_length", KIND(LEARNED), SETTING_INTEGER, OFFSET(input.resized_length), NULL},
    {"hierarchy", KIND(LEARNED), SETTING_REAL, OFFSET(input.hierarchy), NULL},
    {"sinusoid", KIND(SINUSOIDAL), SETTING_ENUM, OFFSET(input.layout), SINUSOIDS},
    {"base", KIND(SINUSOIDAL), SETTING_REAL, OFFSET(input.base), NULL},
    {"zero_padding", KIND(SINUSOIDAL), SETTING_BOOL, OFFSET(input.zero_padding), NULL},
    {"trained_scale", KIND(SINUSOIDAL), SETTING_BOOL, OFFSET(input.trained_scale), NULL},
    {"input_scale", KIND(LEARNED) | KIND(SINUSOIDAL), SETTING_REAL, OFFSET(input.scale), NULL},
    {"heads", KIND(ALIBI) | KIND(SANDWICH), SETTING_INTEGER, OFFSET(heads), NULL},
    {"before_scale", KIND(ALIBI), SETTING_BOOL, OFFSET(score.before_scale), NULL},
    {"buckets", KIND(T5), SETTING_INTEGER, OFFSET(score.buckets), NULL},
    {"position_buckets", KIND(DEBERTA), SETTING_INTEGER, OFFSET(score.position_buckets), NULL},
    {"max_positions", KIND(BERT), SETTING_INTEGER, OFFSET(score.max_positions), NULL},
    {"max_distance", RELATIVE_DISTANCES, SETTING_INTEGER, OFFSET(score.max_distance), NULL},
    {"bidirectional", KIND(T5) | KIND(TRANSFORMER_XL), SETTING_BOOL, OFFSET(score.bidirectional), NULL},
    {"terms", RELATIVE_VECTORS, SETTING_BOOL, OFFSET(score.terms), NULL},
    {"hidden_units", KIND(FIRE), SETTING_INTEGER, OFFSET(score.hidden_units), NULL},
    {"sinusoid_dim", KIND(SANDWICH), SETTING_INTEGER, OFFSET(score.sinusoid_dim), NULL},
    {"decay", KIND(KERPLE), SETTING_ENUM, OFFSET(score.decay), DECAYS},
    {"amplitudes", KIND(TAPA), SETTING_INTEGER, OFFSET(tapa.amplitudes), NULL},
    {"exponent", KIND(TAPA), SETTING_REAL, OFFSET(tapa.exponent), NULL}};
enum { SETTINGS_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

static double value_of(const setting *s, const gyre_config *config) {
    const char *at = (const char *)config + s->field_offset;
    int64_t whole;
    double real;
    int small;
    switch (s->type) {
    case SETTING_INTEGER:
        memcpy(&whole, at, sizeof whole);
        return (double)whole;
    case SETTING_REAL:
        memcpy(&real, at, sizeof real);
        return real;
    default:
        memcpy(&small, at, sizeof small);
        return small;
    }
}

static void format_value(const setting *s, double value, char out[EXPLAIN_TEXT_SIZE]) {
    if (s->type == SETTING_ENUM)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", s->value_names[(int)value]);
    else if (s->type == SETTING_BOOL && strcmp(s->name, "terms") != 0)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", value != 0 ? "true" : "false");
    else
        explain_format_number(value, 17, out);
}

static diff_setting *add_setting(diff_layers *layers, const char *name) {
    if (layers->settings_count == DIFF_MAX_SETTINGS) layers->settings_count--; /* cannot happen: there are fewer settings */
    diff_setting *next = &layers->settings[layers->settings_count++];
    next->name = name;
    return next;
}

static void compare_numbers(diff_layers *layers, const char *name, double a, double b) {
    if (fabs(a - b) <= DIFF_ROUNDING * fabs(a)) return;
    diff_setting *out = add_setting(layers, name);
    explain_format_number(a, 17, out->a);
    explain_format_number(b, 17, out->b);
}

static void compare_temperature(diff_layers *layers, const gyre_config *a, const gyre_config *b) {
    if (!a->query.temperature || a->query.temperature != b->query.temperature) return;
    compare_numbers(layers, "temperature_length", (double)a->query.reference_length, (double)b->query.reference_length);
    if (a->query.temperature != GYRE_TEMPERATURE_LOG)
        compare_numbers(layers, "temperature_slope", a->query.slope, b->query.slope);
}

/* The length policy matters only if both depend on the length in use. */
static void compare_policies(diff_layers *layers, const gyre_config *a, const gyre_config *b) {
    if (!explain_depends_on_length(&layers->a) || !explain_depends_on_length(&layers->b)) return;
    if (a->rope.length_policy != b->rope.length_policy) {
        diff_setting *out = add_setting(layers, "length_policy");
        snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", length_policy_names[a->rope.length_policy]);
        snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", length_policy_names[b->rope.length_policy]);
    } else if (a->rope.length_policy == GYRE_LENGTH_POLICY_CAUSAL) {
        compare_numbers(layers, "length_block", (double)a->rope.length_block, (double)b->rope.length_block);
    }
}

static void section_text(const gyre_config *config, char out[EXPLAIN_TEXT_SIZE]) {
    out[0] = 0;
    for (int64_t i = 0; i < config->rope.axes && i < GYRE_MAX_AXES; i++) {
        const size_t used = strlen(out);
        snprintf(out + used, EXPLAIN_TEXT_SIZE - used, "%s%" PRId64, i ? " " : "", config->rope.axis_pairs[i]);
    }
}

/* The assignment of pairs to axes matters only with several axes. */
static void compare_sections(diff_layers *layers, const gyre_config *a, const gyre_config *b) {
    char first[EXPLAIN_TEXT_SIZE], second[EXPLAIN_TEXT_SIZE];
    if (a->kind != GYRE_KIND_ROPE || (a->rope.axes <= 1 && b->rope.axes <= 1)) return;
    section_text(a, first);
    section_text(b, second);
    if (strcmp(first, second) == 0) return;
    diff_setting *out = add_setting(layers, "sections");
    snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", first);
    snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", second);
}

static void compare_slopes(diff_layers *layers) {
    const double *a = layers->a.slopes, *b = layers->b.slopes;
    if (!a || !b || layers->a.config->heads != layers->b.config->heads) return;
    for (int64_t h = 0; h < layers->a.config->heads; h++)
        if (fabs(a[h] - b[h]) > DIFF_ROUNDING * fabs(a[h])) {
            diff_setting *out = add_setting(layers, "slopes");
            snprintf(out->a, EXPLAIN_TEXT_SIZE, "%.9g (head %" PRId64 ")", a[h], h);
            snprintf(out->b, EXPLAIN_TEXT_SIZE, "%.9g", b[h]);
            return;
        }
}

/* What slopes are at the models' own lengths, which compare_slopes sees, does not tell what they are at others. */
static void compare_slope_scalings(diff_layers *layers, const gyre_config *a, const gyre_config *b) {
    static const char *const names[] = {"none", "linear", "ntk", "ntk-released"};
    if (a->kind != GYRE_KIND_ALIBI || b->kind != GYRE_KIND_ALIBI) return;
    if (a->slope.scaling != b->slope.scaling) {
        diff_setting *out = add_setting(layers, "slope_scaling");
        snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", names[a->slope.scaling]);
        snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", names[b->slope.scaling]);
    } else if (a->slope.scaling && (a->slope.factor != b->slope.factor || a->slope.factor == 0)) {
        compare_numbers(layers, "slope_factor", a->slope.factor, b->slope.factor);
        if (a->slope.factor == 0 && b->slope.factor == 0)
            compare_numbers(layers, "slope_length", (double)a->trained_length, (double)b->trained_length);
    }
}

static void compare_kind(diff_layers *layers) {
    diff_setting *out = add_setting(layers, "encoding");
    snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", gyre_kind_name(layers->a.config->kind));
    snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", gyre_kind_name(layers->b.config->kind));
}

/* What the layers of a model of Gyre's own train beside the encoding, which config.json names. */
static void compare_parts(diff_layers *layers) {
    static const char *const parts[] = {"forget_gates", "polar",   "trained_frequencies", "fourier", "fourier_still",
                                        "contextual",   "adaptive"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const gyre_reading_field *a = explain_find_field(layers->a.group, parts[i]),
                                 *b = explain_find_field(layers->b.group, parts[i]);
        const char *first = a ? a->value : "false", *second = b ? b->value : "false";
        if (strcmp(first, second) == 0) continue;
        diff_setting *out = add_setting(layers, parts[i]);
        snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", first);
        snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", second);
        layers->parts_differ = 1;
    }
}

/* 1: a part that the layers of both have takes its size from this setting, whatever the kind. */
static int sizes_part(const diff_layers *layers, const setting *s) {
    const char *part = strcmp(s->name, "max_positions") == 0  ? "contextual"
                       : strcmp(s->name, "hidden_units") == 0 ? "adaptive"
                                                              : NULL;
    return part && explain_find_field(layers->a.group, part) && explain_find_field(layers->b.group, part);
}

static void window_text(int64_t window, char out[EXPLAIN_TEXT_SIZE]) {
    if (window)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%" PRId64, window);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "none");
}

static void compare_windows(diff_layers *layers, int64_t a, int64_t b) {
    if (a == b) return;
    diff_setting *out = add_setting(layers, "window");
    window_text(a, out->a);
    window_text(b, out->b);
}

void diff_settings_compare(diff_layers *layers) {
    const gyre_config *a = layers->a.config, *b = layers->b.config;
    layers->settings_count = 0;
    if (a->kind != b->kind) compare_kind(layers);
    compare_parts(layers);
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const setting *s = &SETTINGS[i];
        const double first = value_of(s, a), second = value_of(s, b);
        const int applies =
            s->kinds == ANY_KIND || (a->kind == b->kind && (s->kinds >> a->kind & 1)) || sizes_part(layers, s);
        const int one_axis = s->value_names == AXES && a->rope.axes <= 1 && b->rope.axes <= 1;
        if (!applies || one_axis || fabs(first - second) <= DIFF_ROUNDING * fabs(first)) continue;
        if (s->value_names == LAYOUTS && layers->reordered) continue;
        diff_setting *out = add_setting(layers, s->name);
        format_value(s, first, out->a);
        format_value(s, second, out->b);
    }
    compare_temperature(layers, a, b);
    compare_policies(layers, a, b);
    compare_sections(layers, a, b);
    compare_slopes(layers);
    compare_slope_scalings(layers, a, b);
    compare_windows(layers, layers->a.group->window, layers->b.group->window);
}
