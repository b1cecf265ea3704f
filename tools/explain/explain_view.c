/* explain_view.c: the head, fields, summaries and warnings of a reading, for a terminal. */
#include "tools/explain/explain_view.h"
#include "tools/explain/glossary.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *separator(const explain_terminal *page) {
    return page->utf8 ? " \xc2\xb7 " : " - ";
}

void explain_view_head(const explain_terminal *page, const gyre_reading *reading) {
    const char *name = gyre_profile_name(reading->profile);
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", reading->path);
    fputc('\n', page->file);
    if (*reading->model_type) explain_print(page, EXPLAIN_STYLE_PLAIN, "%s%s", reading->model_type, separator(page));
    explain_print(page, EXPLAIN_STYLE_PLAIN, "%s read as ", reading->format);
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", name);
    const char *program = explain_profile_name(reading->profile);
    if (strcmp(program, name) != 0) explain_print(page, EXPLAIN_STYLE_DIM, " (%s)", program);
    if (reading->context_length > 0)
        explain_print(page, EXPLAIN_STYLE_PLAIN, "%slength in use %" PRId64, separator(page), reading->context_length);
    fputc('\n', page->file);
}

/* -- fields -- */
enum { MARGIN = 2, MAX_VALUE_WIDTH = 28 };

static void view_field(const explain_terminal *page, const gyre_reading *reading, const gyre_reading_field *field, int names,
                       int values) {
    char source[640];
    explain_format_source(reading, field, source, sizeof source);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, names, field->name);
    explain_print_padded(page, EXPLAIN_STYLE_BOLD, values, field->value);
    const int origin = MARGIN + names + values, taken = cli_display_width(field->value);
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, taken < values ? origin : origin + taken + 1 - values, origin, source);
    if (!field->note) return;
    explain_print_spaces(page, MARGIN + names);
    const int mark = explain_print(page, EXPLAIN_STYLE_YELLOW, "%s ", page->utf8 ? "\xe2\x86\xb3" : "->");
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, MARGIN + names + mark, MARGIN + names + mark, field->note);
}

/* The length that a scaling counts from is most often the trained one, which is above it. */
static int is_said_above(const gyre_layer_reading *group, int64_t i) {
    const gyre_reading_field *fields = group->fields;
    if (strcmp(fields[i].name, "original_length") != 0 || fields[i].note) return 0;
    for (int64_t k = 0; k < group->fields_count; k++)
        if (strcmp(fields[k].name, "trained_length") == 0) return strcmp(fields[k].value, fields[i].value) == 0;
    return 0;
}

static void view_fields(const explain_terminal *page, const gyre_reading *reading, const gyre_layer_reading *group) {
    int names = 0, values = 0;
    for (int64_t i = 0; i < group->fields_count; i++) {
        if (is_said_above(group, i)) continue;
        const int name = cli_display_width(group->fields[i].name), value = cli_display_width(group->fields[i].value);
        if (name > names) names = name;
        if (value > values && value <= MAX_VALUE_WIDTH) values = value;
    }
    for (int64_t i = 0; i < group->fields_count; i++)
        if (!is_said_above(group, i)) view_field(page, reading, &group->fields[i], names + 2, values + 2);
}

/* -- summaries -- */
static void add(char *text, size_t size, const char *part) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", part);
}

static void add_count(char *text, size_t size, const char *before, int64_t count, const char *after) {
    char part[96];
    snprintf(part, sizeof part, "%s%" PRId64 "%s", before, count, after);
    add(text, size, part);
}

static void summarize_pairs(const explain_stats *stats, char *text, size_t size) {
    static const char *const names[] = {" kept", " blended", " divided", " still"};
    const char *comma = ": ";
    add_count(text, size, "", stats->pairs, stats->pairs == 1 ? " pair" : " pairs");
    for (int s = 0; s < EXPLAIN_PAIR_STATES; s++)
        if (stats->count[s] > 0) {
            add_count(text, size, comma, stats->count[s], names[s]);
            comma = ", ";
        }
}

static void summarize_base(const explain_stats *stats, char *text, size_t size) {
    const double base = explain_base_in_use(stats);
    char part[200], a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
    if (base == stats->config->rope.base) return;
    snprintf(part, sizeof part, "base %s in use at %" PRId64 " tokens, in place of %s", explain_format_number(base, 6, a),
             stats->length, explain_format_number(stats->config->rope.base, 6, b));
    add(text, size, part);
}

static void summarize_revolutions(const explain_stats *stats, char *text, size_t size) {
    if (stats->trained == 0) return;
    if (stats->incomplete == 0)
        add_count(text, size, "every pair finishes a turn within ", stats->trained, " tokens");
    else
        add_count(text, size, "", stats->incomplete,
                  stats->incomplete == 1 ? " never finishes a turn" : " never finish a turn");
    if (stats->incomplete > 0) add_count(text, size, " within ", stats->trained, " tokens");
    if (stats->max_length == stats->trained || (stats->incomplete == 0 && stats->incomplete_max_length == 0)) return;
    add_count(text, size, stats->incomplete == 0 ? ", all but " : ", ", stats->incomplete_max_length, " within ");
    add_count(text, size, "", stats->max_length, "");
}

static void summarize_lengths(const explain_stats *stats, char *text, size_t size) {
    const gyre_config *config = stats->config;
    if (!explain_depends_on_length(stats) || config->length_policy == GYRE_LENGTH_POLICY_DECLARED) return;
    if (config->length_policy == GYRE_LENGTH_POLICY_PREFIX)
        add(text, size, "the length in use is that of each pass, up to its last token");
    else
        add_count(text, size, "the length in use is each token's own, its position + 1 up to a multiple of ",
                  config->length_block, "");
}

static void summarize_scores(const explain_stats *stats, char *text, size_t size) {
    char part[160], a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
    if (stats->pairs > 0) {
        snprintf(part, sizeof part, "attention factor %s", explain_format_number(stats->attention_factor, 6, a));
        add(text, size, part);
        if (fabs(stats->attention_factor - 1) > 5e-7) { /* as it is printed */
            snprintf(part, sizeof part, " (scores x %s)",
                     explain_format_number(stats->attention_factor * stats->attention_factor, 6, b));
            add(text, size, part);
        }
    }
    if (stats->group->softmax_multiplier != 1) {
        snprintf(part, sizeof part, "%ssoftmax multiplier %s", *text ? ", " : "",
                 explain_format_number(stats->group->softmax_multiplier, 6, a));
        add(text, size, part);
    }
    if (stats->scale > 0) {
        snprintf(part, sizeof part, "%sscores scaled by %s in all", *text ? ", " : "",
                 explain_format_number(stats->scale, 6, a));
        add(text, size, part);
    }
    if (stats->group->window > 0) {
        const int chunks = strcmp(stats->group->name, "chunked_attention") == 0;
        snprintf(part, sizeof part, "%s%s of %" PRId64 " keys", *text ? ", " : "", chunks ? "chunks" : "a window",
                 stats->group->window);
        add(text, size, part);
    }
}

static void view_line(const explain_terminal *page, explain_style style, const char *text) {
    if (!*text) return;
    explain_print_spaces(page, MARGIN);
    explain_print_wrapped(page, style, MARGIN, MARGIN, text);
}

/* -- a group -- */
void explain_view_group(const explain_terminal *page, const gyre_reading *reading, const explain_stats *stats) {
    char text[2048];
    const int64_t layers = explain_layer_count(reading, stats->group);
    fputc('\n', page->file);
    int column = explain_print(page, EXPLAIN_STYLE_BOLD, "%s", stats->group->name);
    column += explain_print(page, EXPLAIN_STYLE_PLAIN, "%s%s", separator(page), stats->label);
    if (stats->group->layers_count > 0) {
        column += explain_print(page, EXPLAIN_STYLE_PLAIN, "%s", separator(page));
        snprintf(text, sizeof text, "layers ");
        explain_format_layers(stats->group, text + strlen(text), sizeof text - 64);
        if (layers > stats->group->layers_count) add_count(text, sizeof text, " (of ", layers, ")");
        explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, column, column + (int)sizeof "layers " - 1, text);
    } else {
        fputc('\n', page->file);
    }
    view_fields(page, reading, stats->group);
    if (stats->pairs > 0) {
        fputc('\n', page->file);
        explain_view_pairs(page, stats);
        fputc('\n', page->file);
        text[0] = 0;
        summarize_pairs(stats, text, sizeof text);
        view_line(page, EXPLAIN_STYLE_PLAIN, text);
        text[0] = 0;
        summarize_base(stats, text, sizeof text);
        view_line(page, EXPLAIN_STYLE_PLAIN, text);
        text[0] = 0;
        summarize_revolutions(stats, text, sizeof text);
        view_line(page, EXPLAIN_STYLE_PLAIN, text);
        text[0] = 0;
        summarize_lengths(stats, text, sizeof text);
        view_line(page, EXPLAIN_STYLE_PLAIN, text);
    } else {
        fputc('\n', page->file);
        explain_describe_scheme(stats, text, sizeof text);
        view_line(page, EXPLAIN_STYLE_PLAIN, text);
    }
    text[0] = 0;
    summarize_scores(stats, text, sizeof text);
    view_line(page, EXPLAIN_STYLE_PLAIN, text);
    if (strcmp(stats->group->name, "vision") == 0 || strcmp(stats->group->name, "audio") == 0)
        view_line(page, EXPLAIN_STYLE_PLAIN, "an encoder beside the language model, which Gyre does not run");
}

/* -- warnings -- */
static void view_warning(const explain_terminal *page, const gyre_reading_warning *w, const char *label, int is_first) {
    char place[480], entry[GLOSSARY_PLACE], text[2048];
    const char *see = glossary_place(w->key, entry);
    if (is_first) fputc('\n', page->file);
    explain_format_location(w->key, w->line, place, sizeof place);
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", label ? label : "", label ? ": " : "", w->text, *place ? " (" : "",
             place, see ? "; see " : "", see ? see : "", *place ? ")" : "");
    const int mark = explain_print(page, EXPLAIN_STYLE_YELLOW, "! ");
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, mark, mark, text);
}

void explain_view_warnings(const explain_terminal *page, const gyre_reading *reading) {
    for (int64_t i = 0; i < reading->warnings_count; i++)
        view_warning(page, &reading->warnings[i], NULL, i == 0);
}

void explain_view_doubts(const explain_terminal *page, const gyre_reading *reading, const char *label) {
    int count = 0;
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if (reading->warnings[i].kind != GYRE_WARNING_OTHER) view_warning(page, &reading->warnings[i], label, count++ == 0);
}
