/* reading_build.c: a reading under construction, with its memory and the first failure. */
#include "reading/reading_build.h"

#include "core/system_alloc.h"
#include "util/error.h"
#include "util/plain_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 16, MAX_TABLE_MIB = 64 };

/* All memory handed out is on one list of blocks. */
typedef struct arena_block {
    struct arena_block *next;
    double data[]; /* double: aligned for everything stored here */
} arena_block;

/* Capacities of a group's lists, which grow. */
typedef struct group_capacity {
    gyre_reading_field *fields;
    int64_t *layers;
    int64_t fields_capacity, layers_capacity;
} group_capacity;

/* Memory for the tables of a reading's encodings, up to a limit. */
typedef struct table_budget {
    size_t remaining;
    int exceeded;
} table_budget;

static void *budget_alloc(void *context, size_t bytes, size_t align) {
    table_budget *b = context;
    b->exceeded |= bytes > b->remaining;
    if (b->exceeded) return NULL;
    b->remaining -= bytes;
    return gyre_system_alloc.alloc(NULL, bytes, align);
}

struct gyre_build {
    gyre_reading reading; /* first: gyre_reading_free casts its address back */
    gyre_layer_group groups[MAX_GROUPS];
    const gyre_layer_reading *group_pointers[MAX_GROUPS]; /* to groups[i]: what the reading shows */
    group_capacity capacities[MAX_GROUPS];
    gyre_encoding *encodings[MAX_GROUPS]; /* created when the build is finished */
    table_budget budget;                  /* for `encodings` */
    gyre_reading_warning *warnings;
    int64_t warnings_capacity;
    arena_block *blocks;
    gyre_error *err;
    gyre_status status;
    gyre_layer_group discarded_group; /* what callers write to after a failure */
};

/* -- memory -- */
static void out_of_memory(gyre_build *build) {
    gyre_build_fail(build, GYRE_ENOMEM, NULL, "model description: no memory");
}

static void *arena_alloc(gyre_build *build, size_t bytes) {
    arena_block *b = calloc(1, sizeof *b + bytes);
    if (!b) {
        out_of_memory(build);
        return NULL;
    }
    b->next = build->blocks;
    build->blocks = b;
    return b->data;
}

double *gyre_build_alloc_numbers(gyre_build *build, int64_t count) {
    return count < 0 || (uint64_t)count > SIZE_MAX / 2 / sizeof(double) ? NULL
                                                                        : arena_alloc(build, (size_t)count * sizeof(double));
}

static const char *format_text(gyre_build *build, const char *format, va_list arguments) {
    va_list arguments_copy;
    va_copy(arguments_copy, arguments);
    const int length = gyre_plain_vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : arena_alloc(build, (size_t)length + 1);
    if (text) (void)gyre_plain_vsnprintf(text, (size_t)length + 1, format, arguments_copy);
    va_end(arguments_copy);
    return text ? text : "";
}

const char *gyre_build_format(gyre_build *build, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(build, format, arguments);
    va_end(arguments);
    return text;
}

/* out = the array, with space for one more element; NULL without memory.  Capacity doubles. */
static void *grow_array(gyre_build *build, void *array, int64_t count, int64_t *capacity, size_t each) {
    if (count < *capacity) return array;
    const int64_t grown = *capacity ? *capacity * 2 : 16;
    void *larger = realloc(array, (size_t)grown * each);
    if (larger)
        *capacity = grown;
    else
        out_of_memory(build);
    return larger;
}

/* -- begin and finish -- */
gyre_build *gyre_build_begin(const char *path, const char *format, gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_build *build = calloc(1, sizeof *build);
    if (!build) {
        (void)gyre_fail(err, GYRE_ENOMEM, "model description: no memory (%s)", path);
        return NULL;
    }
    build->err = err;
    build->budget.remaining = (size_t)MAX_TABLE_MIB << 20;
    for (int i = 0; i < MAX_GROUPS; i++)
        build->group_pointers[i] = &build->groups[i];
    build->reading = (gyre_reading){"", format, "", profile, length, build->group_pointers, 0, NULL, 0};
    build->reading.path = gyre_build_format(build, "%s", path);
    return build;
}

void gyre_reading_free(gyre_reading *reading) {
    gyre_build *build = (gyre_build *)reading;
    if (!build) return;
    for (int i = 0; i < MAX_GROUPS; i++) {
        free(build->capacities[i].fields);
        free(build->capacities[i].layers);
        gyre_encoding_free(build->encodings[i]);
    }
    free(build->warnings);
    for (arena_block *b = build->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(build);
}

/* A few bytes may claim anything.  Without this limit, 150 bytes cost gigabytes and minutes of computing frequencies or
 * slopes. */
static void check_size(gyre_build *build, const gyre_layer_group *group, const char *name, int64_t size) {
    enum { MAX_SIZE = 65536 };
    gyre_place place = {NULL, 0, 0};
    if (size <= MAX_SIZE) return;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0)
            place = (gyre_place){group->fields[i].key, group->fields[i].line, group->fields[i].offset};
    gyre_build_fail(build, GYRE_EFORMAT, &place, "%s: %" PRId64 "; the most is %d", name, size, MAX_SIZE);
}

/* A reader may return only what the rest of Gyre can compute.  The tables of real models take a few thousand bytes; a
 * short file whose sizes ask for gigabytes is refused. */
static void create_encoding(gyre_build *build, int64_t i) {
    const gyre_layer_group *group = &build->groups[i];
    gyre_error why = {0, ""};
    const gyre_alloc alloc = {budget_alloc, gyre_system_alloc.free, &build->budget};
    const gyre_status status = gyre_encoding_create(&build->encodings[i], &group->config, &alloc, &why);
    if (build->budget.exceeded)
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "%s layers: tables of these sizes would take more than %d MiB",
                        group->name, MAX_TABLE_MIB);
    else if (status)
        gyre_build_fail(build, status == GYRE_ENOMEM ? GYRE_ENOMEM : GYRE_EFORMAT, NULL, "%s layers: %s", group->name,
                        why.text);
}

const gyre_encoding *gyre_reading_encoding(const gyre_reading *reading, const gyre_layer_reading *group) {
    const gyre_build *build = (const gyre_build *)reading;
    return build->encodings[group - build->groups];
}

gyre_status gyre_build_finish(gyre_build *build, gyre_reading **out) {
    const gyre_reading *reading = &build->reading;
    if (!build->status && reading->groups_count == 0)
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "positions: the file has no key about them");
    for (int64_t i = 0; i < reading->groups_count && !build->status; i++) {
        check_size(build, &build->groups[i], "head_dim", build->groups[i].config.head_dim);
        check_size(build, &build->groups[i], "heads", build->groups[i].config.heads);
        if (!build->status) create_encoding(build, i);
    }
    const gyre_status status = build->status;
    build->err = NULL; /* the caller's, who may free it */
    if (!status)
        *out = &build->reading;
    else
        gyre_reading_free(&build->reading);
    return status;
}

void gyre_build_discard(gyre_build *build) {
    gyre_reading_free(&build->reading);
}

gyre_status gyre_build_status(const gyre_build *build) {
    return build->status;
}
gyre_profile gyre_build_profile(const gyre_build *build) {
    return build->reading.profile;
}
int64_t gyre_build_length(const gyre_build *build) {
    return build->reading.context_length;
}
void gyre_build_set_profile(gyre_build *build, gyre_profile profile) {
    build->reading.profile = profile;
}

void gyre_build_set_model_type(gyre_build *build, const char *model_type) {
    build->reading.model_type = gyre_build_format(build, "%s", model_type);
}

/* -- groups -- */
static void init_group(gyre_layer_group *group, const char *name) {
    *group = (gyre_layer_group){.name = name, .softmax_multiplier = 1.0, .config = GYRE_INIT(gyre_config)};
    group->config.kind = gyre_kind_find("nope"); /* until a reader finds one */
}

void gyre_build_set_kind(gyre_build *build, gyre_layer_group *group, const char *kind, const gyre_place *place) {
    group->config.kind = gyre_kind_find(kind);
    gyre_build_set_field(build, group, "encoding", GYRE_ORIGIN_FAMILY, place, NULL, "%s", kind);
}

gyre_layer_group *gyre_build_add_group(gyre_build *build, const char *name) {
    if (build->reading.groups_count == MAX_GROUPS)
        gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "layers: more than %d kinds", MAX_GROUPS);
    const int ok = !build->status;
    gyre_layer_group *group = ok ? &build->groups[build->reading.groups_count++] : &build->discarded_group;
    init_group(group, ok ? gyre_build_format(build, "%s", name) : "");
    return group;
}

gyre_layer_group *gyre_build_find_group(gyre_build *build, const char *name) {
    for (int64_t i = 0; i < build->reading.groups_count; i++)
        if (strcmp(build->groups[i].name, name) == 0) return &build->groups[i];
    return NULL;
}

/* NULL for discarded_group. */
static group_capacity *capacity_of(gyre_build *build, const gyre_layer_group *group) {
    return group == &build->discarded_group ? NULL : &build->capacities[group - build->groups];
}

void gyre_build_add_layer(gyre_build *build, gyre_layer_group *group, int64_t layer) {
    group_capacity *capacity = capacity_of(build, group);
    if (!capacity || build->status) return;
    int64_t *layers = grow_array(build, capacity->layers, group->layers_count, &capacity->layers_capacity, sizeof *layers);
    if (!layers) return;
    capacity->layers = layers;
    layers[group->layers_count++] = layer;
    group->layers = layers;
}

/* Layers with positions come first, then the larger group. */
static int comes_before(const gyre_layer_group *a, const gyre_layer_group *b) {
    const int a_knows = gyre_kind_places(a->config.kind) != 0, b_knows = gyre_kind_places(b->config.kind) != 0;
    return a_knows != b_knows ? a_knows : a->layers_count > b->layers_count;
}

void gyre_build_sort_groups(gyre_build *build) {
    int64_t most = 0;
    for (int64_t i = 1; i < build->reading.groups_count; i++)
        if (comes_before(&build->groups[i], &build->groups[most])) most = i;
    const gyre_layer_group first = build->groups[most];
    const group_capacity capacity = build->capacities[most];
    for (int64_t i = most; i > 0; i--) {
        build->groups[i] = build->groups[i - 1];
        build->capacities[i] = build->capacities[i - 1];
    }
    build->groups[0] = first;
    build->capacities[0] = capacity;
}

/* -- fields -- */
/* out = the field of that name, or a new one; NULL without memory. */
static gyre_reading_field *find_or_add_field(gyre_build *build, gyre_layer_group *group, const char *name) {
    group_capacity *capacity = capacity_of(build, group);
    if (!capacity || build->status) return NULL;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(capacity->fields[i].name, name) == 0) return &capacity->fields[i];
    gyre_reading_field *fields =
        grow_array(build, capacity->fields, group->fields_count, &capacity->fields_capacity, sizeof *fields);
    if (!fields) return NULL;
    capacity->fields = fields;
    group->fields = fields;
    return &fields[group->fields_count++];
}

void gyre_build_set_field(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                          const gyre_place *place, const char *why, const char *value, ...) {
    gyre_reading_field *field = find_or_add_field(build, group, name);
    if (!field) return;
    const gyre_place nowhere = {NULL, 0, 0}, *at = place ? place : &nowhere;
    va_list arguments;
    va_start(arguments, value);
    const char *text = format_text(build, value, arguments);
    va_end(arguments);
    *field = (gyre_reading_field){gyre_build_format(build, "%s", name), text, origin, NULL, at->line, at->offset, NULL};
    if (at->key) field->key = gyre_build_format(build, "%s", at->key);
    if (why) field->note = gyre_build_format(build, "%s", why);
}

void gyre_build_set_number(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                           const gyre_place *place, const char *why, double value) {
    int digits = 1;
    char text[40];
    const gyre_locale locale = gyre_plain_numbers_begin();
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (strtod(text, NULL) != value && ++digits <= 17);
    gyre_plain_numbers_end(locale);
    if (value == floor(value) && fabs(value) < 1e15) snprintf(text, sizeof text, "%.0f", value);
    gyre_build_set_field(build, group, name, origin, place, why, "%s", text);
}

/* -- warnings and failures -- */
static void add_warning(gyre_build *build, gyre_warning_kind kind, const gyre_place *place, const char *text) {
    const gyre_place nowhere = {NULL, 0, 0}, at = place ? *place : nowhere;
    gyre_reading *reading = &build->reading;
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if (strcmp(reading->warnings[i].text, text) == 0 && reading->warnings[i].offset == at.offset) return;
    gyre_reading_warning *warnings =
        grow_array(build, build->warnings, reading->warnings_count, &build->warnings_capacity, sizeof *warnings);
    if (!warnings) return;
    reading->warnings = build->warnings = warnings;
    warnings[reading->warnings_count++] =
        (gyre_reading_warning){text, at.key ? gyre_build_format(build, "%s", at.key) : NULL, at.line, at.offset, kind};
}

void gyre_build_warn(gyre_build *build, const gyre_place *place, const char *format, ...) {
    if (build->status) return;
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(build, format, arguments);
    va_end(arguments);
    add_warning(build, GYRE_WARNING_OTHER, place, text);
}

void gyre_build_doubt(gyre_build *build, gyre_warning_kind kind, const gyre_place *place, const char *format, ...) {
    if (build->status) return;
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(build, format, arguments);
    va_end(arguments);
    add_warning(build, kind, place, text);
}

const gyre_reading *gyre_build_so_far(const gyre_build *build) {
    return &build->reading;
}

void gyre_build_fail(gyre_build *build, gyre_status status, const gyre_place *place, const char *format, ...) {
    if (build->status) return;
    build->status = status;
    char why[360], where[64] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (place && place->line > 0)
        snprintf(where, sizeof where, ", line %" PRId64, place->line);
    else if (place && place->offset > 0)
        snprintf(where, sizeof where, ", byte %" PRIu64, place->offset);
    (void)gyre_fail(build->err, status, "%s (%s%s)", why, build->reading.path, where);
    if (build->err && place) build->err->offset = place->offset;
}
