/* search_initial_candidates.h: whom a search begins with. */
#ifndef GYRE_TOOLS_SEARCH_INITIAL_H
#define GYRE_TOOLS_SEARCH_INITIAL_H
#include "tools/search/search_evolve.h"

/* The first three, in this order; then YaRN with other betas, each under its own name, none twice. */
enum { SEARCH_INITIAL_LINEAR, SEARCH_INITIAL_NTK, SEARCH_INITIAL_YARN, SEARCH_INITIAL_OTHERS };

/* seeds[0 .. *count - 1] = them, for the rotation `base` at a context.  Errors: those of search_rescale_from_method. */
gyre_status search_initial_candidates(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                                      search_initial initial[SEARCH_MAX_INITIAL], int64_t *count, gyre_error *err);

#endif
