/* trainer_rope.h: steps that the readers of trainers' rotations share. */
#ifndef GYRE_READING_TRAINERS_TRAINER_ROPE_H
#define GYRE_READING_TRAINERS_TRAINER_ROPE_H
#include "reading/trainers/trainer_settings.h"

/* out = the number under the key, or the trainer's default.  A text that only looks like a number to people is refused with
 * the reason.  Also records it as this field; name NULL = does not. */
double gyre_trainer_number(const gyre_scope *s, gyre_layer_group *group, const char *name, const char *key, double fallback);
/* The same for a whole number of at least `minimum`.  fallback below minimum: the key is required. */
int64_t gyre_trainer_integer(const gyre_scope *s, gyre_layer_group *group, const char *name, const char *key,
                             int64_t minimum, int64_t fallback);
/* The same for a factor of at least 1. */
double gyre_trainer_factor(const gyre_scope *s, gyre_layer_group *group, const char *key, double fallback);
/* Sets and records the scaling.  key: what states it, or NULL. */
void gyre_trainer_scaling(const gyre_scope *s, gyre_layer_group *group, gyre_scaling scaling, const char *key,
                          const char *why);
/* Sets and records the layout.  key: what states it, or NULL. */
void gyre_trainer_layout(const gyre_scope *s, gyre_layer_group *group, gyre_layout layout, const char *key);
/* Sets and records the size of a head: the key head_key, else the width over the heads, by these keys. */
void gyre_trainer_head(const gyre_scope *s, gyre_layer_group *group, const char *head_key, const char *width_key,
                       const char *heads_key);
/* Sets and records the base, at least 1. */
void gyre_trainer_base(const gyre_scope *s, gyre_layer_group *group, const char *key);
/* Sets and records the longest context; 0 = unknown. */
void gyre_trainer_length(const gyre_scope *s, gyre_layer_group *group, const char *key);
/* Sets and records L of a scaling that counts from it. */
void gyre_trainer_original(const gyre_scope *s, gyre_layer_group *group, const char *key, int64_t fallback);
/* YaRN's ramp. */
void gyre_trainer_ramp(const gyre_scope *s, gyre_layer_group *group, const char *fast, const char *slow);
/* out = a group that rotates, without numbers. */
gyre_layer_group *gyre_trainer_group(const gyre_scope *s, const char *name);
/* Puts layer i of `layers` into `rotating`, or into a group without positions where is_still says so. */
void gyre_trainer_layers(const gyre_scope *s, gyre_layer_group *rotating, int64_t layers,
                         int (*is_still)(const void *context, int64_t layer), const void *context);

#endif
