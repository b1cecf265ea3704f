/* sample.c: one token drawn from what a model thinks comes next.
 *
 * No memory is taken and nothing is sorted: what top_k and top_p keep is all above some logit and, of those that equal it,
 * the lowest ids.  That logit is found by its bits, eleven at a time. */
#include "model/random.h"

#include "gyre/gyre_model.h"

#include <math.h>
#include <string.h>

enum { DIGIT = 11, BUCKETS = 1 << DIGIT };

/* What is kept: keys above `key`, and the first `ties` that equal it. */
typedef struct cut {
    uint32_t key;
    int64_t ties;
} cut;

typedef struct draw {
    const float *logits;
    int64_t vocab;
    double largest, temperature;
} draw;

/* Keys are in the order of the numbers. */
static uint32_t key_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* e^x for x <= 0.  A C library's differs in its last bit from that of another, and with it the token drawn. */
static double exponential(double x) {
    if (!(x > -745.0)) return 0.0;
    const double turns = floor(x * 0x1.71547652b82fep+0 + 0.5);
    const double rest = (x - turns * 0x1.62e42fefa0000p-1) - turns * 0x1.cf79abc9e3b39p-40;
    double sum = 1.0;
    for (int i = 14; i > 0; i--)
        sum = 1.0 + sum * rest / i;
    return ldexp(sum, (int)turns);
}

/* Unnormalised: 1 for the likeliest. */
static double weight_of(const draw *d, int64_t i) {
    const double x = (double)d->logits[i];
    if (x == d->largest) return 1.0;
    return isinf(x) || isinf(d->largest) ? 0.0 : exponential((x - d->largest) / d->temperature);
}

/* Goes through what `in` keeps. */
typedef struct walk {
    const draw *d;
    cut in;
    int64_t next, ties;
} walk;

static int64_t next_kept(walk *w) {
    while (w->next < w->d->vocab) {
        const int64_t i = w->next++;
        const uint32_t key = key_of(w->d->logits[i]);
        if (key > w->in.key || (key == w->in.key && w->ties++ < w->in.ties)) return i;
    }
    return -1;
}

static double total_of(const draw *d, cut in) {
    double total = 0.0;
    walk w = {d, in, 0, 0};
    for (int64_t i = next_kept(&w); i >= 0; i = next_kept(&w))
        total += weight_of(d, i);
    return total;
}

/* What `in` keeps and begins with the digits found so far, by its next digit. */
typedef struct digit_sums {
    double sums[BUCKETS];
    int64_t counts[BUCKETS];
    uint32_t buckets;
} digit_sums;

/* prefix: the digits above bit `above`; the next one ends at bit `shift`. */
static void sum_digit(digit_sums *s, const draw *d, cut in, int by_weight, uint32_t prefix, int above, int shift) {
    walk w = {d, in, 0, 0};
    s->buckets = (uint32_t)1 << (above - shift);
    memset(s->sums, 0, sizeof s->sums);
    memset(s->counts, 0, sizeof s->counts);
    for (int64_t i = next_kept(&w); i >= 0; i = next_kept(&w)) {
        const uint32_t key = key_of(d->logits[i]);
        if (above < 32 && key >> above != prefix) continue;
        const uint32_t bucket = (key >> shift) & (s->buckets - 1);
        s->sums[bucket] += by_weight ? weight_of(d, i) : 1.0;
        s->counts[bucket]++;
    }
}

/* out = the digit with which `sum`, of all that is larger, reaches `enough`; the lowest there is where none does, as
 * rounding may have it.  *reaches = whether one does.  Adds the larger ones to *sum. */
static uint32_t choose_digit(const digit_sums *s, double enough, double *sum, int *reaches) {
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

/* out = the cut below which the likeliest of `in` first reach `enough`, each counting 1 or its weight. */
static cut cut_at(const draw *d, cut in, int by_weight, double enough) {
    digit_sums s;
    double sum = 0.0;
    uint32_t prefix = 0, digit = 0;
    for (int above = 32; above > 0;) {
        const int shift = above > DIGIT ? above - DIGIT : 0;
        int reaches;
        sum_digit(&s, d, in, by_weight, prefix, above, shift);
        digit = choose_digit(&s, enough, &sum, &reaches);
        /* Rounding: all of them do not reach it.  Further down, where the same are added in another order, it is the
         * lowest of those that did. */
        if (!reaches && above == 32) return in;
        prefix = prefix << (above - shift) | digit;
        above = shift;
    }
    const double each = s.sums[digit] / (double)s.counts[digit];
    int64_t ties = 1;
    while (ties < s.counts[digit] && sum + each * (double)ties < enough)
        ties++;
    return (cut){prefix, ties};
}

/* Makes -0 a 0.  out = the likeliest, the first of several; -1 where there is nothing to choose from. */
static int64_t likeliest(float *logits, int64_t vocab) {
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

static int32_t draw_one(const draw *d, const gyre_sampling *s, double uniform) {
    cut in = {0, 0};
    int64_t last = -1;
    double sum = 0.0;
    if (s->top_k > 0 && s->top_k < d->vocab) in = cut_at(d, in, 0, (double)s->top_k);
    if (s->top_p < 1.0) in = cut_at(d, in, 1, s->top_p * total_of(d, in));
    const double target = uniform * total_of(d, in);
    walk w = {d, in, 0, 0};
    for (int64_t i = next_kept(&w); i >= 0; i = next_kept(&w)) {
        const double weight = weight_of(d, i);
        if (weight > 0.0) last = i;
        sum += weight;
        if (sum > target) break;
    }
    return (int32_t)last;
}

int32_t gyre_sample(float *logits, int64_t vocab, const gyre_sampling *sampling, uint64_t *state) {
    const gyre_sampling usual = GYRE_SAMPLING_INIT, *s = sampling ? sampling : &usual;
    const double uniform = gyre_random_uniform(state);
    if (vocab < 1 || vocab > INT32_MAX || s->size != sizeof *s) return -1;
    const int64_t best = likeliest(logits, vocab);
    if (best < 0 || !(s->temperature > 0.0)) return (int32_t)best;
    const draw d = {logits, vocab, (double)logits[best], s->temperature};
    return draw_one(&d, s, uniform);
}
