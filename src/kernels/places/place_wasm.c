/* place_wasm.c: the place kernels of tier_wasm.c, built with the same flags. */
#include "kernels/tier_list.h"

#if defined(__wasm_simd128__)
#include "kernels/vec_wasm.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_wasm = 0;
#endif
