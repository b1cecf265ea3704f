/* diff_settings.c: settings other than frequencies that differ between two configs: one row per setting that has an
 * effect. */
#include "gyre/gyre_fields.h"
#include "tools/diff/diff_compare.h"
#include "tools/options/reading_options.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* 1: frequencies, slopes, lengths, sections and the temperature are compared as such (diff_compare.c, and below), and what
 * changes memory or rounding alone is no difference between models. */
static int is_compared_apart(const gyre_config_field *f) {
    const unsigned apart = GYRE_FIELD_MARK_MEMORY | GYRE_FIELD_MARK_ROUNDING | GYRE_FIELD_MARK_FREQUENCIES |
                           GYRE_FIELD_MARK_SLOPES | GYRE_FIELD_MARK_LENGTH;
    const size_t sections = offsetof(gyre_config, rope.axis_pairs);
    const int is_section = f->offset >= sections && f->offset < sections + sizeof(((gyre_config *)NULL)->rope.axis_pairs);
    return (f->marks & apart) != 0 || is_section || f->when == offsetof(gyre_config, query.temperature);
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
    if (a->length_policy != b->length_policy) {
        diff_setting *out = add_setting(layers, "length_policy");
        snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", gyre_length_policy_name(a->length_policy));
        snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", gyre_length_policy_name(b->length_policy));
    } else if (a->length_policy == GYRE_LENGTH_POLICY_CAUSAL) {
        compare_numbers(layers, "length_block", (double)a->length_block, (double)b->length_block);
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
    if (!gyre_kind_has(a->kind, GYRE_TRAIT_ROTATES) || (a->rope.axes <= 1 && b->rope.axes <= 1)) return;
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

/* compare_slopes sees the slopes at the models' own lengths; at others they may differ. */
static void compare_slope_scalings(diff_layers *layers, const gyre_config *a, const gyre_config *b) {
    const gyre_config_field *scaling = gyre_config_find_field("score.slope_scaling");
    if (!gyre_kind_has(a->kind, GYRE_TRAIT_SLOPES) || !gyre_kind_has(b->kind, GYRE_TRAIT_SLOPES)) return;
    if (a->score.slope_scaling != b->score.slope_scaling) {
        diff_setting *out = add_setting(layers, "slope_scaling");
        snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", gyre_field_spelling(scaling, (int)a->score.slope_scaling));
        snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", gyre_field_spelling(scaling, (int)b->score.slope_scaling));
    } else if (a->score.slope_scaling && (a->score.slope_factor != b->score.slope_factor || a->score.slope_factor == 0)) {
        compare_numbers(layers, "slope_factor", a->score.slope_factor, b->score.slope_factor);
        if (a->score.slope_factor == 0 && b->score.slope_factor == 0)
            compare_numbers(layers, "slope_length", (double)a->trained_length, (double)b->trained_length);
    }
}

static void compare_part(diff_layers *layers, const char *part) {
    const gyre_reading_field *a = explain_find_field(layers->a.group, part), *b = explain_find_field(layers->b.group, part);
    const char *first = a ? a->value : "false", *second = b ? b->value : "false";
    if (strcmp(first, second) == 0) return;
    diff_setting *out = add_setting(layers, part);
    snprintf(out->a, EXPLAIN_TEXT_SIZE, "%s", first);
    snprintf(out->b, EXPLAIN_TEXT_SIZE, "%s", second);
    layers->parts_differ = 1;
}

/* What the layers of a model of Gyre's own train beside the encoding, which config.json names. */
static void compare_parts(diff_layers *layers) {
    static const char *const parts[] = {"forget_gates", "contextual", "adaptive"};
    const gyre_head_part_facts *part;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        compare_part(layers, parts[i]);
    for (int i = 0; (part = gyre_head_part_facts_at(i)); i++) {
        compare_part(layers, part->key);
        if (part->option) compare_part(layers, part->option);
    }
}

/* 1: a part that the layers of both have takes its size from this field, whatever the kind. */
static int sizes_part(const diff_layers *layers, const gyre_config_field *f) {
    const char *part = strcmp(f->name, "score.max_positions") == 0  ? "contextual"
                       : strcmp(f->name, "score.hidden_units") == 0 ? "adaptive"
                                                                    : NULL;
    return part && explain_find_field(layers->a.group, part) && explain_find_field(layers->b.group, part);
}

/* 1 if the field has an effect on one of two configs of the same kind, or on any kind. */
static int applies(const diff_layers *layers, const gyre_config_field *f) {
    const gyre_config *a = layers->a.config, *b = layers->b.config;
    if (sizes_part(layers, f)) return 1;
    if (a->kind != b->kind && f->kinds != ~0u) return 0;
    if (strcmp(f->name, "rope.axes_layout") == 0 && a->rope.axes <= 1 && b->rope.axes <= 1) return 0;
    if (strcmp(f->name, "rope.layout") == 0 && layers->reordered) return 0;
    return gyre_config_field_acts(a, f) || gyre_config_field_acts(b, f);
}

static void compare_field(diff_layers *layers, const gyre_config_field *f) {
    const gyre_field_value a = gyre_config_get(layers->a.config, f), b = gyre_config_get(layers->b.config, f);
    if (a.integer == b.integer && fabs(a.number - b.number) <= DIFF_ROUNDING * fabs(a.number)) return;
    diff_setting *out = add_setting(layers, f->label);
    explain_format_value(f, a, out->a);
    explain_format_value(f, b, out->b);
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

/* -- which layers -- */
/* out = the layers of the decoder. */
static int64_t layers_of(const gyre_reading *reading) {
    int64_t count = 0;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const gyre_layer_reading *group = reading->groups[g];
        if (reading_is_beside(group) || group->layers_count == 0) continue;
        const int64_t end = group->layers[group->layers_count - 1] + 1;
        if (end > count) count = end;
    }
    return count;
}

/* out = the first layer before `end` that only one of the two has; -1 = none. */
static int64_t first_of_one(const gyre_layer_reading *a, const gyre_layer_reading *b, int64_t end) {
    for (int64_t i = 0; i < a->layers_count || i < b->layers_count; i++) {
        const int64_t x = i < a->layers_count ? a->layers[i] : end, y = i < b->layers_count ? b->layers[i] : end;
        const int64_t first = x < y ? x : y;
        if (first >= end) return -1;
        if (x != y) return first;
    }
    return -1;
}

/* Layers that only the larger model has are no difference between groups of one name. */
void diff_layer_lists_compare(diff_layers *layers, const gyre_reading *a, const gyre_reading *b) {
    const gyre_layer_reading *x = layers->a.group, *y = layers->b.group;
    const int64_t in_a = layers_of(a), in_b = layers_of(b);
    if (strcmp(x->name, y->name) != 0 || reading_is_beside(x) || x->layers_count == 0 || y->layers_count == 0) return;
    const int64_t first = first_of_one(x, y, in_a < in_b ? in_a : in_b);
    if (first < 0) return;
    diff_setting *out = add_setting(layers, "the list of layers");
    explain_format_layers(x, out->a, sizeof out->a);
    explain_format_layers(y, out->b, sizeof out->b);
    if (strcmp(out->a, out->b) != 0) return; /* the first of many layers are the same */
    int has = 0;
    for (int64_t i = 0; i < x->layers_count; i++)
        has |= x->layers[i] == first;
    snprintf(out->a, sizeof out->a, "%s layer %" PRId64, has ? "with" : "without", first);
    snprintf(out->b, sizeof out->b, "%s layer %" PRId64, has ? "without" : "with", first);
}

void diff_settings_compare(diff_layers *layers) {
    const gyre_config *a = layers->a.config, *b = layers->b.config;
    const gyre_config_field *f;
    layers->settings_count = 0;
    compare_field(layers, gyre_config_find_field("kind"));
    compare_parts(layers);
    for (int i = 1; (f = gyre_config_field_at(i)); i++) /* 0 is the kind */
        if (!is_compared_apart(f) && applies(layers, f)) compare_field(layers, f);
    compare_temperature(layers, a, b);
    compare_policies(layers, a, b);
    compare_sections(layers, a, b);
    compare_slopes(layers);
    compare_slope_scalings(layers, a, b);
    compare_windows(layers, layers->a.group->window, layers->b.group->window);
}
