/* place_avx2.c: the place kernels of tier_avx2.c, built with the same flags. */
#include "kernels/tier_list.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/vec_avx2.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_avx2 = 0;
#endif
