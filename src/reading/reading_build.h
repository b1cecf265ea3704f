/* reading_build.h: how readers of formats and families record what they found.
 *
 * Groups, fields and warnings are added in any order; the build is finished once.  Strings are copied, and everything
 * lives as long as the reading.  The first failure is kept.  Later calls do nothing and return memory that is safe to
 * write to (or NULL where documented), so a reader checks the status only before it would go wrong. */
#ifndef GYRE_READING_READING_BUILD_H
#define GYRE_READING_READING_BUILD_H
#include "gyre/gyre_fields.h"
#include "gyre/gyre_reading.h"
#include "reading/profile.h"

/* A place in the file. */
typedef struct gyre_place {
    const char *key; /* NULL = none */
    int64_t line;
    uint64_t offset;
} gyre_place;

typedef struct gyre_build gyre_build;
/* A group under construction.  Readers may write to its public fields (config, scale, window). */
typedef struct gyre_layer_reading gyre_layer_group;

/* path: copied; for messages and for the reading. */
gyre_build *gyre_build_begin(const char *path, const char *format, gyre_profile profile, int64_t length, gyre_error *err);
/* *out = the reading; else the status and error of the first failure.  Creates the encoding of every group, which proves
 * that it can be used: EFORMAT if gyre_encoding_create refuses one.  Frees the build in any case. */
gyre_status gyre_build_finish(gyre_build *build, gyre_reading **out);
/* out = the encoding of a group of the reading, created from group->config.  It lives as long as the reading. */
const gyre_encoding *gyre_reading_encoding(const gyre_reading *reading, const gyre_layer_reading *group);
/* Frees the build.  A caller who wants the configs of its groups copies them first. */
void gyre_build_discard(gyre_build *build);
gyre_status gyre_build_status(const gyre_build *build);
gyre_profile gyre_build_profile(const gyre_build *build);
int64_t gyre_build_length(const gyre_build *build);
/* Changes whose reading it is called, not how it is read. */
void gyre_build_set_profile(gyre_build *build, gyre_profile profile);
void gyre_build_set_model_type(gyre_build *build, const char *model_type);

/* out = a new group, never NULL: GYRE_INIT(gyre_config), softmax_multiplier 1, no layers.  Its address does not change. */
gyre_layer_group *gyre_build_add_group(gyre_build *build, const char *name);
/* out = the group of that name, or NULL. */
gyre_layer_group *gyre_build_find_group(gyre_build *build, const char *name);
/* Sets and records the scheme of a group, by its name.  place: the key that states it; NULL = only the family. */
void gyre_build_set_kind(gyre_build *build, gyre_layer_group *group, const char *kind, const gyre_place *place);
/* Adds a layer to the group. */
void gyre_build_add_layer(gyre_build *build, gyre_layer_group *group, int64_t layer);
/* Moves the group with most layers, among those that have positions, to the front.  Stable.  For groups of one decoder's
 * layers. */
void gyre_build_sort_groups(gyre_build *build);

/* out = zeroed doubles; NULL without memory. */
double *gyre_build_alloc_numbers(gyre_build *build, int64_t count);
/* out = formatted text that lives as long as the reading; "" without memory. */
const char *gyre_build_format(gyre_build *build, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The note of a window that does not slide: Llama 4's, in a config.json and in a GGUF. */
#define GYRE_CHUNK_NOTE "not a sliding window: a chunk that begins at a multiple of this"

/* Records a field of a group.  place: NULL = no key.  why: copied; NULL = no note.  A second field of one name replaces
 * the first. */
void gyre_build_set_field(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                          const gyre_place *place, const char *why, const char *value, ...)
    __attribute__((format(printf, 7, 8)));
/* gyre_build_set_field for a number, in the fewest digits that read back as the same double. */
void gyre_build_set_number(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                           const gyre_place *place, const char *why, double value);
/* place: NULL = the whole file.  One text at one place is recorded once. */
void gyre_build_warn(gyre_build *build, const gyre_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* gyre_build_warn of another kind than GYRE_WARNING_OTHER. */
void gyre_build_doubt(gyre_build *build, gyre_warning_kind kind, const gyre_place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* out = the reading as far as it is built. */
const gyre_reading *gyre_build_so_far(const gyre_build *build);
/* The text reads "what: why".  Place and path are added: "factor: below 1 (config.json, line 14, rope_scaling.factor)".
 * Only the first failure counts. */
void gyre_build_fail(gyre_build *build, gyre_status status, const gyre_place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
