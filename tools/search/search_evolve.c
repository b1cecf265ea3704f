/* search_evolve.c: the initial candidates, then generations of children, each by successive halving. */
#include "tools/search/search_evolve.h"
#include "tools/cli/cli_error.h"
#include "util/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNGS = 5,
    MAX_CONTENDERS = SEARCH_MAX_INITIAL,
    MAX_ATTEMPTS = 8
}; /* at least as many initial candidates as children */

typedef struct search_state {
    const search_problem *problem;
    search_candidate
        population[SEARCH_POPULATION + 1]; /* [population_count] the best first; one more while a candidate joins */
    int64_t population_count;
    search_candidate contenders[MAX_CONTENDERS]; /* [contenders_count] of the current round */
    int64_t contenders_count;
    int evaluate_fully[MAX_CONTENDERS]; /* by id, of the initial candidates */
    uint64_t random;
    int64_t rung[RUNGS];
    int64_t spent, created, generations;
    int exhausted;
    search_result *result;
} search_state;

/* -- comparison -- */
static int is_better(const search_candidate *a, const search_candidate *b) {
    if (a->mean != b->mean) return a->mean < b->mean;
    return a->id < b->id;
}

static int by_mean(const void *a, const void *b) {
    return is_better(a, b) ? -1 : is_better(b, a);
}

static double mean_of(const double *nats, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += nats[i];
    return sum / (double)count;
}

/* -- evaluation -- */
static gyre_status evaluate_up_to(search_state *s, search_candidate *x, int64_t to, gyre_error *err) {
    const int64_t from = x->measured, count = to - from;
    if (count <= 0) return GYRE_OK;
    if (s->spent + count > s->problem->budget) {
        s->exhausted = 1;
        return GYRE_OK;
    }
    const gyre_status status = s->problem->measure(s->problem->ctx, x, from, count, x->nats + from, err);
    if (status) return status;
    s->spent += count;
    x->measured = to;
    x->mean = mean_of(x->nats, to);
    return GYRE_OK;
}

static void free_candidate(search_candidate *x) {
    free(x->nats);
    x->nats = NULL;
}

static int must_finish(const search_state *s, const search_candidate *x) {
    return x->id < s->problem->initial_count && s->evaluate_fully[x->id];
}

/* out = 1 if the population is full and all of it did better than x over the windows that x was measured on. */
static int is_dominated(const search_state *s, const search_candidate *x) {
    if (s->population_count < SEARCH_POPULATION) return 0;
    for (int64_t i = 0; i < s->population_count; i++)
        if (mean_of(s->population[i].nats, x->measured) > x->mean) return 0;
    return 1;
}

/* Keeps the better half of the contenders, rounded up, and those that must finish.  Drops the rest. */
static void halve_contenders(search_state *s) {
    qsort(s->contenders, (size_t)s->contenders_count, sizeof *s->contenders, by_mean);
    const int64_t half = (s->contenders_count + 1) / 2;
    int64_t surviving = 0;
    for (int64_t i = 0; i < s->contenders_count; i++) {
        search_candidate *x = &s->contenders[i];
        if (must_finish(s, x) || (i < half && !is_dominated(s, x)))
            s->contenders[surviving++] = *x;
        else
            free_candidate(x);
    }
    s->contenders_count = surviving;
}

static void join_population(search_state *s, search_candidate *x) {
    if (x->id < s->problem->initial_count) s->result->initial_mean[x->id] = x->mean;
    int64_t at = s->population_count++;
    for (; at > 0 && is_better(x, &s->population[at - 1]); at--)
        s->population[at] = s->population[at - 1];
    s->population[at] = *x;
    if (s->population_count > SEARCH_POPULATION) free_candidate(&s->population[--s->population_count]);
}

/* Tells which contenders the budget lasts for. */
static gyre_status prepare(const search_state *s, int64_t to, gyre_error *err) {
    int64_t count = 0, spent = s->spent;
    for (; count < s->contenders_count; count++) {
        const int64_t more = to - s->contenders[count].measured;
        if (more > 0 && spent + more > s->problem->budget) break;
        spent += more > 0 ? more : 0;
    }
    return s->problem->prepare ? s->problem->prepare(s->problem->ctx, s->contenders, count, to, err) : GYRE_OK;
}

/* Measures the contenders on more and more windows, halving them in between.  Those measured on all windows join the
 * population if they are among its best. */
static gyre_status successive_halving(search_state *s, gyre_error *err) {
    for (int r = 0; r < RUNGS && !s->exhausted; r++) {
        const gyre_status prepared = prepare(s, s->rung[r], err);
        if (prepared) return prepared;
        for (int64_t i = 0; i < s->contenders_count && !s->exhausted; i++) {
            const gyre_status status = evaluate_up_to(s, &s->contenders[i], s->rung[r], err);
            if (status) return status;
        }
        if (r + 1 < RUNGS && !s->exhausted && s->rung[r + 1] > s->rung[r]) halve_contenders(s);
    }
    for (int64_t i = 0; i < s->contenders_count; i++)
        if (s->contenders[i].measured == s->problem->windows)
            join_population(s, &s->contenders[i]);
        else
            free_candidate(&s->contenders[i]);
    s->contenders_count = 0;
    return GYRE_OK;
}

/* -- new candidates -- */
static gyre_status add_contender(search_state *s, const search_rescale *rescale, const char *origin, gyre_error *err) {
    search_candidate *x = &s->contenders[s->contenders_count];
    *x = (search_candidate){.id = s->created, .rescale = *rescale};
    snprintf(x->origin, sizeof x->origin, "%s", origin);
    x->nats = calloc((size_t)s->problem->windows, sizeof *x->nats);
    if (!x->nats)
        return gyre_fail(err, GYRE_ENOMEM, "windows: out of memory for %lld (search)", (long long)s->problem->windows);
    s->created++;
    s->contenders_count++;
    return GYRE_OK;
}

static int is_known(const search_state *s, const search_rescale *rescale) {
    for (int64_t i = 0; i < s->population_count; i++)
        if (search_equal(&s->problem->space, &s->population[i].rescale, rescale)) return 1;
    for (int64_t i = 0; i < s->contenders_count; i++)
        if (search_equal(&s->problem->space, &s->contenders[i].rescale, rescale)) return 1;
    return 0;
}

/* out = the better of two random members. */
static const search_candidate *draw_parent(search_state *s) {
    const int64_t a = gyre_random_below(&s->random, s->population_count),
                  b = gyre_random_below(&s->random, s->population_count);
    return &s->population[a < b ? a : b];
}

static gyre_status add_child(search_state *s, int crosses, gyre_error *err) {
    search_rescale child;
    char origin[SEARCH_ORIGIN];
    int known = 1;
    for (int i = 0; i < MAX_ATTEMPTS && known; i++) {
        const search_candidate *a = draw_parent(s), *b = draw_parent(s), *c = draw_parent(s);
        if (crosses && a != b) {
            search_cross(&s->problem->space, &a->rescale, &b->rescale, &c->rescale, &s->random, &child);
            snprintf(origin, sizeof origin, "crossover of %lld, %lld, %lld", (long long)a->id, (long long)b->id,
                     (long long)c->id);
        } else {
            search_mutate(&s->problem->space, &a->rescale, &s->random, &child);
            snprintf(origin, sizeof origin, "mutation of %lld", (long long)a->id);
        }
        known = is_known(s, &child);
    }
    return known ? GYRE_OK : add_contender(s, &child, origin, err);
}

static gyre_status evaluate_initial(search_state *s, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < s->problem->initial_count && !status; i++) {
        s->evaluate_fully[i] = s->problem->initial[i].evaluate_fully;
        status = add_contender(s, &s->problem->initial[i].rescale, s->problem->initial[i].origin, err);
    }
    return status ? status : successive_halving(s, err);
}

static gyre_status next_generation(search_state *s, gyre_error *err) {
    gyre_status status = GYRE_OK;
    const int64_t before = s->created;
    for (int i = 0; i < SEARCH_CHILDREN && !status; i++)
        status = add_child(s, i % 2, err);
    if (s->created == before) s->exhausted = 1; /* the space is so small that all of it is known */
    return status ? status : successive_halving(s, err);
}

/* -- the search -- */
/* A smaller budget might end before any candidate is measured on all windows. */
int64_t search_min_budget(const search_problem *problem) {
    return problem->initial_count * problem->windows;
}

static void on_generation(const search_state *s) {
    if (s->problem->on_generation && s->population_count)
        s->problem->on_generation(s->problem->ctx, s->generations, s->spent, &s->population[0]);
}

static void fill_result(search_state *s) {
    search_result *out = s->result;
    search_candidate *best = &s->population[0];
    out->rescale = best->rescale;
    memcpy(out->origin, best->origin, sizeof out->origin);
    out->mean = best->mean;
    out->nats = best->nats;
    best->nats = NULL;
    out->candidates = s->created;
    out->generations = s->generations;
    out->spent = s->spent;
}

static void plan_rungs(search_state *s) {
    const int64_t windows = s->problem->windows;
    for (int r = 0; r < RUNGS; r++) {
        const int64_t divisor = (int64_t)1 << (RUNGS - 1 - r);
        s->rung[r] = (windows + divisor - 1) / divisor;
    }
}

gyre_status search_run(const search_problem *problem, search_result *out, gyre_error *err) {
    search_result result = {.nats = NULL};
    search_state *s = calloc(1, sizeof *s);
    if (!s) return gyre_fail(err, GYRE_ENOMEM, "population: out of memory (search)");
    s->problem = problem;
    s->random = problem->seed;
    s->result = &result;
    for (int i = 0; i < SEARCH_MAX_INITIAL; i++)
        result.initial_mean[i] = (double)NAN;
    plan_rungs(s);
    gyre_status status = evaluate_initial(s, err);
    while (!status && !s->exhausted) {
        on_generation(s);
        s->generations++;
        status = next_generation(s, err);
    }
    if (!status) on_generation(s);
    if (!status) fill_result(s);
    if (!status) *out = result;
    for (int64_t i = 0; i < s->contenders_count; i++)
        free_candidate(&s->contenders[i]);
    for (int64_t i = 0; i < s->population_count; i++)
        free_candidate(&s->population[i]);
    free(s);
    return status;
}
