/* fuzz_reading_laws.c: what gyre_reading.h promises of every reading.
 *
 * A field names its value in text, and a config holds it as a number; both come from one key, by separate lines of the
 * reader.  A place is proved by the bytes that stand there. */
#include "fuzz_reading_laws.h"

#include "fuzz_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int is_json(const gyre_reading *reading) {
    return strcmp(reading->format, "config.json") == 0;
}

/* -- places -- */
/* A key whose last part is not found as it is spelled has the place of its object, or none. */
static void check_json_place(const char *key, int64_t line, uint64_t offset, const char *text, size_t size) {
    int64_t lines = 1;
    fuzz_require(offset < size && text[offset] == '"', "a key begins with a quote");
    for (uint64_t i = 0; i < offset; i++)
        lines += text[i] == '\n';
    fuzz_require(line == lines, "a line is that of the key");
    const char *end = memchr(text + offset + 1, '"', size - offset - 1);
    fuzz_require(key && end, "a key has an end");
    if (!key || !end) return;
    const size_t length = (size_t)(end - text) - offset - 1, whole = strlen(key);
    char *part = fuzz_room(length + 1, 1);
    memcpy(part, text + offset + 1, length);
    const char *found = whole >= length ? strstr(key, part) : NULL;
    fuzz_require(found != NULL, "the key at a place is part of the key that is named");
    free(part);
}

static void check_place(const gyre_reading *reading, const char *key, int64_t line, uint64_t offset, const uint8_t *bytes,
                        size_t size) {
    fuzz_require(line >= 0 && offset <= size, "a place is inside the file");
    fuzz_require(is_json(reading) || line == 0, "a GGUF has no lines");
    if (line > 0) check_json_place(key, line, offset, (const char *)bytes, size);
}

/* -- values -- */
static double or_default(double value, double usual) {
    return value != 0.0 ? value : usual;
}

/* out = the number of the config that a field states; NAN for a field that states something else. */
static double number_of(const gyre_layer_reading *group, const char *name) {
    const gyre_config *c = &group->config;
    const int named = c->rope.scaling != GYRE_SCALING_LONGROPE; /* which may stand for another scaling, as divisors */
    const struct {
        const char *name;
        double value;
        int is_of_kind;
    } numbers[] = {{"base", or_default(c->rope.base, 10000.0), c->kind == GYRE_KIND_ROPE},
                   {"factor", or_default(c->rope.factor, 1.0), named && c->rope.scaling != GYRE_SCALING_NONE},
                   {"head_dim", (double)c->head_dim, 1},
                   {"rotary_dim", (double)(c->rope.dim ? c->rope.dim : c->head_dim - c->rope.first_channel), 1},
                   {"rotary_first", (double)c->rope.first_channel, 1},
                   {"trained_length", (double)c->trained_length, 1},
                   {"window", (double)group->window, 1},
                   {"max_bias", or_default(c->score.max_bias, 8.0), c->kind == GYRE_KIND_ALIBI},
                   {"score_scale", group->scale, 1},
                   {"softmax_multiplier", group->softmax_multiplier, 1},
                   {"offset", (double)c->input.offset, c->kind == GYRE_KIND_LEARNED},
                   {"table_rows", (double)c->input.positions, c->kind == GYRE_KIND_LEARNED},
                   {"beta_fast", or_default(c->rope.beta_fast, 32.0), named},
                   {"beta_slow", or_default(c->rope.beta_slow, 1.0), named},
                   {"axes", (double)(c->rope.axes ? c->rope.axes : 1), c->kind == GYRE_KIND_ROPE},
                   {"chunk_size", (double)c->rope.chunk.size, 1},
                   {"chunk_local", (double)c->rope.chunk.local, 1},
                   {"temperature_slope", or_default(c->query.slope, 0.1), 1},
                   {"slope_factor", c->score.slope_factor, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0) return numbers[i].is_of_kind ? numbers[i].value : NAN;
    return NAN;
}

/* A number of a GGUF is printed in the digits that tell it from other floats: half their distance may be lost. */
static void check_value(const gyre_layer_reading *group, const gyre_reading_field *field) {
    const double want = number_of(group, field->name);
    char *end;
    if (strcmp(field->name, "encoding") == 0)
        fuzz_require(same_text(field->value, gyre_kind_name(group->config.kind)), "the encoding of a group is its kind");
    if (isnan(want)) return;
    const double got = strtod(field->value, &end);
    if (end == field->value || *end) return; /* words: a list, or more than one number */
    const int same = fabs(got - want) <= 1e-6 * fabs(want) + 0x1p-150;
    if (!same) fprintf(stderr, "field %s = %s, config %.17g\n", field->name, field->value, want);
    fuzz_require(same, "a field states what the config has");
}

static void check_field(const gyre_reading *reading, const gyre_layer_reading *group, int64_t i, const uint8_t *bytes,
                        size_t size) {
    const gyre_reading_field *field = &group->fields[i];
    fuzz_require(field->name && *field->name && field->value, "a field has a name and a value");
    if (!field->name || !field->value) return;
    for (int64_t j = 0; j < i; j++)
        fuzz_require(strcmp(field->name, group->fields[j].name) != 0, "a name stands once");
    fuzz_require((unsigned)field->origin <= GYRE_ORIGIN_DERIVED, "an origin is one of four");
    fuzz_require(field->origin != GYRE_ORIGIN_FILE || field->key, "what is of the file has a key");
    fuzz_require(!field->note || *field->note, "a note says something");
    check_place(reading, field->key, field->line, field->offset, bytes, size);
    check_value(group, field);
}

/* -- groups -- */
/* Groups of one decoder share no layer; those of an encoder and of a vision tower count their own. */
static int is_stack(const char *name) {
    return strcmp(name, "encoder") == 0 || strcmp(name, "decoder") == 0 || strcmp(name, "vision") == 0;
}

static void check_layers(const gyre_reading *reading, int64_t i) {
    const gyre_layer_reading *group = reading->groups[i];
    fuzz_require(group->layers_count >= 0 && (group->layers_count == 0 || group->layers), "layers are there");
    for (int64_t l = 0; l < group->layers_count; l++) {
        fuzz_require(group->layers[l] >= 0, "a layer is counted from 0");
        fuzz_require(l == 0 || group->layers[l] > group->layers[l - 1], "layers ascend");
    }
    for (int64_t j = 0; j < i && !is_stack(group->name); j++) {
        const gyre_layer_reading *other = reading->groups[j];
        for (int64_t a = 0, b = 0; !is_stack(other->name) && a < group->layers_count && b < other->layers_count;) {
            fuzz_require(group->layers[a] != other->layers[b], "a layer is in one group");
            if (group->layers[a] < other->layers[b])
                a++;
            else
                b++;
        }
    }
}

static void check_first(const gyre_reading *reading) {
    const gyre_layer_reading *first = reading->groups[0];
    for (int64_t i = 1; i < reading->groups_count; i++) {
        const gyre_layer_reading *other = reading->groups[i];
        if (is_stack(other->name) || other->config.kind == GYRE_KIND_NOPE) continue;
        fuzz_require(first->config.kind != GYRE_KIND_NOPE, "the first group has positions, where any has");
        fuzz_require(first->layers_count >= other->layers_count, "and most layers of these");
    }
}

static void check_group(const gyre_reading *reading, int64_t i, const uint8_t *bytes, size_t size) {
    const gyre_layer_reading *group = reading->groups[i];
    fuzz_require(group->name && *group->name, "a group has a name");
    for (int64_t j = 0; j < i; j++)
        fuzz_require(strcmp(group->name, reading->groups[j]->name) != 0, "a name is that of one group");
    fuzz_require(group->window >= 0 && isfinite(group->scale) && isfinite(group->softmax_multiplier), "numbers of a group");
    fuzz_require(group->softmax_multiplier > 0.0, "a multiplier is above 0");
    if (group->config.kind == GYRE_KIND_ROPE && strcmp(group->name, "vision") != 0 && reading->context_length > 0)
        fuzz_require(group->config.context_length == reading->context_length, "the length asked for is that in use");
    check_layers(reading, i);
    for (int64_t f = 0; f < group->fields_count; f++)
        check_field(reading, group, f, bytes, size);
}

void fuzz_check_reading(const gyre_reading *reading, const uint8_t *bytes, size_t size) {
    const int gguf = size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
    fuzz_require(reading->path && reading->model_type, "a reading has its strings");
    fuzz_require(same_text(reading->format, gguf ? "GGUF" : "config.json"), "a format is that of the bytes");
    fuzz_require(gyre_profile_name(reading->profile) != NULL, "a reading says whose it is");
    fuzz_require(reading->groups_count >= 1, "a reading has a group");
    check_first(reading);
    for (int64_t i = 0; i < reading->groups_count; i++)
        check_group(reading, i, bytes, size);
    for (int64_t i = 0; i < reading->warnings_count; i++) {
        const gyre_reading_warning *warning = &reading->warnings[i];
        fuzz_require(warning->text && *warning->text, "a warning has a text");
        check_place(reading, warning->key, warning->line, warning->offset, bytes, size);
    }
}

/* -- two readings -- */
static void check_same_place(int64_t line_a, uint64_t offset_a, int64_t line_b, uint64_t offset_b, int64_t shift) {
    fuzz_require(line_b == (line_a > 0 ? line_a + shift : 0), "a line moves with the text");
    fuzz_require(offset_b == (line_a > 0 ? offset_a + (uint64_t)shift : offset_a), "an offset moves with the text");
}

/* out = 1 if two notes agree, where each line that they name moves with the text. */
static int same_note(const char *a, const char *b, int64_t shift) {
    static const char word[] = "line ";
    const size_t length = sizeof word - 1;
    if (!a || !b) return a == b;
    for (const char *begin = a; *a && *b;) {
        if ((size_t)(a - begin) >= length && memcmp(a - length, word, length) == 0) {
            char *end_a, *end_b;
            if (strtoll(a, &end_a, 10) + shift != strtoll(b, &end_b, 10)) return 0;
            if (end_a > a) {
                a = end_a, b = end_b;
                continue;
            }
        }
        if (*a++ != *b++) return 0;
    }
    return *a == *b;
}

static int same_numbers(const double *a, const double *b, int64_t count) {
    return (a == NULL) == (b == NULL) && (!a || memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

/* The lists of two configs are two copies; all other bytes were set by the same assignments. */
static void check_same_config(const gyre_config *a, const gyre_config *b) {
    fuzz_require(a->kind == b->kind && a->head_dim == b->head_dim && a->heads == b->heads, "the same sizes");
    fuzz_require(a->trained_length == b->trained_length, "the same trained length");
    fuzz_require(same_numbers(a->rope.short_factor, b->rope.short_factor, a->rope.dim / 2), "the same short factors");
    fuzz_require(same_numbers(a->rope.long_factor, b->rope.long_factor, a->rope.dim / 2), "the same long factors");
    fuzz_require(same_numbers(a->rope.frequencies, b->rope.frequencies, a->rope.dim / 2), "the same frequencies");
    fuzz_require(same_numbers(a->score.slopes, b->score.slopes, a->heads), "the same slopes");
    const size_t first = offsetof(struct gyre_rope_config, base), end = offsetof(struct gyre_rope_config, resonance);
    fuzz_require(memcmp((const char *)&a->rope + first, (const char *)&b->rope + first, end - first) == 0,
                 "the same numbers of a rotation");
    fuzz_require(a->rope.scaling == b->rope.scaling && a->rope.dim == b->rope.dim && a->rope.layout == b->rope.layout,
                 "the same rotation");
    fuzz_require(a->query.temperature == b->query.temperature && a->query.slope == b->query.slope &&
                     a->query.reference_length == b->query.reference_length,
                 "the same temperature");
}

static void check_same_group(const gyre_layer_reading *a, const gyre_layer_reading *b, int64_t shift) {
    fuzz_require(same_text(a->name, b->name) && a->layers_count == b->layers_count, "the same groups");
    fuzz_require(a->layers_count == 0 || memcmp(a->layers, b->layers, (size_t)a->layers_count * sizeof *a->layers) == 0,
                 "the same layers");
    fuzz_require(a->scale == b->scale && a->softmax_multiplier == b->softmax_multiplier && a->window == b->window,
                 "the same numbers");
    fuzz_require(a->fields_count == b->fields_count, "the same fields");
    for (int64_t i = 0; i < a->fields_count; i++) {
        const gyre_reading_field *x = &a->fields[i], *y = &b->fields[i];
        const int same = same_text(x->name, y->name) && same_text(x->value, y->value) && same_text(x->key, y->key) &&
                         same_note(x->note, y->note, shift) && x->origin == y->origin;
        if (!same) fprintf(stderr, "field %s = %s (%s), again %s (%s)\n", x->name, x->value, x->note, y->value, y->note);
        fuzz_require(same, "the same field");
        check_same_place(x->line, x->offset, y->line, y->offset, shift);
    }
    check_same_config(&a->config, &b->config);
}

void fuzz_check_same_reading(const gyre_reading *a, const gyre_reading *b, int64_t shift) {
    fuzz_require(same_text(a->format, b->format) && same_text(a->model_type, b->model_type), "the same strings");
    fuzz_require(a->profile == b->profile && a->context_length == b->context_length, "the same call");
    fuzz_require(a->groups_count == b->groups_count && a->warnings_count == b->warnings_count, "the same counts");
    for (int64_t i = 0; i < a->groups_count; i++)
        check_same_group(a->groups[i], b->groups[i], shift);
    for (int64_t i = 0; i < a->warnings_count; i++) {
        const gyre_reading_warning *x = &a->warnings[i], *y = &b->warnings[i];
        fuzz_require(same_text(x->key, y->key) && same_note(x->text, y->text, shift), "the same warnings");
        check_same_place(x->line, x->offset, y->line, y->offset, shift);
    }
}
