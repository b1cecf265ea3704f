/* reading_build.h: how the parts that read a format or a family write down what they found.
 *
 * A build grows in any order and is finished once.  Strings are copied; everything lives as long as the reading.  The first
 * failure sticks (build->status): calls after it do nothing and hand out memory that is safe to write to, or NULL where that
 * is said, so that a reader need look at the status only where it would go wrong otherwise. */
#ifndef GYRE_READING_READING_BUILD_H
#define GYRE_READING_READING_BUILD_H
#include "gyre/gyre_reading.h"

/* Where in the file. */
typedef struct gyre_place {
    const char *key; /* NULL = nowhere */
    int64_t line;
    uint64_t offset;
} gyre_place;

typedef struct gyre_build gyre_build;
/* The layers of one group under construction; its public part may be written to at will (config, scale, window). */
typedef struct gyre_layer_reading gyre_layer_group;

/* path: for messages, and the reading's own. */
gyre_build *gyre_build_begin(const char *path, const char *format, gyre_profile profile, int64_t length, gyre_error *err);
/* *out = the reading, or the status of the first failure and its error.  Creates the encoding of every group, so that what
 * is handed out can be used.  EFORMAT if gyre_encoding_create refuses one.  The build is gone afterwards. */
gyre_status gyre_build_finish(gyre_build *build, gyre_reading **out);
/* out = the encoding of one of the reading's groups, as group->config describes it.  It lives as long as the reading. */
const gyre_encoding *gyre_reading_encoding(const gyre_reading *reading, const gyre_layer_reading *group);
/* Gives up the build: who needs the groups' configs alone, as they stand, copies them before. */
void gyre_build_discard(gyre_build *build);
gyre_status gyre_build_status(const gyre_build *build);
gyre_profile gyre_build_profile(const gyre_build *build);
int64_t gyre_build_length(const gyre_build *build);
void gyre_build_set_model_type(gyre_build *build, const char *model_type);

/* out = a new group: GYRE_INIT(gyre_config), softmax_multiplier 1, no layers listed.  It stays where it is while others are added.
 * Never NULL. */
gyre_layer_group *gyre_build_add_group(gyre_build *build, const char *name);
/* out = the group of that name, or NULL. */
gyre_layer_group *gyre_build_find_group(gyre_build *build, const char *name);
/* Lists one more layer in it. */
void gyre_build_add_layer(gyre_build *build, gyre_layer_group *group, int64_t layer);
/* Puts the group with the most layers listed first (stable), of those that have positions; called where groups stand for
 * layers of one decoder. */
void gyre_build_sort_groups(gyre_build *build);

/* out = zeroed doubles; NULL without memory. */
double *gyre_build_alloc_numbers(gyre_build *build, int64_t count);
/* out = a copy that lives as long as the reading; "" without memory. */
const char *gyre_build_format(gyre_build *build, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Notes a field of a group.  place: NULL = no key.  why: NULL = nothing to tell; copied.  A second note of one name replaces
 * the first. */
void gyre_build_set_field(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                          const gyre_place *place, const char *why, const char *value, ...)
    __attribute__((format(printf, 7, 8)));
/* The same with a number, written so that it reads back as the same double, in as few digits as that takes. */
void gyre_build_set_number(gyre_build *build, gyre_layer_group *group, const char *name, gyre_origin origin,
                           const gyre_place *place, const char *why, double value);
/* place: NULL = the file as a whole.  The same text at the same place is noted once. */
void gyre_build_warn(gyre_build *build, const gyre_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The text reads "what: why"; the place and the path are added: "factor: below 1 (config.json, line 14,
 * rope_scaling.factor)". Only the first failure counts. */
void gyre_build_fail(gyre_build *build, gyre_status status, const gyre_place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
