/* search_evolve.h: the evolutionary search: a population of candidates that better ones join.
 *
 All candidates are measured on the same windows in the same order, so that differences come from the candidates and not
 from the text.  A generation is run by successive halving: all children are measured on the first sixteenth of the windows,
 the better half on an eighth, and so on; the last ones on all windows.  The budget counts windows.  It ends the search and
 has no effect before, so a search with a larger budget begins like one with a smaller budget. */
#ifndef GYRE_TOOLS_SEARCH_EVOLVE_H
#define GYRE_TOOLS_SEARCH_EVOLVE_H
#include "tools/search/search_rescale.h"

enum { SEARCH_POPULATION = 12, SEARCH_CHILDREN = 16, SEARCH_ORIGIN = 64 };

typedef struct search_candidate {
    int64_t id; /* from 0, in the order of creation */
    char origin[SEARCH_ORIGIN];
    search_rescale rescale;
    double *nats;     /* [windows] mean nats per prediction */
    int64_t measured; /* windows measured so far, from the first */
    double mean;      /* over those */
} search_candidate;

typedef struct search_initial {
    char origin[SEARCH_ORIGIN];
    search_rescale rescale;
    int evaluate_fully; /* 1: measured on all windows, even if others are better */
} search_initial;

typedef struct search_problem {
    search_space space;
    const search_initial *initial; /* [initial_count], at most SEARCH_MAX_INITIAL */
    int64_t initial_count;
    int64_t windows, budget; /* budget: number of windows that may be measured */
    uint64_t seed;
    /* nats[0 .. count - 1] = mean nats per prediction of windows from .. from + count - 1 under candidate x. */
    gyre_status (*measure)(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats, gyre_error *err);
    /* Called before candidates x[0 .. count - 1] are measured, one after the other, on windows up to `to`; NULL = no call. */
    gyre_status (*prepare)(void *ctx, const search_candidate *x, int64_t count, int64_t to, gyre_error *err);
    /* Called after each generation; best: the best candidate so far. */
    void (*on_generation)(void *ctx, int64_t generation, int64_t spent, const search_candidate *best);
    void *ctx;
} search_problem;
enum { SEARCH_MAX_INITIAL = 32 };

typedef struct search_result {
    search_rescale rescale;
    char origin[SEARCH_ORIGIN];
    double mean;  /* nats over all windows */
    double *nats; /* [windows] the caller frees it */
    double
        initial_mean[SEARCH_MAX_INITIAL]; /* of each initial candidate over all windows; NaN if it was not measured on all */
    int64_t candidates, generations, spent;
} search_result;

/* out = the smallest allowed budget: the windows needed to measure all initial candidates. */
int64_t search_min_budget(const search_problem *problem);
/* *out = the best candidate measured on all windows.  Errors: ENOMEM, those of measure. */
gyre_status search_run(const search_problem *problem, search_result *out, gyre_error *err);

#endif
