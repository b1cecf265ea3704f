/* gyre_research.h: calls for experiments and tests of Gyre that programs which run or train a model do not need: the
 * sequences of training and evaluation, counts of operations, and all faults of a checkpoint.  The conventions of gyre.h
 * hold.  Unstable, also after 1.0. */
#ifndef GYRE_RESEARCH_H
#define GYRE_RESEARCH_H
#include "gyre/gyre_train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- models of parts -- */
/* A model with a ROPE and a part of layers that makes its queries and keys, as gyre train and gyre lab name it. */
typedef struct gyre_layer_part_variant {
    const char *name;       /* "rope++ec" */
    int64_t layer_parts;    /* of gyre_model_config */
    int64_t head_factor;    /* query heads for each one of a model without the part; 0 = 1 */
    int64_t key_divisor;    /* key heads of such a model for each one; 0 = 1 */
    int64_t channel_factor; /* position.head_dim for each channel of head_dim; gyre_layer_part_variant_at sets it */
} gyre_layer_part_variant;
/* *out = variant i, i >= 0; out = 0: there are no more. */
GYRE_API int gyre_layer_part_variant_at(int i, gyre_layer_part_variant *out);

/* -- checkpoints -- */
/* All faults of the tensors of a checkpoint; gyre_model_open stops at the first.  The library owns it and all it points
 * to. */
typedef struct gyre_weight_faults {
    const char *const *texts; /* [count] "what: why (where)": tensors with a NaN or an infinity, by name; then those whose
                               * shape differs from the config, missing or unknown */
    int64_t count, in_all;    /* in_all: with those past `most` */
    gyre_status unchecked;    /* GYRE_OK = every shape was compared with the config; else the reason */
    const char *why;          /* the text of `unchecked`; "" = none */
    int64_t parameters;       /* of the tensors that the config describes; 0 = it describes none */
    int64_t vocab;            /* rows of the embedding; 0 = not found */
    int64_t unread;           /* tensors of types that Gyre does not read yet: their numbers are not checked */
    const char *unread_text;  /* why, of the first of them; "" = none */
    int64_t aside;            /* tensors beside the language model, of encoders of images or sound: Gyre does not run them */
    const char *aside_first;  /* the name of the first of them; "" = none */
} gyre_weight_faults;
/* *out = the faults of the files that gyre_model_open would open; it succeeds if and only if there are none,
 * `unchecked` is GYRE_OK and `unread` is 0.  A config that Gyre does not run, or that makes no sense, is not an error:
 * numbers are still checked, and shapes as far as it describes them.  most: texts that are kept, at least 1.
 * Errors: EINVAL; EIO; ENOMEM; EFORMAT and EUNSUPPORTED (a config or a file of weights that cannot be read at all). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_weight_faults_open(gyre_weight_faults **out, const char *path,
                                                             const gyre_reading_options *options, int64_t most,
                                                             gyre_error *err);
/* *out = weights that are finite but too large: their tensors, by name, with a magnitude that is infinite in f16, or whose
 * square is infinite as a float.  Masks and such that no layer reads are left out.  Of the fields only texts, count and
 * in_all are set.
 * Errors: EINVAL; EIO; ENOMEM; EFORMAT and EUNSUPPORTED (files of weights that cannot be read at all). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_weight_doubts_open(gyre_weight_faults **out, const char *path, int64_t most,
                                                             gyre_error *err);
GYRE_API void gyre_weight_faults_free(gyre_weight_faults *faults); /* NULL is fine */

/* -- sequences -- */
/* out[0 .. length - 1] = a window of text from a random place, with `keys` keys hidden and queried.  asked[i] (or NULL) =
 * 1 if out[i] is a scored digit.  state: of the generator, advanced.  The text has at least `length` ids (not checked);
 * keys that do not fit are left out. */
GYRE_API void gyre_passkey_window(const gyre_text *text, int64_t keys, int64_t length, uint64_t *state, int32_t *out,
                                  unsigned char *asked);
/* out[0 .. length - 1] = a window of text from a random place, with `segments` segments and their copies.  asked[i] (or
 * NULL) = 1 if out[i] is scored.  state: of the generator, advanced.  The text has at least `length` ids (not checked);
 * segments that do not fit are left out. */
GYRE_API void gyre_copying_window(const gyre_text *text, int64_t segments, int64_t length, uint64_t *state, int32_t *out,
                                  unsigned char *asked);
/* out[0 .. length - 1] = sequence place.index of step place.step: plain text, text with passkeys or copies, or a task's
 * (text may be NULL, else it has at least `length` ids).  weights[i] = weight of predicting out[i] in the loss: 0 for
 * random symbols, 1 for text and symbols that a task determines, 3 for repetitions within the sequence. */
typedef struct gyre_train_place {
    int64_t step, index;
} gyre_train_place;
GYRE_API void gyre_train_sequence(const gyre_text *text, const gyre_train_options *options, gyre_train_place place,
                                  int64_t length, int32_t *out, float *weights);
/* out[0 .. length - 1] = the positions of that sequence. */
GYRE_API void gyre_train_positions(const gyre_train_options *options, gyre_train_place place, int64_t length, int64_t *out);
/* out[0 .. length] = the start symbol and `length` more.  weights[i] (or NULL) = 1 if earlier symbols determine out[i],
 * else 0.  distance: of COPY, 1 .. length; other tasks ignore it.  state: of the generator, advanced.  TEXT does
 * nothing. */
GYRE_API void gyre_task_sequence(gyre_task task, int64_t length, int64_t distance, uint64_t *state, int32_t *out,
                                 float *weights);

/* -- costs -- */
/* out = floating-point operations of one trained token, by the usual count: 6 per weight, without position tables (no
 * token multiplies all of them), and 12 x layers x heads x head_dim x context for attention, without masking. */
GYRE_API double gyre_train_flops(const gyre_model_config *model, int64_t context);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_RESEARCH_H */
