/* rope_source.h: what all programs agree on about the rotation of some layers, before they diverge. */
#ifndef GYRE_READING_ROPE_SOURCE_H
#define GYRE_READING_ROPE_SOURCE_H
#include "reading/family.h"

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
} gyre_rope_source;

/* Sets scaling, factor, trained_length, attention factor, lists, scale and softmax_multiplier of the group, and records
 * the fields.  Unknown types fail. */
typedef void gyre_rope_profile_reader(const gyre_rope_source *source, gyre_layer_group *group);
gyre_rope_profile_reader gyre_rope_as_hf;        /* rope_as_hf.c: all four versions */
gyre_rope_profile_reader gyre_rope_as_reference; /* rope_as_reference.c */
gyre_rope_profile_reader gyre_rope_as_vllm;      /* rope_as_vllm.c */
gyre_rope_profile_reader gyre_rope_as_llama_cpp; /* rope_as_llama_cpp.c */

#endif
