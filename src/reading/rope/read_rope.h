/* read_rope.h: the steps between a config.json and the rotation of each kind of its layers. */
#ifndef GYRE_READING_READ_ROPE_H
#define GYRE_READING_READ_ROPE_H
#include "reading/rope/rope_source.h"

/* -- rope_plumbing.c: which object and which keys speak of a rotation -- */
/* Where a value was found, as fields are noted. */
typedef struct gyre_rope_provenance {
    gyre_origin origin;
    gyre_place place; /* key NULL = nowhere */
} gyre_rope_provenance;

/* The object that a profile reads: rope_scaling or rope_parameters. */
typedef struct gyre_rope_dict {
    gyre_scope scope;
    const char *key;       /* NULL = the file has neither, or this profile looks at neither */
    int nested;            /* it holds an object, or null, for each type of layers */
    json_t *class_default; /* of the class, where the file has none; NULL = not so.  gyre_rope_free_dict */
} gyre_rope_dict;

/* 1 for the four versions of transformers. */
int gyre_profile_is_hf(gyre_profile profile);
/* 1 for transformers 4. */
int gyre_profile_is_hf_4(gyre_profile profile);
/* out = "transformers 4.56", "vLLM", ...: for messages. */
const char *gyre_profile_program(gyre_profile profile);

/* out = the first of these keys with a value, NULL = none: heads, layers, width and the longest context have had many
 * names. */
const char *gyre_rope_heads_key(const gyre_scope *root);
const char *gyre_rope_layers_key(const gyre_scope *root);
const char *gyre_rope_model_dim_key(const gyre_scope *root);
const char *gyre_rope_length_key(const gyre_scope *root);

/* A number of channels of a head, of at least `least`; more than any attention here takes fails. */
int64_t gyre_rope_read_channels(const gyre_scope *s, const char *key, int64_t least, int64_t fallback);
gyre_rope_dict gyre_rope_find_dict(const gyre_family *family, const gyre_scope *root);
void gyre_rope_free_dict(gyre_rope_dict *dict);
/* out = the entry for one type of layers, of a dict that is nested. */
const char *gyre_rope_entry_of(const gyre_rope_dict *dict, const char *type);
/* out = where a key of source->root or source->dict stands; by the family's authority, nowhere, in a dict of its class. */
gyre_rope_provenance gyre_rope_provenance_of(const gyre_rope_source *source, const gyre_scope *scope, const char *key);
/* out = 1 where transformers has a type of layers by that name. */
int gyre_rope_is_layer_type(const char *name);
/* Sets source->type and type_key from source->dict. */
void gyre_rope_find_type(gyre_rope_source *source);
/* out = the base of some layers; sliding: they see a window, and the family may give those another. */
double gyre_rope_read_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found);
/* out = the share of the head that turns. */
double gyre_rope_read_partial_factor(const gyre_rope_source *source, gyre_rope_provenance *found);

/* -- rope_layers.c: which layers are alike -- */
enum { GYRE_MAX_LAYER_KINDS = 12 };
typedef struct gyre_layer_kind {
    const char *type; /* as the file or the family calls them; NULL where they have no types */
    int has_rope;     /* 0 = these layers have no positions */
    int sliding;      /* they see a window */
    int64_t window;
    gyre_rope_provenance window_from;
    gyre_layer_group *group;
} gyre_layer_kind;
typedef struct gyre_layer_kinds {
    gyre_layer_kind kind[GYRE_MAX_LAYER_KINDS];
    int kinds;
} gyre_layer_kinds;

/* Makes a group for each kind of layers, with the layers listed where their number is known. */
void gyre_rope_group_layers(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                            gyre_layer_kinds *out);

/* -- rope_around.c: what is around the rotation: axes, the scale of scores, a temperature -- */
void gyre_rope_read_axes(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_scale(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_temperature(const gyre_rope_source *source, int has_rope, gyre_layer_group *group);

/* -- rope_scalings.c: what transformers and the papers agree on -- */
/* The build of a source. */
gyre_build *gyre_rope_build_of(const gyre_rope_source *source);
/* Notes a number that `key` of the dict gives, or by `fallback`'s authority where it has none. */
void gyre_rope_note_number(const gyre_rope_source *source, gyre_layer_group *group, const char *name, const char *key,
                           gyre_origin fallback, const char *why, double value);
/* Notes which scaling it is. */
void gyre_rope_note_scaling(const gyre_rope_source *source, gyre_layer_group *group, gyre_scaling scaling);
/* s, which must be there unless there is a fallback (NAN = none), and at least 1. */
void gyre_rope_read_factor(const gyre_rope_source *source, gyre_layer_group *group, double fallback);
/* A length of at least 1: fails at `key` of scope where it is less. */
int64_t gyre_rope_read_length(const gyre_scope *scope, const char *key, int64_t fallback);
/* L: sets and notes trained_length.  found->place says which key, if any. */
void gyre_rope_set_trained_length(const gyre_rope_source *source, gyre_layer_group *group, int64_t length,
                                  const gyre_rope_provenance *found, const char *why);
/* beta_fast, beta_slow; whole: 1 = the ends of the ramp are rounded whatever `truncate` says. */
void gyre_rope_read_ramp(const gyre_rope_source *source, gyre_layer_group *group, int whole);
void gyre_rope_read_freq_factors(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_longrope_factors(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_proportion(const gyre_rope_source *source, gyre_layer_group *group);
/* Phi-3.5-MoE's short_mscale or long_mscale, by the length in use, as the attention factor: 1 where they are read. */
int gyre_rope_read_short_long_mscale(const gyre_rope_source *source, gyre_layer_group *group);
/* HunYuan's alpha, a fixed NTK-aware base: 1 where the family and the dict have it. */
int gyre_rope_read_alpha(const gyre_rope_source *source, gyre_layer_group *group);
/* Qwen's first class (use_dynamic_ntk): past what it was trained with, a base that doubles in steps. */
void gyre_rope_read_qwen_dynamic_ntk(const gyre_rope_source *source, gyre_layer_group *group);
/* TeleChat3's own code, which comes with the model: 1 where the family and the type are its. */
int gyre_rope_read_telechat3(const gyre_rope_source *source, gyre_layer_group *group);
/* attention_factor where the dict has one: 1, and it is set and noted. */
int gyre_rope_read_attention_factor(const gyre_rope_source *source, gyre_layer_group *group);
/* Notes the attention factor that follows from the rest; fixed: 1 = it is not what gyre_config derives, so it is set. */
void gyre_rope_derive_attention_factor(const gyre_rope_source *source, gyre_layer_group *group, double value, int fixed);
/* g(s, k) = 0.1 k ln s + 1, and 1 where s is not above 1. */
double gyre_rope_yarn_mscale(double factor, double mscale);
/* sqrt(1 + ln s / ln L), and 1 where s is not above 1. */
double gyre_rope_longrope_attention_factor(double factor, int64_t length);
/* Multiplies the scale of scores. */
void gyre_rope_scale_softmax(const gyre_rope_source *source, gyre_layer_group *group, double multiplier, const char *key);

/* -- rope_check.c -- */
/* Warns of each key in the dict that is not in `keys` (their end is NULL) nor common to all types. */
void gyre_rope_warn_unread_keys(const gyre_rope_source *source, const char *const *keys);
/* Fails: the profile has no such type. */
void gyre_rope_fail_unknown_type(const gyre_rope_source *source, const char *types);

#endif
