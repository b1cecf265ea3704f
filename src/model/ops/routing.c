#include "model/ops/routing.h"

#include <math.h>

/* scores[experts], in double. */
static void score(const gyre_routing *r, const float *logits, double *scores) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r->experts; i++)
        max = fmax(max, (double)logits[i]);
    for (int64_t i = 0; i < r->experts; i++) {
        scores[i] = r->score == GYRE_ROUTER_SIGMOID ? 1 / (1 + exp(-(double)logits[i])) : exp((double)logits[i] - max);
        sum += scores[i];
    }
    for (int64_t i = 0; i < r->experts && r->score == GYRE_ROUTER_SOFTMAX; i++)
        scores[i] /= sum;
}

/* out = the sum of the two largest of n; of one, that. */
static double two_largest(const double *x, int64_t n) {
    double first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        second = x[i] > first ? first : fmax(second, x[i]);
        first = fmax(first, x[i]);
    }
    return n > 1 ? first + second : first;
}

/* Makes -infinity of the keys of all groups but kept_groups. */
static void drop_groups(const gyre_routing *r, double *keys) {
    const int64_t size = r->experts / r->groups;
    double sums[GYRE_MOST_EXPERTS];
    for (int64_t g = 0; g < r->groups; g++)
        sums[g] = two_largest(keys + g * size, size);
    for (int64_t g = 0; g < r->groups; g++) {
        int64_t before = 0; /* groups that are chosen before this one */
        for (int64_t other = 0; other < r->groups; other++)
            before += sums[other] > sums[g] || (sums[other] == sums[g] && other < g);
        for (int64_t i = 0; before >= r->kept_groups && i < size; i++)
            keys[g * size + i] = -INFINITY;
    }
}

/* chosen = the `active` largest keys in order of size; the chosen become NaN. */
static void choose(const gyre_routing *r, double *keys, int32_t *chosen) {
    for (int64_t n = 0; n < r->active; n++) {
        int64_t best = -1;
        for (int64_t i = 0; i < r->experts; i++)
            if (!isnan(keys[i]) && (best < 0 || keys[i] > keys[best])) best = i;
        keys[best] = NAN;
        chosen[n] = (int32_t)best;
    }
}

static void sort(int32_t *x, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && x[j - 1] > x[j]; j--) {
            const int32_t larger = x[j - 1];
            x[j - 1] = x[j];
            x[j] = larger;
        }
}

void gyre_route(const gyre_routing *r, const float *logits, const float *bias, double *scratch, int32_t *chosen,
                float *weights) {
    double *scores = scratch, *keys = scratch + r->experts, sum = 0;
    score(r, logits, scores);
    for (int64_t i = 0; i < r->experts; i++)
        keys[i] = isnan(scores[i]) ? INFINITY : scores[i] + (bias ? (double)bias[i] : 0);
    if (r->kept_groups < r->groups) drop_groups(r, keys);
    choose(r, keys, chosen);
    sort(chosen, r->active);
    for (int64_t n = 0; n < r->active; n++)
        sum += scores[chosen[n]];
    if (r->score == GYRE_ROUTER_SIGMOID) sum += 1e-20; /* as transformers: all scores may be 0 */
    for (int64_t n = 0; n < r->active; n++)
        weights[n] = (float)(r->scale * (r->normalized ? scores[chosen[n]] / sum : scores[chosen[n]]));
}
