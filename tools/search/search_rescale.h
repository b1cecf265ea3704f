/* search_rescale.h: what gyre search changes: a number for each pair that its frequency is divided by, and one for cosines
 * and sines; where such numbers come from, how they vary and how they mix.
 *
 * The factors never fall along the pairs (Ding et al. 2024, arXiv 2402.13753): a pair that turns slower is stretched at
 * least as much.  Everything here keeps that, and keeps within the space. */
#ifndef GYRE_TOOLS_SEARCH_RESCALE_H
#define GYRE_TOOLS_SEARCH_RESCALE_H
#include "gyre/gyre.h"
#include "tools/common/methods.h"

enum { SEARCH_PAIRS = 256 };

typedef struct search_rescale {
    double factor[SEARCH_PAIRS]; /* of each pair, 0 past the last */
    double attention;
} search_rescale;

typedef struct search_space {
    int64_t pairs;
    double max_factor;                   /* factors lie in 1 .. most */
    double attention_min, attention_max; /* equal = fixed */
} search_space;

/* splitmix64: the same numbers everywhere; state: advanced. */
uint64_t search_random_next(uint64_t *state);
double search_random_uniform(uint64_t *state); /* in [0, 1) */
/* out = below n. */
int64_t search_random_below(uint64_t *state, int64_t n);

/* out = the space for a context of `to` tokens: the paper's 1 .. 1.25 to / trained for factors; for the attention factor 1
 * up to twice as far from 1 as YaRN's 0.1 ln(to / trained) + 1, or `fixed` where that is not 0. */
search_space search_space_of(int64_t pairs, int64_t trained, int64_t to, double fixed);
/* out = 1 where the genes lie in the space and the factors never fall. */
int search_is_valid(const search_space *space, const search_rescale *rescale);
int search_equal(const search_space *space, const search_rescale *a, const search_rescale *b);

/* *out = what the method divides frequencies by at a context, and its attention factor unless the space fixes one.  Errors:
 * those of method_encoding. */
gyre_status search_rescale_from_method(const search_space *space, const method *m, const gyre_config *base, int64_t trained,
                                       int64_t to, const method_betas *betas, search_rescale *out, gyre_error *err);
/* *out = the config of those genes at a context, from the `base` of a model; borrows genes and ones[pairs], all 1, which
 * stand for lengths up to the trained one. */
void search_rescale_config(const search_rescale *rescale, const double *ones, const gyre_config *base, int64_t trained,
                           int64_t to, gyre_config *out);

/* out = a child of one parent: pairs drawn anew between their neighbours, as the paper does; or some, or a run of them,
 * moved. */
void search_mutate(const search_space *space, const search_rescale *parent, uint64_t *random, search_rescale *out);
/* out = a child of several: genes of a and b in turn by chance; a point between them; or a, moved by the difference of b and
 * c (which may be a). */
void search_cross(const search_space *space, const search_rescale *a, const search_rescale *b, const search_rescale *c,
                  uint64_t *random, search_rescale *out);

#endif
