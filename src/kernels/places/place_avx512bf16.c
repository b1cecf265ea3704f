/* place_avx512bf16.c: the place kernels of tier_avx512bf16.c, built with the same flags. */
#include "kernels/tier_list.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) &&                      \
    defined(__AVX512BF16__)
#define TIER      avx512bf16
#define TIER_BASE avx512
#define BF16_INSTRUCTIONS
#include "kernels/vec_avx512.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_avx512bf16 = 0;
#endif
