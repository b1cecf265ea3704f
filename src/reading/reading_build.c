/* reading_build.c: a reading under construction: memory that lives as long as it does, and the first failure. */
#include "reading/reading_build.h"

#include "core/encoding.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 16, MOST_MEBIBYTES = 64 };

/* Everything handed out hangs on one chain of blocks. */
typedef struct block {
    struct block *next;
    double data[]; /* aligned for all that is put here */
} block;

/* The groups' lists grow while it is built. */
typedef struct group_room {
    gyre_reading_field *fields;
    int64_t *layers;
    int64_t fields_room, layers_room;
} group_room;

struct gyre_build {
    gyre_reading reading; /* first: gyre_reading_free gets its address */
    gyre_layers groups[MOST_GROUPS];
    group_room rooms[MOST_GROUPS];
    gyre_reading_warning *warnings;
    int64_t warnings_room;
    block *blocks;
    gyre_error *err;
    gyre_status status;
    gyre_layers spare; /* what is written to after a failure */
};

/* -- memory ---------------------------------------------------------------------------------------------------------- */
static void out_of_memory(gyre_build *build) {
    gyre_build_fail(build, GYRE_ENOMEM, NULL, "model description: no memory");
}

static void *take(gyre_build *build, size_t bytes) {
    block *b = calloc(1, sizeof *b + bytes);
    if (!b) {
        out_of_memory(build);
        return NULL;
    }
    b->next = build->blocks;
    build->blocks = b;
    return b->data;
}

double *gyre_build_numbers(gyre_build *build, int64_t count) {
    return count < 0 || (uint64_t)count > SIZE_MAX / 2 / sizeof(double) ? NULL : take(build, (size_t)count * sizeof(double));
}

static const char *format_text(gyre_build *build, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : take(build, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text ? text : "";
}

const char *gyre_build_text(gyre_build *build, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(build, format, arguments);
    va_end(arguments);
    return text;
}

/* Room for one more in an array that doubles: its old place, or NULL. */
static void *grown(gyre_build *build, void *array, int64_t count, int64_t *room, size_t each) {
    if (count < *room) return array;
    const int64_t wanted = *room ? *room * 2 : 16;
    void *larger = realloc(array, (size_t)wanted * each);
    if (larger)
        *room = wanted;
    else
        out_of_memory(build);
    return larger;
}

/* -- begin and finish -------------------------------------------------------------------------------------------------- */
gyre_build *gyre_build_begin(const char *path, const char *format, gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_build *build = calloc(1, sizeof *build);
    if (!build) {
        (void)gyre_fail(err, GYRE_ENOMEM, "model description: no memory (%s)", path);
        return NULL;
    }
    build->err = err;
    build->reading = (gyre_reading){"", format, "", profile, length, build->groups, 0, NULL, 0};
    build->reading.path = gyre_build_text(build, "%s", path);
    return build;
}

void gyre_reading_free(gyre_reading *reading) {
    gyre_build *build = (gyre_build *)reading;
    if (!build) return;
    for (int i = 0; i < MOST_GROUPS; i++) {
        free(build->rooms[i].fields);
        free(build->rooms[i].layers);
    }
    free(build->warnings);
    for (block *b = build->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(build);
}

/* A few bytes may say anything: without a limit, 150 of them cost gigabytes and minutes of frequencies or slopes. */
static void check_size(gyre_build *build, const gyre_layers *group, const char *name, int64_t size) {
    enum { MOST = 65536 };
    gyre_place place = {NULL, 0, 0};
    if (size <= MOST) return;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0)
            place = (gyre_place){group->fields[i].key, group->fields[i].line, group->fields[i].offset};
    gyre_build_fail(build, GYRE_EFORMAT, &place, "%s: %" PRId64 "; the most is %d", name, size, MOST);
}

/* Memory that is lent until there is none left of it. */
typedef struct budget {
    size_t left;
    int spent;
} budget;

static void *lend(void *context, size_t bytes, size_t align) {
    budget *b = context;
    b->spent |= bytes > b->left;
    if (b->spent) return NULL;
    b->left -= bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void take_back(void *context, void *memory) {
    (void)context;
    free(memory);
}

/* What a reader hands out must be something that the rest of Gyre can compute.  The tables of real models have a few
 * thousand bytes: a short file whose sizes ask for gigabytes is refused, not obeyed. */
static void try_encoding(gyre_build *build, const gyre_layers *group) {
    gyre_encoding *encoding = NULL;
    gyre_error why = {0, ""};
    budget room = {(size_t)MOST_MEBIBYTES << 20, 0};
    const gyre_alloc alloc = {lend, take_back, &room};
    const gyre_status status = gyre_encoding_create(&encoding, &group->config, &alloc, &why);
    gyre_encoding_free(encoding);
    if (room.spent)
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "%s layers: sizes whose tables would take more than %d MiB", group->name,
                        MOST_MEBIBYTES);
    else if (status != GYRE_OK)
        gyre_build_fail(build, status == GYRE_ENOMEM ? GYRE_ENOMEM : GYRE_EFORMAT, NULL, "%s layers: %s", group->name,
                        why.text);
}

gyre_status gyre_build_finish(gyre_build *build, gyre_reading **out) {
    const gyre_reading *reading = &build->reading;
    if (build->status == GYRE_OK && reading->groups_count == 0)
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "positions: nothing in the file speaks of them");
    for (int64_t i = 0; i < reading->groups_count && build->status == GYRE_OK; i++) {
        check_size(build, &build->groups[i], "head_dim", build->groups[i].config.head_dim);
        check_size(build, &build->groups[i], "heads", build->groups[i].config.heads);
        if (build->status == GYRE_OK) try_encoding(build, &build->groups[i]);
    }
    const gyre_status status = build->status;
    build->err = NULL; /* the caller's, and it may go */
    if (status == GYRE_OK)
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
    return build->reading.length;
}
void gyre_build_model_type(gyre_build *build, const char *model_type) {
    build->reading.model_type = gyre_build_text(build, "%s", model_type);
}

/* -- groups ------------------------------------------------------------------------------------------------------------ */
static void empty_group(gyre_layers *group, const char *name) {
    *group = (gyre_layers){name, NULL, 0, GYRE_CONFIG_INIT, 0.0, 1.0, 0, NULL, 0};
}

gyre_layers *gyre_build_layers(gyre_build *build, const char *name) {
    if (build->reading.groups_count == MOST_GROUPS)
        gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "layers: more than %d kinds of them", MOST_GROUPS);
    const int ok = build->status == GYRE_OK;
    gyre_layers *group = ok ? &build->groups[build->reading.groups_count++] : &build->spare;
    empty_group(group, ok ? gyre_build_text(build, "%s", name) : "");
    return group;
}

gyre_layers *gyre_build_find(gyre_build *build, const char *name) {
    for (int64_t i = 0; i < build->reading.groups_count; i++)
        if (strcmp(build->groups[i].name, name) == 0) return &build->groups[i];
    return NULL;
}

/* NULL for the spare one. */
static group_room *room_of(gyre_build *build, const gyre_layers *group) {
    return group == &build->spare ? NULL : &build->rooms[group - build->groups];
}

void gyre_build_layer(gyre_build *build, gyre_layers *group, int64_t layer) {
    group_room *room = room_of(build, group);
    if (!room || build->status != GYRE_OK) return;
    int64_t *layers = grown(build, room->layers, group->layers_count, &room->layers_room, sizeof *layers);
    if (!layers) return;
    room->layers = layers;
    layers[group->layers_count++] = layer;
    group->layers = layers;
}

/* Layers that have positions before those that have none, then the more. */
static int comes_before(const gyre_layers *a, const gyre_layers *b) {
    const int a_knows = a->config.kind != GYRE_NOPE, b_knows = b->config.kind != GYRE_NOPE;
    return a_knows != b_knows ? a_knows : a->layers_count > b->layers_count;
}

void gyre_build_sort(gyre_build *build) {
    int64_t most = 0;
    for (int64_t i = 1; i < build->reading.groups_count; i++)
        if (comes_before(&build->groups[i], &build->groups[most])) most = i;
    const gyre_layers first = build->groups[most];
    const group_room room = build->rooms[most];
    for (int64_t i = most; i > 0; i--) {
        build->groups[i] = build->groups[i - 1];
        build->rooms[i] = build->rooms[i - 1];
    }
    build->groups[0] = first;
    build->rooms[0] = room;
}

/* -- fields --------------------------------------------------------------------------------------------------------------
 */
/* The field of that name, or a new one; NULL without memory. */
static gyre_reading_field *field_of(gyre_build *build, gyre_layers *group, const char *name) {
    group_room *room = room_of(build, group);
    if (!room || build->status != GYRE_OK) return NULL;
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(room->fields[i].name, name) == 0) return &room->fields[i];
    gyre_reading_field *fields = grown(build, room->fields, group->fields_count, &room->fields_room, sizeof *fields);
    if (!fields) return NULL;
    room->fields = fields;
    group->fields = fields;
    return &fields[group->fields_count++];
}

void gyre_build_field(gyre_build *build, gyre_layers *group, const char *name, gyre_origin origin, const gyre_place *place,
                      const char *why, const char *value, ...) {
    gyre_reading_field *field = field_of(build, group, name);
    if (!field) return;
    const gyre_place nowhere = {NULL, 0, 0}, *at = place ? place : &nowhere;
    va_list arguments;
    va_start(arguments, value);
    const char *text = format_text(build, value, arguments);
    va_end(arguments);
    *field = (gyre_reading_field){gyre_build_text(build, "%s", name), text, origin, NULL, at->line, at->offset, NULL};
    if (at->key) field->key = gyre_build_text(build, "%s", at->key);
    if (why) field->why = gyre_build_text(build, "%s", why);
}

void gyre_build_number(gyre_build *build, gyre_layers *group, const char *name, gyre_origin origin, const gyre_place *place,
                       const char *why, double value) {
    int digits = 1;
    char text[40];
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (strtod(text, NULL) != value && ++digits <= 17);
    if (value == floor(value) && fabs(value) < 1e15) snprintf(text, sizeof text, "%.0f", value);
    gyre_build_field(build, group, name, origin, place, why, "%s", text);
}

/* -- warnings and failures --------------------------------------------------------------------------------------------- */
void gyre_build_warn(gyre_build *build, const gyre_place *place, const char *format, ...) {
    if (build->status != GYRE_OK) return;
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(build, format, arguments);
    va_end(arguments);
    const gyre_place nowhere = {NULL, 0, 0}, at = place ? *place : nowhere;
    gyre_reading *reading = &build->reading;
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if (strcmp(reading->warnings[i].text, text) == 0 && reading->warnings[i].offset == at.offset) return;
    gyre_reading_warning *warnings =
        grown(build, build->warnings, reading->warnings_count, &build->warnings_room, sizeof *warnings);
    if (!warnings) return;
    reading->warnings = build->warnings = warnings;
    warnings[reading->warnings_count++] =
        (gyre_reading_warning){text, at.key ? gyre_build_text(build, "%s", at.key) : NULL, at.line, at.offset};
}

void gyre_build_fail(gyre_build *build, gyre_status status, const gyre_place *place, const char *format, ...) {
    if (build->status != GYRE_OK) return;
    build->status = status;
    char why[360], where[64] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (place && place->line > 0)
        snprintf(where, sizeof where, ", line %" PRId64, place->line);
    else if (place && place->offset > 0)
        snprintf(where, sizeof where, ", byte %" PRIu64, place->offset);
    (void)gyre_fail(build->err, status, "%s (%s%s)", why, build->reading.path, where);
    if (build->err && place) build->err->offset = place->offset;
}
