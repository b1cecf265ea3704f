/* rope_parameters.h: the keys that make transformers compute a given rotation. */
#ifndef GYRE_READING_ROPE_PARAMETERS_H
#define GYRE_READING_ROPE_PARAMETERS_H
#include "gyre/gyre.h"

#include <jansson.h>

/* Whose keys and types to use. */
typedef enum gyre_rope_dialect {
    GYRE_DIALECT_TRANSFORMERS,
    GYRE_DIALECT_LONGROPE_ONLY, /* transformers' Phi-3: only longrope */
    GYRE_DIALECT_NATIVE         /* model_type gyre, which has every scaling by name */
} gyre_rope_dialect;

typedef struct gyre_rope_parameters {
    const char *type; /* rope_type */
    json_t *values;   /* the other keys of the dict, in order; an array for a list */
    double base;      /* rope_theta */
    int64_t length;   /* max_position_embeddings */
    int resonance;    /* native: rope_resonance */
} gyre_rope_parameters;

/* *out = the keys for the rotation of `encoding` at `length`; the caller frees values.
 *
 *     scaling                                                      type
 *     unscaled, linear, dynamic, yarn, llama3, longrope,
 *     proportional                                                 its own name
 *     ntk                                                          "default", with the base s^(d / (d - 2)) times base
 *     by-parts                                                     "yarn", with an attention factor of 1
 *     all others, rounded wavelengths, an attention factor
 *     that the type does not have                                  "longrope", both lists theta_i / omega_i
 *
 * "dynamic" counts from max_position_embeddings, which therefore stays the trained length; for the other types it becomes
 * `length`.  EUNSUPPORTED if no type gives the rotation: frequencies that depend on the length without a type for it
 * (dynamic-yarn). */
gyre_status gyre_rope_parameters_of(const gyre_encoding *encoding, int64_t length, gyre_rope_dialect dialect,
                                    gyre_rope_parameters *out, gyre_error *err);

/* out = 1 for keys of a dict that are not part of the scaling and survive a change of it. */
int gyre_rope_key_is_not_scaling(const char *key);

#endif
