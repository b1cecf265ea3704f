/* diff_view.c: two readings side by side, for a terminal: the verdict, what is read differently, what it does. */
#include "tools/diff/diff_compare.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MARGIN = 2, WIDEST_VALUE = 26 };

static void view_side(const explain_page *page, const diff_side *side, const char *mark) {
    const gyre_profile profile = side->reading ? side->reading->profile : side->profile;
    explain_put(page, EXPLAIN_DIM, "%s ", mark);
    explain_put(page, EXPLAIN_BOLD, "%s", side->reading ? side->reading->path : side->path);
    if (gyre_profile_name(profile)) explain_put(page, EXPLAIN_PLAIN, " read as %s", gyre_profile_name(profile));
    fputc('\n', page->file);
}

/* -- fields ---------------------------------------------------------------------------------------------------------------
 */
static void view_source(const explain_page *page, const diff_result *r, int s, const gyre_reading_field *field, int indent) {
    char source[640];
    if (!field || (!field->why && !field->key && field->origin == GYRE_DERIVED)) return;
    explain_source(r->side[s].reading, field, source, sizeof source);
    explain_space(page, indent);
    const int label = explain_put(page, EXPLAIN_DIM, "%s: ", r->side[s].label);
    explain_wrap(page, EXPLAIN_DIM, indent + label, indent + label, source);
    if (!field->why) return;
    explain_space(page, indent + label);
    const int mark = explain_put(page, EXPLAIN_YELLOW, "%s ", page->utf8 ? "\xe2\x86\xb3" : "->");
    explain_wrap(page, EXPLAIN_PLAIN, indent + label + mark, indent + label + mark, field->why);
}

static const char *value_of(const explain_page *page, const gyre_reading_field *field) {
    return field ? field->value : page->utf8 ? "\xe2\x80\x93" : "-";
}

static void widen(int *width, const char *text) {
    const int columns = explain_columns(text);
    if (columns > *width && columns <= WIDEST_VALUE) *width = columns;
}

static void view_fields(const explain_page *page, const diff_result *r, const diff_layers *d) {
    diff_field fields[DIFF_MOST_FIELDS];
    const int count = diff_fields_of(d->a.group, d->b.group, fields, DIFF_MOST_FIELDS);
    int names = 5, values = 4;
    widen(&values, r->side[0].label);
    for (int i = 0; i < count; i++) {
        widen(&names, (fields[i].a ? fields[i].a : fields[i].b)->name);
        widen(&values, value_of(page, fields[i].a));
    }
    if (count == 0) return;
    explain_space(page, MARGIN);
    explain_cell(page, EXPLAIN_DIM, names + 2, "field");
    explain_cell(page, EXPLAIN_DIM, values + 2, r->side[0].label);
    explain_put(page, EXPLAIN_DIM, "%s", r->side[1].label);
    fputc('\n', page->file);
    for (int i = 0; i < count; i++) {
        explain_space(page, MARGIN);
        explain_cell(page, EXPLAIN_PLAIN, names + 2, (fields[i].a ? fields[i].a : fields[i].b)->name);
        explain_cell(page, EXPLAIN_BOLD, values + 2, value_of(page, fields[i].a));
        explain_put(page, EXPLAIN_BOLD, "%s", value_of(page, fields[i].b));
        fputc('\n', page->file);
        view_source(page, r, 0, fields[i].a, MARGIN + names + 2);
        view_source(page, r, 1, fields[i].b, MARGIN + names + 2);
    }
    fputc('\n', page->file);
}

/* -- figures --------------------------------------------------------------------------------------------------------------
 */
static void view_line(const explain_page *page, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void view_line(const explain_page *page, const char *name, const char *format, ...) {
    enum { NAMES = 22 };
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    explain_space(page, MARGIN);
    explain_cell(page, EXPLAIN_PLAIN, NAMES, name);
    explain_wrap(page, EXPLAIN_BOLD, MARGIN + NAMES, MARGIN + NAMES, text);
}

static double wavelength_at(const explain_figures *f, int64_t pair) {
    return pair >= 0 && pair < f->pairs ? explain_wavelength(f->inv_freq[pair]) : INFINITY;
}

static void view_frequencies(const explain_page *page, const diff_layers *d) {
    char a[EXPLAIN_SHORT], b[EXPLAIN_SHORT];
    if (d->same_frequencies) {
        view_line(page, "frequencies", "the same, all %" PRId64 " pairs", d->a.pairs);
        return;
    }
    explain_amount(wavelength_at(&d->a, d->pair), a);
    explain_amount(wavelength_at(&d->b, d->pair), b);
    if (d->a.pairs != d->b.pairs)
        view_line(page, "frequencies", "%" PRId64 " pairs against %" PRId64, d->a.pairs, d->b.pairs);
    else if (d->relative < 10)
        view_line(page, "frequencies", "up to %.3g%% apart: pair %" PRId64 ", wavelength %s against %s", 100 * d->relative,
                  d->pair, a, b);
    else if (isfinite(d->relative))
        view_line(page, "frequencies", "up to %.3g times as fast: pair %" PRId64 ", wavelength %s against %s",
                  1 + d->relative, d->pair, a, b);
    else
        view_line(page, "frequencies", "pair %" PRId64 " stands still in the first alone; wavelength %s in the second",
                  d->pair, b);
    if (d->first_position >= 0)
        view_line(page, "first position", "%" PRId64 ": pair %" PRId64 " is more than 0.01 rad off", d->first_position,
                  d->gap_pair);
    else
        view_line(page, "first position", "none: up to 2^31 no pair is more than 0.01 rad off");
    if (d->length > 0)
        view_line(page, "at the length in use", "%s rad apart at position %" PRId64, explain_amount(d->apart, a), d->length);
}

static void view_ratio(const explain_page *page, const diff_result *r, const char *name, double ratio) {
    char text[EXPLAIN_SHORT];
    if (fabs(ratio - 1) <= DIFF_ROUNDING) return;
    view_line(page, name, "x %s from %s to %s", explain_number(ratio, 7, text), r->side[0].label, r->side[1].label);
}

/* What the table of fields has told already is not told twice. */
static void view_settings(const explain_page *page, const diff_layers *d) {
    diff_field fields[DIFF_MOST_FIELDS];
    const int count = diff_fields_of(d->a.group, d->b.group, fields, DIFF_MOST_FIELDS);
    for (int i = 0; i < d->settings_count; i++) {
        int told = 0;
        for (int k = 0; k < count && !told; k++)
            told = strcmp((fields[k].a ? fields[k].a : fields[k].b)->name, d->settings[i].name) == 0;
        if (!told) view_line(page, d->settings[i].name, "%s against %s", d->settings[i].a, d->settings[i].b);
    }
}

static void view_layers(const explain_page *page, const diff_result *r, const diff_layers *d) {
    const char *a = d->a.group->name, *b = d->b.group->name;
    fputc('\n', page->file);
    explain_put(page, EXPLAIN_BOLD, "%s", a);
    if (strcmp(a, b) != 0) explain_put(page, EXPLAIN_PLAIN, " against %s", b);
    explain_put(page, EXPLAIN_DIM, "  %s", d->a.label);
    if (strcmp(d->a.label, d->b.label) != 0) explain_put(page, EXPLAIN_DIM, " against %s", d->b.label);
    fputc('\n', page->file);
    view_fields(page, r, d);
    if (d->same) {
        view_line(page, "result", "the same");
        return;
    }
    if (d->rotates) view_frequencies(page, d);
    if (d->a.config->kind == d->b.config->kind) {
        view_ratio(page, r, "attention factor", d->factor_ratio);
        view_ratio(page, r, "softmax multiplier", d->softmax_ratio);
        view_ratio(page, r, "scale", d->scale_ratio);
        view_ratio(page, r, "scores in all", d->score_ratio);
    }
    view_settings(page, d);
}

void diff_view(const explain_page *page, const diff_result *r) {
    view_side(page, &r->side[0], "A");
    view_side(page, &r->side[1], "B");
    for (int i = 0; i < r->count; i++)
        view_layers(page, r, &r->layers[i]);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < r->alone_count[s]; i++) {
            fputc('\n', page->file);
            explain_put(page, EXPLAIN_BOLD, "%s", r->alone[s][i]->name);
            explain_put(page, EXPLAIN_PLAIN, "  known to %s alone", r->side[s].label);
            fputc('\n', page->file);
        }
    fputc('\n', page->file);
    explain_wrap(page, r->same ? EXPLAIN_GREEN : EXPLAIN_YELLOW, 0, 0, r->verdict);
}
