/* scaling_traits.h: what config.json says of a scaling. */
#ifndef GYRE_READING_SCALING_TRAITS_H
#define GYRE_READING_SCALING_TRAITS_H
#include "gyre/gyre_fields.h"

/* out = 1 and *scaling = the scaling that rope_type names so, or 0.  RIFLEx is of an axis and has no rope_type. */
int gyre_find_rope_type(const char *text, gyre_scaling *scaling);
/* out = 1 if the frequencies depend on the trained length L, which the file then states apart from the length served. */
int gyre_scaling_has_original_length(gyre_scaling scaling);
/* out = 1 if the scaling has its own attention factor, which the key attention_factor overrides. */
int gyre_scaling_has_attention_factor(gyre_scaling scaling);

#endif
