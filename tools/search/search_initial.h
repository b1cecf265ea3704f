/* search_initial.h: the candidates that a search starts with. */
#ifndef GYRE_TOOLS_SEARCH_INITIAL_H
#define GYRE_TOOLS_SEARCH_INITIAL_H
#include "tools/search/search_evolve.h"

/* These, which need no search, come first, in this order.  YaRN with other betas follows, without duplicates. */
enum {
    SEARCH_INITIAL_NONE,
    SEARCH_INITIAL_LINEAR,
    SEARCH_INITIAL_NTK,
    SEARCH_INITIAL_BY_PARTS,
    SEARCH_INITIAL_YARN,
    SEARCH_INITIAL_OTHERS
};

/* initial[0 .. *count - 1] = the initial candidates for the rotation `base` at context `to`.  Errors: those of
 * search_rescale_from_method. */
gyre_status search_initial_candidates(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                                      search_initial initial[SEARCH_MAX_INITIAL], int64_t *count, gyre_error *err);

/* Appends the candidates of LongRoPE2 (arXiv 2502.20082): from a critical pair on, every factor is to / trained, and
 * before it they rise to that as under an NTK base.  In theory the critical pair is the first that makes less than one
 * revolution in the trained length; the paper finds that the real one comes earlier, so it is tried at 1, 0.9, 0.8 and
 * 0.7 of that. */
void search_initial_critical(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                             search_initial initial[SEARCH_MAX_INITIAL], int64_t *count);

#endif
