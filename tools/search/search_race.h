/* search_race.h: the search itself: a population that children join which predict the text better.
 *
 * All are judged by the same windows in the same order, so that differences are theirs and not the text's.  Children race:
 * all of them read the first sixteenth of the windows, the better half of them an eighth, and so on; the last read all.  The
 * budget is counted in windows read; it cuts the search off and changes nothing before, so a larger one begins like a
 * smaller one.  */
#ifndef GYRE_TOOLS_SEARCH_RACE_H
#define GYRE_TOOLS_SEARCH_RACE_H
#include "tools/search/search_genes.h"

enum { SEARCH_POPULATION = 12, SEARCH_CHILDREN = 16, SEARCH_ORIGIN = 64 };

typedef struct search_individual {
    int64_t id; /* from 0, in the order of birth */
    char origin[SEARCH_ORIGIN];
    search_genes genes;
    double *nats;     /* [windows] */
    int64_t measured; /* of them */
    double mean;      /* of those */
} search_individual;

typedef struct search_seed {
    char origin[SEARCH_ORIGIN];
    search_genes genes;
    int always; /* 1: reads all windows, whoever is better */
} search_seed;

typedef struct search_race {
    search_space space;
    const search_seed *seeds; /* [seeds_count], at most SEARCH_SEEDS */
    int64_t seeds_count;
    int64_t windows, budget; /* budget: windows that may be read */
    uint64_t seed;
    /* nats[0 .. count - 1] = of windows from .. from + count - 1, mean nats per prediction under the individual's genes. */
    gyre_status (*measure)(void *ctx, const search_individual *x, int64_t from, int64_t count, double *nats,
                           gyre_error *err);
    /* After each generation; best: so far. */
    void (*tell)(void *ctx, int64_t generation, int64_t spent, const search_individual *best);
    void *ctx;
} search_race;
enum { SEARCH_SEEDS = 32 };

typedef struct search_result {
    search_genes genes;
    char origin[SEARCH_ORIGIN];
    double mean;                    /* nats over all windows */
    double *nats;                   /* [windows], for free */
    double seed_mean[SEARCH_SEEDS]; /* of each seed, over all windows; NaN where it did not read them all */
    int64_t individuals, generations, spent;
} search_result;

/* out = the windows that reading all seeds takes at most, which a budget must hold. */
int64_t search_least(const search_race *race);
/* *out = the best that read all windows.  Errors: ENOMEM, those of measure. */
gyre_status search_run(const search_race *race, search_result *out, gyre_error *err);

#endif
