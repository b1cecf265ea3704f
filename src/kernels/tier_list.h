/* tier_list.h: the list of tiers and their tables of place kernels. */
#ifndef GYRE_KERNELS_TIER_LIST_H
#define GYRE_KERNELS_TIER_LIST_H
#include "kernels/places/place_kernels.h"

/* Expands tier(with, name, text) for each tier, best first, and last(with, name, text) for the last; text is what GYRE_CPU
 * calls it.  libgyre_rope is small, and has one for each family. */
#ifdef GYRE_ROPE_ALONE
#define GYRE_TIERS_AND_LAST(tier, last, with)                                                                               \
    tier(with, avx2, "avx2") tier(with, neon, "neon") tier(with, wasm, "wasm") last(with, scalar, "scalar")
#else
#define GYRE_TIERS_AND_LAST(tier, last, with)                                                                               \
    tier(with, amx, "amx") tier(with, avx512bf16, "avx512bf16") tier(with, avx512vnni, "avx512vnni")                        \
        tier(with, avx512, "avx512") tier(with, avx2, "avx2") tier(with, neon, "neon") tier(with, wasm, "wasm")             \
            tier(with, scalar, "scalar") last(with, amx_emulated, "amx-emulated")
#endif
#define GYRE_TIERS(tier, with) GYRE_TIERS_AND_LAST(tier, tier, with)

/* gyre_place_tier_<name>: NULL if this build lacks the tier.  A build has the tiers of its processor family. */
#define GYRE_TIER_DECLARE(prefix, name, text) extern const gyre_place_kernels *const prefix##name;
GYRE_TIERS(GYRE_TIER_DECLARE, gyre_place_tier_)
#undef GYRE_TIER_DECLARE

#endif
