/* check_reading_fields.h: groups, fields and warnings of a reading. */
#ifndef GYRE_TESTS_CHECK_READING_FIELDS_H
#define GYRE_TESTS_CHECK_READING_FIELDS_H
#include "gyre/gyre_reading.h"
#include "support.h"

#include <string.h>

/* NULL if there is none. */
static inline const gyre_layer_reading *find_group(const gyre_reading *reading, const char *name) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (strcmp(reading->groups[i]->name, name) == 0) return reading->groups[i];
    return NULL;
}
static inline const gyre_layer_reading *group_of(const gyre_reading *reading, const char *name) {
    const gyre_layer_reading *group = find_group(reading, name);
    if (!group) fail_msg("no group %s", name);
    return group;
}

static inline const gyre_reading_field *find_field(const gyre_layer_reading *group, const char *name) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0) return &group->fields[i];
    return NULL;
}
static inline const gyre_reading_field *field_of(const gyre_layer_reading *group, const char *name) {
    const gyre_reading_field *field = find_field(group, name);
    if (!field) fail_msg("no field %s", name);
    return field;
}
/* key: NULL = the field has none. */
static inline void assert_field(const gyre_layer_reading *group, const char *name, const char *value, gyre_origin origin,
                                const char *key, int64_t line) {
    const gyre_reading_field *field = field_of(group, name);
    assert_string_equal(field->value, value);
    assert_int_equal(field->origin, origin);
    if (key)
        assert_string_equal(field->key, key);
    else
        assert_null(field->key);
    assert_int_equal(field->line, line);
}

/* out = the first warning that contains `words`, or NULL. */
static inline const gyre_reading_warning *find_warning(const gyre_reading *reading, const char *words) {
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if (strstr(reading->warnings[i].text, words)) return &reading->warnings[i];
    return NULL;
}
static inline void assert_warns(const gyre_reading *reading, const char *words, const char *key, int64_t line) {
    const gyre_reading_warning *warning = find_warning(reading, words);
    if (!warning) fail_msg("no warning of \"%s\"", words);
    if (key) assert_string_equal(warning->key, key);
    assert_int_equal(warning->line, line);
}

#endif
