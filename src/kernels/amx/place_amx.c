/* place_amx.c: the place kernels of tier_amx.c, all from tiers below. */
#include "kernels/tier_list.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__x86_64__)
#define TIER      amx
#define TIER_BASE avx512
#define TIER_BF16 avx512bf16
#include "kernels/vec_avx512.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_amx = 0;
#endif
