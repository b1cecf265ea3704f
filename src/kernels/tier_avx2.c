/* tier_avx2.c: the kernels for AVX2 with FMA and F16C.  Built with -mavx2 -mfma -mf16c. */
#include "kernels/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/vec_avx2.h"

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
const gyre_kernels *const gyre_tier_avx2 = 0;
#endif
