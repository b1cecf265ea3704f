/* frequency.h: from a config to radians per position.  Only this file and frequency_torch know the scalings' formulas. */
#ifndef GYRE_CORE_FREQUENCY_H
#define GYRE_CORE_FREQUENCY_H
#include "gyre/gyre.h"

/* Radians per position as the unevaluated sum high + low.  With one double the angle at position 2^31 would be off by up to
 * 1e-7. */
typedef struct gyre_frequency {
    double high, low;
} gyre_frequency;

/* base^(-numerator / denominator). */
gyre_frequency gyre_frequency_power(double base, int64_t numerator, int64_t denominator);

/* out = the axis whose position rotates a pair.  For 8 pairs and axis_pairs {4, 2, 2}:
 *
 *     chunked, axial   0 0 0 0 1 1 2 2
 *     interleaved      0 1 2 0 1 2 0 0     every third pair to axes 1 and 2 until they have theirs, all others to axis 0 */
int64_t gyre_axis_of_pair(const struct gyre_rope_config *rope, int64_t pair);
/* out = the config whose formulas the pairs of an axis follow: with the axis's own fields, and, where axes count their own
 * frequencies, of its pairs alone.  *first = the pair that is pair 0 there. */
gyre_config gyre_axis_scaling(const gyre_config *config, int64_t axis, int64_t *first);
/* out[j] = frequency of pair first + j, j < count, at context length `length` (0 = config's own).  config has its defaults
 * filled in. */
void gyre_rope_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out);
/* The same of all pairs, rounded to double: out[rope.dim / 2].  Powers that pairs of a wide head share are computed once. */
void gyre_rope_rounded_frequencies(const gyre_config *config, int64_t length, double *out);
/* out = the attention factor, which multiplies cos and sin, at context length `length` (0 = config's own). */
double gyre_rope_attention_factor(const gyre_config *config, int64_t length);
/* 1 if two context lengths (0 = config's own) give the same rotations: frequencies and attention factor. */
int gyre_rope_same_frequencies(const gyre_config *config, int64_t length, int64_t other);
/* out = the position below which LongRoPE's start tokens rotate unscaled at a context length; -INFINITY = there are none. */
double gyre_rope_start_below(const gyre_config *config, int64_t length);
/* out = max(1, n / L) at context length `length` (0 = config's own). */
long double gyre_extension_ratio(const gyre_config *config, int64_t length);
/* out = how many pairs the scaling keeps, blends and divides at `length`. */
gyre_scaling_parts gyre_rope_parts(const gyre_config *config, int64_t length);

#endif
