/* rope_parameters.h: what a config.json has to say so that transformers computes a given rotation. */
#ifndef GYRE_READING_ROPE_PARAMETERS_H
#define GYRE_READING_ROPE_PARAMETERS_H
#include "gyre/gyre.h"

#include <jansson.h>

/* Whose words. */
typedef enum gyre_rope_dialect {
    GYRE_DIALECT_TRANSFORMERS,
    GYRE_DIALECT_LONGROPE_ONLY, /* transformers' Phi-3: longrope alone */
    GYRE_DIALECT_NATIVE         /* model_type gyre, which knows every scaling by name */
} gyre_rope_dialect;

typedef struct gyre_rope_parameters {
    const char *type; /* rope_type */
    json_t *values;   /* the other keys of the dict, in order; an array for a list */
    double base;      /* rope_theta */
    int64_t length;   /* max_position_embeddings */
    int resonance;    /* native: rope_resonance */
} gyre_rope_parameters;

/* *out = the words for the rotation of `encoding` at `length`.  How each scaling is said:
 *
 *     unscaled, linear, dynamic, yarn, llama3, longrope, proportional    by their own names
 *     ntk                  "default" with the base that it amounts to, base s^(d / (d - 2))
 *     by-parts             "yarn" with an attention factor of 1
 *     all others, rounded wavelengths, an attention factor where the type has none
 *                          "longrope", both its lists the quotients theta_i / omega_i
 *
 * "dynamic" counts from max_position_embeddings, which so stays the trained length; elsewhere it becomes `length`.
 * EUNSUPPORTED where none of that gives the rotation: frequencies that follow the length and have no name (dynamic-yarn).
 * The caller frees values. */
gyre_status gyre_rope_parameters_of(const gyre_encoding *encoding, int64_t length, gyre_rope_dialect dialect,
                                    gyre_rope_parameters *out, gyre_error *err);

/* out = 1 for keys of a dict that say nothing of the scaling, and outlast a change of it. */
int gyre_rope_key_is_not_scaling(const char *key);

#endif
