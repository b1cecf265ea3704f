/* config_fields.c: config.def as tables. */
#include "core/config/config_names.h"

#include <math.h>
#include <string.h>

/* -- names -- */

#define GYRE_VALUE(enumerator, text) {text, (int)(enumerator)},
#define GYRE_ENUM(type, id, ...)     static const gyre_field_name id[] = {__VA_ARGS__{NULL, 0}};
#include "core/config/config.def"
#undef GYRE_VALUE
#undef GYRE_ENUM

/* The compiler warns here of an enumerator that has no row. */
#define GYRE_VALUE(enumerator, text) case enumerator:
#define GYRE_ENUM(type, id, ...)                                                                                            \
    static inline void every_##id(type value) {                                                                             \
        switch (value) { __VA_ARGS__ break; }                                                                               \
    }
#include "core/config/config.def"
#undef GYRE_VALUE
#undef GYRE_ENUM

static const char *spelling(const gyre_field_name *names, int value) {
    for (; names && names->text; names++)
        if (names->value == value) return names->text;
    return NULL;
}

const char *gyre_scaling_name(gyre_scaling scaling) {
    return spelling(scalings, (int)scaling);
}
const char *gyre_rope_type(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_NONE ? "default" : gyre_scaling_name(scaling);
}
const char *gyre_layout_name(gyre_layout layout) {
    return spelling(layouts, (int)layout);
}
const char *gyre_length_policy_name(gyre_length_policy policy) {
    return spelling(length_policies, (int)policy);
}
const char *gyre_sinusoid_name(gyre_sinusoid layout) {
    return spelling(sinusoids, (int)layout);
}
const char *gyre_clip_name(gyre_clip mode) {
    return spelling(clips, (int)mode);
}
const char *gyre_longrope_start_name(gyre_longrope_start mode) {
    return spelling(starts, (int)mode);
}
const char *gyre_kind_name(gyre_kind kind) {
    return spelling(kinds, (int)kind);
}
gyre_kind gyre_kind_find(const char *name) {
    for (const gyre_field_name *kind = kinds; name && kind->text; kind++)
        if (strcmp(kind->text, name) == 0) return (gyre_kind)kind->value;
    return (gyre_kind)0;
}

const char *gyre_field_spelling(const gyre_config_field *field, int value) {
    return spelling(field->names, value);
}

int gyre_field_find_value(const gyre_config_field *field, const char *text, int *value) {
    for (const gyre_field_name *name = field->names; name && name->text; name++)
        if (strcmp(name->text, text) == 0) {
            *value = name->value;
            return 1;
        }
    return 0;
}

/* -- fields -- */

#define ANY                  0xffffffffu
#define ONLY(kind)           (1u << GYRE_KIND_##kind)
#define BIT(enumerator)      (1u << GYRE_##enumerator)
#define ALWAYS               .when = 0
#define WHEN(member, values) .when = offsetof(gyre_config, member), .when_values = (values)
#define FREE                 .minimum = -INFINITY, .maximum = INFINITY
#define FROM(a)              .minimum = (a), .maximum = INFINITY
#define ABOVE(a)             .minimum = (a), .maximum = INFINITY, .above_minimum = 1
#define BETWEEN(a, b)        .minimum = (a), .maximum = (b)
#define MARK(mark)           GYRE_FIELD_MARK_##mark
#ifdef GYRE_ROPE_ALONE /* reads and prints no config */
#define IN_FILES(text) NULL
#else
#define IN_FILES(text) (text)
#endif
/* `list` and `of` have other names than the members that they initialise. */
#define GYRE_FIELD(member, field_type, list, of, condition, range, number, file_key, table_label, set)                      \
    {.name = #member,                                                                                                       \
     .key = IN_FILES(file_key),                                                                                             \
     .label = IN_FILES(table_label),                                                                                        \
     .type = GYRE_FIELD_##field_type,                                                                                       \
     .names = list,                                                                                                         \
     .kinds = of,                                                                                                           \
     .standard = number,                                                                                                    \
     .marks = set,                                                                                                          \
     .offset = offsetof(gyre_config, member),                                                                               \
     condition,                                                                                                             \
     range},
static const gyre_config_field fields[] = {
#include "core/config/config.def"
};
enum { FIELDS = sizeof fields / sizeof *fields };

const gyre_config_field *gyre_config_field_at(int i) {
    return i >= 0 && i < FIELDS ? &fields[i] : NULL;
}

const gyre_config_field *gyre_config_find_field(const char *name) {
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

const gyre_config_field *gyre_config_field_switch(const gyre_config_field *field) {
    for (int i = 0; field->when && i < FIELDS; i++)
        if (fields[i].offset == field->when) return &fields[i];
    return NULL;
}

static int allows(const gyre_config_field *field, int decider) {
    return decider >= 0 && decider < 32 && (field->when_values >> decider & 1);
}

/* The scaling of any axis may give an effect to what all axes read. */
static int some_axis_allows(const gyre_config_field *field, const struct gyre_rope_config *rope) {
    int some = 0;
    for (int64_t a = 0; a < GYRE_MAX_AXES && (a == 0 || a < rope->axes); a++)
        some |= allows(field, (int)(rope->axis[a].own ? rope->axis[a].scaling : rope->scaling));
    return some;
}

int gyre_config_field_acts(const gyre_config *config, const gyre_config_field *field) {
    int decider = 0;
    if (!((unsigned)config->kind < 32 && (field->kinds >> config->kind & 1))) return 0;
    if (field->when == 0) return 1;
    if (field->marks & GYRE_FIELD_MARK_AXES) return some_axis_allows(field, &config->rope);
    memcpy(&decider, (const char *)config + field->when, sizeof decider);
    return allows(field, decider);
}

int gyre_config_has(const gyre_config *config, const char *name) {
    const gyre_config_field *field = gyre_config_find_field(name);
    return field && gyre_config_field_acts(config, field);
}

gyre_field_value gyre_config_get(const gyre_config *config, const gyre_config_field *field) {
    const char *at = (const char *)config + field->offset;
    gyre_field_value value = {0, 0, NULL};
    int small = 0;
    switch (field->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
    case GYRE_FIELD_INTEGER:
        memcpy(&value.integer, at, sizeof value.integer);
        break;
    case GYRE_FIELD_NUMBER:
        memcpy(&value.number, at, sizeof value.number);
        break;
    case GYRE_FIELD_LIST:
        memcpy(&value.list, at, sizeof value.list);
        break;
    case GYRE_FIELD_FLAG:
    case GYRE_FIELD_CHOICE:
    case GYRE_FIELD_SET:
        memcpy(&small, at, sizeof small);
        value.integer = small;
    }
    return value;
}

void gyre_config_set(gyre_config *config, const gyre_config_field *field, gyre_field_value value) {
    char *at = (char *)config + field->offset;
    const int small = (int)value.integer;
    switch (field->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
    case GYRE_FIELD_INTEGER:
        memcpy(at, &value.integer, sizeof value.integer);
        break;
    case GYRE_FIELD_NUMBER:
        memcpy(at, &value.number, sizeof value.number);
        break;
    case GYRE_FIELD_LIST:
        memcpy(at, &value.list, sizeof value.list);
        break;
    case GYRE_FIELD_FLAG:
    case GYRE_FIELD_CHOICE:
    case GYRE_FIELD_SET:
        memcpy(at, &small, sizeof small);
    }
}

int64_t gyre_config_list_length(const gyre_config *config, const gyre_config_field *field) {
    if (field->type != GYRE_FIELD_LIST) return 0;
    if (field->marks & GYRE_FIELD_MARK_SLOPES) return config->heads;
    const int64_t dim = config->rope.dim, head_dim = config->head_dim, first = config->rope.first_channel;
    if (dim < 0 || head_dim < 0 || first < 0) return 0;
    return (dim ? dim : head_dim - first) / 2;
}
