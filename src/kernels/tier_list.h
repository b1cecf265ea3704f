/* tier_list.h: the list of tiers and their tables of place kernels. */
#ifndef GYRE_KERNELS_TIER_LIST_H
#define GYRE_KERNELS_TIER_LIST_H
#include "kernels/places/place_kernels.h"

/* Expands tier(with, name) for each tier, best first.  libgyre_rope is small, and has one for each family. */
#ifdef GYRE_ROPE_ALONE
#define GYRE_VECTOR_TIERS(tier, with) tier(with, avx2) tier(with, neon) tier(with, wasm)
#else
#define GYRE_VECTOR_TIERS(tier, with)                                                                                       \
    tier(with, avx512bf16) tier(with, avx512) tier(with, avx2) tier(with, neon) tier(with, wasm)
#endif
#define GYRE_TIERS(tier, with) GYRE_VECTOR_TIERS(tier, with) tier(with, scalar)

/* gyre_place_tier_<name>: NULL if this build lacks the tier.  A build has the tiers of its processor family. */
#define GYRE_TIER_DECLARE(prefix, name) extern const gyre_place_kernels *const prefix##name;
GYRE_TIERS(GYRE_TIER_DECLARE, gyre_place_tier_)
#undef GYRE_TIER_DECLARE

#endif
