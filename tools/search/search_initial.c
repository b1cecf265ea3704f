/* search_initial.c: no scaling; position interpolation, NTK, NTK-by-parts and YaRN; and YaRN at a grid of betas.  A model
 * whose trained length or base differs from Llama's may need betas other than 32 and 1, and a search must be compared with
 * the best of them. */
#include "tools/search/search_initial.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct initial_list {
    const search_space *space;
    search_rotation rotation;
    int64_t count;
    search_initial *initial; /* [count] */
} initial_list;

static gyre_status add(initial_list *s, const char *name, const method_betas *betas, gyre_error *err) {
    method m;
    search_initial *candidate = &s->initial[s->count];
    gyre_status status = method_parse(name, &m, err);
    *candidate = (search_initial){.evaluate_fully = s->count < SEARCH_INITIAL_OTHERS};
    if (!status) status = search_rescale_from_method(s->space, &s->rotation, &m, betas, &candidate->rescale, err);
    if (status) return status;
    snprintf(candidate->origin, sizeof candidate->origin, "%s", name);
    if (betas) snprintf(candidate->origin, sizeof candidate->origin, "%s, beta %g and %g", name, betas->fast, betas->slow);
    int known = 0;
    for (int64_t i = 0; i < s->count && !candidate->evaluate_fully; i++)
        known |= search_equal(s->space, &s->initial[i].rescale, &candidate->rescale);
    s->count += !known;
    return GYRE_OK;
}

gyre_status search_initial_candidates(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                                      search_initial initial[SEARCH_MAX_INITIAL], int64_t *count, gyre_error *err) {
    static const char *const names[SEARCH_INITIAL_OTHERS] = {"none", "linear", "ntk", "by-parts", "yarn"};
    static const double fast[] = {64, 32, 16, 8, 4}, slow[] = {4, 2, 1, 0.5, 0.25};
    initial_list s = {.space = space, .initial = initial};
    gyre_status status = search_rotation_init(&s.rotation, base, trained, to, err);
    for (int i = 0; i < SEARCH_INITIAL_OTHERS && !status; i++)
        status = add(&s, names[i], NULL, err);
    for (size_t f = 0; f < sizeof fast / sizeof *fast; f++)
        for (size_t l = 0; l < sizeof slow / sizeof *slow && !status; l++) {
            const method_betas betas = {fast[f], slow[l]};
            if (fast[f] > slow[l]) status = add(&s, "yarn", &betas, err);
        }
    *count = s.count;
    return status;
}

/* out = the first pair that makes less than one revolution in the trained length; the number of pairs if all make one. */
static int64_t theoretical_critical_pair(const gyre_config *base, int64_t pairs, int64_t trained) {
    const double turn = 6.283185307179586, step = pow(base->rope.base, -1.0 / (double)pairs);
    double frequency = 1;
    for (int64_t i = 0; i < pairs; i++) {
        if (frequency * (double)trained < turn) return i;
        frequency *= step;
    }
    return pairs;
}

void search_initial_critical(const search_space *space, const gyre_config *base, int64_t trained, int64_t to,
                             search_initial initial[SEARCH_MAX_INITIAL], int64_t *count) {
    static const double shares[] = {1, 0.9, 0.8, 0.7};
    const double s = (double)to / (double)trained, attention = sqrt(1 + log(s) / log((double)trained));
    const int64_t theoretical = theoretical_critical_pair(base, space->pairs, trained);
    for (size_t k = 0; k < sizeof shares / sizeof *shares && *count < SEARCH_MAX_INITIAL; k++) {
        search_initial *candidate = &initial[*count];
        const int64_t critical = (int64_t)(shares[k] * (double)theoretical + 0.5);
        *candidate = (search_initial){.evaluate_fully = 0};
        snprintf(candidate->origin, sizeof candidate->origin, "critical pair %lld", (long long)critical);
        for (int64_t i = 0; i < space->pairs; i++)
            candidate->rescale.factor[i] = i < critical ? pow(s, (double)i / (double)critical) : s;
        candidate->rescale.attention = fmin(fmax(attention, space->attention_min), space->attention_max);
        int known = critical < 1;
        for (int64_t i = 0; i < *count; i++)
            known |= search_equal(space, &initial[i].rescale, &candidate->rescale);
        *count += !known;
    }
}
