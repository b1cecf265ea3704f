/* extend.h: what the parts of gyre extend share: a model, the ways to stretch it, and what each would do. */
#ifndef GYRE_TOOLS_EXTEND_H
#define GYRE_TOOLS_EXTEND_H
#include "gyre/gyre_model.h"
#include "tools/common/methods.h"

#include <jansson.h>

/* The rotation that is stretched, and how far. */
typedef struct extension {
    const char *path;
    gyre_profile profile; /* who reads the model */
    gyre_reading *reading;
    const gyre_layer_reading *group;
    int64_t trained, to;
    method_betas betas;
} extension;

/* A way to stretch it: those of methods.h, `llama3[:factor]` with the ramp of Llama 3.1, and `longrope`, the model's own
 * lists. */
typedef struct extend_method {
    char label[METHOD_LABEL]; /* as given */
    method method;
    int llama3, longrope;
} extend_method;

#define EXTEND_METHOD_NAMES METHOD_NAMES ", llama3, longrope"

/* EINVAL: err says what is wrong with the text. */
gyre_status extend_method_parse(const char *text, extend_method *out, gyre_error *err);
/* *out = those of a comma list, which the caller frees; *count >= 1. */
gyre_status extend_methods_parse(const char *list, extend_method **out, int64_t *count, gyre_error *err);
/* out = the comma list of all that make sense for this model. */
const char *extend_methods_for(const extension *e);
/* out = tokens that the model was trained on before its scaling, as far as its config tells. */
int64_t extend_trained_length(const gyre_config *config);
/* *out = the positions of the layers under the recipe; borrows the reading's lists.  Errors: EINVAL, EUNSUPPORTED. */
gyre_status extend_method_config(const extend_method *r, const extension *e, gyre_config *out, gyre_error *err);

/* Whether a program that reads the changed config turns the layers so. */
typedef enum extend_support {
    EXTEND_SUPPORT_NONE,
    EXTEND_SUPPORT_DIFFERENT,
    EXTEND_SUPPORT_SAME,
    EXTEND_SUPPORT_UNKNOWN
} extend_support;
enum { EXTEND_READERS = 3, EXTEND_CONFIG_TEXT = 160 };
extern const gyre_profile extend_readers[EXTEND_READERS];

/* What a recipe does to the rotation. */
typedef struct extend_effect {
    double factor, attention_factor;
    double near_factor; /* the attention factor within the trained length: under dynamic YaRN it grows past it alone */
    gyre_scaling_parts parts;
    double revolutions_lost, max_revolutions_lost; /* over the trained length: of all pairs, of one */
    int64_t unseen;        /* pairs that meet angles at the new length that they never met in training */
    int64_t incomplete;    /* pairs that make less than a turn in training */
    double max_wavelength; /* tokens that the slowest pair takes for a turn; 0 = none turns */
    int64_t changed_from;  /* the first position whose rotation differs within the trained length; -1 = none */
    extend_support support[EXTEND_READERS];
    char why[EXTEND_READERS][200];   /* for what is not EXTEND_SUPPORT_SAME; "" = nothing to tell */
    char config[EXTEND_CONFIG_TEXT]; /* what the model's config needs, in short */
} extend_effect;

/* Errors: those of extend_method_config and of gyre_encoding_create. */
gyre_status extend_effect_compute(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err);
/* Fills in says, why and config: writes the config that the recipe needs into a folder of its own, reads it as every
 * program does, and removes it. */
gyre_status extend_check_support(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err);

/* A key that a changed config has and its model has not, has otherwise, or no more. */
typedef struct extend_key_change {
    char key[128];
    char before[80], after[80]; /* "" = not there */
} extend_key_change;
enum { EXTEND_MAX_KEY_CHANGES = 64 };
/* out = how many of changes[] were filled in: what the file at `after` says otherwise than the model. */
int extend_changes(const extension *e, const char *after, extend_key_change changes[EXTEND_MAX_KEY_CHANGES]);

#endif
