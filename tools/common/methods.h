/* methods.h: ways to use a model past its trained length, as --methods names them: `name[:factor]`, then any of `+resonance`
 * and `+logn`.
 *
 * With a factor a method is static, the same at every context; without one it is scaled for each context L by
 * max(1, L / trained).  `dynamic` follows the context in either case: transformers' formula, its factor 1 when omitted;
 * so does `dynamic-yarn`, which has no factor but the length's.
 * `none` is the model as its own config says, whatever scaling that holds; every other method replaces such a scaling,
 * with the trained length as the original one.
 *
 * Three leave the frequencies alone and turn far pairs less, from half the trained length on: `rerope[:window]` (its number
 * is that distance), `leaky[:factor]` and `self-extend[:group]`, whose own number fits the context into the trained length.
 * `+resonance` rounds every wavelength, once scaled, to a whole number of positions; `+logn` multiplies a query at position
 * m by max(1, ln(m + 1) / ln(trained)). */
#ifndef GYRE_TOOLS_METHODS_H
#define GYRE_TOOLS_METHODS_H
#include "gyre/gyre.h"

/* For help texts. */
#define METHOD_NAMES                                                                                                        \
    "none, linear, ntk, ntk-mixed, dynamic, by-parts, by-parts-paper, yarn, "                                               \
    "dynamic-yarn, rerope, leaky, self-extend"
#define METHOD_MODIFIERS "+resonance, +logn"

enum { METHOD_LABEL = 48 };

typedef struct method {
    const char *name; /* static */
    gyre_scaling scaling;
    gyre_far far;
    int keeps_model_scaling;  /* 1: none */
    int resonance, logn;      /* modifiers */
    double factor;            /* >= 1; rerope: its window; 0 = follows the context */
    char label[METHOD_LABEL]; /* as given */
} method;

/* Turns over the trained length above which by-parts and yarn keep a pair, below which they divide it; 0 = 32, 1. */
typedef struct method_betas {
    double fast, slow;
} method_betas;

/* out = the method that text names.  EINVAL: err says what is wrong with it. */
gyre_status method_parse(const char *text, method *out, gyre_error *err);
/* *out = the methods of a comma list, which the caller frees; *count >= 1.  Errors: EINVAL, ENOMEM. */
gyre_status methods_parse(const char *list, method **out, int64_t *count, gyre_error *err);

/* out = 1 where the method is the model as it is, in the name none without a modifier. */
int method_is_none(const method *m);
/* out = 1 where the method turns positions of a model with position config `base` otherwise at another length in use, so
 * that it matters who says what that is (gyre_length_policy). */
int method_depends_on_length(const method *m, const gyre_config *base);
/* out = the factor at a context, >= 1; 1 for none and rerope, which have none.  trained: at least 4 for leaky and
 * self-extend without a number of their own. */
double method_factor(const method *m, int64_t trained, int64_t context);

/* *out = the config of a model with position config `base`, trained on `trained` tokens, at length `context` under the
 * method; it borrows base's arrays.  Errors: EINVAL, EUNSUPPORTED (a method other than none and none+logn where nothing
 * rotates). */
gyre_status method_config(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                          const method_betas *betas, gyre_config *out, gyre_error *err);
/* *out = the encoding with that config, its angles kept for every position below `context`.  Errors: those, ENOMEM. */
gyre_status method_encoding(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                            const method_betas *betas, gyre_encoding **out, gyre_error *err);

#endif
