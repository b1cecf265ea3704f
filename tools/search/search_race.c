/* search_race.c: seeds, then generation after generation of children, each cut down to its best while it reads. */
#include "tools/search/search_race.h"
#include "tools/common/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNGS = 5, FIELD = SEARCH_SEEDS, TRIES = 8 }; /* no fewer seeds may race than children */

typedef struct searching {
    const search_race *race;
    search_individual member[SEARCH_POPULATION + 1]; /* [members], the best first; one more while one joins */
    int64_t members;
    search_individual field[FIELD]; /* [runners] who race now */
    int64_t runners;
    int always[FIELD]; /* by id, of the seeds */
    uint64_t random;
    int64_t rung[RUNGS];
    int64_t spent, born, generations;
    int exhausted;
    search_result *result;
} searching;

/* -- who is better --------------------------------------------------------------------------------------------------- */
static int is_better(const search_individual *a, const search_individual *b) {
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

/* -- reading --------------------------------------------------------------------------------------------------------- */
static gyre_status read_on(searching *s, search_individual *x, int64_t to, gyre_error *err) {
    const int64_t from = x->measured, count = to - from;
    if (count <= 0) return GYRE_OK;
    if (s->spent + count > s->race->budget) {
        s->exhausted = 1;
        return GYRE_OK;
    }
    const gyre_status status = s->race->measure(s->race->ctx, x, from, count, x->nats + from, err);
    if (status) return status;
    s->spent += count;
    x->measured = to;
    x->mean = mean_of(x->nats, to);
    return GYRE_OK;
}

static void drop(search_individual *x) {
    free(x->nats);
    x->nats = NULL;
}

static int must_finish(const searching *s, const search_individual *x) {
    return x->id < s->race->seeds_count && s->always[x->id];
}

/* 1 where the population is full and all of it did better over the windows that x has read. */
static int is_hopeless(const searching *s, const search_individual *x) {
    if (s->members < SEARCH_POPULATION) return 0;
    for (int64_t i = 0; i < s->members; i++)
        if (mean_of(s->member[i].nats, x->measured) > x->mean) return 0;
    return 1;
}

/* Keeps the better half, rounded up, of those that race, and who must finish; the rest leave. */
static void cut_field(searching *s) {
    qsort(s->field, (size_t)s->runners, sizeof *s->field, by_mean);
    const int64_t half = (s->runners + 1) / 2;
    int64_t kept = 0;
    for (int64_t i = 0; i < s->runners; i++) {
        search_individual *x = &s->field[i];
        if (must_finish(s, x) || (i < half && !is_hopeless(s, x)))
            s->field[kept++] = *x;
        else
            drop(x);
    }
    s->runners = kept;
}

static void join(searching *s, search_individual *x) {
    if (x->id < s->race->seeds_count) s->result->seed_mean[x->id] = x->mean;
    int64_t at = s->members++;
    for (; at > 0 && is_better(x, &s->member[at - 1]); at--)
        s->member[at] = s->member[at - 1];
    s->member[at] = *x;
    if (s->members > SEARCH_POPULATION) drop(&s->member[--s->members]);
}

/* Those in the field race; who reads all windows joins the population if he is among its best. */
static gyre_status race_field(searching *s, gyre_error *err) {
    for (int r = 0; r < RUNGS && !s->exhausted; r++) {
        for (int64_t i = 0; i < s->runners && !s->exhausted; i++) {
            const gyre_status status = read_on(s, &s->field[i], s->rung[r], err);
            if (status) return status;
        }
        if (r + 1 < RUNGS && !s->exhausted && s->rung[r + 1] > s->rung[r]) cut_field(s);
    }
    for (int64_t i = 0; i < s->runners; i++)
        if (s->field[i].measured == s->race->windows)
            join(s, &s->field[i]);
        else
            drop(&s->field[i]);
    s->runners = 0;
    return GYRE_OK;
}

/* -- births ---------------------------------------------------------------------------------------------------------- */
static gyre_status enter(searching *s, const search_genes *genes, const char *origin, gyre_error *err) {
    search_individual *x = &s->field[s->runners];
    *x = (search_individual){.id = s->born, .genes = *genes};
    snprintf(x->origin, sizeof x->origin, "%s", origin);
    x->nats = calloc((size_t)s->race->windows, sizeof *x->nats);
    if (!x->nats)
        return cli_error(err, GYRE_ENOMEM, "windows: out of memory for %lld (search)", (long long)s->race->windows);
    s->born++;
    s->runners++;
    return GYRE_OK;
}

static int is_known(const searching *s, const search_genes *genes) {
    for (int64_t i = 0; i < s->members; i++)
        if (search_same(&s->race->space, &s->member[i].genes, genes)) return 1;
    for (int64_t i = 0; i < s->runners; i++)
        if (search_same(&s->race->space, &s->field[i].genes, genes)) return 1;
    return 0;
}

/* The better of two by chance. */
static const search_individual *draw_parent(searching *s) {
    const int64_t a = search_below(&s->random, s->members), b = search_below(&s->random, s->members);
    return &s->member[a < b ? a : b];
}

static gyre_status bear(searching *s, int crosses, gyre_error *err) {
    search_genes child;
    char origin[SEARCH_ORIGIN];
    int known = 1;
    for (int i = 0; i < TRIES && known; i++) {
        const search_individual *a = draw_parent(s), *b = draw_parent(s), *c = draw_parent(s);
        if (crosses && a != b) {
            search_cross(&s->race->space, &a->genes, &b->genes, &c->genes, &s->random, &child);
            snprintf(origin, sizeof origin, "crossover of %lld, %lld, %lld", (long long)a->id, (long long)b->id,
                     (long long)c->id);
        } else {
            search_mutate(&s->race->space, &a->genes, &s->random, &child);
            snprintf(origin, sizeof origin, "mutation of %lld", (long long)a->id);
        }
        known = is_known(s, &child);
    }
    return known ? GYRE_OK : enter(s, &child, origin, err);
}

static gyre_status sow(searching *s, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < s->race->seeds_count && !status; i++) {
        s->always[i] = s->race->seeds[i].always;
        status = enter(s, &s->race->seeds[i].genes, s->race->seeds[i].origin, err);
    }
    return status ? status : race_field(s, err);
}

static gyre_status breed(searching *s, gyre_error *err) {
    gyre_status status = GYRE_OK;
    const int64_t before = s->born;
    for (int i = 0; i < SEARCH_CHILDREN && !status; i++)
        status = bear(s, i % 2, err);
    if (s->born == before) s->exhausted = 1; /* a space so small that all of it is known */
    return status ? status : race_field(s, err);
}

/* -- the whole ------------------------------------------------------------------------------------------------------- */
/* A budget below this might end before anybody has read all windows. */
int64_t search_least(const search_race *race) {
    return race->seeds_count * race->windows;
}

static void tell(const searching *s) {
    if (s->race->tell && s->members) s->race->tell(s->race->ctx, s->generations, s->spent, &s->member[0]);
}

static void hand_out(searching *s) {
    search_result *out = s->result;
    search_individual *best = &s->member[0];
    out->genes = best->genes;
    memcpy(out->origin, best->origin, sizeof out->origin);
    out->mean = best->mean;
    out->nats = best->nats;
    best->nats = NULL;
    out->individuals = s->born;
    out->generations = s->generations;
    out->spent = s->spent;
}

static void plan_rungs(searching *s) {
    const int64_t windows = s->race->windows;
    for (int r = 0; r < RUNGS; r++) {
        const int64_t share = (int64_t)1 << (RUNGS - 1 - r);
        s->rung[r] = (windows + share - 1) / share;
    }
}

gyre_status search_run(const search_race *race, search_result *out, gyre_error *err) {
    search_result result = {.nats = NULL};
    searching *s = calloc(1, sizeof *s);
    if (!s) return cli_error(err, GYRE_ENOMEM, "population: out of memory (search)");
    s->race = race;
    s->random = race->seed;
    s->result = &result;
    for (int i = 0; i < SEARCH_SEEDS; i++)
        result.seed_mean[i] = (double)NAN;
    plan_rungs(s);
    gyre_status status = sow(s, err);
    while (!status && !s->exhausted) {
        tell(s);
        s->generations++;
        status = breed(s, err);
    }
    if (!status) tell(s);
    if (!status) hand_out(s);
    if (!status) *out = result;
    for (int64_t i = 0; i < s->runners; i++)
        drop(&s->field[i]);
    for (int64_t i = 0; i < s->members; i++)
        drop(&s->member[i]);
    free(s);
    return status;
}
