/* tier_neon.c: the kernels for the Advanced SIMD of AArch64, which every such processor has. */
#include "kernels/kernels.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__ARM_BIG_ENDIAN)
#include "kernels/vec_neon.h"

#include "kernels/amx/bf16_tier.h"
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
const gyre_kernels *const gyre_tier_neon = 0;
#endif
