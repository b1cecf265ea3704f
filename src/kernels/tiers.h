/* tiers.h: what the tiers' source files show to dispatch.c and to each other. */
#ifndef GYRE_KERNELS_TIERS_H
#define GYRE_KERNELS_TIERS_H
#include "kernels/kernels.h"

/* NULL where this build has no such tier. */
extern const gyre_kernels *const gyre_tier_scalar, *const gyre_tier_avx2, *const gyre_tier_avx512;

#endif
