/* rope_engine.h: shared by the readers for vLLM, SGLang, mlx-lm and llama.cpp: recording fields, and rules that those which
 * read with transformers' configuration classes inherit from it. */
#ifndef GYRE_READING_ROPE_ENGINE_H
#define GYRE_READING_ROPE_ENGINE_H
#include "reading/rope/read_rope.h"

typedef struct gyre_rope_engine {
    const char *program; /* for messages */
    const gyre_rope_source *source;
    gyre_layer_group *group;
    gyre_build *build;
} gyre_rope_engine;

/* Begins by recording L' as the length over which revolutions are counted, until a scaling says otherwise. */
gyre_rope_engine gyre_engine_begin(const gyre_rope_source *source, gyre_layer_group *group);

/* Sets the scaling and records it under the key that names the type.  why NULL = no note. */
void gyre_engine_set_scaling(const gyre_rope_engine *e, gyre_scaling scaling, const char *why);
/* Records a number under a key of the dict, or as computed if the dict does not have the key.  key may be NULL. */
void gyre_engine_note_number(const gyre_rope_engine *e, const char *name, const char *key, const char *why, double value);
/* out = the number under `key` of the dict, recorded as `name`.  fallback: the program's default; NAN = required. */
double gyre_engine_read_number(const gyre_rope_engine *e, const char *name, const char *key, double fallback);
/* gyre_engine_read_number that fails unless the number is above 0. */
double gyre_engine_read_positive(const gyre_rope_engine *e, const char *name, const char *key, double fallback);
/* out = "factor", required and at least 1.  Also sets it in the config. */
double gyre_engine_read_factor(const gyre_rope_engine *e);
/* out = L as transformers 5 passes it on.  If all layers share a dict, a key beside the dict overrides the one in it.
 * Without either it is 4096 for Phi-3's classes, else L'.  Also sets the trained length. */
int64_t gyre_engine_read_original_length(const gyre_rope_engine *e);

/* out = "PROGRAM does not read KEY (line N: VALUE), ..." for those of the keys (ended by NULL) that the dict has; NULL
 * if it has none.  *first = where the first of them is (key NULL = nowhere). */
const char *gyre_engine_ignored_keys(const gyre_rope_engine *e, const char *const *keys, gyre_place *first);
/* Sets and records what multiplies cos and sin.  Call it after scaling, factor and trained length are set: if
 * gyre_config derives the same value, it is left unset.  place: the key that gave it, or one that was not read; key NULL
 * = nowhere. */
void gyre_engine_set_attention_factor(const gyre_rope_engine *e, double value, const gyre_place *place, const char *why);
/* Sets and records what a scaling multiplies all scores by, beside the usual 1 / sqrt(head_dim). */
void gyre_engine_set_softmax(const gyre_rope_engine *e, double multiplier, const char *key, const char *why);

#define GYRE_ENGINE_ANY_LENGTH INT64_MAX
/* LongRoPE in a program that chooses one list at the start: the long list if `served` is above `switch_length`, as
 * GYRE_ENGINE_ANY_LENGTH is of a program with the long list alone.  The chosen list applies at every length.  Scaling,
 * factor and trained length are set before. */
void gyre_engine_choose_longrope_list(const gyre_rope_engine *e, int64_t served, int64_t switch_length);
/* Replaces config->scaling by a list with a divisor for each pair. */
void gyre_engine_set_divisors(gyre_config *config, const double *divisors);
/* A YaRN config whose ramp applies only in part (extrapolation_factor): omega = (1 - e k) theta / s + e k theta, with e
 * the extrapolation factor and k = 1 .. 0 along the ramp.  Such frequencies become a list of divisors. */
void gyre_engine_apply_extrapolation_factor(const gyre_rope_engine *e, double extrapolation_factor);

#endif
