/* fuzz_frequencies.c: scalings, one formula of gyre.h after another. */
#include "fuzz_frequencies.h"

#include <math.h>

static const long double TWO_PI = 6.283185307179586476925286766559005768L;

/* What a scaling acts on: a rotation, or one axis of it. */
typedef struct group {
    gyre_scaling scaling;
    int64_t axis, first, pairs, length, trained;
    long double base, factor, kappa;
} group;

static double given_or(double value, double standard) {
    return value != 0 ? value : standard;
}

int64_t fuzz_axis_of(const gyre_config *c, int64_t pair) {
    const int64_t *pairs = c->rope.axis_pairs;
    if (c->rope.axes <= 1) return 0;
    if (c->rope.axes_layout == GYRE_AXES_INTERLEAVED) return pair < 3 * pairs[pair % 3] ? pair % 3 : 0;
    int64_t axis = 0;
    for (int64_t end = pairs[0]; pair >= end; end += pairs[axis])
        axis++;
    return axis;
}

static int64_t length_of(const gyre_config *c, int64_t length) {
    return length > 0 ? length : c->context_length > 0 ? c->context_length : c->trained_length;
}

static group group_of(const gyre_config *c, int64_t length, int64_t pair) {
    const struct gyre_diffusion_config *d = &c->rope.diffusion;
    const int64_t axis = fuzz_axis_of(c, pair);
    const struct gyre_axis_config *own = &c->rope.axis[axis];
    group g = {c->rope.scaling,
               axis,
               0,
               c->rope.dim / 2,
               length_of(c, length),
               c->trained_length,
               given_or(c->rope.base, 10000),
               given_or(c->rope.factor, 1),
               1};
    if (own->own) {
        g.scaling = own->scaling;
        g.factor = given_or(own->factor, 1);
        g.base = given_or(own->base, (double)g.base);
        if (own->trained_length > 0) g.trained = own->trained_length;
        if (own->context_length > 0) g.length = own->context_length;
    }
    if (d->timed) g.kappa = given_or(d->strength, 2) * powl((long double)d->time, given_or(d->exponent, 2));
    if (c->rope.axes <= 1 || c->rope.axes_layout != GYRE_AXES_AXIAL) return g;
    for (int64_t a = 0; a < axis; a++)
        g.first += c->rope.axis_pairs[a];
    g.pairs = c->rope.axis_pairs[axis];
    return g;
}

static long double theta(const group *g, long double base, int64_t i) {
    return powl(base, -(long double)i / (long double)g->pairs);
}

static long double ntk(const group *g, long double factor, int64_t i) {
    const long double dim = 2 * (long double)g->pairs;
    return theta(g, g->base * powl(factor, dim / (dim - 2)), i);
}

/* keep: of the pair as trained; the rest of it is divided by `factor`. */
static long double blend(long double frequency, long double factor, long double keep) {
    const long double share = fmaxl(0, fminl(1, keep));
    return share * frequency + (1 - share) * frequency / factor;
}

/* The pair that makes so many revolutions within L, as a fraction. */
static long double pair_of(const group *g, long double revolutions) {
    return (long double)g->pairs * logl((long double)g->trained / (TWO_PI * revolutions)) / logl(g->base);
}

/* YaRN's released code: find_correction_range and linear_ramp_mask. */
static long double ramp(const gyre_config *c, const group *g, long double factor, int64_t i) {
    const long double trained = theta(g, g->base, i);
    if (g->kappa == 0) return trained; /* every pair makes more than 0 revolutions */
    long double low = pair_of(g, given_or(c->rope.beta_fast, 32) * g->kappa);
    long double high = pair_of(g, given_or(c->rope.beta_slow, 1) * g->kappa);
    if (!c->rope.fractional_bounds) {
        low = floorl(low);
        high = ceill(high);
    }
    low = fmaxl(low, 0);
    high = fminl(high, 2 * (long double)g->pairs - 1);
    if (low == high) high += 0.001L;
    if (c->rope.diffusion.timed && low > high) high = low + 1;
    return blend(trained, factor, 1 - ((long double)i - low) / (high - low));
}

/* Keeps pairs of `fast` revolutions within L and more, divides those of `slow` and less. */
static long double by_revolutions(const group *g, long double slow, long double fast, int64_t i) {
    const long double trained = theta(g, g->base, i), revolutions = (long double)g->trained * trained / TWO_PI;
    if (revolutions >= fast) return trained;
    return revolutions <= slow ? trained / g->factor : blend(trained, g->factor, (revolutions - slow) / (fast - slow));
}

static long double slowed(const gyre_config *c, const group *g, int64_t i) {
    const struct gyre_axis_config *own = &c->rope.axis[g->axis];
    int64_t pair = own->intrinsic_pair - 1;
    for (int64_t j = 0; own->intrinsic_pair == 0 && j < g->pairs; j++) {
        const long double repeats = (long double)own->repeats_at;
        const long double off = fabsl(roundl(TWO_PI / theta(g, g->base, j)) - repeats);
        if (pair < 0 || off < fabsl(roundl(TWO_PI / theta(g, g->base, pair)) - repeats)) pair = j;
    }
    const long double share = g->scaling == GYRE_SCALING_RIFLEX ? 0.9L : 1;
    return i == pair ? share * TWO_PI / (g->factor * (long double)g->trained) : theta(g, g->base, i);
}

static long double over_trained(const group *g) {
    return g->length > g->trained ? (long double)g->length / (long double)g->trained : 1;
}

static long double scaled(const gyre_config *c, const group *g, int64_t i) {
    const struct gyre_rope_config *rope = &c->rope;
    const long double trained = theta(g, g->base, i), s = g->factor;
    const double *list = g->length > g->trained ? rope->long_factor : rope->short_factor;
    switch (g->scaling) {
    case GYRE_SCALING_LINEAR:
        return trained / powl(s, g->kappa);
    case GYRE_SCALING_NTK:
        return ntk(g, powl(s, g->kappa), i);
    case GYRE_SCALING_DYNAMIC_NTK:
        return ntk(g, s * over_trained(g) - (s - 1), i);
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_YARN:
        return ramp(c, g, s, i);
    case GYRE_SCALING_DYNAMIC_YARN:
        return ramp(c, g, over_trained(g), i);
    case GYRE_SCALING_BY_PARTS_PAPER:
        return by_revolutions(g, given_or(rope->beta_slow, 1) * g->kappa, given_or(rope->beta_fast, 32) * g->kappa, i);
    case GYRE_SCALING_LLAMA3:
        return by_revolutions(g, given_or(rope->low_freq, 1), given_or(rope->high_freq, 4), i);
    case GYRE_SCALING_LONGROPE:
        return trained / (long double)list[g->first + i];
    case GYRE_SCALING_PROPORTIONAL:
        return i < (int64_t)(given_or(rope->proportion, 1) * (double)g->pairs) ? trained / s : 0;
    case GYRE_SCALING_NTK_MIXED:
        return trained / powl(s, powl((long double)(i + 1) / (long double)g->pairs, given_or(rope->mixed_exponent, 0.625)));
    case GYRE_SCALING_RIFLEX:
    case GYRE_SCALING_RIFLEX_PAPER:
        return slowed(c, g, i);
    default:
        return trained;
    }
}

static long double clip(const gyre_config *c, const group *g, int64_t i) {
    const int64_t asked = c->rope.clip.pairs > 0 ? c->rope.clip.pairs : 20, n = asked < g->pairs ? asked : g->pairs;
    const int64_t j = i - (g->pairs - n);
    if (c->rope.clip.mode == GYRE_CLIP_NONE || j < 0) return 1;
    if (c->rope.clip.mode == GYRE_CLIP_HARD) return 0;
    if (n > 1 && j == n - 1) return 0; /* cos of a rounded pi would leave 1e-40 of it, which has a wavelength */
    return n == 1 ? 1 : (1 + cosl(TWO_PI / 2 * (long double)j / (long double)(n - 1))) / 2;
}

static double finish(const gyre_config *c, const group *g, long double frequency, int64_t i) {
    const long double clipped = frequency * clip(c, g, i);
    if (!c->rope.resonance || clipped == 0) return (double)clipped;
    return (double)(TWO_PI / fmaxl(1, roundl(TWO_PI / clipped)));
}

double fuzz_frequency(const gyre_config *c, int64_t length, int64_t pair) {
    const group g = group_of(c, length, pair);
    return finish(c, &g, scaled(c, &g, pair - g.first), pair - g.first);
}

double fuzz_unscaled_frequency(const gyre_config *c, int64_t pair) {
    const group g = group_of(c, 0, pair);
    return finish(c, &g, theta(&g, g.base, pair - g.first), pair - g.first);
}

static double magnitude(double mscale, double s) {
    return s > 1 ? 0.1 * mscale * log(s) + 1 : 1;
}

static double scaling_factor(const gyre_config *c, int64_t length) {
    const struct gyre_rope_config *rope = &c->rope;
    const double ratio = (double)length_of(c, length) / (double)c->trained_length, s = given_or(rope->factor, 1);
    const double grown = rope->scaling == GYRE_SCALING_DYNAMIC_YARN ? fmax(1, ratio) : s;
    if (rope->attention_factor != 0) return rope->attention_factor;
    if (rope->scaling == GYRE_SCALING_LONGROPE && s > 1) return sqrt(1 + log(s) / log((double)c->trained_length));
    if (rope->scaling != GYRE_SCALING_YARN && rope->scaling != GYRE_SCALING_DYNAMIC_YARN) return 1;
    if (rope->mscale != 0 && rope->mscale_all_dim != 0)
        return magnitude(rope->mscale, grown) / magnitude(rope->mscale_all_dim, grown);
    return magnitude(1, grown);
}

double fuzz_attention_factor(const gyre_config *c, int64_t length) {
    const int is_chunked = c->rope.far == GYRE_FAR_CHUNKED || c->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t original = is_chunked ? c->rope.chunk.original_length : 0;
    return scaling_factor(c, length) * (original > 0 ? magnitude(1, (double)length_of(c, length) / (double)original) : 1);
}

int fuzz_has_start_tokens(const gyre_config *c, int64_t length) {
    return c->rope.longrope.start_tokens > 0 && length_of(c, length) > c->trained_length;
}

int fuzz_follows_length(const gyre_config *c) {
    const gyre_scaling all = c->rope.scaling;
    const int is_chunked = c->rope.far == GYRE_FAR_CHUNKED || c->rope.far == GYRE_FAR_CHUNKED_PAPER;
    int follows = is_chunked && c->rope.chunk.original_length > 0;
    follows |= all == GYRE_SCALING_DYNAMIC_NTK || all == GYRE_SCALING_DYNAMIC_YARN || all == GYRE_SCALING_LONGROPE;
    for (int64_t a = 0; a < (c->rope.axes > 1 ? c->rope.axes : 1); a++) {
        const struct gyre_axis_config *own = &c->rope.axis[a];
        if (!own->own || own->context_length > 0) continue;
        follows |= own->scaling == GYRE_SCALING_DYNAMIC_NTK || own->scaling == GYRE_SCALING_DYNAMIC_YARN;
        /* That of an axis of a shorter length has changed lists by then. */
        follows |=
            own->scaling == GYRE_SCALING_LONGROPE && (own->trained_length == 0 || own->trained_length >= c->trained_length);
    }
    return follows;
}

double fuzz_temperature(const gyre_config *c, int64_t m) {
    const double slope = given_or(c->query.slope, 0.1);
    const int64_t length = c->query.reference_length > 0 ? c->query.reference_length : c->trained_length;
    const int64_t next = (m + 1) / length, same = m / length; /* whole lengths before it */
    if (m < 0) return 1;
    switch (c->query.temperature) {
    case GYRE_TEMPERATURE_LOG:
        return fmax(1, log((double)(m + 1)) / log((double)length));
    case GYRE_TEMPERATURE_LLAMA4:
        return 1 + slope * log((double)(1 + next));
    case GYRE_TEMPERATURE_MINISTRAL:
        return 1 + slope * log((double)(1 + same));
    default:
        return 1;
    }
}
