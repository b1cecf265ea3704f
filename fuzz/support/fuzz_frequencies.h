/* fuzz_frequencies.h: frequencies and attention factors of every scaling by the formulas of gyre.h, in long double. */
#ifndef GYRE_FUZZ_FREQUENCIES_H
#define GYRE_FUZZ_FREQUENCIES_H
#include "gyre/gyre.h"

/* config: as the caller wrote it, its zeros too, with trained_length.  length: in use; 0 = the encoding's own. */

/* out = the axis that a pair of the rotation belongs to. */
int64_t fuzz_axis_of(const gyre_config *config, int64_t pair);
/* out = radians per position of a pair. */
double fuzz_frequency(const gyre_config *config, int64_t length, int64_t pair);
/* The same without a scaling, which LongRoPE's start tokens rotate by. */
double fuzz_unscaled_frequency(const gyre_config *config, int64_t pair);
/* out = the factor of cos and sin. */
double fuzz_attention_factor(const gyre_config *config, int64_t length);
/* out = 1 if LongRoPE's start tokens rotate in their own way at this length. */
int fuzz_has_start_tokens(const gyre_config *config, int64_t length);
/* out = 1 if the frequencies past the trained length depend on the length in use, so that a call has to know it. */
int fuzz_follows_length(const gyre_config *config);
/* out = the temperature's factor of a query at m. */
double fuzz_temperature(const gyre_config *config, int64_t m);

#endif
