/* methods.h: methods to use a model past its trained length, in the syntax of --methods: `name[:factor]`, followed by any of
 * `+resonance`, `+logn` and `+clipped`.
 *
 *     ntk:4       static: factor 4 at every context
 *     ntk         scaled for each context L by max(1, L / trained)
 *     none        the model as its own config says, with any scaling that it holds
 *
 * `ntk-past:4` is unscaled up to the trained length and ntk:4 past it, as a widespread snippet has it.  `base:500000` takes
 * another base (ABF), for models that were trained with it.  Both need their number.
 *
 * `llama3` has the ramp of Llama 3.1: pairs of fewer than 1 turn over the trained length are divided, of more than 4 kept.
 *
 * `dynamic:s` has transformers' formula at every length in use n past the trained length L: d channels have the base
 *     base (s n / L - (s - 1))^(d / (d - 2)).
 * The scale s is the factor of a config, {"rope_type": "dynamic", "factor": s}; without one, `dynamic` has the scale that
 * its context needs, max(1, context / L), as other methods have.  dynamic:1 is ntk with the factor of the length in use.
 * `dynamic-yarn` takes no factor.  Every method but none replaces a scaling of the model; the trained length counts as the
 * original one.
 *
 * ALiBi's slopes are stretched by linear, ntk, ntk-past, dynamic (ntk that follows the context) and dynamic-linear, which is
 * for slopes alone.  Neither of the last two takes a factor there.
 *
 * Three methods leave the frequencies alone and reduce the rotation of far pairs, from half the trained length on:
 * `rerope[:window]` (the number is that distance), `leaky[:factor]` and `self-extend[:group]`.  Without a number, factor and
 * group fit the context into the trained length.
 *
 * `dca[:chunk]` is Dual Chunk Attention as released: no pair rotates by more than the chunk, 3/4 of the trained length, and
 * pairs up to a sixth of it apart rotate as trained.  `dca-paper[:chunk]` is that of the paper's equations, and its numbers:
 * the trained length and a quarter.
 *
 * `+resonance` rounds every wavelength, after scaling, to a whole number of positions.  `+logn` multiplies a query at
 * position m by max(1, ln(m + 1) / ln(trained)).
 *
 * `+clipped[:pairs]` and `+clipped-hard[:pairs]` are clipped RoPE, after any scaling, of so many of the last pairs; without
 * a number, of those that make no whole turn within the trained length.  `clipped` is `none+clipped`: the model's own
 * scaling stays.
 *
 * `+start:n` and `+start-released:n` are LongRoPE's start tokens: past the trained length, positions below n rotate as
 * without a scaling.  They need a model with LongRoPE, under none or extend's longrope. */
#ifndef GYRE_TOOLS_METHODS_H
#define GYRE_TOOLS_METHODS_H
#include "gyre/gyre.h"

/* For help texts. */
#define METHOD_NAMES                                                                                                        \
    "none, linear, ntk, ntk-past, base, ntk-mixed, llama3, dynamic, by-parts, by-parts-paper, yarn, "                       \
    "dynamic-yarn, dynamic-linear, rerope, leaky, self-extend, dca, dca-paper, clipped, clipped-hard"
#define METHOD_NUMBERS_HELP " (ntk-past and base need a number: ntk-past:4, base:500000)"
#define METHOD_MODIFIERS    "+resonance, +logn, +clipped, +clipped-hard, +start"

enum { METHOD_LABEL = 48 };

/* err = that `text` is none of `names` (separated by ", "), or which of them is meant.  out = EINVAL. */
gyre_status method_fail_unknown(const char *text, const char *names, gyre_error *err);

/* What the number after the colon is. */
typedef enum method_number {
    METHOD_NUMBER_FACTOR, /* a factor, or the window, group or chunk of a method for far pairs */
    METHOD_NUMBER_PAST,   /* a factor that applies past the trained length only */
    METHOD_NUMBER_BASE,
    METHOD_NUMBER_PAIRS /* that are clipped */
} method_number;

typedef struct method {
    const char *name; /* static */
    gyre_scaling scaling;
    gyre_far far;
    gyre_slope_scaling slopes; /* NONE: not for ALiBi */
    int follows;               /* 1: slopes follow the length in use */
    method_number number;
    int keeps_model_scaling; /* 1: none, clipped, clipped-hard */
    int resonance, logn;     /* modifiers */
    gyre_clip clip;          /* a modifier, or the method */
    int64_t clip_pairs;      /* 0 = those that make no whole revolution within the trained length */
    int64_t start_tokens;    /* 0 = none */
    gyre_longrope_start starts;
    double factor;            /* >= 1; rerope: the window; dca: the chunk; base: the base; 0 = follows the context */
    char label[METHOD_LABEL]; /* as given */
} method;

/* Revolutions over the trained length above which by-parts and yarn keep a pair, and below which they divide it;
 * 0 = 32 and 1. */
typedef struct method_betas {
    double fast, slow;
} method_betas;

/* *out = the method that text names.  EINVAL: err says what is wrong. */
gyre_status method_parse(const char *text, method *out, gyre_error *err);
/* *out = the methods of a comma list; the caller frees them.  *count >= 1.  Errors: EINVAL, ENOMEM. */
gyre_status methods_parse(const char *list, method **out, int64_t *count, gyre_error *err);

/* After a measurement: names the method and the context where its numbers are not finite (EFORMAT).  out = status. */
gyre_status method_name_failure(gyre_status status, const char *label, int64_t context, gyre_error *err);

/* out = 1 for none without a modifier: the unchanged model. */
int method_is_none(const method *m);
/* out = 1 if the method takes a rotation of two pairs of channels or more. */
int method_needs_two_pairs(const method *m);
#define METHOD_TWO_PAIRS_WHY "the base grows by factor^(d / (d - 2)) for d channels"
/* out = 1 if frequencies or slopes of the config depend on the length in use, so that gyre_length_policy matters. */
int config_depends_on_length(const gyre_config *config);
/* The same for a model with position config `base` under the method. */
int method_depends_on_length(const method *m, const gyre_config *base);
/* out = the factor at a context, >= 1; 1 for none, rerope and dca, which have no factor.  trained: at least 4 for leaky and
 * self-extend without a number. */
double method_factor(const method *m, int64_t trained, int64_t context);

/* *out = the config of a model with position config `base`, trained on `trained` tokens, under the method at length
 * `context`.  It borrows base's arrays.  Errors: EINVAL, EUNSUPPORTED (a method other than none and none+logn for a model
 * that has neither a rotation nor slopes, or not what the method stretches). */
gyre_status method_config(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                          const method_betas *betas, gyre_config *out, gyre_error *err);
/* *out = the encoding with that config, with a table of angles for every position below `context`.  Errors: those of
 * method_config, ENOMEM. */
gyre_status method_encoding(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                            const method_betas *betas, gyre_encoding **out, gyre_error *err);

/* *out = the config of a model whose rotation is dropped, to be recalibrated: DroPE (Gelberg 2025, arXiv 2512.12167).  What
 * else base says stays.  Errors: EUNSUPPORTED (it does not rotate). */
gyre_status config_drop_rotation(const gyre_config *base, gyre_config *out, gyre_error *err);

/* -- distances, under a gyre_config.rope.far -- */
static inline int far_is_chunked(const gyre_config *config) {
    return config->rope.far == GYRE_FAR_CHUNKED || config->rope.far == GYRE_FAR_CHUNKED_PAPER;
}

/* Up to distance `end`, distance d rotates as offset + slope d does between near tokens. */
typedef struct far_piece {
    double end, slope, offset;
} far_piece;

/* out = the piece that distance d >= 0 is in; without the steps of Self-Extend's groups.  Under Dual Chunk Attention, where
 * it matters which token asks, that of the last token of a chunk. */
far_piece far_piece_at(const gyre_config *config, double d);
/* out = the first distance at which two tokens may rotate otherwise than near ones; -1 = none. */
int64_t far_first_change(const gyre_config *config);
/* out = the distance between near tokens that rotates as much. */
double far_distance(const gyre_config *config, double d);

#endif
