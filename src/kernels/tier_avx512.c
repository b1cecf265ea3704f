/* tier_avx512.c: the kernels for AVX-512.  Built with -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c. */
#include "kernels/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "kernels/vec_avx512.h"

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
const gyre_kernels *const gyre_tier_avx512 = 0;
#endif
