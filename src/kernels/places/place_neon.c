/* place_neon.c: the place kernels of tier_neon.c, built with the same flags. */
#include "kernels/tier_list.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__ARM_BIG_ENDIAN)
#include "kernels/vec_neon.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_neon = 0;
#endif
