/* tier_amx.c: the kernels for AMX, which multiply by matrices of bf16.  The others are those of tier_avx512.c,
 * tier_avx512bf16.c and vnni/tier_avx512vnni.c.  Built with the flags of the second, -mamx-tile and -mamx-bf16. */
#include "kernels/kernels.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__x86_64__)
#define TIER       amx
#define TIER_BASE  avx512
#define TIER_BF16  avx512bf16
#define TIER_Q8    avx512vnni
#define TIER_TILES amx
#include "kernels/vec_avx512.h"

#include "kernels/amx/tiles_amx.h"

#include "kernels/amx/amx_matmul_tier.h"
#include "kernels/amx/amx_tier.h"

#include "kernels/tier_kernels.h"
#else
const gyre_kernels *const gyre_tier_amx = 0;
#endif
