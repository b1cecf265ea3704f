/* tier_avx512vnni.c: the kernels for AVX-512 with its dot products of integers, which multiply Q8.  The others are those of
 * tier_avx512.c.  Built with its flags and -mavx512vnni. */
#include "kernels/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) &&                      \
    defined(__AVX512VNNI__)
#define TIER      avx512vnni
#define TIER_BASE avx512
#define TIER_BF16 avx512
#define TIER_Q8   avx512vnni
#define VNNI_INSTRUCTIONS
#include "kernels/vec_avx512.h"

#include "kernels/vnni/q8_vnni.h"

#include "kernels/tier_kernels.h"
#else
const gyre_kernels *const gyre_tier_avx512vnni = 0;
#endif
