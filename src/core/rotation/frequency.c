/* frequency.c: every scaling of a rotation's frequencies, as one pure function of the config and the context length.
 *
 * Formulas are those of the papers and of transformers 5, evaluated in long double.  With its 64 bits on x86, the angle at
 * position 2^31 was never found off by more than 7e-11 rad.  Where long double is double, `low` is 0 and the error is
 * 2e-7. */
#include "core/rotation/frequency.h"

#include "core/rotation/angles_numpy.h"
#include "core/rotation/far_variants.h"
#include "core/rotation/frequency_torch.h"

#include <math.h>

static const long double two_pi = 6.283185307179586476925286766559005768L;

int64_t gyre_axis_of_pair(const struct gyre_rope_config *rope, int64_t pair) {
    int64_t axis = 0;
    if (rope->axes <= 1) return 0;
    if (rope->axes_layout == GYRE_AXES_INTERLEAVED) return pair < 3 * rope->axis_pairs[pair % 3] ? pair % 3 : 0;
    for (; pair >= rope->axis_pairs[axis]; axis++)
        pair -= rope->axis_pairs[axis];
    return axis;
}

static void take_own(const struct gyre_axis_config *axis, gyre_config *config) {
    config->rope.scaling = axis->scaling;
    config->rope.factor = axis->factor > 0 ? axis->factor : 1;
    if (axis->base > 0) config->rope.base = axis->base;
    if (axis->trained_length > 0) config->trained_length = axis->trained_length;
}

gyre_config gyre_axis_scaling(const gyre_config *config, int64_t axis, int64_t *first) {
    const struct gyre_rope_config *rope = &config->rope;
    gyre_config out = *config;
    *first = 0;
    if (config->rope.axis[axis].own) take_own(&config->rope.axis[axis], &out);
    if (rope->axes <= 1 || rope->axes_layout != GYRE_AXES_AXIAL) return out;
    for (int64_t a = 0; a < axis; a++)
        *first += rope->axis_pairs[a];
    out.rope.dim = 2 * rope->axis_pairs[axis];
    if (rope->short_factor) out.rope.short_factor = rope->short_factor + *first;
    if (rope->long_factor) out.rope.long_factor = rope->long_factor + *first;
    if (rope->frequencies) out.rope.frequencies = rope->frequencies + *first;
    return out;
}

static long double power_of(const struct gyre_rope_config *rope, long double base, int64_t pair) {
    const int64_t pairs = rope->dim / 2;
    return powl(base, -(long double)pair / (long double)pairs);
}

/* Powers of a wide head are products of two: of the first pair of each RUN, and of the pairs after it.  A few bytes may ask
 * for tens of thousands of pairs, and powl takes as long as a hundred products. */
enum { USUAL_DIM = 512, RUN = 64 };
typedef struct pair_powers {
    int64_t begin; /* of the run that `first` belongs to */
    long double first, after[RUN];
    int made;
} pair_powers;

/* Parameters of the scaling that all pairs share. */
typedef struct scaling_params {
    const gyre_config *config;
    long double base;      /* after the NTK change of base */
    long double factor;    /* s at this length */
    long double low, high; /* YaRN and by-parts: ends of the ramp, as pair indices */
    const double *divisor; /* LongRoPE: [rope.dim / 2] */
    long double kappa;     /* DyPE; 1 without */
    int64_t slowed;        /* RIFLEx: the pair */
    long double slow;      /* its frequency */
    pair_powers powers;    /* of base; kept from pair to pair */
} scaling_params;

static long double theta_of(scaling_params *r, int64_t pair) {
    const struct gyre_rope_config *rope = &r->config->rope;
    pair_powers *p = &r->powers;
    const int64_t begin = pair / RUN * RUN;
    if (rope->frequencies) return (long double)rope->frequencies[pair];
    if (rope->dim <= USUAL_DIM) return power_of(rope, r->base, pair);
    for (int64_t i = 0; !p->made && i < RUN; i++)
        p->after[i] = power_of(rope, r->base, i);
    if (!p->made || p->begin != begin) p->first = power_of(rope, r->base, begin);
    p->begin = begin;
    p->made = 1;
    return p->first * p->after[pair - begin];
}

static gyre_frequency split_double(long double value) {
    gyre_frequency out = {(double)value, 0.0};
    out.low = (double)(value - (long double)out.high);
    return out;
}

gyre_frequency gyre_frequency_power(double base, int64_t numerator, int64_t denominator) {
    return split_double(powl((long double)base, -(long double)numerator / (long double)denominator));
}

static int64_t length_in_use(const gyre_config *config, int64_t length) {
    if (length > 0) return length;
    return config->context_length > 0 ? config->context_length : config->trained_length;
}

/* Dynamic NTK: s grows with the context, s n / L - (s - 1), which is 1 at n = L. */
static long double dynamic_factor(const gyre_config *config, int64_t length) {
    const long double trained = (long double)config->trained_length;
    long double n = (long double)length_in_use(config, length);
    if (n < trained) n = trained;
    return (long double)config->rope.factor * n / trained - ((long double)config->rope.factor - 1.0L);
}

long double gyre_extension_ratio(const gyre_config *config, int64_t length) {
    const int64_t n = length_in_use(config, length);
    return n > config->trained_length ? (long double)n / (long double)config->trained_length : 1.0L;
}

/* The base that leaves pair 0 unchanged and divides the last pair by the factor. */
static long double ntk_base(const gyre_config *config, long double factor) {
    const long double dim = (long double)config->rope.dim;
    return (long double)config->rope.base * powl(factor, dim / (dim - 2.0L));
}

/* The fractional index of the pair that makes `revolutions` full circles over the trained length. */
static long double pair_of_revolutions(const gyre_config *config, double revolutions) {
    const long double length = (long double)config->trained_length;
    return (long double)config->rope.dim * logl(length / (two_pi * (long double)revolutions)) /
           (2.0L * logl((long double)config->rope.base));
}

/* As in the released code, with which models were trained: the upper end is clamped to dim - 1, not dim / 2 - 1, and each
 * end is clamped on one side only.  If even the slowest pair makes more than beta_fast revolutions, low may end above high,
 * and the ramp divides the pairs that it should keep (base 2, dim 64, L 2048: all of them). */
static void yarn_ramp(scaling_params *r) {
    const struct gyre_rope_config *rope = &r->config->rope;
    if (r->kappa == 0.0L) { /* the limit: every pair makes more than 0 revolutions */
        r->low = (long double)rope->dim;
        r->high = r->low + 1;
        return;
    }
    r->low = pair_of_revolutions(r->config, rope->beta_fast * (double)r->kappa);
    r->high = pair_of_revolutions(r->config, rope->beta_slow * (double)r->kappa);
    if (!rope->fractional_bounds) {
        r->low = floorl(r->low);
        r->high = ceill(r->high);
    }
    if (r->low < 0.0L) r->low = 0.0L;
    if (r->high > (long double)(rope->dim - 1)) r->high = (long double)(rope->dim - 1);
    if (r->low == r->high) r->high += 0.001L;
    /* Else the ramp would divide what it keeps. */
    if (r->config->rope.diffusion.timed && r->low > r->high) r->high = r->low + 1;
}

/* DyPE's strength at this step of the diffusion. */
static long double kappa_of(const gyre_config *config) {
    const struct gyre_diffusion_config *d = &config->rope.diffusion;
    return d->timed ? (long double)d->strength * powl((long double)d->time, (long double)d->exponent) : 1.0L;
}

/* The pair whose period, in whole positions, is nearest to that of the repetition; the first of equals. */
static int64_t find_intrinsic_pair(scaling_params *r, int64_t repeats_at) {
    int64_t best = 0;
    long double least = INFINITY;
    for (int64_t i = 0; i < r->config->rope.dim / 2; i++) {
        const long double period = roundl(two_pi / theta_of(r, i));
        if (!(fabsl(period - (long double)repeats_at) < least)) continue;
        least = fabsl(period - (long double)repeats_at);
        best = i;
    }
    return best;
}

static void find_slowed_pair(scaling_params *r, int64_t axis) {
    const struct gyre_axis_config *own = &r->config->rope.axis[axis];
    const long double share = r->config->rope.scaling == GYRE_SCALING_RIFLEX ? 0.9L : 1.0L;
    r->slowed = own->intrinsic_pair > 0 ? own->intrinsic_pair - 1 : find_intrinsic_pair(r, own->repeats_at);
    r->slow = share * two_pi / (r->factor * (long double)r->config->trained_length);
}

/* config: that of the pairs of `axis` (gyre_axis_scaling). */
static scaling_params scaling_params_of(const gyre_config *config, int64_t axis, int64_t length) {
    const struct gyre_rope_config *rope = &config->rope;
    scaling_params r = {.config = config,
                        .base = (long double)rope->base,
                        .factor = (long double)rope->factor,
                        .kappa = kappa_of(config),
                        .slowed = -1};
    switch (rope->scaling) {
    case GYRE_SCALING_LINEAR:
        r.factor = powl(r.factor, r.kappa);
        break;
    case GYRE_SCALING_NTK:
        r.factor = powl(r.factor, r.kappa);
        r.base = ntk_base(config, r.factor);
        break;
    case GYRE_SCALING_RIFLEX:
    case GYRE_SCALING_RIFLEX_PAPER:
        find_slowed_pair(&r, axis);
        break;
    case GYRE_SCALING_DYNAMIC_NTK:
        r.factor = dynamic_factor(config, length);
        r.base = ntk_base(config, r.factor);
        break;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_YARN:
        yarn_ramp(&r);
        break;
    case GYRE_SCALING_DYNAMIC_YARN:
        r.factor = gyre_extension_ratio(config, length);
        yarn_ramp(&r);
        break;
    case GYRE_SCALING_LONGROPE:
        r.divisor = length_in_use(config, length) > config->trained_length ? rope->long_factor : rope->short_factor;
        break;
    default:
        break;
    }
    return r;
}

static long double unit_ramp(long double x) {
    return x < 0.0L ? 0.0L : x > 1.0L ? 1.0L : x;
}

/* keep = 1: theta unchanged; 0: theta divided by the factor. */
static long double blend(long double theta, long double factor, long double keep) {
    return keep * theta + (1.0L - keep) * (theta / factor);
}

static long double revolutions_over_trained(const scaling_params *r, long double theta) {
    return (long double)r->config->trained_length * theta / two_pi;
}

/* `keep` of a pair that makes so many revolutions: 0 up to `slow`, 1 from `fast` on, linear between.  slow may equal
 * fast. */
static long double kept_fraction(long double revolutions, double slow, double fast) {
    if (revolutions >= (long double)fast) return 1.0L;
    if (revolutions <= (long double)slow) return 0.0L;
    return (revolutions - (long double)slow) / ((long double)fast - (long double)slow);
}

/* NTK-mixed: exp(a (i + 1)^b) with a (dim / 2)^b = ln s.  The last pair is divided by s itself, the others by less. */
static long double mixed_divisor(const scaling_params *r, int64_t pair) {
    const struct gyre_rope_config *rope = &r->config->rope;
    const long double place = 2.0L * (long double)(pair + 1) / (long double)rope->dim;
    return powl(r->factor, powl(place, (long double)rope->mixed_exponent));
}

/* The frequency of a pair after clipping.  That of the last pair is exactly 0, whatever cosl returns for pi. */
static long double clip_share(const gyre_config *config, int64_t pair) {
    const int64_t pairs = config->rope.dim / 2, n = config->rope.clip.pairs < pairs ? config->rope.clip.pairs : pairs;
    const int64_t j = pair - (pairs - n);
    if (config->rope.clip.mode == GYRE_CLIP_NONE || j < 0) return 1.0L;
    if (config->rope.clip.mode == GYRE_CLIP_HARD) return 0.0L;
    if (n == 1) return 1.0L;
    return j == n - 1 ? 0.0L : 0.5L * (1.0L + cosl(0.5L * two_pi * (long double)j / (long double)(n - 1)));
}

static long double unclipped_frequency(scaling_params *r, int64_t pair) {
    const struct gyre_rope_config *rope = &r->config->rope;
    const long double theta = theta_of(r, pair);
    switch (rope->scaling) {
    case GYRE_SCALING_LINEAR:
        return theta / r->factor;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_YARN:
    case GYRE_SCALING_DYNAMIC_YARN:
        return blend(theta, r->factor, 1.0L - unit_ramp(((long double)pair - r->low) / (r->high - r->low)));
    case GYRE_SCALING_BY_PARTS_PAPER:
        return blend(theta, r->factor,
                     kept_fraction(revolutions_over_trained(r, theta), rope->beta_slow * (double)r->kappa,
                                   rope->beta_fast * (double)r->kappa));
    case GYRE_SCALING_RIFLEX:
    case GYRE_SCALING_RIFLEX_PAPER:
        return pair == r->slowed ? r->slow : theta;
    case GYRE_SCALING_LLAMA3:
        return blend(theta, r->factor, kept_fraction(revolutions_over_trained(r, theta), rope->low_freq, rope->high_freq));
    case GYRE_SCALING_LONGROPE:
        return r->divisor ? theta / (long double)r->divisor[pair] : theta;
    case GYRE_SCALING_PROPORTIONAL:
        return pair < (int64_t)(rope->proportion * (double)rope->dim / 2.0) ? theta / r->factor : 0.0L;
    case GYRE_SCALING_NTK_MIXED:
        return theta / mixed_divisor(r, pair);
    default:
        return theta;
    }
}

static long double scaled_frequency(scaling_params *r, int64_t pair) {
    return unclipped_frequency(r, pair) * clip_share(r->config, pair);
}

/* Rounds the wavelength to a whole number of positions: after its first revolution a pair repeats the same angles. */
static long double resonance_frequency(long double frequency) {
    if (frequency == 0.0L) return 0.0L;
    const long double wavelength = roundl(two_pi / frequency);
    return two_pi / (wavelength < 1.0L ? 1.0L : wavelength);
}

static long double frequency_of(scaling_params *r, int64_t pair) {
    const long double frequency = scaled_frequency(r, pair);
    return r->config->rope.resonance ? resonance_frequency(frequency) : frequency;
}

/* The length in use of an axis. */
static int64_t length_of_axis(const gyre_config *config, int64_t axis, int64_t length) {
    const struct gyre_axis_config *own = &config->rope.axis[axis];
    return own->own && own->context_length > 0 ? own->context_length : length;
}

/* From formulas alone.  Of out[count] and high[count] one is NULL; high takes the frequencies rounded to double. */
static void exact_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out,
                              double *high) {
    gyre_config group = *config;
    scaling_params r = {.config = &group};
    int64_t before = -1, begin = 0;
    for (int64_t j = 0; j < count; j++) {
        const int64_t axis = gyre_axis_of_pair(&config->rope, first + j);
        if (axis != before) {
            group = gyre_axis_scaling(config, axis, &begin);
            r = scaling_params_of(&group, axis, length_of_axis(config, axis, length));
        }
        before = axis;
        const gyre_frequency frequency = split_double(frequency_of(&r, first + j - begin));
        if (out)
            out[j] = frequency;
        else
            high[j] = frequency.high;
    }
}

void gyre_rope_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out) {
    if (gyre_is_torch(config->rope.angles))
        gyre_torch_frequencies(config, length, first, count, out);
    else if (config->rope.angles == GYRE_ANGLE_PATH_TENSORRT_LLM)
        gyre_numpy_frequencies(config, first, count, out);
    else
        exact_frequencies(config, length, first, count, out, NULL);
}

void gyre_rope_rounded_frequencies(const gyre_config *config, int64_t length, double *out) {
    const int64_t pairs = config->rope.dim / 2;
    gyre_frequency chunk[RUN];
    if (!gyre_is_torch(config->rope.angles) && config->rope.angles != GYRE_ANGLE_PATH_TENSORRT_LLM) {
        exact_frequencies(config, length, 0, pairs, NULL, out);
        return;
    }
    for (int64_t first = 0, count; first < pairs; first += count) {
        count = pairs - first < RUN ? pairs - first : RUN;
        gyre_rope_frequencies(config, length, first, count, chunk);
        for (int64_t i = 0; i < count; i++)
            out[first + i] = chunk[i].high;
    }
}

double gyre_rope_start_below(const gyre_config *config, int64_t length) {
    const int is_long = length_in_use(config, length) > config->trained_length;
    return config->rope.longrope.start_tokens > 0 && is_long ? (double)config->rope.longrope.start_tokens
                                                             : -(double)INFINITY;
}

static double yarn_magnitude(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* mscale and mscale_all_dim count only together, as in transformers. */
static double yarn_attention_factor(const struct gyre_rope_config *rope, double factor) {
    if (rope->mscale != 0.0 && rope->mscale_all_dim != 0.0)
        return yarn_magnitude(factor, rope->mscale) / yarn_magnitude(factor, rope->mscale_all_dim);
    return yarn_magnitude(factor, 1.0);
}

static double scaling_attention_factor(const gyre_config *config, int64_t length) {
    const struct gyre_rope_config *rope = &config->rope;
    if (rope->attention_factor != 0.0) return rope->attention_factor;
    if (rope->scaling == GYRE_SCALING_YARN) return yarn_attention_factor(rope, rope->factor);
    if (rope->scaling == GYRE_SCALING_DYNAMIC_YARN)
        return yarn_attention_factor(rope, (double)gyre_extension_ratio(config, length));
    if (rope->scaling == GYRE_SCALING_LONGROPE && rope->factor > 1.0)
        return sqrt(1.0 + log(rope->factor) / log((double)config->trained_length));
    return 1.0;
}

/* out = how often the length in use has rope.chunk.original_length tokens;
 * 1 if not more than once, or if it does not matter. */
static double chunk_ratio(const gyre_config *config, int64_t length) {
    const int64_t original = gyre_is_chunked(&config->rope) ? config->rope.chunk.original_length : 0;
    const int64_t n = length_in_use(config, length);
    return original > 0 && n > original ? (double)n / (double)original : 1.0;
}

double gyre_rope_attention_factor(const gyre_config *config, int64_t length) {
    return scaling_attention_factor(config, length) * yarn_magnitude(chunk_ratio(config, length), 1.0);
}

/* The same for the pairs of one axis. */
static int same_of_axis(const gyre_config *config, int64_t length, int64_t other) {
    const int64_t n = length_in_use(config, length), m = length_in_use(config, other), trained = config->trained_length;
    if (chunk_ratio(config, n) != chunk_ratio(config, m)) return 0;
    switch (config->rope.scaling) {
    case GYRE_SCALING_LONGROPE:
        return (n > trained) == (m > trained);
    case GYRE_SCALING_DYNAMIC_NTK:
    case GYRE_SCALING_DYNAMIC_YARN:
        return n == m || (n <= trained && m <= trained);
    default:
        return 1;
    }
}

int gyre_rope_same_frequencies(const gyre_config *config, int64_t length, int64_t other) {
    const int64_t axes = config->rope.axes > 1 ? config->rope.axes : 1;
    int same = same_of_axis(config, length, other); /* of the attention factor too */
    for (int64_t a = 0; a < axes && same; a++) {
        if (!config->rope.axis[a].own) continue;
        gyre_config own = *config;
        take_own(&config->rope.axis[a], &own);
        same = same_of_axis(&own, length_of_axis(config, a, length), length_of_axis(config, a, other));
    }
    return same;
}

/* Counts what the scaling itself does.  Resonance moves every pair a little and is not counted. */
gyre_scaling_parts gyre_rope_parts(const gyre_config *config, int64_t length) {
    const long double tolerance = 1e-9L;
    gyre_scaling_parts parts = {0, 0, 0};
    gyre_config group = *config;
    scaling_params r = {.config = &group}, trained = r;
    int64_t before = -1, begin = 0;
    for (int64_t i = 0; i < config->rope.dim / 2; i++) {
        const int64_t axis = gyre_axis_of_pair(&config->rope, i);
        if (axis != before) {
            group = gyre_axis_scaling(config, axis, &begin);
            r = scaling_params_of(&group, axis, length_of_axis(config, axis, length));
            trained = (scaling_params){.config = &group, .base = (long double)group.rope.base};
        }
        before = axis;
        const long double theta = theta_of(&trained, i - begin);
        const long double ratio = theta == 0.0L ? 1.0L : scaled_frequency(&r, i - begin) / theta; /* a given 0 stays */
        if (fabsl(ratio - 1.0L) <= tolerance)
            parts.kept++;
        else if (ratio == 0.0L || fabsl(ratio * r.factor - 1.0L) <= tolerance)
            parts.divided++;
        else
            parts.blended++;
    }
    return parts;
}
