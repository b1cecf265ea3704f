/* tier_wasm.c: the kernels for the SIMD of WebAssembly.  Built with -msimd128. */
#include "kernels/kernels.h"

#if defined(__wasm_simd128__)
#include "kernels/vec_wasm.h"

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
const gyre_kernels *const gyre_tier_wasm = 0;
#endif
