/* search_seeds.h: whom a search begins with. */
#ifndef GYRE_TOOLS_SEARCH_SEEDS_H
#define GYRE_TOOLS_SEARCH_SEEDS_H
#include "tools/search/search_race.h"

/* The first three, in this order; then YaRN with other betas, each under its own name, none twice. */
enum { SEARCH_SEED_LINEAR, SEARCH_SEED_NTK, SEARCH_SEED_YARN, SEARCH_SEED_OTHERS };

/* seeds[0 .. *count - 1] = them, for the rotation `base` at a context.  Errors: those of search_genes_of. */
gyre_status search_seeds(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                         search_seed seeds[SEARCH_SEEDS], int64_t *count, gyre_error *err);

#endif
