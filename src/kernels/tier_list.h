/* tier_list.h: what the tiers' source files show to dispatch.c, to each other and to the tests. */
#ifndef GYRE_KERNELS_TIER_LIST_H
#define GYRE_KERNELS_TIER_LIST_H
#include "kernels/kernels.h"

/* The one list of tiers, the better before the worse: tier(with, name) for each. */
#define GYRE_VECTOR_TIERS(tier, with)                                                                                       \
    tier(with, avx512bf16) tier(with, avx512) tier(with, avx2) tier(with, neon) tier(with, wasm)
#define GYRE_TIERS(tier, with) GYRE_VECTOR_TIERS(tier, with) tier(with, scalar)

/* gyre_tier_<name>: NULL where this build has no such tier.  A build has those of its processor's family. */
#define GYRE_TIER_DECLARE(prefix, name) extern const gyre_kernels *const prefix##name;
GYRE_TIERS(GYRE_TIER_DECLARE, gyre_tier_)
#undef GYRE_TIER_DECLARE

#endif
