/* timeline_json.c: the timeline as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/options/value_names.h"
#include "tools/timeline/timeline.h"
#include <stdio.h>

static json_t *changes_json(const timeline_row *row) {
    json_t *list = json_array();
    for (int i = 0; i < row->changes_count; i++) {
        const timeline_change *c = &row->changes[i];
        list = cli_json_append(list, JSON_OBJECT("layers", *c->layers ? cli_json_text(c->layers) : json_null(), "name",
                                                 JSON((const char *)c->name), "before", JSON((const char *)c->before),
                                                 "after", JSON((const char *)c->after), "key", JSON(c->key), "line",
                                                 cli_json_nonzero(c->line), "why", JSON(c->why)));
    }
    return list;
}

static json_t *profiles_json(const timeline_row *row) {
    json_t *list = json_array();
    for (int i = 0; i < row->profiles_count; i++)
        list = cli_json_append(list, json_string(gyre_profile_name(row->profiles[i])));
    return list;
}

static json_t *month_json(const char *month) {
    return month && *month ? json_string(month) : json_null();
}

static json_t *row_json(const timeline *t, const timeline_row *row) {
    char versions[96], summary[2048] = "", letter[2] = {(char)('A' + row->letter), 0};
    timeline_versions(row, versions, sizeof versions);
    if (row->reading) timeline_summary(t, row->reading, summary, sizeof summary);
    json_t *object = json_object();
    int bad = cli_json_set(object, "program", json_string(row->first.program));
    bad |= cli_json_set(object, "versions", cli_json_text(versions));
    bad |= cli_json_set(object, "since", month_json(row->first.since));
    bad |= cli_json_set(object, "profiles", profiles_json(row));
    bad |= cli_json_set(object, "refused", row->reading ? json_null() : cli_json_text(row->refused));
    bad |= cli_json_set(object, "positions", row->reading ? json_string(letter) : json_null());
    bad |= cli_json_set(object, "summary", row->reading ? cli_json_text(summary) : json_null());
    bad |= cli_json_set(object, "same_as", row->reading ? json_integer(row->same_as) : json_null());
    bad |= cli_json_set(object, "compared_with", row->compared < 0 ? json_null() : json_integer(row->compared));
    bad |= cli_json_set(object, "first_position", row->first_position < 0 ? json_null() : json_integer(row->first_position));
    bad |= cli_json_set(object, "verdict", *row->verdict ? cli_json_text(row->verdict) : json_null());
    bad |= cli_json_set(object, "changes", changes_json(row));
    return cli_json_checked(object, bad);
}

int timeline_write_json(const timeline *t, FILE *file) {
    const gyre_reading *reading = t->rows[t->default_row].reading;
    json_t *root = json_object(), *rows = json_array();
    for (int i = 0; i < t->count; i++)
        rows = cli_json_append(rows, row_json(t, &t->rows[i]));
    int bad = cli_json_set(root, "path", cli_json_text(reading->path));
    bad |= cli_json_set(root, "format", json_string(reading->format));
    bad |= cli_json_set(root, "model_type", cli_json_text(reading->model_type));
    bad |= cli_json_set(root, "saved_by", *t->saved_by ? cli_json_text(t->saved_by) : json_null());
    bad |= cli_json_set(root, "class_in_transformers", json_boolean(t->has_class));
    bad |= cli_json_set(root, "length", cli_json_nonzero(t->length));
    bad |= cli_json_set(root, "rows", rows);
    bad |= cli_json_set(root, "warnings", explain_warnings_json(reading));
    return cli_json_write(file, cli_json_checked(root, bad));
}
