/* rope_source.h: what all programs agree on about the rotation of some layers, before they diverge. */
#ifndef GYRE_READING_ROPE_SOURCE_H
#define GYRE_READING_ROPE_SOURCE_H
#include "reading/family.h"

/* What lists of the file give single layers, beside a type.  Layers with the same are one group.  0 = nothing. */
typedef struct gyre_layer_own {
    double base;
    const char *base_key; /* of the list */
    double partial;
    const char *partial_key;
    const json_t *config;                    /* the layer's object in per_layer_config; NULL = none */
    char config_key[24];                     /* its key there: the layer, in some files with zeros before it */
    int64_t head_dim, turned, still, window; /* what that object says of heads and window.  -1 = nothing; window 0 = none */
} gyre_layer_own;

/* read_rope.c fills it in for each kind of layer.  It also sets these fields of the group: config.kind, head_dim,
 * trained_length (L' until a scaling says otherwise), rope.dim, layout, base, axes and sections, clockwise, length,
 * query temperature, and records them. */
typedef struct gyre_rope_source {
    const gyre_family *family;
    gyre_scope root;        /* the object that describes the decoder: the whole file, or text_config */
    gyre_scope dict;        /* rope_scaling, rope_parameters, or one layer type's object in it; empty if there is none */
    const char *layer_type; /* NULL = all layers share one dict */
    const char *type;      /* rope_type or type, with the family's aliases resolved (su is longrope); "default" if missing */
    const char *type_key;  /* the key that gave it: "rope_type" or "type" */
    int64_t max_positions; /* L': max_position_embeddings, or the family's default; 0 = unknown */
    int nested;            /* the dict is one of several, by layer type */
    int from_class;        /* the dict is the class's default, so its keys are not in the file */
    gyre_layer_own own;    /* what lists give these layers */
    const char *group_type; /* the type of these layers */
} gyre_rope_source;

/* Sets scaling, factor, trained_length, attention factor, lists, scale and softmax_multiplier of the group, and records
 * the fields.  Unknown types fail. */
typedef void gyre_rope_profile_reader(const gyre_rope_source *source, gyre_layer_group *group);
gyre_rope_profile_reader gyre_rope_as_hf;        /* rope_as_hf.c: all four versions */
gyre_rope_profile_reader gyre_rope_as_reference; /* rope_as_reference.c */
gyre_rope_profile_reader gyre_rope_as_vllm;      /* rope_as_vllm.c: both dates */
gyre_rope_profile_reader gyre_rope_as_sglang;    /* rope_as_sglang.c */
gyre_rope_profile_reader gyre_rope_as_mlx_lm;    /* rope_as_mlx_lm.c */
gyre_rope_profile_reader gyre_rope_as_llama_cpp; /* rope_as_llama_cpp.c */

#endif
