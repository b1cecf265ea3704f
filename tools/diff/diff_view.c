/* diff_view.c: two readings side by side, for a terminal: the fields that differ, the effect, and the verdict. */
#include "tools/diff/diff_compare.h"
#include "tools/explain/explain_view.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 2, MAX_VALUE_WIDTH = 26 };

static void view_operand(const explain_terminal *page, const diff_operand *operand, const char *mark) {
    const gyre_profile profile = operand->reading ? operand->reading->profile : operand->profile;
    explain_print(page, EXPLAIN_STYLE_DIM, "%s ", mark);
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", operand->reading ? operand->reading->path : operand->path);
    if (gyre_profile_name(profile)) explain_print(page, EXPLAIN_STYLE_PLAIN, " read as %s", gyre_profile_name(profile));
    fputc('\n', page->file);
}

/* -- fields -- */
static void view_source(const explain_terminal *page, const diff_result *r, int s, const gyre_reading_field *field,
                        int indent) {
    char source[640];
    if (!field || (!field->note && !field->key && field->origin == GYRE_ORIGIN_DERIVED)) return;
    explain_format_source(r->operand[s].reading, field, source, sizeof source);
    explain_print_spaces(page, indent);
    const int label = explain_print(page, EXPLAIN_STYLE_DIM, "%s: ", r->operand[s].label);
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, indent + label, indent + label, source);
    if (!field->note) return;
    explain_print_spaces(page, indent + label);
    const int mark = explain_print(page, EXPLAIN_STYLE_YELLOW, "%s ", page->utf8 ? "\xe2\x86\xb3" : "->");
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, indent + label + mark, indent + label + mark, field->note);
}

static const char *value_of(const explain_terminal *page, const gyre_reading_field *field) {
    return field ? field->value : page->utf8 ? "\xe2\x80\x93" : "-";
}

static void widen(int *width, const char *text) {
    const int columns = cli_display_width(text);
    if (columns > *width && columns <= MAX_VALUE_WIDTH) *width = columns;
}

static void view_fields(const explain_terminal *page, const diff_result *r, const diff_layers *d) {
    diff_field fields[DIFF_MAX_FIELDS];
    const int count = diff_fields_compare(d->a.group, d->b.group, fields, DIFF_MAX_FIELDS);
    int names = 5, values = 4;
    widen(&values, r->operand[0].label);
    for (int i = 0; i < count; i++) {
        widen(&names, (fields[i].a ? fields[i].a : fields[i].b)->name);
        widen(&values, value_of(page, fields[i].a));
    }
    if (count == 0) return;
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_DIM, names + 2, "field");
    explain_print_padded(page, EXPLAIN_STYLE_DIM, values + 2, r->operand[0].label);
    explain_print(page, EXPLAIN_STYLE_DIM, "%s", r->operand[1].label);
    fputc('\n', page->file);
    for (int i = 0; i < count; i++) {
        explain_print_spaces(page, MARGIN);
        explain_print_padded(page, EXPLAIN_STYLE_PLAIN, names + 2, (fields[i].a ? fields[i].a : fields[i].b)->name);
        explain_print_padded(page, EXPLAIN_STYLE_BOLD, values + 2, value_of(page, fields[i].a));
        explain_print(page, EXPLAIN_STYLE_BOLD, "%s", value_of(page, fields[i].b));
        fputc('\n', page->file);
        view_source(page, r, 0, fields[i].a, MARGIN + names + 2);
        view_source(page, r, 1, fields[i].b, MARGIN + names + 2);
    }
    fputc('\n', page->file);
}

/* -- effects -- */
static void view_line(const explain_terminal *page, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void view_line(const explain_terminal *page, const char *name, const char *format, ...) {
    enum { NAMES = 22 };
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, NAMES, name);
    explain_print_wrapped(page, EXPLAIN_STYLE_BOLD, MARGIN + NAMES, MARGIN + NAMES, text);
}

static double wavelength_at(const explain_stats *f, int64_t pair) {
    return pair >= 0 && pair < f->pairs ? explain_wavelength(f->inv_freq[pair]) : INFINITY;
}

/* "none" for a pair with no rotation that counts at any position. */
static void format_wavelength(const explain_stats *f, int64_t pair, char out[EXPLAIN_TEXT_SIZE]) {
    if (pair >= 0 && pair < f->pairs && diff_stands_still(f->inv_freq[pair]))
        snprintf(out, EXPLAIN_TEXT_SIZE, "none");
    else
        explain_format_amount(wavelength_at(f, pair), out);
}

static void view_frequencies(const explain_terminal *page, const diff_layers *d) {
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
    if (d->same_frequencies) {
        view_line(page, "frequencies", "the same, all %" PRId64 " pairs", d->a.pairs);
        if (d->first_position >= 0)
            view_line(page, "first position",
                      "%" PRId64 ": pair %" PRId64 " is more than 0.01 rad off, up to token %" PRId64, d->first_position,
                      d->max_difference_pair, d->start_tokens - 1);
        return;
    }
    format_wavelength(&d->a, d->pair, a);
    format_wavelength(&d->b, d->pair, b);
    if (d->a.pairs != d->b.pairs)
        view_line(page, "frequencies", "%" PRId64 " pairs against %" PRId64, d->a.pairs, d->b.pairs);
    else if (d->max_relative_difference < 10)
        view_line(page, "frequencies", "up to %.3g%% apart: pair %" PRId64 ", wavelength %s against %s",
                  100 * d->max_relative_difference, d->pair, a, b);
    else if (isfinite(d->max_relative_difference))
        view_line(page, "frequencies", "up to %.3g times as fast: pair %" PRId64 ", wavelength %s against %s",
                  1 + d->max_relative_difference, d->pair, a, b);
    else
        view_line(page, "frequencies", "pair %" PRId64 " does not rotate in the first; wavelength %s in the second", d->pair,
                  b);
    if (d->first_position >= 0)
        view_line(page, "first position", "%" PRId64 ": pair %" PRId64 " is more than 0.01 rad off", d->first_position,
                  d->max_difference_pair);
    else
        view_line(page, "first position", "none: up to 2^31 no pair is more than 0.01 rad off");
    if (d->length > 0)
        view_line(page, "at the length in use", "%s rad apart at position %" PRId64,
                  explain_format_amount(d->angle_difference, a), d->length);
}

static void view_ratio(const explain_terminal *page, const diff_result *r, const char *name, double ratio) {
    char text[EXPLAIN_TEXT_SIZE];
    if (fabs(ratio - 1) <= DIFF_ROUNDING) return;
    view_line(page, name, "x %s from %s to %s", explain_format_number(ratio, 7, text), r->operand[0].label,
              r->operand[1].label);
}

/* Leaves out settings that the table of fields already shows. */
static void view_settings(const explain_terminal *page, const diff_layers *d) {
    diff_field fields[DIFF_MAX_FIELDS];
    const int count = diff_fields_compare(d->a.group, d->b.group, fields, DIFF_MAX_FIELDS);
    for (int i = 0; i < d->settings_count; i++) {
        int listed = 0;
        for (int k = 0; k < count && !listed; k++)
            listed = strcmp((fields[k].a ? fields[k].a : fields[k].b)->name, d->settings[i].name) == 0;
        if (!listed) view_line(page, d->settings[i].name, "%s against %s", d->settings[i].a, d->settings[i].b);
    }
}

/* Once where both sides show the same. */
static void view_accuracy(const explain_terminal *page, const diff_result *r, const diff_layers *d) {
    const int alike = d->accuracy[0] && d->accuracy[1] && explain_accuracy_equal(d->accuracy[0], d->accuracy[1]);
    for (int s = 0; s < 2; s++) {
        if (!d->accuracy[s] || (s && alike)) continue;
        fputc('\n', page->file);
        explain_print(page, EXPLAIN_STYLE_BOLD, "Accuracy under the frequencies of %s",
                      alike ? "both" : r->operand[s].label);
        fputc('\n', page->file);
        explain_accuracy_view(page, d->accuracy[s]);
    }
}

static void view_layers(const explain_terminal *page, const diff_result *r, const diff_layers *d) {
    const char *a = d->a.group->name, *b = d->b.group->name;
    fputc('\n', page->file);
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", a);
    if (strcmp(a, b) != 0) explain_print(page, EXPLAIN_STYLE_PLAIN, " against %s", b);
    explain_print(page, EXPLAIN_STYLE_DIM, "  %s", d->a.label);
    if (strcmp(d->a.label, d->b.label) != 0) explain_print(page, EXPLAIN_STYLE_DIM, " against %s", d->b.label);
    fputc('\n', page->file);
    view_fields(page, r, d);
    if (d->same) {
        view_line(page, "result", "the same");
        view_accuracy(page, r, d);
        return;
    }
    if (d->rotates) view_frequencies(page, d);
    if (d->first_distance >= 0)
        view_line(page, "first distance", "%" PRId64 ": from there on keys rotate otherwise", d->first_distance);
    if (d->a.config->kind == d->b.config->kind) {
        view_ratio(page, r, "attention factor", d->factor_ratio);
        view_ratio(page, r, "softmax multiplier", d->softmax_ratio);
        view_ratio(page, r, "scale", d->scale_ratio);
        view_ratio(page, r, "scores in all", d->score_ratio);
    }
    view_settings(page, d);
    view_accuracy(page, r, d);
}

void diff_view(const explain_terminal *page, const diff_result *r) {
    view_operand(page, &r->operand[0], "A");
    view_operand(page, &r->operand[1], "B");
    for (int i = 0; i < r->count; i++)
        view_layers(page, r, &r->layers[i]);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < r->unmatched_count[s]; i++) {
            fputc('\n', page->file);
            explain_print(page, EXPLAIN_STYLE_BOLD, "%s", r->unmatched[s][i]->name);
            explain_print(page, EXPLAIN_STYLE_PLAIN, "  known to %s alone", r->operand[s].label);
            fputc('\n', page->file);
        }
    for (int s = 0; s < 2; s++)
        if (r->operand[s].reading) explain_view_doubts(page, r->operand[s].reading, r->operand[s].label);
    fputc('\n', page->file);
    explain_print_wrapped(page, r->same ? EXPLAIN_STYLE_GREEN : EXPLAIN_STYLE_YELLOW, 0, 0, r->verdict);
}
