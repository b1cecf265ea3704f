/* search_rescale.h: what gyre search optimises: for each pair, a factor that its frequency is divided by, one attention
 * factor for cosines and sines, and where it is asked for the number of start tokens, which rotate as trained.
 *
 * The factors never fall from one pair to the next (Ding et al. 2024, arXiv 2402.13753): a slower pair is stretched at least
 * as much as a faster one.  All functions here keep that order and stay within the space. */
#ifndef GYRE_TOOLS_SEARCH_RESCALE_H
#define GYRE_TOOLS_SEARCH_RESCALE_H
#include "gyre/gyre.h"
#include "tools/common/methods.h"

enum { SEARCH_PAIRS = 256, SEARCH_STARTS = 32 };

typedef struct search_rescale {
    double factor[SEARCH_PAIRS]; /* [pairs]; 0 after the last pair */
    double attention;
    int64_t start_tokens; /* LongRoPE's, of the paper */
} search_rescale;

typedef struct search_space {
    int64_t pairs;
    double max_factor;                   /* factors are in 1 .. max_factor */
    double attention_min, attention_max; /* equal = fixed */
    int64_t starts[SEARCH_STARTS];       /* [starts_count] numbers of start tokens to choose from, rising from 0 */
    int64_t starts_count;                /* 0 = none is chosen, there are no start tokens */
} search_space;

/* A rotation and the lengths it is stretched between. */
typedef struct search_rotation {
    const gyre_config *base; /* borrowed */
    int64_t trained, to;
    double unscaled[SEARCH_PAIRS]; /* frequencies without any scaling */
} search_rotation;

/* out = the space for a context of `to` tokens.  Factors: 1 .. 1.25 to / trained, as in the paper.  Attention factor:
 * `fixed`, or if that is 0, 1 .. 1 + 0.2 ln(to / trained), twice as far from 1 as YaRN's. */
search_space search_space_of(int64_t pairs, int64_t trained, int64_t to, double fixed);
/* Adds numbers of start tokens to choose from, and 0; each once, in order.  count: at most SEARCH_STARTS - 1. */
void search_space_add_starts(search_space *space, const int64_t *starts, int64_t count);
/* out = 1 if the factors are in the space and never fall. */
int search_is_valid(const search_space *space, const search_rescale *rescale);
int search_equal(const search_space *space, const search_rescale *a, const search_rescale *b);

/* Errors: those of gyre_encoding_create. */
gyre_status search_rotation_init(search_rotation *out, const gyre_config *base, int64_t trained, int64_t to,
                                 gyre_error *err);
/* *out = what the method divides frequencies by at length rotation->to, and its attention factor, clamped to the space.
 * Errors: those of method_encoding. */
gyre_status search_rescale_from_method(const search_space *space, const search_rotation *rotation, const method *m,
                                       const method_betas *betas, search_rescale *out, gyre_error *err);
/* *out = `base` with these factors at context `to`.  Borrows rescale and ones[pairs], the factors up to the trained length,
 * all 1. */
void search_rescale_config(const search_rescale *rescale, const double *ones, const gyre_config *base, int64_t trained,
                           int64_t to, gyre_config *out);

/* *out = a child of one parent: factors redrawn between their neighbours, as in the paper; or some of them, or a range,
 * changed.  Start tokens are redrawn as often as a factor. */
void search_mutate(const search_space *space, const search_rescale *parent, uint64_t *random, search_rescale *out);
/* *out = a child of several parents: each factor from a or b at random; a point between a and b; the mean of a, b and c; or
 * a plus a multiple of b - c.  c may be a.  Start tokens are those of a or b. */
void search_cross(const search_space *space, const search_rescale *a, const search_rescale *b, const search_rescale *c,
                  uint64_t *random, search_rescale *out);

#endif
