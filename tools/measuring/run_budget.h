/* run_budget.h: how long a run takes on this machine, by a short trial, and what of it fits into --budget.
 *
 * A run is a table: at each length it reads so many units (windows, trials), each of so many tokens, under each method.
 * With a budget the units of every length are reduced; where not even a few fit, the longest lengths are left out. */
#ifndef GYRE_TOOLS_RUN_BUDGET_H
#define GYRE_TOOLS_RUN_BUDGET_H
#include "gyre/gyre_model.h"

/* What reading costs, in seconds: products cost the same for every token, attention more with each. */
typedef struct run_cost {
    double per_token, per_pair; /* per_pair: of two tokens in a window, the square of its length */
    double per_step;            /* of a generated token; the caller sets it */
    int64_t trial;              /* tokens of the longest window that was tried */
} run_cost;

/* Reads one window of so many tokens. */
typedef gyre_status run_trial(void *ctx, int64_t tokens, gyre_error *err);
/* Times windows of at most a sixteenth of a run's longest length, or 512 tokens, and shorter ones where the encoding ends
 * before.  Errors: those of the trial. */
gyre_status run_cost_try(run_cost *out, const gyre_model *model, int64_t longest, run_trial *trial, void *ctx,
                         gyre_error *err);
/* out = seconds of tokens from .. to - 1 of a window. */
double run_cost_seconds(const run_cost *cost, int64_t from, int64_t to);
/* out = what reading costs in products of two numbers, of weights and of attention. */
run_cost run_products(const gyre_model *model);
/* out = 1 if a run of so many products takes more than seconds. */
int run_is_long(double products);
/* out = how many positions the model's encoding has; INT64_MAX if no table ends it. */
int64_t run_positions(const gyre_model *model);

typedef struct run_plan {
    const char *command;                /* "eval" */
    const char *option;                 /* "--windows" */
    const char *unit;                   /* that is too much for the budget: "window" */
    const char *before_all, *after_all; /* what `all` is: "at most", " are in the text" */
    const char *lengths_of;             /* "contexts"; NULL = no length is left out */
    const int64_t *lengths;             /* [count] rising */
    int64_t count, all;
    int64_t trial; /* tokens */
    /* out = seconds of the run with so many units, at the first `lengths` lengths. */
    double (*seconds)(void *ctx, int64_t units, int64_t lengths);
    void *ctx;
    int64_t units, kept; /* output: how many units at each length, and how many of the lengths */
} run_plan;

/* Chooses units and kept, and says on stderr how long that takes and what is left out.  out = 0, or CLI_FAILED with the
 * error printed: not even one unit at the shortest length fits. */
int run_plan_fit(run_plan *plan, double budget);
/* Says how long the whole run takes. */
void run_plan_say(run_plan *plan);

#endif
