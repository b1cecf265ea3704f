/* timeline_changes.c: whether two rows read the same positions, and which values differ if not; a reading in one line. */
#include "tools/options/reading_options.h"
#include "tools/timeline/timeline.h"
#include "util/error.h"
#include "util/plain_numbers.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NONE[] = "none";

/* -- changes -- */
/* Adds the change, or the name of its layers to that of an equal one. */
static void add_change(timeline_row *row, const char *layers, const timeline_change *change) {
    for (int i = 0; i < row->changes_count; i++) {
        timeline_change *c = &row->changes[i];
        if (strcmp(c->name, change->name) != 0 || strcmp(c->before, change->before) != 0 ||
            strcmp(c->after, change->after) != 0)
            continue;
        const size_t used = strlen(c->layers);
        gyre_plain_snprintf(c->layers + used, sizeof c->layers - used, ", %s", layers);
        c->groups++;
        return;
    }
    if (row->changes_count == TIMELINE_MAX_CHANGES) return;
    timeline_change *c = &row->changes[row->changes_count++];
    *c = *change;
    gyre_plain_snprintf(c->layers, sizeof c->layers, "%s", layers);
    c->groups = 1;
}

static void add_values(timeline_row *row, const char *layers, const char *name, const char *before, const char *after) {
    timeline_change change = {.line = 0};
    gyre_plain_snprintf(change.name, sizeof change.name, "%s", name);
    gyre_plain_snprintf(change.before, sizeof change.before, "%s", before);
    gyre_plain_snprintf(change.after, sizeof change.after, "%s", after);
    add_change(row, layers, &change);
}

static void add_numbers(timeline_row *row, const char *layers, const char *name, double before, double after) {
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
    add_values(row, layers, name, explain_format_number(before, 6, a), explain_format_number(after, 6, b));
}

static int lists_change(const timeline_row *row, const char *name) {
    for (int i = 0; i < row->changes_count; i++)
        if (strcmp(row->changes[i].name, name) == 0) return 1;
    return 0;
}

static void add_fields(timeline_row *row, const char *layers, const diff_layers *d) {
    diff_field fields[DIFF_MAX_FIELDS];
    const int count = diff_fields_compare(d->a.group, d->b.group, fields, DIFF_MAX_FIELDS);
    for (int i = 0; i < count; i++) {
        const gyre_reading_field *a = fields[i].a, *b = fields[i].b;
        if (!a && !b) continue; /* cannot happen */
        timeline_change change = {.key = b && b->key ? b->key
                                         : a         ? a->key
                                                     : NULL,
                                  .line = b && b->key ? b->line
                                          : a         ? a->line
                                                      : 0,
                                  .why = b && b->note ? b->note
                                         : a          ? a->note
                                                      : NULL};
        gyre_plain_snprintf(change.name, sizeof change.name, "%s", a ? a->name : b->name);
        gyre_plain_snprintf(change.before, sizeof change.before, "%s", a ? a->value : NONE);
        gyre_plain_snprintf(change.after, sizeof change.after, "%s", b ? b->value : NONE);
        add_change(row, layers, &change);
    }
}

/* out = the group's own name; "all" beside other groups is that of the other side, or the decoder beside towers. */
static const char *name_of(const diff_layers *d) {
    const char *name = strcmp(d->a.group->name, "all") != 0 ? d->a.group->name : d->b.group->name;
    return strcmp(name, "all") != 0 ? name : "the decoder";
}

/* 1: both sides call these layers by one name, and do not mean the same ones. */
static int layers_moved(const diff_layers *d) {
    const gyre_layer_reading *a = d->a.group, *b = d->b.group;
    if (strcmp(a->name, b->name) != 0 || !a->layers_count || !b->layers_count) return 0;
    return a->layers_count != b->layers_count ||
           memcmp(a->layers, b->layers, (size_t)a->layers_count * sizeof *a->layers) != 0;
}

static void layers_text(const gyre_layer_reading *group, char out[64]) {
    explain_format_layers(group, out, 64);
    if (!*out) snprintf(out, 64, "%s", strcmp(group->name, "all") == 0 ? "all" : "some");
}

static void add_layers(timeline_row *row, const diff_layers *d) {
    const char *name = name_of(d);
    char before[64], after[64];
    if (layers_moved(d)) {
        layers_text(d->a.group, before);
        layers_text(d->b.group, after);
        add_values(row, name, "layers", before, after);
    }
    if (d->same) return;
    add_fields(row, name, d);
    if (d->a.config->kind != d->b.config->kind && !lists_change(row, "encoding"))
        add_values(row, name, "encoding", d->a.label, d->b.label);
    for (int i = 0; i < d->settings_count; i++)
        if (!lists_change(row, d->settings[i].name))
            add_values(row, name, d->settings[i].name, d->settings[i].a, d->settings[i].b);
    if (fabs(d->factor_ratio - 1) > DIFF_ROUNDING && !lists_change(row, "attention_factor"))
        add_numbers(row, name, "attention_factor", d->a.attention_factor, d->b.attention_factor);
    if (fabs(d->scale_ratio - 1) > DIFF_ROUNDING && !lists_change(row, "score_scale"))
        add_numbers(row, name, "score_scale", d->a.scale, d->b.scale);
    if (d->first_position >= 0 && (row->first_position < 0 || d->first_position < row->first_position))
        row->first_position = d->first_position;
}

static void add_alone(timeline_row *row, const diff_result *result) {
    char layers[64];
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < result->unmatched_count[s]; i++) {
            layers_text(result->unmatched[s][i], layers);
            add_values(row, result->unmatched[s][i]->name, "layers", s ? NONE : layers, s ? layers : NONE);
        }
}

static int groups_in(const diff_result *result) {
    return result->count + result->unmatched_count[0] + result->unmatched_count[1];
}

/* What a reader looks for first.  Lengths follow, because they matter only through a scaling, and what another scaling lacks
 * or adds comes last: the scaling says so. */
static int rank_of(const timeline_row *row, const timeline_change *change) {
    static const char *const first[] = {"layers",  "encoding",         "base", "rotary_dim",  "layout",   "scaling",
                                        "factor",  "attention_factor", "axes", "axes_layout", "sections", "window",
                                        "partial", "head_dim"};
    const int count = (int)(sizeof first / sizeof *first);
    for (int i = 0; i < count; i++)
        if (strcmp(first[i], change->name) == 0) return i;
    if (lists_change(row, "scaling") && (strcmp(change->before, NONE) == 0 || strcmp(change->after, NONE) == 0))
        return count + 2;
    return strcmp(change->name, "max_length") == 0 ? count + 1 : count;
}

/* Insertion keeps the order of equal ranks. */
static void sort_changes(timeline_row *row) {
    for (int i = 1; i < row->changes_count; i++)
        for (int k = i; k > 0 && rank_of(row, &row->changes[k]) < rank_of(row, &row->changes[k - 1]); k--) {
            const timeline_change change = row->changes[k];
            row->changes[k] = row->changes[k - 1];
            row->changes[k - 1] = change;
        }
}

static gyre_status list_changes(timeline_row *row, const diff_result *result, gyre_error *err) {
    row->changes = calloc(TIMELINE_MAX_CHANGES, sizeof *row->changes);
    if (!row->changes) return gyre_fail(err, GYRE_ENOMEM, "timeline: out of memory");
    for (int i = 0; i < result->count; i++)
        add_layers(row, &result->layers[i]);
    add_alone(row, result);
    for (int i = 0; i < row->changes_count; i++)
        if (row->changes[i].groups == groups_in(result) && strcmp(row->changes[i].name, "layers") != 0)
            row->changes[i].layers[0] = 0;
    sort_changes(row);
    gyre_plain_snprintf(row->verdict, sizeof row->verdict, "%s", result->verdict);
    return GYRE_OK;
}

gyre_status timeline_compare(const timeline *t, const timeline_row *b, timeline_row *row, int list, int *same,
                             gyre_error *err) {
    diff_result result = {.count = 0};
    const timeline_row *sides[2] = {b, row};
    for (int s = 0; s < 2; s++) {
        result.operand[s].path = t->path;
        result.operand[s].profile = sides[s]->first.profile;
        result.operand[s].reading = sides[s]->reading;
        snprintf(result.operand[s].label, sizeof result.operand[s].label, "%s", gyre_profile_name(sides[s]->first.profile));
    }
    gyre_status status = diff_compare(&result, t->layer_type, err);
    *same = result.same;
    for (int i = 0; i < result.count; i++)
        *same &= !layers_moved(&result.layers[i]);
    if (!status && list && !*same) status = list_changes(row, &result, err);
    result.operand[0].reading = result.operand[1].reading = NULL; /* the rows own them */
    diff_result_free(&result);
    return status;
}

/* -- a reading in one line -- */
static void add(char *out, size_t size, const char *before, const char *text) {
    const size_t used = strlen(out);
    gyre_plain_snprintf(out + used, size - used, "%s%s", before, text);
}

static void add_field(const gyre_layer_reading *group, const char *name, const char *words, char *out, size_t size) {
    const gyre_reading_field *field = explain_find_field(group, name);
    char number[EXPLAIN_TEXT_SIZE], *end;
    if (!field) return;
    const double value = strtod(field->value, &end);
    add(out, size, ", ", words);
    add(out, size, " ", *field->value && !*end ? explain_format_number(value, 6, number) : field->value);
}

static void summarize(const gyre_layer_reading *group, char *out, size_t size) {
    char text[64];
    const gyre_reading_field *scaling = explain_find_field(group, "scaling");
    const int rotates = gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES);
    add(out, size, "", gyre_kind_name(group->config.kind));
    if (rotates && scaling && strcmp(scaling->value, "default") != 0) add(out, size, "+", scaling->value);
    add_field(group, "base", "base", out, size);
    add_field(group, "factor", "factor", out, size);
    add_field(group, "attention_factor", "attention factor", out, size);
    if (rotates && group->config.head_dim > 0) {
        snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " channels", group->config.rope.dim, group->config.head_dim);
        add(out, size, ", ", text);
    }
    if (rotates) add(out, size, ", pairs ", gyre_layout_name(group->config.rope.layout));
    if (group->window > 0) {
        snprintf(text, sizeof text, "a window of %" PRId64, group->window);
        add(out, size, ", ", text);
    }
}

void timeline_summary(const timeline *t, const gyre_reading *reading, char *out, size_t size) {
    char layers[64];
    int listed = 0;
    *out = 0;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *group = reading->groups[i];
        if (!reading_is_selected(group, t->layer_type)) continue;
        if (listed++) add(out, size, "; ", "");
        if (reading->groups_count > 1) add(out, size, "", group->name);
        if (reading->groups_count > 1 && group->layers_count > 0) {
            explain_format_layers(group, layers, sizeof layers);
            add(out, size, " (layers ", layers);
            add(out, size, ")", "");
        }
        if (reading->groups_count > 1) add(out, size, ": ", "");
        summarize(group, out, size);
    }
}
