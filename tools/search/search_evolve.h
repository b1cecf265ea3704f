/* search_problem.h: the search itself: a population that children join which predict the text better.
 *
 * All are judged by the same windows in the same order, so that differences are theirs and not the text's.  Children race:
 * all of them read the first sixteenth of the windows, the better half of them an eighth, and so on; the last read all.  The
 * budget is counted in windows read; it cuts the search off and changes nothing before, so a larger one begins like a
 * smaller one.  */
#ifndef GYRE_TOOLS_SEARCH_EVOLVE_H
#define GYRE_TOOLS_SEARCH_EVOLVE_H
#include "tools/search/search_rescale.h"

enum { SEARCH_POPULATION = 12, SEARCH_CHILDREN = 16, SEARCH_ORIGIN = 64 };

typedef struct search_candidate {
    int64_t id; /* from 0, in the order of birth */
    char origin[SEARCH_ORIGIN];
    search_rescale rescale;
    double *nats;     /* [windows] */
    int64_t measured; /* of them */
    double mean;      /* of those */
} search_candidate;

typedef struct search_initial {
    char origin[SEARCH_ORIGIN];
    search_rescale rescale;
    int evaluate_fully; /* 1: reads all windows, whoever is better */
} search_initial;

typedef struct search_problem {
    search_space space;
    const search_initial *initial; /* [initial_count], at most SEARCH_MAX_INITIAL */
    int64_t initial_count;
    int64_t windows, budget; /* budget: windows that may be read */
    uint64_t seed;
    /* nats[0 .. count - 1] = of windows from .. from + count - 1, mean nats per prediction under the individual's genes. */
    gyre_status (*measure)(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats, gyre_error *err);
    /* After each generation; best: so far. */
    void (*on_generation)(void *ctx, int64_t generation, int64_t spent, const search_candidate *best);
    void *ctx;
} search_problem;
enum { SEARCH_MAX_INITIAL = 32 };

typedef struct search_result {
    search_rescale rescale;
    char origin[SEARCH_ORIGIN];
    double mean;                             /* nats over all windows */
    double *nats;                            /* [windows], for free */
    double initial_mean[SEARCH_MAX_INITIAL]; /* of each seed, over all windows; NaN where it did not read them all */
    int64_t candidates, generations, spent;
} search_result;

/* out = the windows that reading all seeds takes at most, which a budget must hold. */
int64_t search_min_budget(const search_problem *problem);
/* *out = the best that read all windows.  Errors: ENOMEM, those of measure. */
gyre_status search_run(const search_problem *problem, search_result *out, gyre_error *err);

#endif
