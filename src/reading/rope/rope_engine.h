/* rope_engine.h: what the readers for vLLM and llama.cpp share: how they note what they make of a key, and rules that both
 * have from transformers, through whose configuration classes both read the file. */
#ifndef GYRE_READING_ROPE_ENGINE_H
#define GYRE_READING_ROPE_ENGINE_H
#include "reading/rope/read_rope.h"

typedef struct gyre_rope_engine {
    const char *program; /* in messages */
    const gyre_rope_source *source;
    gyre_layer_group *group;
    gyre_build *build;
} gyre_rope_engine;

/* Begins by noting that turns are counted over L', until a scaling says otherwise. */
gyre_rope_engine gyre_engine_begin(const gyre_rope_source *source, gyre_layer_group *group);

/* Sets the scaling and notes it under the key that names the type.  why: NULL = nothing to tell. */
void gyre_engine_set_scaling(const gyre_rope_engine *e, gyre_scaling scaling, const char *why);
/* Notes a number under a key of the dict, or as computed where the dict has no such key (key may be NULL). */
void gyre_engine_note_number(const gyre_rope_engine *e, const char *name, const char *key, const char *why, double value);
/* out = the number under `key` of the dict, noted as `name`; fallback: the program's default, NAN = it must be there. */
double gyre_engine_read_number(const gyre_rope_engine *e, const char *name, const char *key, double fallback);
/* The same; fails unless it is above 0. */
double gyre_engine_read_positive(const gyre_rope_engine *e, const char *name, const char *key, double fallback);
/* out = "factor", which must be there and at least 1; put into the config too. */
double gyre_engine_read_factor(const gyre_rope_engine *e);
/* out = L as transformers 5 hands it on: a key beside the dict goes before the one in it, where all layers have one dict;
 * without either, 4096 of Phi-3's classes, else L'.  Becomes
 * the trained length. */
int64_t gyre_engine_read_original_length(const gyre_rope_engine *e);

/* out = "PROGRAM does not read KEY (line N: VALUE), ..." for those of the keys, NULL at their end, that the dict has; NULL
 * where it has none.  *first = where the first of them stands (key NULL = nowhere). */
const char *gyre_engine_ignored_keys(const gyre_rope_engine *e, const char *const *keys, gyre_place *first);
/* Sets and notes what multiplies cos and sin, after scaling, factor and trained length.  Left to be derived where that gives
 * the same.  place: of the key it comes from, or of one that was not read; key NULL = nowhere. */
void gyre_engine_set_attention_factor(const gyre_rope_engine *e, double value, const gyre_place *place, const char *why);
/* Sets and notes what a scaling multiplies all scores with, beside the usual 1 / sqrt of the head. */
void gyre_engine_set_softmax(const gyre_rope_engine *e, double multiplier, const char *key, const char *why);

/* LongRoPE by a program that chooses one list when it starts, for `served` tokens: long where that is above `switched`.
 * Whatever length is asked for later, the chosen list holds.  Scaling, factor and trained length are set before. */
void gyre_engine_choose_longrope_list(const gyre_rope_engine *e, int64_t served, int64_t switch_length);
/* Says the frequencies by a divisor of each pair, which config->scaling divided them by until now. */
void gyre_engine_set_divisors(gyre_config *config, const double *divisors);
/* A YaRN config whose ramp keeps only a share of what it would keep (extrapolation_factor): omega = (1 - share k) theta / s
 * + share k theta, k = 1 .. 0 along the ramp.  Such frequencies are written as a list of divisors. */
void gyre_engine_apply_extrapolation_factor(const gyre_rope_engine *e, double extrapolation_factor);

#endif
