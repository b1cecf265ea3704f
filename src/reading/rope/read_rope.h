/* read_rope.h: the steps from a config.json to the rotation of each kind of layer. */
#ifndef GYRE_READING_READ_ROPE_H
#define GYRE_READING_READ_ROPE_H
#include "reading/rope/rope_source.h"

/* -- rope_keys.c: which object and which keys describe a rotation -- */
/* Where a value was found, in the form in which fields are recorded. */
typedef struct gyre_rope_provenance {
    gyre_origin origin;
    gyre_place place; /* key NULL = nowhere */
} gyre_rope_provenance;

/* The object that a profile reads: rope_scaling or rope_parameters. */
typedef struct gyre_rope_dict {
    gyre_scope scope;
    const char *key;       /* NULL = neither is in the file, or the profile reads neither */
    int nested;            /* it has an object, or null, for each layer type */
    json_t *class_default; /* the class's own dict if the file has none, else NULL; see gyre_rope_free_dict */
} gyre_rope_dict;

/* out = the first key that has a value; NULL = none.  Heads, layers, model_dim and the longest context have many names. */
const char *gyre_rope_heads_key(const gyre_scope *root);
const char *gyre_rope_layers_key(const gyre_scope *root);
const char *gyre_rope_model_dim_key(const gyre_scope *root);
const char *gyre_rope_length_key(const gyre_scope *root);

/* out = a number of channels of at least `minimum`.  Fails if it is more than any attention takes. */
int64_t gyre_rope_read_channels(const gyre_scope *s, const char *key, int64_t minimum, int64_t fallback);
gyre_rope_dict gyre_rope_find_dict(const gyre_family *family, const gyre_scope *root);
void gyre_rope_free_dict(gyre_rope_dict *dict);
/* out = the name of a nested dict's entry for one layer type. */
const char *gyre_rope_entry_of(const gyre_rope_dict *dict, const char *type);
/* out = where a key of source->root or source->dict is.  For a dict of the class: nowhere, with the family as origin. */
gyre_rope_provenance gyre_rope_provenance_of(const gyre_rope_source *source, const gyre_scope *scope, const char *key);
/* out = 1 if transformers has a layer type of this name. */
int gyre_rope_is_layer_type(const char *name);
/* Sets source->type and type_key from source->dict. */
void gyre_rope_find_type(gyre_rope_source *source);
/* out = 1 if transformers 5 converts the family's flat dict to one for each type of layers. */
int gyre_rope_becomes_nested(const gyre_family *family);
/* out = 1 for classes whose code has a constant base and no scaling, in the profile's program: GPT-J, CodeGen and RoFormer
 * in transformers; ChatGLM, which multiplies the constant by rope_ratio, also in vLLM. */
int gyre_rope_is_plain(const gyre_rope_source *source);
/* out = the base.  sliding: for layers with a window, to which the family may give another base. */
double gyre_rope_read_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found);
/* out = the fraction of the head that rotates. */
double gyre_rope_read_partial_factor(const gyre_rope_source *source, gyre_rope_provenance *found);

/* -- rope_layers.c: groups of equal layers -- */
enum { GYRE_MAX_LAYER_KINDS = 12 };
typedef struct gyre_layer_kind {
    const char *type;      /* as the file or the family names it; NULL if layers have no types */
    int has_rope;          /* 0 = these layers have no positions */
    int sliding;           /* these layers have a window */
    int is_attention;      /* 0 = they are recurrent, convolutions or the like */
    int is_mtp;            /* they predict further tokens, and follow the decoder's layers */
    const char *still_key; /* the key by which they do not rotate; NULL = none */
    gyre_layer_own own;
    int64_t window;
    gyre_rope_provenance window_from;
    gyre_layer_group *group;
} gyre_layer_kind;
typedef struct gyre_layer_kinds {
    gyre_layer_kind kind[GYRE_MAX_LAYER_KINDS];
    int kinds;
    const json_t *indexer_types; /* for each layer: "shared" = it has no indexer of its own; NULL = all have one */
    int64_t layers, mtp;         /* layers; those of multi-token prediction after them whose types are not listed */
} gyre_layer_kinds;

/* Makes a group for each kind of layer, and lists its layers if their number is known. */
void gyre_rope_group_layers(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                            gyre_layer_kinds *out);

/* -- rope_beside.c -- */
/* Adds groups for rotations beside those of the decoder's layers, if the file describes them: of an indexer, a small
 * attention that chooses the keys of the large one, and of layers of multi-token prediction. */
void gyre_rope_read_beside(const gyre_family *family, const gyre_scope *root, const gyre_layer_kinds *kinds);

/* -- rope_axes_scale.c: axes, the scale of scores, a temperature of queries -- */
void gyre_rope_read_axes(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_scale(const gyre_rope_source *source, gyre_layer_group *group);
/* Sets and records 1 / sqrt(head), for latent attention that does not rotate. */
void gyre_rope_set_scale_of_head(const gyre_rope_source *source, gyre_layer_group *group, int64_t head);
void gyre_rope_read_temperature(const gyre_rope_source *source, int has_rope, gyre_layer_group *group);

/* -- rope_chunks.c -- */
/* Sets and records Dual Chunk Attention if the file describes it.  out = 1 if it does. */
int gyre_rope_read_chunks(const gyre_rope_source *source, gyre_layer_group *group);

/* -- rope_clip.c -- */
/* Sets and records clipped RoPE if the file asks for it, as its authors' class of Llama reads it. */
void gyre_rope_read_clip(const gyre_rope_source *source, gyre_layer_group *group);
/* Warns that the profile's program does not support it, if the file asks for it. */
void gyre_rope_warn_clip(const gyre_scope *root);

/* -- rope_imaginary.c: the same for RoPE++ -- */
void gyre_rope_read_imaginary(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_warn_imaginary(const gyre_scope *root);

/* -- rope_scalings.c: what transformers and the papers agree on -- */
/* out = the build of the source. */
gyre_build *gyre_rope_build_of(const gyre_rope_source *source);
/* Records a number that `key` of the dict gives; with `fallback` as its origin if the dict does not have the key. */
void gyre_rope_note_number(const gyre_rope_source *source, gyre_layer_group *group, const char *name, const char *key,
                           gyre_origin fallback, const char *why, double value);
/* Records which scaling it is. */
void gyre_rope_note_scaling(const gyre_rope_source *source, gyre_layer_group *group, gyre_scaling scaling);
/* Reads s, at least 1.  fallback NAN: it is required. */
void gyre_rope_read_factor(const gyre_rope_source *source, gyre_layer_group *group, double fallback);
/* out = a length.  Fails at `key` of scope if it is below 1. */
int64_t gyre_rope_read_length(const gyre_scope *scope, const char *key, int64_t fallback);
/* Sets and records L as trained_length.  found->place names its key, if any. */
void gyre_rope_set_trained_length(const gyre_rope_source *source, gyre_layer_group *group, int64_t length,
                                  const gyre_rope_provenance *found, const char *why);
/* Reads beta_fast and beta_slow.  whole 1: the ends of the ramp are rounded, whatever `truncate` says. */
void gyre_rope_read_ramp(const gyre_rope_source *source, gyre_layer_group *group, int whole);
void gyre_rope_read_freq_factors(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_longrope_factors(const gyre_rope_source *source, gyre_layer_group *group);
void gyre_rope_read_proportion(const gyre_rope_source *source, gyre_layer_group *group);
/* Phi-3.5-MoE: takes short_mscale or long_mscale, by the length in use, as the attention factor.  out = 1 if it did. */
int gyre_rope_read_short_long_mscale(const gyre_rope_source *source, gyre_layer_group *group);
/* HunYuan: alpha, a fixed NTK-aware base.  out = 1 if family and dict have it. */
int gyre_rope_read_alpha(const gyre_rope_source *source, gyre_layer_group *group);
/* out = the key with the length of the training texts; NULL if there is none.  Qwen's first class has it in seq_length,
 * from which it counts the steps of its base and its log-n, and serves max_position_embeddings. */
const char *gyre_rope_trained_length_key(const gyre_rope_source *source);
/* Qwen's first class (use_dynamic_ntk): beyond the trained length, the base doubles in steps. */
void gyre_rope_read_qwen_dynamic_ntk(const gyre_rope_source *source, gyre_layer_group *group);
/* TeleChat3's code, which comes with the model.  out = 1 if family and type are TeleChat3's. */
int gyre_rope_read_telechat3(const gyre_rope_source *source, gyre_layer_group *group);
/* Sets and records attention_factor if the dict has it.  out = 1 if it did. */
int gyre_rope_read_attention_factor(const gyre_rope_source *source, gyre_layer_group *group);
/* Records the attention factor that follows from the other values.  fixed 1: it differs from what gyre_config derives,
 * so it is also set. */
void gyre_rope_derive_attention_factor(const gyre_rope_source *source, gyre_layer_group *group, double value, int fixed);
/* out = g(s, k) = 0.1 k ln s + 1; 1 for s <= 1. */
double gyre_rope_yarn_mscale(double factor, double mscale);
/* out = sqrt(1 + ln s / ln L); 1 for s <= 1. */
double gyre_rope_longrope_attention_factor(double factor, int64_t length);
/* Multiplies the scale of scores. */
void gyre_rope_scale_softmax(const gyre_rope_source *source, gyre_layer_group *group, double multiplier, const char *key);

/* -- rope_nomic.c -- */
/* The keys of Nomic's own class: dynamic NTK beyond max_trained_positions.  out = 1 if it is read from them. */
int gyre_rope_read_nomic(const gyre_rope_source *source, gyre_layer_group *group);

/* -- rope_check.c -- */
/* Warns about each key of the dict that is neither in `keys` (ended by NULL) nor common to all types. */
void gyre_rope_warn_unread_keys(const gyre_rope_source *source, const char *const *keys);
/* Fails, because the profile does not have this type. */
void gyre_rope_fail_unknown_type(const gyre_rope_source *source, const char *types);

#endif
