/* sample.c: draws a token from logits.
 *
 * Allocates nothing and sorts nothing.  top_k and top_p both keep the tokens above some logit and, of those equal to it,
 * the lowest ids.  A radix search finds that logit, eleven bits at a time. */
#include "core/sized.h"
#include "util/random.h"

#include "gyre/gyre_model.h"

#include <math.h>
#include <string.h>

enum { RADIX_BITS = 11, BUCKETS = 1 << RADIX_BITS };

/* Tokens that are kept: those with a sort key above `key`, and the first `ties` with a sort key equal to it. */
typedef struct logit_cutoff {
    uint32_t key;
    int64_t ties;
} logit_cutoff;

typedef struct distribution {
    const float *logits;
    int64_t vocab;
    double largest, temperature;
} distribution;

/* out = a key that sorts as the numbers do. */
static uint32_t sort_key(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* e^x for x <= 0.  C libraries differ in the last bit of exp, which could change the token drawn. */
static double exponential(double x) {
    if (!(x > -745.0)) return 0.0;
    const double exponent = floor(x * 0x1.71547652b82fep+0 + 0.5);
    const double rest = (x - exponent * 0x1.62e42fefa0000p-1) - exponent * 0x1.cf79abc9e3b39p-40;
    double sum = 1.0;
    for (int i = 14; i > 0; i--)
        sum = 1.0 + sum * rest / i;
    return ldexp(sum, (int)exponent);
}

/* out = the unnormalized probability of token i; 1 for the likeliest. */
static double exp_weight(const distribution *d, int64_t i) {
    const double x = (double)d->logits[i];
    if (x == d->largest) return 1.0;
    return isinf(x) || isinf(d->largest) ? 0.0 : exponential((x - d->largest) / d->temperature);
}

/* Walks the tokens that a cutoff keeps, in order of their ids. */
typedef struct candidate_iterator {
    const distribution *d;
    logit_cutoff cutoff;
    int64_t next, ties;
} candidate_iterator;

static int64_t next_candidate(candidate_iterator *w) {
    while (w->next < w->d->vocab) {
        const int64_t i = w->next++;
        const uint32_t key = sort_key(w->d->logits[i]);
        if (key > w->cutoff.key || (key == w->cutoff.key && w->ties++ < w->cutoff.ties)) return i;
    }
    return -1;
}

static double total_weight(const distribution *d, logit_cutoff cutoff) {
    double total = 0.0;
    candidate_iterator w = {d, cutoff, 0, 0};
    for (int64_t i = next_candidate(&w); i >= 0; i = next_candidate(&w))
        total += exp_weight(d, i);
    return total;
}

/* The tokens that a cutoff keeps and whose keys begin with the digits found so far, counted by their next digit. */
typedef struct radix_histogram {
    double sums[BUCKETS];
    int64_t counts[BUCKETS];
    uint32_t buckets;
} radix_histogram;

/* prefix: the digits found so far, down to bit `above`.  The next digit ends at bit `shift`. */
static void fill_histogram(radix_histogram *s, const distribution *d, logit_cutoff cutoff, int by_weight, uint32_t prefix,
                           int above, int shift) {
    candidate_iterator w = {d, cutoff, 0, 0};
    s->buckets = (uint32_t)1 << (above - shift);
    memset(s->sums, 0, sizeof s->sums);
    memset(s->counts, 0, sizeof s->counts);
    for (int64_t i = next_candidate(&w); i >= 0; i = next_candidate(&w)) {
        const uint32_t key = sort_key(d->logits[i]);
        if (above < 32 && key >> above != prefix) continue;
        const uint32_t bucket = (key >> shift) & (s->buckets - 1);
        s->sums[bucket] += by_weight ? exp_weight(d, i) : 1.0;
        s->counts[bucket]++;
    }
}

/* Walks the digits from the largest down, until *sum plus theirs reaches `enough`.  out = that digit, or the lowest one
 * that occurs if none reaches it (rounding).  *reaches = whether one does.  Adds the larger digits to *sum. */
static uint32_t choose_bucket(const radix_histogram *s, double enough, double *sum, int *reaches) {
    uint32_t chosen = s->buckets;
    *reaches = 0;
    for (uint32_t bucket = s->buckets; bucket-- > 0 && !*reaches;) {
        if (s->counts[bucket] == 0) continue;
        if (chosen < s->buckets) *sum += s->sums[chosen];
        chosen = bucket;
        *reaches = *sum + s->sums[bucket] >= enough;
    }
    return chosen;
}

/* out = the cutoff at which the likeliest tokens of `cutoff` first reach `enough`.  Each counts 1, or its weight if
 * by_weight. */
static logit_cutoff find_threshold(const distribution *d, logit_cutoff cutoff, int by_weight, double enough) {
    radix_histogram s;
    double sum = 0.0;
    uint32_t prefix = 0, digit = 0;
    for (int above = 32; above > 0;) {
        const int shift = above > RADIX_BITS ? above - RADIX_BITS : 0;
        int reaches;
        fill_histogram(&s, d, cutoff, by_weight, prefix, above, shift);
        digit = choose_bucket(&s, enough, &sum, &reaches);
        /* At the first digit: all tokens together fall short of `enough` by rounding, so all are kept.  At later digits
         * the same weights are added in another order, and choose_bucket returns the lowest. */
        if (!reaches && above == 32) return cutoff;
        prefix = prefix << (above - shift) | digit;
        above = shift;
    }
    const double each = s.sums[digit] / (double)s.counts[digit];
    int64_t ties = 1;
    while (ties < s.counts[digit] && sum + each * (double)ties < enough)
        ties++;
    return (logit_cutoff){prefix, ties};
}

/* Replaces -0 by 0.  out = the id of the largest logit, the first of several; -1 if a logit is NaN or none is finite. */
static int64_t clean_argmax(float *logits, int64_t vocab) {
    int64_t best = -1;
    int finite = 0;
    for (int64_t i = 0; i < vocab; i++) {
        if (isnan(logits[i])) return -1;
        logits[i] += 0.0f;
        finite |= isfinite(logits[i]) != 0;
        if (best < 0 || logits[i] > logits[best]) best = i;
    }
    return finite ? best : -1;
}

static int32_t sample_token(const distribution *d, const gyre_sampling *s, double uniform) {
    logit_cutoff cutoff = {0, 0};
    int64_t last = -1;
    double sum = 0.0;
    if (s->top_k > 0 && s->top_k < d->vocab) cutoff = find_threshold(d, cutoff, 0, (double)s->top_k);
    if (s->top_p < 1.0) cutoff = find_threshold(d, cutoff, 1, s->top_p * total_weight(d, cutoff));
    const double target = uniform * total_weight(d, cutoff);
    candidate_iterator w = {d, cutoff, 0, 0};
    for (int64_t i = next_candidate(&w); i >= 0; i = next_candidate(&w)) {
        const double weight = exp_weight(d, i);
        if (weight > 0.0) last = i;
        sum += weight;
        if (sum > target) break;
    }
    return (int32_t)last;
}

int32_t gyre_sample(float *logits, int64_t vocab, const gyre_sampling *sampling, uint64_t *state) {
    gyre_sampling own = GYRE_INIT(gyre_sampling);
    const gyre_sampling *s = &own;
    const double uniform = gyre_random_uniform(state);
    if (vocab < 1 || vocab > INT32_MAX || (sampling && gyre_sized_read(&own, sizeof own, sampling, "gyre_sampling", NULL)))
        return -1;
    if (own.top_p == 0.0) own.top_p = 1;
    const int64_t best = clean_argmax(logits, vocab);
    if (best < 0 || !(s->temperature > 0.0)) return (int32_t)best;
    const distribution d = {logits, vocab, (double)logits[best], s->temperature};
    return sample_token(&d, s, uniform);
}
