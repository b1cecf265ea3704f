/* extend.h: the parts of gyre extend: a model, the methods to stretch it, and their effects. */
#ifndef GYRE_TOOLS_EXTEND_H
#define GYRE_TOOLS_EXTEND_H
#include "gyre/gyre_model.h"
#include "tools/common/methods.h"

#include <jansson.h>

/* The rotation to stretch, and how far. */
typedef struct extension {
    const char *path;
    gyre_profile profile; /* of --as */
    gyre_reading *reading;
    json_t *config; /* config.json, parsed once for all rows; NULL for a GGUF */
    const gyre_layer_reading *group;
    int64_t trained, to;
    method_betas betas;
} extension;

/* A method of methods.h, or `longrope` with the model's own lists. */
typedef struct extend_method {
    char label[METHOD_LABEL]; /* as given */
    method method;
    int longrope;
} extend_method;

#define EXTEND_METHOD_NAMES METHOD_NAMES ", longrope"

/* EINVAL: err says what is wrong. */
gyre_status extend_method_parse(const char *text, extend_method *out, gyre_error *err);
/* *out = the methods of a comma list; the caller frees them.  *count >= 1.  Errors: EINVAL, ENOMEM. */
gyre_status extend_methods_parse(const char *list, extend_method **out, int64_t *count, gyre_error *err);
/* out = a comma list of the methods that make sense for this model. */
const char *extend_methods_for(const extension *e);
/* out = tokens that the model was trained on before its scaling, as far as the config states it. */
int64_t extend_trained_length(const gyre_config *config);
/* *out = the positions of the layers under the method.  Borrows the reading's lists.  Errors: EINVAL, EUNSUPPORTED. */
gyre_status extend_method_config(const extend_method *r, const extension *e, gyre_config *out, gyre_error *err);

/* Whether a program that reads the changed config rotates the layers as the method does. */
typedef enum extend_support {
    EXTEND_SUPPORT_NONE,
    EXTEND_SUPPORT_DIFFERENT,
    EXTEND_SUPPORT_SAME,
    EXTEND_SUPPORT_UNKNOWN
} extend_support;
enum { EXTEND_READERS = 3, EXTEND_CONFIG_TEXT = 160 };
extern const gyre_profile extend_readers[EXTEND_READERS];

/* The effect of a method on the rotation. */
typedef struct extend_effect {
    double factor, attention_factor;
    double near_factor; /* attention factor within the trained length; under dynamic YaRN it grows only past it */
    gyre_scaling_parts parts;
    double revolutions_lost, max_revolutions_lost; /* over the trained length: of all pairs; of one pair */
    int64_t unseen;                                /* pairs with angles at the new length that did not occur in training */
    int64_t incomplete;                            /* pairs with less than one revolution in training */
    double max_wavelength;                         /* tokens per revolution of the slowest pair; 0 = no pair rotates */
    double coherence;     /* of the slowest pair at the new length (extend_bases.h); 0 also if no pair rotates */
    int64_t changed_from; /* first position within the trained length whose rotation differs; -1 = none */
    extend_support support[EXTEND_READERS];
    char why[EXTEND_READERS][200];   /* the reason unless support is EXTEND_SUPPORT_SAME; "" = none given */
    char config[EXTEND_CONFIG_TEXT]; /* what the model's config needs, in short */
} extend_effect;

/* *out = the effect, with support.  Errors: those of extend_method_config, gyre_encoding_create and
 * extend_check_support. */
gyre_status extend_effect_compute(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err);

/* A method, its config, and the encoding made from it. */
typedef struct extend_candidate {
    const extend_method *method;
    gyre_config config;
    gyre_encoding *encoding;
} extend_candidate;
/* Fills in support, why and config: writes the config that the method needs to a temporary folder, reads it as each program
 * does, and removes it.  Errors: EIO, ENOMEM, those of gyre_encoding_create. */
gyre_status extend_check_support(const extend_candidate *c, const extension *e, extend_effect *out, gyre_error *err);

/* out = 1 for a model whose code in transformers reads no scaling, although its config can be read as if it did; why says
 * so. */
int extend_transformers_lacks(const extension *e, char why[200]);

/* What the layers train beside their encoding, by its key in config.json; NULL = nothing.  In the place of the rotation: no
 * scaling reaches it.  Or alone in Gyre: methods apply, and no other program has such layers; why says so. */
const char *extend_part_in_place(const extension *e);
const char *extend_part_of_gyre(const extension *e, char why[200]);

/* extend_lost.c.  out = 1 if a file or a name beside the config states a multiple of its length, and no scaling reaches it:
 * then out says what was lost and what to write. */
int extend_lost_scaling(const extension *e, char *out, size_t size);
/* out = {stated_by, length, factor, keys}, or null. */
json_t *extend_lost_json(const extension *e);

/* out = a copy of a config.json with dual_chunk_attention_config, of want->chunk; NULL = out of memory. */
json_t *extend_with_chunks(const json_t *config, const gyre_config *want);

/* -- comparing -- */
int extend_is_gguf(const extension *e);
/* What a program is compared with. */
typedef struct extend_expected {
    const gyre_encoding *encoding;
    double softmax; /* multiplier of scores */
} extend_expected;
/* why = how the second rotates otherwise than the first at the new length; "", as it is before, if it does not.  Errors:
 * ENOMEM, those of gyre_encoding_frequencies. */
gyre_status extend_compare_encodings(const extension *e, const gyre_encoding *want, const gyre_encoding *got, char why[200],
                                     gyre_error *err);
/* out = the first position where an angle differs by more than 0.01 rad, as gyre diff counts; -1 = none. */
int64_t extend_first_difference(const extension *e, const gyre_encoding *a, const gyre_encoding *b);
/* extend_compare_encodings for the layers of a reading; *support = SAME or DIFFERENT. */
gyre_status extend_compare_reading(const extension *e, const gyre_reading *reading, const extend_expected *want,
                                   extend_support *support, char why[200], gyre_error *err);
/* Removes " (PATH, line 1)" from the end of a message: the file is temporary, or the table already names it. */
void extend_drop_location(char *text, const char *path);

/* A key that was added, changed or removed. */
typedef struct extend_key_change {
    char key[128];
    char before[80], after[80]; /* "" = absent */
} extend_key_change;
enum { EXTEND_MAX_KEY_CHANGES = 64 };
/* changes[0 .. *count - 1] = the differences between the model and the file at `path`.  after: that file, parsed; NULL for
 * a GGUF.  Errors: those of gyre_reading_open. */
gyre_status extend_changes(const extension *e, const char *path, json_t *after,
                           extend_key_change changes[EXTEND_MAX_KEY_CHANGES], int *count, gyre_error *err);

#endif
