/* sample.c: drawing the token that comes next.
 *
 * Nothing here depends on the C library's exp or on an order of summing that changes: a seed gives the same text on every
 * machine that computes the same logits. */
#include "gyre/gyre_model.h"
#include "model/random.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* exp of x <= 0 by additions, products and one division of exponents, to about an ulp of double. */
static double exp_below_one(double x) {
    enum { TERMS = 14 };
    if (!(x > -745)) return 0;
    const double n = floor(x * 1.4426950408889634 + 0.5);
    const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
    double sum = 1;
    for (int i = TERMS; i >= 1; i--)
        sum = 1 + r * sum / i;
    return ldexp(sum, (int)n);
}

/* out = the first of the likeliest tokens; -1 where a logit is NaN or all are -infinity. */
static int64_t likeliest(const float *logits, int64_t vocab) {
    int64_t best = -1;
    for (int64_t i = 0; i < vocab; i++) {
        if (isnan(logits[i])) return -1;
        if (logits[i] > -INFINITY && (best < 0 || logits[i] > logits[best])) best = i;
    }
    return best;
}

/* A number that rises with the float, NaN aside. */
static uint32_t key_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Of a selection: each value counts as 1, or as itself where weighed is 1. */
typedef struct selection {
    float *values;
    int64_t count;
    int weighed;
    double goal; /* above 0: of what is kept together */
} selection;

static double mass_of(const selection *s, int64_t i) {
    return s->weighed ? (double)s->values[i] : 1;
}

/* out = the key of the least value that has to be kept; *above = the mass of all greater ones.  Digit by digit of the key,
 * highest first: a pass each, in place of a sort. */
static uint32_t boundary(const selection *s, double *above) {
    uint32_t key = 0;
    int known = 0; /* leading bits of key that are settled */
    *above = 0;
    while (known < 32) {
        const int bits = 32 - known < DIGIT_BITS ? 32 - known : DIGIT_BITS, shift = 32 - known - bits;
        double mass[DIGITS] = {0};
        for (int64_t i = 0; i < s->count; i++) {
            const uint32_t k = key_of(s->values[i]);
            if (known && (k ^ key) >> (32 - known)) continue;
            mass[(k >> shift) & ((1u << bits) - 1)] += mass_of(s, i);
        }
        int digit = (1 << bits) - 1,
            last = -1; /* last: the lowest that holds any; rounding may leave the goal out of reach */
        double before = *above, sum = *above;
        for (; digit >= 0; digit--) {
            if (mass[digit] <= 0) continue;
            last = digit;
            before = sum;
            sum += mass[digit];
            if (sum >= s->goal) break;
        }
        *above = before;
        key |= (uint32_t)(last < 0 ? 0 : last) << shift;
        known += bits;
    }
    return key;
}

/* The greatest values stay, so many that they reach the goal, of equal ones the first; the others become `none`. */
static void keep_greatest(const selection *s, float none) {
    double mass;
    const uint32_t key = boundary(s, &mass);
    for (int64_t i = 0; i < s->count; i++) {
        const uint32_t k = key_of(s->values[i]);
        if (k > key) continue;
        if (k == key && mass < s->goal)
            mass += mass_of(s, i);
        else
            s->values[i] = none;
    }
}

static double sum_of(const float *weights, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)weights[i];
    return sum;
}

static int32_t draw(const float *weights, int64_t vocab, double uniform) {
    const double target = uniform * sum_of(weights, vocab);
    double sum = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < vocab; i++) {
        if (weights[i] <= 0) continue;
        last = i;
        sum += (double)weights[i];
        if (sum > target) break;
    }
    return (int32_t)last;
}

int32_t gyre_sample(float *logits, int64_t vocab, const gyre_sampling *sampling, uint64_t *state) {
    const double uniform = gyre_random_uniform(state);
    const int64_t best = likeliest(logits, vocab);
    if (best < 0 || !(sampling->temperature > 0) || isinf(logits[best])) return (int32_t)best;
    const float greatest = logits[best];
    if (sampling->top_k > 0 && sampling->top_k < vocab)
        keep_greatest(&(selection){logits, vocab, 0, (double)sampling->top_k}, -INFINITY);
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = (float)exp_below_one(((double)logits[i] - (double)greatest) / sampling->temperature);
    if (sampling->top_p < 1) {
        const double goal = sampling->top_p * sum_of(logits, vocab);
        keep_greatest(&(selection){logits, vocab, 1, goal > DBL_MIN ? goal : DBL_MIN}, 0);
    }
    return draw(logits, vocab, uniform);
}
