/* extend_changes.c: the keys that differ between a model and a changed copy. */
#include "tools/extend/extend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- two configs, key by key -- */
typedef struct comparison {
    extend_key_change *changes;
    int count;
} comparison;

/* Writes a value as JSON; a list of numbers as its length and its ends. */
static void value_text(const json_t *value, char *out, size_t room) {
    const size_t count = json_array_size(value);
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, count - 1);
    if (count > 4 && json_is_number(first) && json_is_number(last)) {
        snprintf(out, room, "%zu numbers, %.6g to %.6g", count, json_number_value(first), json_number_value(last));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    snprintf(out, room, "%s", text ? text : "");
    free(text);
}

static void note(comparison *c, const char *key, const json_t *before, const json_t *after) {
    if (c->count == EXTEND_MAX_KEY_CHANGES) return;
    extend_key_change *change = &c->changes[c->count++];
    *change = (extend_key_change){"", "", ""};
    snprintf(change->key, sizeof change->key, "%s", key);
    if (before) value_text(before, change->before, sizeof change->before);
    if (after) value_text(after, change->after, sizeof change->after);
}

static void compare_values(comparison *c, const char *key, json_t *before, json_t *after);

static void compare_objects(comparison *c, const char *prefix, json_t *before, json_t *after) {
    char path[256];
    const char *key;
    json_t *value;
    json_object_foreach(after, key, value) {
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        compare_values(c, path, json_object_get(before, key), value);
    }
    json_object_foreach(before, key, value) {
        if (json_object_get(after, key)) continue;
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        compare_values(c, path, value, NULL);
    }
}

static void compare_values(comparison *c, const char *key, json_t *before, json_t *after) {
    if ((!before || json_is_null(before) || json_is_object(before)) &&
        (!after || json_is_null(after) || json_is_object(after)) && (json_is_object(before) || json_is_object(after)))
        compare_objects(c, key, before, after);
    else if (!before || !after || !json_equal(before, after))
        note(c, key, before, after);
}

/* -- two GGUF files: only the keys in their readings -- */
static const char *value_under(const gyre_reading *reading, const char *key) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        for (int64_t f = 0; f < reading->groups[i]->fields_count; f++) {
            const gyre_reading_field *field = &reading->groups[i]->fields[f];
            if (field->origin == GYRE_ORIGIN_FILE && field->key && strcmp(field->key, key) == 0) return field->value;
        }
    return "";
}

/* Adds the keys of `reading` whose values differ between before and after. */
static void compare_keys(comparison *c, const gyre_reading *reading, const gyre_reading *before, const gyre_reading *after) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        for (int64_t f = 0; f < reading->groups[i]->fields_count; f++) {
            const gyre_reading_field *field = &reading->groups[i]->fields[f];
            if (field->origin != GYRE_ORIGIN_FILE || !field->key) continue;
            const char *was = value_under(before, field->key), *is = value_under(after, field->key);
            int known = strcmp(was, is) == 0 || c->count == EXTEND_MAX_KEY_CHANGES;
            for (int k = 0; k < c->count; k++)
                known |= strcmp(c->changes[k].key, field->key) == 0;
            if (known) continue;
            extend_key_change *change = &c->changes[c->count++];
            snprintf(change->key, sizeof change->key, "%s", field->key);
            snprintf(change->before, sizeof change->before, "%s", was);
            snprintf(change->after, sizeof change->after, "%s", is);
        }
}

static gyre_status compare_readings(comparison *c, const gyre_reading *before, const char *path, gyre_error *err) {
    gyre_reading *after = NULL;
    const gyre_status status =
        gyre_reading_open(&after, path, GYRE_ARGS(gyre_reading_options, .context_length = before->context_length), err);
    if (status) return status;
    compare_keys(c, after, before, after);
    compare_keys(c, before, before, after);
    gyre_reading_free(after);
    return GYRE_OK;
}

gyre_status extend_changes(const extension *e, const char *path, json_t *after,
                           extend_key_change changes[EXTEND_MAX_KEY_CHANGES], int *count, gyre_error *err) {
    comparison c = {changes, 0};
    gyre_status status = GYRE_OK;
    if (!e->config)
        status = compare_readings(&c, e->reading, path, err);
    else
        compare_values(&c, "", e->config, after);
    *count = c.count;
    return status;
}
