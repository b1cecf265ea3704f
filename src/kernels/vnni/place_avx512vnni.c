/* place_avx512vnni.c: the place kernels of tier_avx512vnni.c, all from the tier below. */
#include "kernels/tier_list.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) &&                      \
    defined(__AVX512VNNI__)
#define TIER      avx512vnni
#define TIER_BASE avx512
#define TIER_BF16 avx512
#include "kernels/vec_avx512.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_avx512vnni = 0;
#endif
