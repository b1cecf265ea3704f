/* search_seeds.c: position interpolation, NTK and YaRN, which the paper seeds with, and YaRN at a grid of betas: a model of
 * another length or base than Llama's may want others than 32 and 1, and its best is what a search is to be measured by. */
#include "tools/search/search_seeds.h"
#include <stdio.h>
#include <string.h>

typedef struct sowing {
    const search_space *space;
    const gyre_config *base;
    int64_t trained, to, count;
    search_seed *seeds; /* [count] */
} sowing;

static gyre_status add(sowing *s, const char *name, const method_betas *betas, gyre_error *err) {
    method m;
    search_seed *seed = &s->seeds[s->count];
    gyre_status status = method_parse(name, &m, err);
    *seed = (search_seed){.always = s->count < SEARCH_SEED_OTHERS};
    if (status == GYRE_OK) status = search_genes_of(s->space, &m, s->base, s->trained, s->to, betas, &seed->genes, err);
    if (status != GYRE_OK) return status;
    snprintf(seed->origin, sizeof seed->origin, "%s", name);
    if (betas) snprintf(seed->origin, sizeof seed->origin, "%s, beta %g and %g", name, betas->fast, betas->slow);
    int known = 0;
    for (int64_t i = 0; i < s->count && !seed->always; i++)
        known |= search_same(s->space, &s->seeds[i].genes, &seed->genes);
    s->count += !known;
    return GYRE_OK;
}

gyre_status search_seeds(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                         search_seed seeds[SEARCH_SEEDS], int64_t *count, gyre_error *err) {
    static const char *const names[SEARCH_SEED_OTHERS] = {"linear", "ntk", "yarn"};
    static const double fast[] = {64, 32, 16, 8, 4}, slow[] = {4, 2, 1, 0.5, 0.25};
    sowing s = {space, base, trained, to, 0, seeds};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < SEARCH_SEED_OTHERS && !status; i++)
        status = add(&s, names[i], NULL, err);
    for (size_t f = 0; f < sizeof fast / sizeof *fast; f++)
        for (size_t l = 0; l < sizeof slow / sizeof *slow && !status; l++) {
            const method_betas betas = {fast[f], slow[l]};
            if (fast[f] > slow[l]) status = add(&s, "yarn", &betas, err);
        }
    *count = s.count;
    return status;
}
