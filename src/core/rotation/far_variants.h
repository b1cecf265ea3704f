/* far_variants.h: the variants of a rotation: the angles by which a query and a key rotate depend on both.
 *
 *     rope.far              variants of a query        variants of a key
 *     AS_NEAR               1                       1
 *     CLAMPED .. GROUPED    2: near, far            2
 *     CHUNKED, _PAPER       3: intra-chunk,         1, at n mod L, for all variants of the query
 *                              successive, inter
 *
 * A key at a lower position never has a lower variant, so each variant takes keys up to some position. */
#ifndef GYRE_CORE_FAR_VARIANTS_H
#define GYRE_CORE_FAR_VARIANTS_H
#include "gyre/gyre.h"

enum { GYRE_MAX_VARIANTS = 3, GYRE_MAX_KEY_VARIANTS = 2 };

static inline int gyre_is_chunked(const struct gyre_rope_config *rope) {
    return rope->far == GYRE_FAR_CHUNKED || rope->far == GYRE_FAR_CHUNKED_PAPER;
}

/* out = how many ways a query or a key rotates in attention. */
int gyre_variant_count(const gyre_config *config, gyre_role role);
/* out = the highest position of keys with variant `variant` or a later one, for a query at m; variant is 1 or more. */
int64_t gyre_variant_last_key(const gyre_config *config, int variant, int64_t m);
/* out = the position by which a query or key at `position` rotates in `variant`. */
double gyre_variant_position(const gyre_config *config, gyre_role role, int variant, int64_t position);
/* 1 if `variant` rotates by other frequencies than variant 0 does: leaky ReRoPE's far variant, rope.far_factor times
 * slower. */
static inline int gyre_variant_is_slower(const struct gyre_rope_config *rope, int variant) {
    return variant > 0 && rope->far == GYRE_FAR_LEAKY;
}

#endif
