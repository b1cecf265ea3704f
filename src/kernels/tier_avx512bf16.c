/* tier_avx512bf16.c: the kernels for AVX-512 with its instructions for bf16.  Every processor with these has the dot
 * products of vnni/tier_avx512vnni.c.  The other kernels are those of tier_avx512.c.  Built with its flags and
 * -mavx512bf16. */
#include "kernels/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) &&                      \
    defined(__AVX512BF16__)
#define TIER      avx512bf16
#define TIER_BASE avx512
#define TIER_Q8   avx512vnni
#define BF16_INSTRUCTIONS
#include "kernels/vec_avx512.h"

#include "kernels/attend_tier.h"
#include "kernels/decode_rotated_tier.h"
#include "kernels/decode_tier.h"
#include "kernels/dropout_tier.h"
#include "kernels/product_tier.h"
#include "kernels/project_tier.h"
#include "kernels/quants/project_quants_tier.h"
#include "kernels/quants/quants_tier.h"
#include "kernels/tier_kernels.h"
#else
const gyre_kernels *const gyre_tier_avx512bf16 = 0;
#endif
